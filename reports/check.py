"""python -m reports check PATH...: find faults in stored results, and in logs from other sources."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from workloads.command_line import CommandLine

from . import caveats, load
from .checking import completeness, log_columns, recheck
from .checking.log_checks import SUFFIXES, examine_logs
from .load import ReportError
from .publishing.archive import CHECKSUMS, find_changed_files, list_results
from .publishing.verify import verify

ROOMS = load.TRIALS, load.BLOCKS  # of the results that are checked


def main(arguments: list[str]) -> int:
    """Run the command. Returns exit code 0 for no findings, 1 for findings, 2 for bad input, with one line on stderr.

    Prints a line for each finding, then the notes, which are not findings, then a line that sums up.
    """
    findings: list[str] = []
    notes: list[str] = []
    subjects: list[str] = []  # what was checked
    try:
        options = build_parser().parse_args(arguments)
        paths, columns = _list_paths(options.paths), _columns(options.columns)
        for sealed in filter(_is_publication, paths):
            seen = verify(sealed)
            findings += seen.findings
            notes += seen.notes
            subjects.append(seen.subject)
        folders, files, left_alone = _sorted_out([path for path in paths if not _is_publication(path)])
        for folder in folders:
            stored = load.read_all(folder)
            findings += find_changed_files(folder) if (folder / CHECKSUMS).is_file() else []
            findings += [f"{path}: a run is still writing into it" for path in stored.in_use]
            for gap in completeness.find_gaps(stored, folder):
                (findings if gap.counts else notes).append(gap.line)
            findings += recheck.check_trials(stored, folder)
            subjects.append(f"{folder}: {caveats.tally(stored)}")
    except (ReportError, OSError) as error:
        print(f"reports: {error}", file=sys.stderr)
        return 2
    if files:
        kinds = examine_logs(files, findings, notes, columns)
        counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        subjects.append(f"{len(files)} log{'s' if len(files) > 1 else ''}: {counts}")
    notes += _left_alone(left_alone)
    for line in (*findings, *(f"note: {note}" for note in notes)):
        print(line)
    print(f"{'; '.join(subjects)}: {len(findings) or 'nothing'} found", flush=True)
    return int(bool(findings))


def build_parser() -> CommandLine:
    """Return the parser of `python -m reports check`."""
    parser = CommandLine(
        prog="python -m reports check",
        description="Report what stored results lack, repeat their checks, and check logs of other programs.",
        epilog="Exit code: 0 nothing found, 1 something found, 2 a path that cannot be read.",
    )
    parser.add_argument(
        "paths",
        type=Path,
        nargs="+",
        metavar="PATH",
        help="a folder that python -m runner wrote, a publication, a folder of these, or a log or folder of logs "
        f"({', '.join(SUFFIXES)}): samples of a device",
    )
    parser.add_argument(
        "--columns",
        metavar="NAME,NAME,...",
        help="the columns of logs without a header, in their order, such as time,gpu_percent,power_w,memory_mib",
    )
    return parser


def _list_paths(given: list[Path]) -> list[Path]:
    """Replace a folder of results or publications by these and the logs in it; each once. Raises ReportError."""
    paths: list[Path] = []
    for each in given:
        found = list_results(each, ROOMS)
        # A publication may have lost its archive.
        others = [path for path in each.iterdir() if _is_publication(path) or _is_log(path)] if found != [each] else []
        paths += sorted({*found, *others})
    return list(dict.fromkeys(paths))


def _is_log(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and path.is_file()


def _is_publication(path: Path) -> bool:
    """True for a folder with checksums, unless they are those of an unpacked submission."""
    return (path / CHECKSUMS).is_file() and not _has_results(path)


def _has_results(path: Path) -> bool:
    return any((path / room).is_dir() for room in ROOMS)


def _columns(text: str | None) -> list[str]:
    """Parse the names. Raises ReportError if one is empty or repeated, or if none names a quantity."""
    names = [name.strip() for name in text.split(",")] if text is not None else []
    if text is not None and (not all(names) or len(set(names)) < len(names)):
        raise ReportError(f"--columns {text}: a name is empty or repeated; name each column once")
    if text is not None and not any(map(log_columns.find_kind, names)):
        raise ReportError(
            f"--columns {text}: none names a usage, memory or power; add one, such as gpu_percent, memory_mib, power_w"
        )
    return names


def _sorted_out(paths: list[Path]) -> tuple[list[Path], list[Path], list[Path]]:
    """Sort the paths into results folders, logs, and files in folders of logs without a log's ending; each once.

    Raises ReportError for a path that is missing or a folder that holds neither results nor a log.
    """
    folders: list[Path] = []
    files: list[Path] = []
    left_alone: list[Path] = []
    for path in paths:
        if not path.exists():
            raise ReportError(f"{path}: no such file or folder; give a results folder, a log or a folder of logs")
        if path.is_file():
            files.append(path)
        elif _has_results(path):
            folders.append(path)
        else:
            inside = sorted(file for file in path.rglob("*") if file.is_file())
            suited = [file for file in inside if file.suffix.lower() in SUFFIXES]
            if not suited:
                rooms = " nor ".join(f"{room}/" for room in ROOMS)
                raise ReportError(
                    f"{path}: neither {rooms} nor a log ({', '.join(SUFFIXES)}) is in this folder; give another one"
                )
            files += suited
            left_alone += [file for file in inside if file.suffix.lower() not in SUFFIXES]
    unique = [list(dict.fromkeys(group)) for group in (folders, files, left_alone)]
    return unique[0], unique[1], unique[2]


def _left_alone(paths: list[Path]) -> list[str]:
    """Write the line that counts them by their ending, if there are any."""
    endings = Counter(path.suffix.lower() or f"without an ending, {path.name}" for path in paths)
    counts = ", ".join(f"{count} {ending}" for ending, count in endings.most_common())
    return [f"{len(paths)} file{'s' if len(paths) > 1 else ''} not read, by file ending: {counts}"] if paths else []
