r"""Tables as LaTeX that fit a column of a paper, and conditions.tex, which says once what holds for all of them.

A table's columns are parts of the line, so that its cells wrap in whatever style a paper has. What fits is estimated,
in points, for \footnotesize of a document of 10 points: a table that is too wide for a narrow column spans two, and
where that is not enough, or a page is not long enough, it goes on below or in a float of its own.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from .table import Cell, Placed, Table

CONDITIONS = "conditions"  # the stem of the file, and its label
TIE, MINUS = "\N{NO-BREAK SPACE}", "\N{MINUS SIGN}"
# LaTeX's ten special characters, and those of our own words that no standard font has.
QUOTED = re.compile(r'"([^"]*)"')
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
        TIE: "~",
        MINUS: "$-$",
        "\N{LEFT DOUBLE QUOTATION MARK}": "``",
        "\N{RIGHT DOUBLE QUOTATION MARK}": "''",
        "[": "{[}",  # or \\ in the row above takes it for its argument
        "]": "{]}",
    }
)
NEEDED = r"\usepackage{booktabs,array}"
# The narrowest of the usual two-column styles is article on A4 with 221 points; article's one column has 345.
NARROW, WIDE = 214.0, 336.0
GAP = 4.0  # between two columns of a table
LINE = 9.8  # from one line to the next
APART = 2  # more between rows of several lines
HIGHEST_ROW = 5  # lines; beyond that a wider table is better read
HIGHEST = 400.0  # of the rows of a float; caption and notes come on top, and a page has 550
LONGEST_NOTE = 400  # characters below a table; what is longer stands in conditions.tex
WIDTHS = {
    **dict.fromkeys(".,:;'!|[]ijl", 2.4),
    **dict.fromkeys("ft()r-I", 3.3),
    **dict.fromkeys("0123456789", 4.3),
    **dict.fromkeys((" ", TIE), 2.9),
    **dict.fromkeys("mwMW%@+=<>~\N{PLUS-MINUS SIGN}\N{MULTIPLICATION SIGN}\N{MINUS SIGN}", 7.2),
    **dict.fromkeys("ABCDEFGHJKLNOPQRSTUVXYZ", 6.1),
}
LETTER, MARK = 4.5, 3.3  # width of any other character, and of one of a footnote's mark
BROKEN_FROM = 13  # characters: a longer word may be broken, behind punctuation or at the latest after
LONGEST_PART = 20
PARTS = re.compile(rf"[^-_/.,=+:;@]{{1,{LONGEST_PART}}}[-_/.,=+:;@]*|[-_/.,=+:;@]+")
IN_BRACKETS = re.compile(r"(?<=,) (?=[^\[]*\])")
NEGATIVE = re.compile(r"(?<![\w)\]])-(?=\.?\d)")


def escape(text: str) -> str:
    """One line, no markup."""
    return " ".join(_curled(text).split()).translate(ESCAPED)


def _curled(text: str) -> str:
    """Quotation marks of a pair as those of its beginning and its end: LaTeX takes a straight one for an end."""
    return QUOTED.sub("\N{LEFT DOUBLE QUOTATION MARK}\\1\N{RIGHT DOUBLE QUOTATION MARK}", text)


def files(placed: Sequence[Placed], chapters: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """{file name: text}: a file a table, and conditions.tex. `chapters`: {heading: sentences of its conditions}.

    A footnote has one mark in all of them.
    """
    marks = {note: place for place, note in enumerate(dict.fromkeys(n for p in placed for n in p.table.notes), start=1)}
    tables = {f"{one.stem}.tex": _file(one, marks) for one in placed}
    return tables | {f"{CONDITIONS}.tex": _conditions(placed, chapters, marks)}


def _conditions(placed: Sequence[Placed], chapters: Mapping[str, Sequence[str]], marks: Mapping[str, int]) -> str:
    paragraphs = [
        f"\\textbf{{{_prose(heading)}}}" + "".join(f"\n\\par {_prose(line)}" for line in lines)
        for heading, lines in chapters.items()
    ]
    paragraphs += [
        f"\\textbf{{{_prose(_named(one))}.}} {_prose(' '.join(_sentences(one.table)))}"
        for one in placed
        if _has_long_notes(one.table)
    ]
    if marks:
        paragraphs.append(r"\textbf{Footnotes of the tables.}")
        paragraphs += [rf"\textsuperscript{{{mark}}}~{_prose(note)}" for note, mark in marks.items()]
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


@dataclass(frozen=True)
class _Grid:
    """A table as it is printed; the first `keys` cells name a row."""

    head: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...]
    keys: int
    words: bool
    even: bool  # columns behind the keys are alike, and so are their widths

    def column(self, place: int) -> Iterator[Cell]:
        return (row[place] for row in (self.head, *self.rows))


@dataclass(frozen=True)
class _Part:
    """Some columns, with their widths in parts of the line, of some rows. `stacked`: intervals below their values;
    `apart`: room between rows, for some have several lines.
    """

    shares: Mapping[int, float]
    rows: tuple[tuple[Cell, ...], ...]
    stacked: bool
    apart: bool


def _file(placed: Placed, marks: Mapping[str, int]) -> str:
    """One float, or several where a page could not hold it."""
    shown = placed.table
    grid = _turned(shown)
    room = NARROW
    if len(blocks := _blocks(grid, NARROW)) > 1 or _highest(grid, blocks, NARROW) > HIGHEST_ROW:
        room, blocks = WIDE, _blocks(grid, WIDE)
    kind = "table" if room == NARROW else "table*"
    floats = _even_floats(grid, blocks, room)
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


def _turned(shown: Table) -> _Grid:
    """With a row a batch size where the table has a column for each."""
    if not shown.by_size:
        return _Grid(tuple(map(Cell, shown.head)), shown.rows, shown.keys, shown.words, even=False)
    names = (Cell(", ".join(cell.text for cell in row[: shown.keys])) for row in shown.rows)
    rows = tuple(
        (Cell(size), *(row[place] for row in shown.rows))
        for place, size in enumerate(shown.head[shown.keys :], start=shown.keys)
    )
    return _Grid((Cell("Batch size"), *names), rows, 1, words=False, even=True)


def _blocks(grid: _Grid, room: float) -> list[dict[int, float]]:
    """{column: its part of the line} of each of the tables, below each other, that the columns take in this room: as
    few as can be, the keys in each.
    """
    keys, others = list(range(grid.keys)), list(range(grid.keys, len(grid.head)))
    for most in range(len(others), 0, -1):
        count = math.ceil(len(others) / most)
        chunks = [[*keys, *others[len(others) * n // count : len(others) * (n + 1) // count]] for n in range(count)]
        shares = [_shares(grid, chunk, room) for chunk in chunks]
        if all(shares) or most == 1:
            return [share or dict.fromkeys(chunk, 1 / len(chunk)) for share, chunk in zip(shares, chunks, strict=True)]
    return [dict.fromkeys(keys, 1 / len(keys))]


def _shares(grid: _Grid, columns: Sequence[int], room: float) -> dict[int, float] | None:
    """The longest word of each column has room, and longer texts get more; None where the words have none."""
    least = {place: GAP + max(map(_longest_word, grid.column(place))) for place in columns}
    whole = {place: GAP + max(map(_width, grid.column(place))) for place in columns}
    if grid.even:
        alike = columns[grid.keys :]
        least |= dict.fromkeys(alike, max(least[place] for place in alike))
        whole |= dict.fromkeys(alike, max(whole[place] for place in alike))
    spare, wanted = room - sum(least.values()), sum(whole.values()) - sum(least.values())
    if spare < 0:
        return None
    if wanted <= spare:
        return {place: whole[place] / sum(whole.values()) for place in columns}
    return {place: (least[place] + spare * (whole[place] - least[place]) / wanted) / room for place in columns}


def _highest(grid: _Grid, blocks: Sequence[Mapping[int, float]], room: float) -> int:
    return max((_lines(row, shares, room) for shares in blocks for row in grid.rows), default=0)


def _even_floats(grid: _Grid, blocks: Sequence[Mapping[int, float]], room: float) -> list[list[_Part]]:
    """As few as can be, none much lower than the others."""
    floats = list(_floats(grid, blocks, room, HIGHEST))
    for tenths in range(9, 0, -1):
        lower = list(_floats(grid, blocks, room, HIGHEST * tenths / 10))
        if len(lower) > len(floats):
            break
        floats = lower
    return floats


def _floats(grid: _Grid, blocks: Sequence[Mapping[int, float]], room: float, highest: float) -> Iterator[list[_Part]]:
    """The parts of each float: those of one below each other. Where one interval has no room beside its value, none
    stands there.
    """
    widest = {place: share * room - GAP for shares in blocks for place, share in shares.items()}
    numbers = ((place, cell) for row in grid.rows for place, cell in enumerate(row) if cell.number is not None)
    stacked = any(_wrapped(cell, widest[place]) > 1 for place, cell in numbers)
    apart = stacked or _highest(grid, blocks, room) > 1
    parts: list[_Part] = []
    used = 0.0
    for shares in blocks:
        head, rows = LINE * (2 + _lines(grid.head, shares, room)), list[tuple[Cell, ...]]()
        used += head
        for row in grid.rows:
            height = LINE * max(_lines(row, shares, room), 1 + stacked) + APART * apart
            if used + height > highest and (rows or parts):
                yield [*parts, *([_Part(shares, tuple(rows), stacked, apart)] if rows else [])]
                parts, rows, used = [], [], head
            rows.append(row)
            used += height
        parts.append(_Part(shares, tuple(rows), stacked, apart))
    yield parts


def _tabular(grid: _Grid, part: _Part, marks: Mapping[str, int]) -> str:
    def line(row: Sequence[Cell]) -> str:
        return " & ".join(_cell(row[place], marks, part.stacked) for place in part.shares) + r" \\"

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
    """How to read the table, and where its conditions and footnotes are told."""
    long = _has_long_notes(placed.table)
    if not long and _sentences(placed.table):
        yield rf"\par\smallskip\raggedright {_prose(' '.join(_sentences(placed.table)))}"
    told = ["how to read"] * long + ["conditions"] * bool(placed.conditions) + ["footnotes"] * bool(placed.table.notes)
    if told:
        *first, last = told
        words = (f"{', '.join(first)} and {last}" if first else last).capitalize()
        chapter = f", {placed.chapter}" if placed.chapter and placed.conditions else ""
        yield rf"\par\smallskip\raggedright {words}: Section~\ref{{sec:{CONDITIONS}}}{chapter}."


def _named(placed: Placed) -> str:
    """By its title, not by a reference: a paper may take some of the tables alone."""
    return placed.table.title + (f", {placed.chapter}" if placed.chapter else "")


def _sentences(shown: Table) -> tuple[str, ...]:
    return (*shown.above, *shown.below)


def _has_long_notes(shown: Table) -> bool:
    return len(" ".join(_sentences(shown))) > LONGEST_NOTE


def _prose(text: str) -> str:
    """A paragraph whose long words may be broken."""
    return _cell(Cell(_curled(text)), {})


def _cell(cell: Cell, marks: Mapping[str, int], stacked: bool = False) -> str:
    numbers = [str(marks[note]) for note in cell.notes]
    raised = [rf"\textsuperscript{{{number}{',' if number != numbers[-1] else ''}}}" for number in numbers]
    words = [r"\allowbreak{}".join(part.translate(ESCAPED) for part in word) for word in _words(cell)]
    if stacked and cell.number is not None and len(words) > 1:
        words[0] += r"\break"
    return " ".join(words) + r"\allowbreak{}".join(raised)


def _words(cell: Cell) -> Iterator[list[str]]:
    """Each word in the parts between which it may be broken; an interval is one word, and so is a negative number."""
    text = NEGATIVE.sub(MINUS, " ".join(cell.text.split()))
    text = text if cell.number is None else IN_BRACKETS.sub(TIE, text)
    for word in text.split(" "):
        yield PARTS.findall(word) if len(word) >= BROKEN_FROM and cell.number is None else [word]


def _lines(row: Sequence[Cell], shares: Mapping[int, float], room: float) -> int:
    """How many lines a row takes."""
    return max((_wrapped(row[place], share * room - GAP) for place, share in shares.items()), default=0)


def _wrapped(cell: Cell, width: float) -> int:
    lines, used = 1, 0.0
    for word in _words(cell):
        each = _points("".join(word))
        if used and used + each > width:
            lines, used = lines + 1, 0.0
        lines += int(each / width) if each > width else 0
        used += each + WIDTHS[" "]
    return lines


def _width(cell: Cell) -> float:
    return _points(cell.text) + _of_marks(cell)


def _longest_word(cell: Cell) -> float:
    """The first footnote's mark does not leave the last word."""
    words = [max(map(_points, word), default=0.0) for word in _words(cell)]
    last = _points(cell.text.split()[-1]) if cell.text.split() else 0.0
    return max(*words, min(last, words[-1]) + (3 * MARK if cell.notes else 0.0))


def _of_marks(cell: Cell) -> float:
    return 3 * MARK * len(cell.notes)


def _points(text: str) -> float:
    return sum(WIDTHS.get(character, LETTER) for character in text)
