"""Write a report and its tables as Markdown that GitHub shows correctly, whatever characters a name contains."""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from . import best, contrast, parity, target_time
from .charts import Chart
from .quantities import MAIN
from .report import HOW_TO_READ, RULES, SIDE_BY_SIDE, Chapter, Report
from .table import Table, TableCell, drop_repeats

# Tables of a chapter that a terminal shows.
PRINTED = (best.NAME, *(quantity.name for quantity in MAIN), parity.NAME, contrast.BATCH_SIZES.name, target_time.NAME)
SHORTEST_COLUMN = 12
SPECIAL = re.compile(r"[\\`*\[\]<>|~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")


def escape(text: object) -> str:
    """Escape text as one line without markup: safe in a paragraph, a list and a table's cell."""
    line = " ".join(str(text).split()).replace("&", "&amp;")
    return SPECIAL.sub(r"\\\g<0>", line)


def format_table(frame: pd.DataFrame, align: str = "right") -> str:
    """Format a table. Cells are not escaped, so escape external text first. The first column is flush left."""
    columns = ("left", *[align] * (len(frame.columns) - 1))
    return frame.to_markdown(index=False, disable_numparse=True, colalign=columns)


def format_bullets(lines: Iterable[str]) -> str:
    """Format a list; the lines are Markdown already."""
    return "\n".join(f"- {line}" for line in lines)


def format_with_heading(shown: Table, heading: str = "###", width: int | None = None) -> str:
    """Format heading, sentences, table, how to read it and footnotes.

    Cells of a table of words continue in rows below if its lines would be longer than `width`.
    """
    notes = shown.notes
    head = [escape(name) for name in shown.head]
    rows = [[_cell(cell, notes) for cell in row] for row in shown.rows]
    if width and shown.words:
        rows = _wrapped([head, *rows], width)
        head, rows = rows[0], rows[1:]
    align = "left" if shown.words else "right"
    parts = [
        f"{heading} {escape(shown.title)}",
        format_bullets([escape(line) for line in shown.above]),
        format_table(pd.DataFrame(rows, columns=pd.Index(head)), align) if rows else "",
        *map(escape, shown.below),
        format_bullets([f"[{number}] {escape(note)}" for note, number in notes.items()]),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _wrapped(rows: list[list[str]], width: int) -> list[list[str]]:
    """Wrap long cells into extra rows below: the widest columns are narrowed until all fit."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    while sum(widths) + 3 * len(widths) + 1 > width and max(widths) > SHORTEST_COLUMN:
        widths[widths.index(max(widths))] -= 1
    wrapped = []
    for row in rows:
        cells = [
            textwrap.wrap(cell, each, break_on_hyphens=False) or [""] for cell, each in zip(row, widths, strict=True)
        ]
        wrapped += [list(line) for line in itertools.zip_longest(*cells, fillvalue="")]
    return wrapped


def _cell(cell: TableCell, notes: dict[str, int]) -> str:
    """Format a cell with its notes; a number is our text, so the brackets of its interval are not escaped."""
    return (escape(cell.text) if cell.number is None else cell.text) + "".join(
        f" [{notes[note]}]" for note in cell.notes
    )


@dataclass(frozen=True)
class NotebookReport(Report):
    """Report that displays itself in a notebook, without the charts."""

    def _repr_markdown_(self) -> str:
        return format_page(self, (), {})


def format_page(
    report: Report, marks: tuple[str, ...], pictures: dict[tuple[int, str], str], captions: bool = False
) -> str:
    """Write report.md. `marks` are sentences placed first; `pictures` {(chapter's index, chart): file name}.

    `captions`: add title and caption below each picture, for pictures without them.
    """
    summary = report.summary
    parts = [f"# {escape(summary.headline)}", *(f"> **{escape(mark)}**" for mark in marks)]
    parts += [escape(line) for line in summary.ran]
    for title, lines in (("Findings", summary.findings), ("Not verified", summary.not_verified)):
        parts += [f"## {title}", format_bullets(map(escape, lines))] if lines else []
    parts += ["## How to read", format_bullets(map(escape, HOW_TO_READ)), f"{escape(RULES)} [RULES.md](RULES.md)."]
    for chart in report.charts_across:
        parts += _picture(chart, file, captions) if (file := pictures.get((-1, chart.name))) else []
    parts += [*(format_with_heading(shown, "##") for shown in report.across), *_side_by_side(report)]
    for place, chapter in enumerate(report.chapters):
        drawn = {chart.name: file for chart in chapter.charts if (file := pictures.get((place, chart.name)))}
        parts += [
            f"## {escape(chapter.heading)}",
            format_bullets(map(escape, chapter.conditions)),
            *_chapter(chapter, drawn, captions),
        ]
    return _joined([*parts, *_below(report)])


def format_for_terminal(report: Report) -> str:
    """Format summary, main tables and problems for a terminal."""
    parts = [escape(line) for line in (f"{report.summary.headline}.", *report.summary.ran, *report.summary.findings)]
    parts += [*(format_with_heading(shown, "##") for shown in report.across), *_side_by_side(report)]
    for chapter in report.chapters:
        parts += [
            f"## {escape(chapter.heading)}",
            *map(format_with_heading, drop_repeats(t for t in chapter.tables if t.name in (*PRINTED, chapter.kind))),
        ]
        parts += map(escape, chapter.remarks)
    return _joined([*parts, *_below(report)])


def _side_by_side(report: Report) -> list[str]:
    if not report.beside:
        return []
    legend = [f"{letter}: {escape(heading)}" for letter, heading in report.legend.items()]
    return ["## Side by side", SIDE_BY_SIDE, format_bullets(legend), *map(format_with_heading, report.beside)]


def _chapter(chapter: Chapter, pictures: dict[str, str], captions: bool) -> list[str]:
    """List every table with the chart of the same name below it; then the other charts and remarks on missing parts."""
    parts = []
    charts = {chart.name: chart for chart in chapter.charts}
    for shown in drop_repeats(chapter.tables):
        parts.append(format_with_heading(shown))
        parts += _picture(charts[shown.name], pictures.pop(shown.name), captions) if shown.name in pictures else []
    for name, file in pictures.items():
        parts += _picture(charts[name], file, captions)
    return [*parts, *map(escape, chapter.remarks)]


def _picture(chart: Chart, file: str, caption: bool) -> list[str]:
    """Show a picture; a PDF becomes a link, because Markdown pages cannot show it."""
    shown = f"{'' if file.endswith('.pdf') else '!'}[{escape(chart.alt)}]({file})"
    return [shown, *([escape(f"{chart.title}. {chart.caption} {chart.provenance}")] if caption else [])]


def _below(report: Report) -> list[str]:
    parts = [*(format_with_heading(shown, "##") for shown in report.appendix), *map(escape, report.remarks)]
    for title, lines in report.problems.items():
        parts += [f"## {escape(title)}", format_bullets(map(escape, lines))]
    return parts


def _joined(parts: list[str]) -> str:
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"
