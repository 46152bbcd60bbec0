"""Print a report in a terminal: the finding, the best batch sizes, problems, and the address of the page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from workloads.words import format_count

from . import best, contrast, target_time
from .report import Chapter, Report
from .table import Table

SHOWN = (best.NAME, contrast.BATCH_SIZES.name, target_time.NAME)  # the second and third exist only if asked for
MOST_ROWS = 4  # of the second and third; a longer one is in the report


def format_report(report: Report) -> str:
    """Format the report in about ten lines."""
    answers = [line for chapter in report.chapters if chapter.kind for line in _answers(chapter)]
    parts = [f"{report.summary.headline}.", *answers, "", *_tables(report), report.summary.ran[0]]
    parts += [f"{kind}: {len(lines)}" for kind, lines in report.problems.items()]
    if report.summary.not_verified:
        things = format_count(len(report.summary.not_verified), "thing")
        parts.append(f"Not verified: {things}, listed in the report.")
    return "\n".join(parts)


def format_address(main_files: Sequence[Path], out: Path) -> str:
    """Link to the page, or to the folder if there is no page."""
    return f"Report: {(main_files[0] if main_files else out).resolve().as_uri()}"


def format_table(shown: Table) -> str:
    """Format aligned columns, and the footnotes of their cells."""
    notes = shown.notes
    rows = [[f"{cell.text}{''.join(f' [{notes[note]}]' for note in cell.notes)}" for cell in row] for row in shown.rows]
    frame = pd.DataFrame(rows, columns=pd.Index(shown.head))
    align = ("left", *["right"] * (len(shown.head) - 1))
    text = frame.to_markdown(index=False, tablefmt="simple", disable_numparse=True, colalign=align)
    return "\n".join([text, *(f"[{number}] {note}" for note, number in notes.items())])


def _answers(chapter: Chapter) -> list[str]:
    """Format what answers a question by other jobs than trials: heading, findings, main table, what is left out."""
    main = [format_table(each) for each in chapter.tables if each.name == chapter.kind]
    return ["", chapter.heading, *chapter.findings, "", *main, *chapter.remarks]


def _tables(report: Report) -> list[str]:
    """Format the tables in SHOWN that the main chapter has, each followed by an empty line."""
    main = None if report.summary.main is None else report.chapters[report.summary.main]
    shown = []
    for each in main.tables if main and not main.kind else ():
        if each.name == best.NAME:
            shown += [format_table(each), ""]
        elif each.name in SHOWN and len(each.rows) <= MOST_ROWS:
            shown += [each.title, format_table(each), ""]
        elif each.name in SHOWN:
            shown += [f"{each.title}: {len(each.rows)} rows, in the report.", ""]
    return shown
