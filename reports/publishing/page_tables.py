"""Read the tables of a published page from its HTML, and compare their numbers with those of a rebuilt page.

For a page built by another version of the reports: its sentences may differ, the measured values may not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import NamedTuple

from ..blocks import TIMES
from ..memory import KINDS, PARTS
from ..quantities import QUANTITIES

# Tables of means of measured figures; conclusions from them may change with the rules of a later version.
MEASURED = frozenset({*(quantity.name for quantity in QUANTITIES), KINDS, PARTS, TIMES})
ID = re.compile(r"(?:s\d+-)?(?P<name>.+)")
NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.(?P<decimals>\d+))?")


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

    `lines` list the cells that differ; `cells` counts those compared, `left` the tables without a counterpart.
    """

    lines: list[str] = field(default_factory=list)
    cells: int = 0
    left: int = 0


def compare(published: str, rebuilt: str) -> PageDifferences:
    """Compare each cell's number with that of the same cell, up to the digits that both show."""
    found, again = PageDifferences(), read_tables(rebuilt)
    for key, table in read_tables(published).items():
        other = again.get(key)
        if other is None or _labels(table) != _labels(other):
            found.left += 1
            continue
        for row, anew in zip(table.rows[1:], other.rows[1:], strict=True):
            for column, was, now in _numbers(table.rows[0], row, anew):
                found.cells += 1
                if not _agree(was, now):
                    where = f"{key.chapter}: table {key.name}, {row[0]}, {column}"
                    found.lines.append(f"{where}: the page has {was}, its archive gives {now}")
    return found


def _labels(table: PageTable) -> tuple[list[str], list[str], list[int]]:
    head, *rows = table.rows or [[]]
    return head, [row[0] if row else "" for row in rows], [len(row) for row in rows]


def _numbers(head: list[str], row: list[str], anew: list[str]) -> Iterator[tuple[str, str, str]]:
    """Yield the column and both numbers of each cell that has a number in both tables."""
    for column, was, now in zip(head[1:], row[1:], anew[1:], strict=False):
        first, second = NUMBER.match(was), NUMBER.match(now)
        if first and second:
            yield column, first[0], second[0]


def _agree(was: str, now: str) -> bool:
    """True if both round to the same number, at the decimals of the one with fewer."""
    values = [float(text.replace(",", "")) for text in (was, now)]
    decimals = min(len(match["decimals"] or "") for text in (was, now) if (match := NUMBER.match(text)))
    return abs(values[0] - values[1]) <= 0.51 * 10.0**-decimals
