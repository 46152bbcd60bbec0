"""python -m reports check PATH...: what is wrong with stored results, and with others' logs."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .. import load, problems
from ..load import ReportError
from . import completeness, log_checks, recheck
from .log_checks import SUFFIXES


@dataclass(frozen=True)
class Asked:
    """`left_alone` are files in folders of logs that have no ending of a log."""

    results: tuple[Path, ...]
    logs: tuple[Path, ...]
    left_alone: tuple[Path, ...]


def main(arguments: list[str]) -> int:
    """Exit code: 0 nothing found, 1 findings, 2 bad input with one line on stderr.

    Prints a line for each finding, then the notes, which do not count, then one line that sums up.
    """
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
    paths = parser.parse_args(arguments).paths
    findings: list[str] = []
    notes: list[str] = []
    looked_at: list[str] = []
    try:
        asked = _sorted_out(paths)
        for folder in asked.results:
            stored = load.read(folder)
            findings += [f"{path}: a run is still writing into it" for path in stored.in_use]
            for gap in completeness.gaps(stored, folder):
                (findings if gap.counts else notes).append(gap.line(folder))
            findings += recheck.trials(stored, folder)
            looked_at.append(f"{folder}: {problems.tally(stored)}")
    except (ReportError, OSError) as error:
        print(f"reports: {error}", file=sys.stderr)
        return 2
    if asked.logs:
        examined = log_checks.examine(asked.logs)
        findings += examined.findings
        notes += examined.notes
        kinds = ", ".join(f"{count} {kind}" for kind, count in examined.kinds.items())
        looked_at.append(f"{len(asked.logs)} log{'s' if len(asked.logs) > 1 else ''}: {kinds}")
    notes += _left_alone(asked.left_alone)
    for line in findings:
        print(line)
    for line in notes:
        print(f"note: {line}")
    print(f"{'; '.join(looked_at)}: {len(findings) or 'nothing'} found", flush=True)
    return int(bool(findings))


def _sorted_out(paths: list[Path]) -> Asked:
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
            files_here = [file for file in inside if file.suffix.lower() in SUFFIXES]
            if not files_here:
                raise ReportError(
                    f"{path}: neither trials/ nor a log ({', '.join(SUFFIXES)}) is in this folder; give another one"
                )
            files += files_here
            left_alone += [file for file in inside if file not in set(files_here)]
    return Asked(*(tuple(dict.fromkeys(found)) for found in (results, files, left_alone)))


def _left_alone(paths: tuple[Path, ...]) -> Iterator[str]:
    endings = Counter(path.suffix.lower() or f"without an ending, {path.name}" for path in paths)
    if endings:
        told = ", ".join(f"{count} {ending}" for ending, count in endings.most_common())
        yield f"{len(paths)} file{'s' if len(paths) > 1 else ''} not looked at, by the ending: {told}"
