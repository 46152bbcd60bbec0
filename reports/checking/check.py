"""python -m reports check PATH...: what is wrong with stored results, and with others' logs in CSV."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ..load import ReportError
from . import log_checks, recheck


def main(arguments: list[str]) -> int:
    """Exit code: 0 nothing found, 1 findings, 2 bad input with one line on stderr. Prints a line for each finding."""
    parser = argparse.ArgumentParser(
        prog="python -m reports check", description="Make the checks of stored results again; look over others' logs."
    )
    parser.add_argument(
        "paths",
        type=Path,
        nargs="+",
        metavar="PATH",
        help="a folder that python -m runner wrote, or a CSV file or folder of CSV files with samples of a device",
    )
    paths = parser.parse_args(arguments).paths
    try:
        results, files = _sorted_out(paths)
        findings, looked_at = [], []
        for folder in results:
            count, found = recheck.results_folder(folder)
            findings += found
            looked_at.append(f"{folder}: {count} trials")
    except (ReportError, OSError) as error:
        print(f"reports: {error}", file=sys.stderr)
        return 2
    if files:
        findings += log_checks.examine(files)
        looked_at.append(f"{len(files)} CSV file{'s' if len(files) > 1 else ''}")
    for line in findings:
        print(line)
    print(f"{'; '.join(looked_at)}: {len(findings) or 'nothing'} found", flush=True)
    return int(bool(findings))


def _sorted_out(paths: list[Path]) -> tuple[list[Path], list[Path]]:
    """(results folders, CSV files). Raises ReportError for a path that is missing or a folder that holds neither."""
    results, files = [], []
    for path in paths:
        if not path.exists():
            raise ReportError(f"{path}: no such file or folder; give a results folder, a CSV file or a folder of them")
        if path.is_file():
            files.append(path)
        elif (path / "trials").is_dir():
            results.append(path)
        else:
            inside = sorted(file for file in path.rglob("*") if file.suffix.lower() == ".csv" and file.is_file())
            if not inside:
                raise ReportError(f"{path}: neither trials/ nor a CSV file is in this folder; give another one")
            files += inside
    return list(dict.fromkeys(results)), list(dict.fromkeys(files))
