"""Describe a table of a report once for every format: the cells that a reader sees, and tidy numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import pandas as pd

from .frameworks import FrameworkNames

SHADES = 9
# Characters that begin a formula in spreadsheets, full width too, and the quote that prevents it: OWASP, "CSV
# Injection" (owasp.org/www-community/attacks/CSV_Injection).
FORMULAS = ("=", "+", "-", "@", "\t", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
QUOTE = "'"


class Theme(StrEnum):
    """Topic of a table or chart, in the order of a chapter; each is a heading of the page."""

    CHANGES = "What changed"  # of a comparison
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
class TableCell:
    """A cell; `text` is plain, without markup. `number` is the unrounded value, for sorting; None if the text is words.

    `notes` become footnotes; `trials` are the ids of the trials that the cell was computed from.
    """

    text: str
    number: float | None = None
    notes: tuple[str, ...] = ()
    trials: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """A table. `rows` are what Markdown, LaTeX and the page show, as long as `head`; the first cell names the row.

    `tidy` is what CSV, Parquet and JSON hold, with one row per cell or per row. Its columns are typed and have units in
    their names; unknown values are NaN or None. It is empty for a table that no file holds. `above` and `below` are
    plain sentences; footnotes come from the cells.
    """

    name: str  # stem of its files, unique within a chapter
    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    tidy: pd.DataFrame = field(default_factory=pd.DataFrame)
    above: tuple[str, ...] = ()
    below: tuple[str, ...] = ()
    words: bool = False  # cells are words, flush left; otherwise numbers, flush right
    theme: Theme = Theme.RUN
    keys: int = 1  # number of cells that name a row
    by_size: bool = False  # the columns after the keys are batch sizes
    heat: bool = False  # the page shades cells by their number

    def shade(self, number: float | None) -> int | None:
        """Map a number to a shade, from 0 for the lowest number of all cells after the keys to SHADES for
        the highest.
        """
        numbers = [c.number for row in self.rows for c in row[self.keys :] if c.number is not None]
        if number is None or max(numbers) == min(numbers):
            return None
        return round(SHADES * (number - min(numbers)) / (max(numbers) - min(numbers)))

    @property
    def notes(self) -> dict[str, int]:
        """Map {footnote: its number}, each once, in the order of the cells."""
        notes = dict.fromkeys(note for row in self.rows for cell in row for note in cell.notes)
        return {note: number for number, note in enumerate(notes, start=1)}


EMPTY = TableCell("\N{EN DASH}")
Record = Mapping[str, Any]
Columns = Mapping[str, Callable[[Any], TableCell]]  # {head: cell of a record}


def build_rows(
    records: Sequence[Record], shown: Columns
) -> tuple[tuple[str, ...], tuple[tuple[TableCell, ...], ...], pd.DataFrame]:
    """Return (head, rows, tidy) of a table with a row per record: files hold the records, readers see `shown`."""
    rows = tuple(tuple(cell(record) for cell in shown.values()) for record in records)
    return tuple(shown), rows, make_frame(records)


def make_frame(records: Sequence[Record], columns: list[str] | None = None) -> pd.DataFrame:
    """Make a data frame with a row per record; whole numbers stay whole where some are unknown."""
    frame = pd.DataFrame(records, columns=columns)
    names = columns or dict.fromkeys(name for record in records for name in record)
    floats = [name for name in names if pd.api.types.is_float_dtype(frame[name])]
    whole = [name for name in floats if _are_whole(record.get(name) for record in records)]
    return frame.astype(dict.fromkeys(whole, "Int64")) if whole else frame


def _are_whole(values: Iterable[Any]) -> bool:
    """True if every known value is a whole number that a float holds exactly."""
    return all(value is None or (isinstance(value, int) and abs(value) <= 2**53) for value in values)


def make_text_column(key: str) -> Callable[[Record], TableCell]:
    """Return a column of a record's text."""
    return lambda record: TableCell(record[key])


def count_of(key: str) -> Callable[[Record], TableCell]:
    """Return a column of a record's whole number."""
    return lambda record: TableCell(str(record[key]), record[key])


def make_framework_column(named: FrameworkNames) -> Callable[[Record], TableCell]:
    """Return a column of the names of the records' frameworks."""
    return lambda record: TableCell(named(record["framework"]))


def number_cell(value: float | None, form: str, ends: tuple[float, float] = (math.nan, math.nan)) -> TableCell:
    """Format a value, with the ends of its interval if they are known; a dash for None and NaN."""
    if value is None or math.isnan(value):
        return EMPTY
    low, high = ends
    interval = "" if math.isnan(low) else f" [{form.format(low)}, {form.format(high)}]"
    return TableCell(form.format(value) + interval, value)


def drop_repeats(tables: Iterable[Table]) -> tuple[Table, ...]:
    """Prepare tables shown below each other: a sentence below several of them is kept below the first only."""
    said: set[str] = set()
    shown = []
    for table in tables:
        shown.append(replace(table, below=tuple(line for line in table.below if line not in said)))
        said.update(table.below)
    return tuple(shown)


@dataclass(frozen=True)
class Placed:
    """A table in its report: the stem of its files, and its chapter's conditions and number.

    The number is None if there is one chapter, or if the table belongs to none or to several.
    """

    table: Table
    stem: str
    conditions: tuple[str, ...]
    chapter: int | None = None


def format_csv(frame: pd.DataFrame) -> str:
    """Format a data frame without its index; numbers stay numbers, a text that would be a formula begins
    with a quote.
    """
    columns = [_plain_column(frame.iloc[:, place]) for place in range(frame.shape[1])]
    quoted = pd.concat(columns, axis=1) if columns else frame
    return str(quoted.rename(columns=escape_formula).to_csv(index=False, lineterminator="\n"))


def _plain_column(column: pd.Series[Any]) -> pd.Series[Any]:
    """Escape a column's texts; a column of numbers is unchanged. Each cell keeps its type."""
    if pd.api.types.is_numeric_dtype(column):
        return column
    return pd.Series([escape_formula(cell) for cell in column], index=column.index, name=column.name, dtype=object)


def escape_formula(cell: Any) -> Any:
    """Escape a cell so that no spreadsheet runs it; a number written as text is unchanged.

    Ends of lines become line feeds, the only ones that csv quotes.
    """
    if not isinstance(cell, str):
        return cell
    cell = cell.replace("\r\n", "\n").replace("\r", "\n")
    if not cell.startswith(FORMULAS):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"{QUOTE}{cell}"
    return cell
