"""What a report wrote, read back."""

from __future__ import annotations

import csv
from pathlib import Path

from stored import store

from reports import page
from workloads.trial import TrialResult


def report(tmp_path: Path, *trials: TrialResult) -> Path:
    """The folder of a report over `trials`."""
    page.build(store(tmp_path, *trials), tmp_path / "report")
    return tmp_path / "report"


def rows(markdown: Path) -> dict[str, list[str]]:
    """{first cell: other cells} of a file's only table, rule left out."""
    lines = [line for line in markdown.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in (lines[0], *lines[2:])]
    return {first: others for first, *others in cells}


def numbers(file: Path) -> list[dict[str, str]]:
    with file.open(newline="", encoding="utf-8") as opened:
        return list(csv.DictReader(opened))
