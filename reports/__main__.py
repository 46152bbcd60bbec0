"""python -m reports RESULTS [--out DIR]: tables and charts from stored results; prints the tables."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from . import page
from .load import ReportError


def main(arguments: list[str] | None = None) -> int:
    """Exit code: 0, or 2 where no report could be made, with one line on stderr."""
    parser = argparse.ArgumentParser(prog="python -m reports", description="Tables and charts from stored results.")
    parser.add_argument("results", type=Path, metavar="RESULTS", help="the folder that python -m runner wrote")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where the report goes (default: RESULTS/report)")
    told = parser.parse_args(arguments)
    out = told.out or told.results / "report"
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        report = page.build(told.results, out)
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
