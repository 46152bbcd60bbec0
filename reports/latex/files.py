"""Write tables as LaTeX that fit a column of a paper, and conditions.tex with what holds for all of them.

A table's columns are shares of the line, so that its cells wrap in any paper's style.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from ..table import Cell, Placed, Table
from . import layout
from .layout import APART, Grid, Part
from .text import cell_text, escape, prose

CONDITIONS = "conditions"  # stem of the file, and its label
NEEDED = r"\usepackage{booktabs,array}"
LONGEST_NOTE = 400  # characters below a table; longer notes are in conditions.tex


def files(placed: Sequence[Placed], chapters: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Build {file name: text}: one file per table, and conditions.tex.

    `chapters`: {heading: sentences of its conditions}. A footnote has the same mark in all files.
    """
    marks = {note: place for place, note in enumerate(dict.fromkeys(n for p in placed for n in p.table.notes), start=1)}
    tables = {f"{one.stem}.tex": _file(one, marks) for one in placed}
    return tables | {f"{CONDITIONS}.tex": _conditions(placed, chapters, marks)}


def _conditions(placed: Sequence[Placed], chapters: Mapping[str, Sequence[str]], marks: Mapping[str, int]) -> str:
    paragraphs = [
        f"\\textbf{{{prose(heading)}}}" + "".join(f"\n\\par {prose(line)}" for line in lines)
        for heading, lines in chapters.items()
    ]
    paragraphs += [
        f"\\textbf{{{prose(_named(one))}.}} {prose(' '.join(_sentences(one.table)))}"
        for one in placed
        if _has_long_notes(one.table)
    ]
    if marks:
        paragraphs.append(r"\textbf{Footnotes of the tables.}")
        paragraphs += [rf"\textsuperscript{{{mark}}}~{prose(note)}" for note, mark in marks.items()]
    return "\n".join(
        [
            r"% Conditions of all tables, and their footnotes: \input it once, as in an appendix.",
            r"\section{Conditions and footnotes}",
            rf"\label{{sec:{CONDITIONS}}}",
            r"{\footnotesize\raggedright\setlength{\parindent}{0pt}\setlength{\parskip}{2pt}",
            *(f"{paragraph}\\par" for paragraph in paragraphs),
            "}\n",
        ]
    )


def _file(placed: Placed, marks: Mapping[str, int]) -> str:
    """Format a table as one float, or as several if it is too long for a page."""
    shown = placed.table
    grid, floats, wide = layout.of(shown)
    kind = "table*" if wide else "table"
    lines = [f"% In the preamble: {NEEDED}. What the table refers to: {CONDITIONS}.tex"]
    for number, parts in enumerate(floats):
        label = "" if number else rf"\label{{tab:{placed.stem}}}"
        lines += [
            rf"\begin{{{kind}}}[htbp]",
            *([r"\addtocounter{table}{-1}"] if number else []),
            rf"\caption{{{escape(shown.title)}{' (continued)' if number else ''}}}{label}",
            r"\smallskip\footnotesize\setlength{\tabcolsep}{2pt}",
            "\n\\par\\medskip\n".join(_tabular(grid, part, marks) for part in parts),
            *(_below(placed) if number == len(floats) - 1 else ()),
            rf"\end{{{kind}}}",
        ]
    return "\n".join(lines) + "\n"


def _tabular(grid: Grid, part: Part, marks: Mapping[str, int]) -> str:
    def line(row: Sequence[Cell]) -> str:
        return " & ".join(cell_text(row[place], marks, part.stacked) for place in part.shares) + r" \\"

    def column(place: int, share: float) -> str:
        left = grid.words or (place < grid.keys and not grid.even)
        width = rf"\dimexpr{math.floor(share * 1e4) / 1e4:.4f}\linewidth-2\tabcolsep"
        return rf">{{\ragged{'right' if left else 'left'}\arraybackslash\hspace{{0pt}}}}p{{{width}}}"

    columns = itertools.starmap(column, part.shares.items())
    alike = ((column, len(list(those))) for column, those in itertools.groupby(columns))
    return "\n".join(
        [
            r"\begin{tabular}{%",
            *(f"*{{{count}}}{{{column}}}%" if count > 1 else f"{column}%" for column, count in alike),
            "}",
            r"\toprule",
            line(grid.head),
            r"\midrule",
            (f"\n\\addlinespace[{APART}pt]\n" if part.apart else "\n").join(map(line, part.rows)),
            r"\bottomrule",
            r"\end{tabular}",
        ]
    )


def _below(placed: Placed) -> Iterator[str]:
    """Yield how to read the table, and a reference to its conditions and footnotes."""
    long = _has_long_notes(placed.table)
    if not long and _sentences(placed.table):
        yield rf"\par\smallskip\raggedright {prose(' '.join(_sentences(placed.table)))}"
    told = ["how to read"] * long + ["conditions"] * bool(placed.conditions) + ["footnotes"] * bool(placed.table.notes)
    if told:
        *first, last = told
        words = (f"{', '.join(first)} and {last}" if first else last).capitalize()
        chapter = f", {placed.chapter}" if placed.chapter and placed.conditions else ""
        yield rf"\par\smallskip\raggedright {words}: Section~\ref{{sec:{CONDITIONS}}}{chapter}."


def _named(placed: Placed) -> str:
    """Name a table by its title instead of a reference, because a paper may include only some of the tables."""
    return placed.table.title + (f", {placed.chapter}" if placed.chapter else "")


def _sentences(shown: Table) -> tuple[str, ...]:
    return (*shown.above, *shown.below)


def _has_long_notes(shown: Table) -> bool:
    return len(" ".join(_sentences(shown))) > LONGEST_NOTE
