r"""Split a table so that it fits: columns as shares of the line, tables below each other, floats that fit on a page.

Sizes are estimated, in points, for \footnotesize in a document of 10 points. A table too wide for a narrow column spans
two. If that is not enough, or a page is too short, it continues below or in another float.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..table import Cell, Table
from .text import WIDTHS, cell_width, longest_word, text_width, word_parts

# The narrowest of the usual two-column styles is article on A4, with 221 points; article's single column has 345.
NARROW, WIDE = 214.0, 336.0
GAP = 4.0  # between two columns of a table
LINE = 9.8  # distance of lines
APART = 2  # extra distance between rows of several lines
HIGHEST_ROW = 5  # lines; a taller row reads better in a wider table
HIGHEST = 400.0  # of the rows of a float; caption and notes are added, and a page has 550


@dataclass(frozen=True)
class Grid:
    """A table as printed; the first `keys` cells name a row."""

    head: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...]
    keys: int
    words: bool
    even: bool  # columns after the keys are alike and equally wide

    def column(self, place: int) -> Iterator[Cell]:
        """Cells of a column, with its head."""
        return (row[place] for row in (self.head, *self.rows))


@dataclass(frozen=True)
class Part:
    """Some columns of some rows; `shares` are the columns' widths as shares of the line.

    `stacked`: intervals below their values. `apart`: extra distance between rows, because some have several lines.
    """

    shares: Mapping[int, float]
    rows: tuple[tuple[Cell, ...], ...]
    stacked: bool
    apart: bool


def of(shown: Table) -> tuple[Grid, list[list[Part]], bool]:
    """Return (the table, the parts of each float in order, True if floats span two columns)."""
    grid = _turned(shown)
    room = NARROW
    if len(blocks := _blocks(grid, NARROW)) > 1 or _highest(grid, blocks, NARROW) > HIGHEST_ROW:
        room, blocks = WIDE, _blocks(grid, WIDE)
    return grid, _even_floats(grid, blocks, room), room == WIDE


def _turned(shown: Table) -> Grid:
    """Turn a table with one column per batch size into one with a row per batch size."""
    if not shown.by_size:
        return Grid(tuple(map(Cell, shown.head)), shown.rows, shown.keys, shown.words, even=False)
    names = (Cell(", ".join(cell.text for cell in row[: shown.keys])) for row in shown.rows)
    rows = tuple(
        (Cell(size), *(row[place] for row in shown.rows))
        for place, size in enumerate(shown.head[shown.keys :], start=shown.keys)
    )
    return Grid((Cell("Batch size"), *names), rows, 1, words=False, even=True)


def _blocks(grid: Grid, room: float) -> list[dict[int, float]]:
    """Split the columns into as few tables as possible, each with the keys.

    Returns {column: its share of the line} for each table.
    """
    keys, others = list(range(grid.keys)), list(range(grid.keys, len(grid.head)))
    for most in range(len(others), 0, -1):
        count = math.ceil(len(others) / most)
        chunks = [[*keys, *others[len(others) * n // count : len(others) * (n + 1) // count]] for n in range(count)]
        shares = [_shares(grid, chunk, room) for chunk in chunks]
        if all(shares) or most == 1:
            return [share or dict.fromkeys(chunk, 1 / len(chunk)) for share, chunk in zip(shares, chunks, strict=True)]
    return [dict.fromkeys(keys, 1 / len(keys))]


def _shares(grid: Grid, columns: Sequence[int], room: float) -> dict[int, float] | None:
    """Compute the column widths as shares; None if the longest words do not fit.

    The longest word of each column has space, and longer texts get more.
    """
    least = {place: GAP + max(map(longest_word, grid.column(place))) for place in columns}
    whole = {place: GAP + max(map(cell_width, grid.column(place))) for place in columns}
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


def _highest(grid: Grid, blocks: Sequence[Mapping[int, float]], room: float) -> int:
    return max((_lines(row, shares, room) for shares in blocks for row in grid.rows), default=0)


def _even_floats(grid: Grid, blocks: Sequence[Mapping[int, float]], room: float) -> list[list[Part]]:
    """Use as few floats as possible, of similar height."""
    floats = list(_floats(grid, blocks, room, HIGHEST))
    for tenths in range(9, 0, -1):
        lower = list(_floats(grid, blocks, room, HIGHEST * tenths / 10))
        if len(lower) > len(floats):
            break
        floats = lower
    return floats


def _floats(grid: Grid, blocks: Sequence[Mapping[int, float]], room: float, highest: float) -> Iterator[list[Part]]:
    """Yield the parts of each float, which are placed below each other.

    If one interval does not fit next to its value, all are placed below.
    """
    widest = {place: share * room - GAP for shares in blocks for place, share in shares.items()}
    numbers = ((place, cell) for row in grid.rows for place, cell in enumerate(row) if cell.number is not None)
    stacked = any(_wrapped(cell, widest[place]) > 1 for place, cell in numbers)
    apart = stacked or _highest(grid, blocks, room) > 1
    parts: list[Part] = []
    used = 0.0
    for shares in blocks:
        head, rows = LINE * (2 + _lines(grid.head, shares, room)), list[tuple[Cell, ...]]()
        used += head
        for row in grid.rows:
            height = LINE * max(_lines(row, shares, room), 1 + stacked) + APART * apart
            if used + height > highest and (rows or parts):
                yield [*parts, *([Part(shares, tuple(rows), stacked, apart)] if rows else [])]
                parts, rows, used = [], [], head
            rows.append(row)
            used += height
        parts.append(Part(shares, tuple(rows), stacked, apart))
    yield parts


def _lines(row: Sequence[Cell], shares: Mapping[int, float], room: float) -> int:
    """Count the lines that a row takes."""
    return max((_wrapped(row[place], share * room - GAP) for place, share in shares.items()), default=0)


def _wrapped(cell: Cell, width: float) -> int:
    lines, used = 1, 0.0
    for word in word_parts(cell):
        each = text_width("".join(word))
        if used and used + each > width:
            lines, used = lines + 1, 0.0
        lines += int(each / width) if each > width else 0
        used += each + WIDTHS[" "]
    return lines
