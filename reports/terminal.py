"""What a terminal is told of a report: the finding, the best batch sizes, what went wrong, where the page is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from . import batch_contrasts, best, target_time
from .report import Report
from .words import counted

SHOWN = (best.NAME, batch_contrasts.NAME, target_time.NAME)  # the second and third are there where they are asked for


def printed(report: Report) -> str:
    """About ten lines."""
    parts = [f"{report.summary.headline}.", "", *_tables(report), report.summary.ran[0]]
    parts += [f"{kind}: {len(lines)}" for kind, lines in report.problems.items()]
    if report.summary.not_verified:
        things = counted(len(report.summary.not_verified), "thing")
        parts.append(f"Not verified: {things} that these results cannot say, named in the report.")
    return "\n".join(parts)


def address(main_files: Sequence[Path], out: Path) -> str:
    """A link to the page, or to the folder where there is none."""
    return f"Report: {(main_files[0] if main_files else out).resolve().as_uri()}"


def _tables(report: Report) -> list[str]:
    """SHOWN, as far as the main chapter has them, each with an empty line behind it."""
    if report.summary.main is None:
        return []
    shown = []
    for table in report.chapters[report.summary.main].tables:
        if table.name in SHOWN:
            rows = [[cell.text for cell in row] for row in table.rows]
            frame = pd.DataFrame(rows, columns=pd.Index(table.head))
            align = ("left", *["right"] * (len(table.head) - 1))
            titles = [] if table.name == best.NAME else [table.title]
            text = frame.to_markdown(index=False, tablefmt="simple", disable_numparse=True, colalign=align)
            shown += [*titles, text, ""]
    return shown
