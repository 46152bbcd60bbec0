"""Write tables as LaTeX that fit a column of a paper, and conditions.tex with what holds for all of them.

A column is as wide as its longest text, up to some characters, and wraps what is longer.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pandas as pd

from .sentences import listed
from .table import Placed, Table, TableCell

CONDITIONS = "conditions"  # stem of the file, and its label
NEEDED = r"\usepackage{booktabs,array}"
LONGEST_NOTE = 400  # characters below a table; longer notes are in conditions.tex
# Sizes in em of \footnotesize, for documents of 10 points: half a line of two-column A4, and a line of one column.
NARROW, WIDE = 25.5, 40.0
DIGIT, LETTER, EDGES = 0.5, 0.65, 0.9  # of a character in numbers and, generously, in words; of a column's edges
WRAPPED_AT = (24, 18, 12)  # characters of a column; the first at which the table fits
HIGHEST_ROW, MOST_LINES = 5, 40  # lines of a row in half a line; lines of the rows of a float
# LaTeX's ten special characters, and our characters that standard fonts lack.
ESCAPED = str.maketrans(
    {
        **{character: f"\\{character}" for character in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "\N{EN DASH}": "--",
        "\N{MULTIPLICATION SIGN}": r"$\times$",
        "\N{PLUS-MINUS SIGN}": r"$\pm$",
        "\N{MINUS SIGN}": "$-$",
        "\N{LEFT DOUBLE QUOTATION MARK}": "``",
        "\N{RIGHT DOUBLE QUOTATION MARK}": "''",
        "[": "{[}",  # otherwise \\ in the row above takes it as its argument
        "]": "{]}",
    }
)
QUOTED = re.compile(r'"([^"]*)"')  # LaTeX prints a straight quotation mark as a closing one
NEGATIVE = re.compile(r"(?<![\w)\]])-(?=\.?\d)")
INTERVAL = re.compile(r"(\{\[\}\S{1,4},) (\S{1,4}\{\]\})")  # escaped, and short enough to stay on one line
BREAKS = re.compile(rf"[^-_/.,=+:;@]{{1,{WRAPPED_AT[-1]}}}[-_/.,=+:;@]*|[-_/.,=+:;@]+")  # where long words are broken


def escape(text: str) -> str:
    """Escape text as one line without markup."""
    curled = QUOTED.sub("\N{LEFT DOUBLE QUOTATION MARK}\\1\N{RIGHT DOUBLE QUOTATION MARK}", text)
    return " ".join(curled.split()).translate(ESCAPED)


def _prose(text: str) -> str:
    """Escape text whose long words may be broken."""
    words = NEGATIVE.sub("\N{MINUS SIGN}", text).split()
    parts = (BREAKS.findall(word) if len(word) > WRAPPED_AT[-1] else [word] for word in words)
    return escape(" ".join("\0".join(part) for part in parts)).replace("\0", r"\allowbreak{}")


def build_files(placed: Sequence[Placed], chapters: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Build {file name: text}: one file per table, and conditions.tex.

    `chapters`: {heading: sentences of its conditions}. A footnote has the same mark in all files.
    """
    marks = {note: place for place, note in enumerate(dict.fromkeys(n for p in placed for n in p.table.notes), start=1)}
    tables = {f"{one.stem}.tex": _build_file(one, marks) for one in placed}
    return tables | {f"{CONDITIONS}.tex": _build_conditions(placed, chapters, marks)}


def _build_conditions(placed: Sequence[Placed], chapters: Mapping[str, Sequence[str]], marks: Mapping[str, int]) -> str:
    paragraphs = ["\n\\par ".join([rf"\textbf{{{_prose(head)}}}", *map(_prose, lines)])
                  for head, lines in chapters.items()]  # fmt: skip
    for one in placed:
        if len(notes := _say_how(one.table)) > LONGEST_NOTE:
            # Named by its title instead of a reference, because a paper may include only some of the tables.
            title = one.table.title + (f", {one.chapter}" if one.chapter else "")
            paragraphs.append(rf"\textbf{{{_prose(title)}.}} {_prose(notes)}")
    if marks:
        paragraphs.append(r"\textbf{Footnotes of the tables.}")
        paragraphs += [rf"\textsuperscript{{{mark}}}~{_prose(note)}" for note, mark in marks.items()]
    return "\n".join(
        [
            r"% Conditions of all tables, and their footnotes: \input it once, such as in an appendix.",
            r"\section{Conditions and footnotes}",
            rf"\label{{sec:{CONDITIONS}}}",
            r"{\footnotesize\raggedright\setlength{\parindent}{0pt}\setlength{\parskip}{2pt}",
            *(f"{paragraph}\\par" for paragraph in paragraphs),
            "}\n",
        ]
    )


def _build_file(placed: Placed, marks: Mapping[str, int]) -> str:
    """Format a table as one float, or as several under one number."""
    floats = list(_split(_turn(placed.table)))
    text = f"% In the preamble: {NEEDED}. What the table refers to: {CONDITIONS}.tex\n"
    for number, (shown, widths) in enumerate(floats):
        frame = pd.DataFrame([[_format_cell(cell, marks) for cell in row] for row in shown.rows])
        kind = "table*" if sum(widths) > NARROW else "table"
        styled = frame.style.hide(axis="index").relabel_index(list(map(_prose, shown.head)), axis="columns")
        float_text = styled.to_latex(
            column_format="".join(_format_column(shown, place, width) for place, width in enumerate(widths)),
            position="htbp",
            hrules=True,
            caption=escape(shown.title) + (" (continued)" if number else ""),
            label="" if number else f"tab:{placed.stem}",
            environment=kind,
        )
        start, tabular = float_text.split(r"\begin{tabular}")
        start = start.replace("\n", "\n\\addtocounter{table}{-1}\n", 1) if number else start
        tabular, _ = tabular.split(rf"\end{{{kind}}}")
        text += rf"{start}\smallskip\footnotesize\setlength{{\tabcolsep}}{{2pt}}" + "\n\\begin{tabular}" + tabular
        text += "".join(_say_below(placed)) if number == len(floats) - 1 else ""
        text += rf"\end{{{kind}}}" + "\n"
    return text


def _turn(shown: Table) -> Table:
    """Turn a table with one column per batch size into one with a row per batch size."""
    if not shown.by_size:
        return shown
    names = (", ".join(cell.text for cell in row[: shown.keys]) for row in shown.rows)
    sizes = enumerate(shown.head[shown.keys :], start=shown.keys)
    rows = tuple((TableCell(size), *(row[place] for row in shown.rows)) for place, size in sizes)
    return replace(shown, head=("Batch size", *names), rows=rows, keys=1, words=False)


def _split(shown: Table) -> Iterator[tuple[Table, list[float]]]:
    """Yield the tables that fit, with the widths of their columns; the columns that name a row are in each."""
    for room, most in itertools.product((NARROW, WIDE), WRAPPED_AT):
        widths = [_compute_width(shown, place, most) for place in range(len(shown.head))]
        if sum(widths) <= room and (room == WIDE or max(_count_lines(row, most) for row in shown.rows) <= HIGHEST_ROW):
            break
    parts = [keys := list(range(shown.keys))]
    for place in range(shown.keys, len(shown.head)):
        if len(parts[-1]) > len(keys) and sum(widths[each] for each in (*parts[-1], place)) > WIDE:
            parts.append(keys)
        parts[-1] = [*parts[-1], place]
    for columns in parts:
        used, pages = 0, list[list[tuple[TableCell, ...]]]()
        for row in shown.rows:
            lines = _count_lines([row[place] for place in columns], most)
            used += lines
            if not pages or used > MOST_LINES:
                pages.append([])
                used = lines
            pages[-1].append(tuple(row[place] for place in columns))
        head = tuple(shown.head[place] for place in columns)
        yield from ((replace(shown, head=head, rows=tuple(rows)), [widths[c] for c in columns]) for rows in pages)


def _count_lines(row: Sequence[TableCell], most: int) -> int:
    return max(math.ceil(len(cell.text) / most) for cell in row)


def _compute_width(shown: Table, place: int, most: int) -> float:
    """Width for the texts of a column, of `most` characters, and for each word of its head."""
    widths = [LETTER * min(len(word), WRAPPED_AT[-1]) for word in shown.head[place].split()]
    for cell in (row[place] for row in shown.rows):
        character = LETTER if cell.number is None else DIGIT
        widths.append(character * min(len(cell.text), most) + DIGIT * len(cell.notes))
    return max(widths, default=LETTER) + EDGES


def _format_column(shown: Table, place: int, width: float) -> str:
    ragged = "raggedright" if shown.words or place < shown.keys else "raggedleft"
    return rf">{{\{ragged}\arraybackslash\hspace{{0pt}}}}p{{\dimexpr{width:.2f}em-2\tabcolsep}}"


def _format_cell(cell: TableCell, marks: Mapping[str, int]) -> str:
    """Format a cell with the marks of its footnotes."""
    raised = (rf"\textsuperscript{{{marks[note]}{',' * (note != cell.notes[-1])}}}" for note in cell.notes)
    return INTERVAL.sub(r"\1~\2", _prose(cell.text)) + r"\allowbreak{}".join(raised)


def _say_below(placed: Placed) -> Iterator[str]:
    """Yield how to read the table, and a reference to its conditions and footnotes."""
    notes = _say_how(placed.table)
    is_long = len(notes) > LONGEST_NOTE
    if notes and not is_long:
        yield rf"\par\smallskip\raggedright {_prose(notes)}" + "\n"
    told = ["how to read"] * is_long + ["conditions"] * bool(placed.conditions)
    told += ["footnotes"] * bool(placed.table.notes)
    if told:
        words = listed(told).capitalize()
        chapter = f", {placed.chapter}" if placed.chapter and placed.conditions else ""
        yield rf"\par\smallskip\raggedright {words}: Section~\ref{{sec:{CONDITIONS}}}{chapter}." + "\n"


def _say_how(shown: Table) -> str:
    return " ".join((*shown.above, *shown.below))
