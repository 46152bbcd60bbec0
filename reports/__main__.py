"""python -m reports RESULTS [--out DIR] [--columns]: tables and charts from stored results; prints the tables.
python -m reports check PATH...: what is wrong with stored results or logs.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from . import check, page
from .load import ReportError


def main(arguments: list[str] | None = None) -> int:
    """Exit code: 0, or 2 where no report could be made, with one line on stderr; of `check`: see there."""
    arguments = sys.argv[1:] if arguments is None else arguments
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    if arguments[:1] == ["check"]:
        return check.main(arguments[1:])
    parser = argparse.ArgumentParser(
        prog="python -m reports",
        description="Tables and charts from stored results.",
        epilog="python -m reports check PATH... says what is wrong with stored results, or with others' logs in CSV.",
    )
    parser.add_argument("results", type=Path, metavar="RESULTS", help="the folder that python -m runner wrote")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where the report goes (default: RESULTS/report)")
    parser.add_argument("--columns", action="store_true",
                        help="differing conditions side by side, as columns of one table")  # fmt: skip
    told = parser.parse_args(arguments)
    out = told.out or told.results / "report"
    try:
        report = page.build(told.results, out, told.columns)
    except ReportError as error:
        print(f"reports: {error}", file=sys.stderr)
        return 2
    for warning in report.warnings:
        print(f"reports: {warning}", file=sys.stderr)
    try:
        print(report.printed)
        print(f"Report: {out / 'report.md'}", flush=True)
    except BrokenPipeError:  # the reader, e.g. `head`, has seen enough; the report is written
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())
