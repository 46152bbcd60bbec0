"""Read the tables of a published page from its HTML, and compare their numbers with those of a rebuilt page.

For a page built by another version of the reports: its sentences may differ, the measured values may not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import zip_longest
from typing import NamedTuple

from ..blocks import TIMES
from ..condition_text import ABSENT
from ..memory import KINDS, PARTS
from ..quantities import QUANTITIES

# Tables of means of measured figures; conclusions from them may change with the rules of a later version.
MEASURED = frozenset({*(quantity.name for quantity in QUANTITIES), KINDS, PARTS, TIMES})
ID = re.compile(r"(?:s\d+-)?(?P<name>.+)")
NUMBER = re.compile(r"[-+]?\d+(?:,\d{3})*(?:\.(?P<decimals>\d+))?")


class TableKey(NamedTuple):
    """Key of a table in any version's page: the heading of its chapter, and its name there."""

    chapter: str
    name: str


@dataclass
class PageTable:
    """Texts of a table's cells, without notes; the first row is the head."""

    rows: list[list[str]] = field(default_factory=list)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tables: dict[TableKey, PageTable] = {}
        self.chapter = ""
        self._table: PageTable | None = None
        self._text: list[str] | None = None  # of the heading or cell being read
        self._in_note = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "table" and (named := ID.fullmatch(given.get("data-table") or "")):
            self._table = self.tables.setdefault(TableKey(self.chapter, named["name"]), PageTable())
        elif tag == "tr" and self._table is not None:
            self._table.rows.append([])
        elif tag == "h2" or (tag in ("td", "th") and self._table is not None):
            self._text = []
        elif tag == "sup":
            self._in_note = True

    def handle_endtag(self, tag: str) -> None:
        if tag == "table":
            self._table = None
        elif tag == "sup":
            self._in_note = False
        elif tag in ("h2", "td", "th") and self._text is not None:
            text, self._text = "".join(self._text).strip(), None
            if tag == "h2":
                self.chapter = text
            elif self._table is not None and self._table.rows:
                self._table.rows[-1].append(text)

    def handle_data(self, data: str) -> None:
        if self._text is not None and not self._in_note:
            self._text.append(data)


def read_tables(page: str) -> dict[TableKey, PageTable]:
    """Read the tables of measured figures, by chapter and name."""
    reader = _Reader()
    reader.feed(page)
    return {key: table for key, table in reader.tables.items() if key.name in MEASURED}


@dataclass
class PageDifferences:
    """Result of comparing two pages.

    `lines` list the cells that differ; `cells` counts those compared. `apart`: each cell with a number that only one of
    the pages has, since versions may have other tables, rows and columns.
    """

    lines: list[str] = field(default_factory=list)
    cells: int = 0
    apart: list[str] = field(default_factory=list)


def compare(published: str, rebuilt: str) -> PageDifferences:
    """Compare the numbers of each cell with those of the same cell, up to the digits that both show."""
    found, page, again = PageDifferences(), read_tables(published), read_tables(rebuilt)
    for key in {**page, **again}:
        keys = _count_keys(again.get(key) or page[key])
        was, now = (_list_cells(tables.get(key, PageTable()), keys) for tables in (page, again))
        bounds = next((quantity.figures[0].bounds for quantity in QUANTITIES if quantity.name == key.name), None)
        for name in {**was, **now}:
            old, new = was.get(name, ""), now.get(name, "")
            where = f"{key.chapter}: table {key.name}, {', '.join(name)}"
            if not (NUMBER.search(old) or NUMBER.search(new)):
                continue
            if name not in now:
                found.apart.append(f"{where}: its archive gives none")
            elif old in ("", ABSENT):
                found.apart.append(f"{where}: the page has none")
            else:
                found.cells += 1
                if not _agree(old, new, bounds):
                    found.lines.append(f"{where}: the page has {old}, its archive gives {new}")
    return found


def _count_keys(table: PageTable) -> int:
    """Count the first columns that tell the rows apart."""
    rows = table.rows[1:]
    counts = range(1, max(map(len, rows), default=0) + 1)
    return next((count for count in counts if len({tuple(row[:count]) for row in rows}) == len(rows)), 1)


def _list_cells(table: PageTable, keys: int) -> dict[tuple[str, ...], str]:
    """Map each cell's name to its text: the first cells of its row, which are `keys`, and the head of its column."""
    head, *rows = table.rows or [[]]
    cells: dict[tuple[str, ...], str] = {}
    for row in rows:
        for column, text in zip_longest(head[keys:], row[keys:], fillvalue=""):
            name = (*row[:keys], column)
            while name in cells:
                name = (*name, "again")
            cells[name] = text
    return cells


def _agree(was: str, now: str, bounds: tuple[float, float] | None = None) -> bool:
    """True if both have the same numbers, each rounded to the decimals of the one with fewer.

    Ends of intervals beyond the `bounds` of a quantity are those bounds: earlier versions did not cut them there.
    """
    old, new = (list(NUMBER.finditer(text)) for text in (was, now))
    if len(old) != len(new):
        return False
    for place, pair in enumerate(zip(old, new, strict=True)):
        values = [float(number[0].replace(",", "")) for number in pair]
        if place and bounds:
            values = [min(max(value, bounds[0]), bounds[1]) for value in values]
        decimals = min(len(number["decimals"] or "") for number in pair)
        if abs(values[0] - values[1]) > 0.51 * 10.0**-decimals:
            return False
    return True
