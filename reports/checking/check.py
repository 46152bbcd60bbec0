"""python -m reports check PATH...: what is wrong with stored results, and with others' logs."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .. import caveats, load
from ..load import ReportError
from . import completeness, log_checks, recheck
from .log_checks import SUFFIXES


@dataclass(frozen=True)
class Given:
    """`left_alone` are files in folders of logs that have no ending of a log."""

    results: tuple[Path, ...]
    logs: tuple[Path, ...]
    left_alone: tuple[Path, ...]


@dataclass
class Outcome:
    """Lines: `findings` count, `notes` do not, `subjects` say what was looked at."""

    findings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    subjects: list[str] = field(default_factory=list)


def main(arguments: list[str]) -> int:
    """Exit code: 0 nothing found, 1 findings, 2 bad input with one line on stderr.

    Prints a line for each finding, then the notes, which do not count, then one line that sums up.
    """
    outcome = Outcome()
    try:
        given = _sorted_out(_parser().parse_args(arguments).paths)
        for folder in given.results:
            _check_results(folder, outcome)
    except (ReportError, OSError) as error:
        print(f"reports: {error}", file=sys.stderr)
        return 2
    if given.logs:
        _check_logs(given.logs, outcome)
    outcome.notes.extend(_left_alone(given.left_alone))
    for line in outcome.findings:
        print(line)
    for line in outcome.notes:
        print(f"note: {line}")
    print(f"{'; '.join(outcome.subjects)}: {len(outcome.findings) or 'nothing'} found", flush=True)
    return int(bool(outcome.findings))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m reports check",
        description="What stored results lack, and their checks made again; and what others' logs are worth.",
        epilog="Exit code: 0 nothing found, 1 something found, 2 a path that cannot be looked at.",
    )
    parser.add_argument(
        "paths",
        type=Path,
        nargs="+",
        metavar="PATH",
        help=f"a folder that python -m runner wrote, or a log or folder of logs ({', '.join(SUFFIXES)}): samples of a "
        "device, or what a training program printed",
    )
    return parser


def _check_results(folder: Path, outcome: Outcome) -> None:
    """Raises ReportError, OSError."""
    stored = load.read(folder)
    outcome.findings += [f"{path}: a run is still writing into it" for path in stored.in_use]
    for gap in completeness.gaps(stored, folder):
        (outcome.findings if gap.counts else outcome.notes).append(gap.line(folder))
    outcome.findings += recheck.trials(stored, folder)
    outcome.subjects.append(f"{folder}: {caveats.tally(stored)}")


def _check_logs(logs: tuple[Path, ...], outcome: Outcome) -> None:
    examined = log_checks.examine(logs)
    outcome.findings += examined.findings
    outcome.notes += examined.notes
    kinds = ", ".join(f"{count} {kind}" for kind, count in examined.kinds.items())
    outcome.subjects.append(f"{len(logs)} log{'s' if len(logs) > 1 else ''}: {kinds}")


def _sorted_out(paths: list[Path]) -> Given:
    """Raises ReportError for a path that is missing or a folder that holds neither results nor a log."""
    results: list[Path] = []
    files: list[Path] = []
    left_alone: list[Path] = []
    for path in paths:
        if not path.exists():
            raise ReportError(f"{path}: no such file or folder; give a results folder, a log or a folder of logs")
        if path.is_file():
            files.append(path)
        elif (path / "trials").is_dir():
            results.append(path)
        else:
            inside = sorted(file for file in path.rglob("*") if file.is_file())
            logs = [file for file in inside if file.suffix.lower() in SUFFIXES]
            if not logs:
                raise ReportError(
                    f"{path}: neither trials/ nor a log ({', '.join(SUFFIXES)}) is in this folder; give another one"
                )
            files += logs
            left_alone += [file for file in inside if file not in set(logs)]
    return Given(*(tuple(dict.fromkeys(group)) for group in (results, files, left_alone)))


def _left_alone(paths: tuple[Path, ...]) -> Iterator[str]:
    endings = Counter(path.suffix.lower() or f"without an ending, {path.name}" for path in paths)
    if endings:
        counts = ", ".join(f"{count} {ending}" for ending, count in endings.most_common())
        yield f"{len(paths)} file{'s' if len(paths) > 1 else ''} not looked at, by the ending: {counts}"
