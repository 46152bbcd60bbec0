"""A table of a report, once for every format: the cells that a reader sees, and the tidy numbers behind them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum

import pandas as pd

SHADES = 9


class Theme(StrEnum):
    """What a table or chart is about, in the order of a chapter: a heading of the page each."""

    SPEED = "Speed"
    MEMORY = "Memory"
    ACCURACY = "Accuracy"
    USAGE = "Usage and energy"
    MODES = "Tuning and precision"
    START_UP = "Start-up"
    PUBLISHED = "Published figures"
    SOFTWARE = "Software"
    RUN = "The run"


@dataclass(frozen=True)
class Cell:
    """`text` is plain, no markup. `number` is what the text rounds, for sorting; None where the text is words.

    `notes` become footnotes; `trials` are the ids of the trials behind the cell.
    """

    text: str
    number: float | None = None
    notes: tuple[str, ...] = ()
    trials: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """`rows` are what Markdown, LaTeX and the page show: of the length of `head`, the first cell names the row.

    `tidy` is what CSV, Parquet and JSON hold: a row a cell or a row, typed columns with units in their names, NaN or
    None where unknown; empty of a table that no file holds. `above` and `below` are plain sentences; footnotes follow
    from the cells.
    """

    name: str  # its files' stem, unique within a chapter
    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    tidy: pd.DataFrame = field(default_factory=pd.DataFrame)
    above: tuple[str, ...] = ()
    below: tuple[str, ...] = ()
    words: bool = False  # cells are words, flush left; else numbers, flush right
    theme: Theme = Theme.RUN
    keys: int = 1  # so many cells name a row
    by_size: bool = False  # the columns behind them are batch sizes
    heat: bool = False  # the page shades cells by their number

    def shade(self, number: float | None) -> int | None:
        """From 0, of the lowest number of all cells behind the keys, to SHADES, of the highest."""
        numbers = [c.number for row in self.rows for c in row[self.keys :] if c.number is not None]
        if number is None or max(numbers) == min(numbers):
            return None
        return round(SHADES * (number - min(numbers)) / (max(numbers) - min(numbers)))

    @property
    def notes(self) -> dict[str, int]:
        """{footnote: its number}, each once, in the order of the cells."""
        notes = dict.fromkeys(note for row in self.rows for cell in row for note in cell.notes)
        return {note: number for number, note in enumerate(notes, start=1)}


def without_repeats(tables: Iterable[Table]) -> tuple[Table, ...]:
    """As they stand below each other: a sentence under several of them is said under the first alone."""
    said: set[str] = set()
    shown = []
    for table in tables:
        shown.append(replace(table, below=tuple(line for line in table.below if line not in said)))
        said.update(table.below)
    return tuple(shown)


@dataclass(frozen=True)
class Placed:
    """A table in its report: the stem of its files, and its chapter's conditions and number; the latter is None where
    there is one chapter, or where it belongs to none or to several.
    """

    table: Table
    stem: str
    conditions: tuple[str, ...]
    chapter: int | None = None
