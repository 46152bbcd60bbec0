"""Reports that are written and read back."""

from __future__ import annotations

import csv
import io
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from stored import store

from reports import __main__ as program
from reports import build, export, markdown
from reports.report import Report
from workloads.records.result import TrialResult


@dataclass(frozen=True)
class Made:
    """A report, its report.md and its text in the terminal."""

    report: Report
    markdown: str
    printed: str


def make(results: Path, out: Path, columns: bool = False) -> Made:
    """Write only the tables of a report: charts and page take most of its time and are tested apart."""
    report = build.report([results], columns)
    export.write(report, out, ("md", "csv"))
    return Made(report, (out / "report.md").read_text(encoding="utf-8"), markdown.printed(report))


def report(tmp_path: Path, *trials: TrialResult) -> Path:
    """Write a report over `trials`; return its folder."""
    make(store(tmp_path, *trials), tmp_path / "report")
    return tmp_path / "report"


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run `python -m reports ...` in this process: a new process would take longer than most of the work."""
    words = list(map(str, arguments))
    with redirect_stdout(_stream()) as out, redirect_stderr(_stream()) as errors:
        code = program.main(words)
    return subprocess.CompletedProcess(words, code, *(_text(stream) for stream in (out, errors)))


def _stream() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)


def _text(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


def rows(markdown: Path) -> dict[str, list[str]]:
    """{first cell: other cells} of a file's only table, rule left out."""
    lines = [line for line in markdown.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in (lines[0], *lines[2:])]
    return {first: others for first, *others in cells}


def numbers(file: Path) -> list[dict[str, str]]:
    with file.open(newline="", encoding="utf-8") as opened:
        return list(csv.DictReader(opened))
