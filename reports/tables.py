"""The tables in the thesis's layout: one row a framework, batch sizes as columns; as Markdown and as CSV.

A cell is the median over the repeats that are ok. Where there is none it says why, never nothing and never 0.
"""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from . import markdown
from .conditions import Condition
from .frameworks import display_name, ordered
from .quantities import Quantity

CSV_COLUMNS = ["framework", "batch_size", "n", "median", "min", "max", "unit", "status"]
NOT_RUN, UNKNOWN = "not_run", "unknown"
FOREIGN, TOLERATED_PERCENT = "foreign_cpu_percent", 10.0
DISTURBED = f"disturbed: other processes took more than {TOLERATED_PERCENT:g} % of the cores in the steady window"


def cells(trials: pd.DataFrame, quantity: Quantity, condition: Condition) -> pd.DataFrame:
    """CSV_COLUMNS, `notes` and `sources` (tuples of str), one row for each framework and batch size in `trials`.

    `trials` is the `load.frame` of one section. n counts the values behind the median; min, median and max are in
    `unit`, NaN where n is 0. status: "ok", else "unknown" (the figure is null), "not_run", or how the trials ended,
    joined by "+".
    """
    figure = quantity.source(condition).figure
    rows = []
    for framework in ordered(trials["framework"]):
        for batch_size in sorted(set(trials["batch_size"])):
            here = trials[(trials["framework"] == framework) & (trials["batch_size"] == batch_size)]
            found = _cell(here, figure, quantity)
            rows.append({"framework": framework, "batch_size": batch_size, "unit": quantity.unit, **found})
    return pd.DataFrame(rows)[[*CSV_COLUMNS, "notes", "sources"]]


def _cell(trials: pd.DataFrame, figure: str, quantity: Quantity) -> dict[str, Any]:
    """One cell from the repeats of one framework and batch size."""
    ok = trials[trials["status"] == "ok"]
    values = ok[figure].dropna() * quantity.factor if figure in ok else pd.Series(dtype=float)
    notes = _unknown_notes(ok.drop(values.index), figure)
    if len(values):
        status = "ok"
        ended = trials[trials["status"] != "ok"]
        notes += [f"repeat {row.repeat}: {_words(str(row.status))}" for row in ended.itertuples()]
        if quantity.timed and FOREIGN in ok and (ok.loc[values.index, FOREIGN] > TOLERATED_PERCENT).any():
            notes.append(DISTURBED)
    elif len(ok):
        status = UNKNOWN
    else:
        status = "+".join(sorted(set(trials["status"]))) or NOT_RUN
    return {
        "n": len(values),
        "median": values.median() if len(values) else math.nan,
        "min": values.min(),
        "max": values.max(),
        "status": status,
        "notes": tuple(notes),
        "sources": tuple(ok.loc[values.index, f"{figure}.source"].unique()) if len(values) else (),
    }


def _unknown_notes(trials: pd.DataFrame, figure: str) -> list[str]:
    """Why `figure` is null, each reason once."""
    column = f"{figure}.reason"
    reasons = trials[column] if column in trials else pd.Series(index=trials.index, dtype=object)
    missing = f"the stored result has no figure {figure}"
    return sorted({f"unknown: {reason if isinstance(reason, str) else missing}" for reason in reasons})


def block(found: pd.DataFrame, quantity: Quantity, condition: Condition) -> str:
    """A table of `cells` in Markdown: title, table, how to read a cell, footnotes."""
    most = int(found["n"].max())
    numbers = markdown.numbered(note for notes in found["notes"] for note in notes)
    texts = [_text(row, quantity, most, numbers) for row in found.to_dict("records")]
    rows: dict[str, dict[str, str]] = {}
    for framework, batch_size, text in zip(found["framework"], found["batch_size"], texts, strict=True):
        name = markdown.escape(display_name(framework))
        rows.setdefault(framework, {"Framework / batch size": name})[str(batch_size)] = text
    parts = [
        f"### {quantity.title(condition)}",
        markdown.table(pd.DataFrame(rows.values())),
        _how_to_read_a_cell(found, most) + _sources(found),
        markdown.footnotes(numbers),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _how_to_read_a_cell(found: pd.DataFrame, most: int) -> str:
    if most == 0:
        return "No trial gave a value."
    if most == 1:
        return "One trial a cell (n = 1): no statement about the spread between runs."
    fewer = " A cell of fewer repeats says its n." if found.loc[found["n"] > 0, "n"].min() < most else ""
    return f"Median of n = {most} repeats (lowest\N{EN DASH}highest).{fewer}"


def _sources(found: pd.DataFrame) -> str:
    sources = dict.fromkeys(source for sources in found["sources"] for source in sources)
    return f" Source: {markdown.escape(' / '.join(sources))}." if sources else ""


def _text(cell: dict[Any, Any], quantity: Quantity, most: int, numbers: dict[str, int]) -> str:
    marks = markdown.marks(cell["notes"], numbers)
    if cell["n"] == 0:
        return _words(cell["status"]) + marks
    digits = _decimals(cell["median"]) if quantity.decimals is None else quantity.decimals
    text = f"{cell['median']:.{digits}f}"
    if cell["n"] > 1:
        text += f" ({cell['min']:.{digits}f}\N{EN DASH}{cell['max']:.{digits}f})"
    return text + (f" n={cell['n']}" if cell["n"] < most else "") + marks


def _decimals(value: float) -> int:
    """For three significant digits; whole numbers from 100 on."""
    return max(0, 2 - math.floor(math.log10(abs(value)))) if value else 0


def _words(status: str) -> str:
    return status.replace("_", " ").replace("+", " / ")
