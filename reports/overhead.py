"""Our own weight: what `python -m runner overhead` measured, as a table; read from RESULTS/overhead.json."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from workloads.records.intervals import CONFIDENCE_PERCENT

from . import condition_text, load
from .frameworks import display_name, ordered
from .table import Cell, Table

FILE, NAME, SCHEMA_VERSION = "overhead.json", "overhead", 1
TITLE = "Our own weight"
NUMBERS = ("pairs", "pairs_measured", "foreign_cpu_percent", "ratio", "low", "high", "bar")
SAMPLER = ("sampler_core_percent", "sampler_bar_percent")
OVER_ALL = ("ratio_all", "low_all", "high_all")  # not in every file
KINDS: dict[str, Any] = {
    **dict.fromkeys(("framework", "verdict", "sampler_verdict"), str),
    **dict.fromkeys((*NUMBERS, *SAMPLER), int | float),
    "batch_size": int,
}
CSV_COLUMNS = ["framework", "batch_size", *NUMBERS, "verdict", *OVER_ALL, *SAMPLER, "sampler_verdict"]
HOW = f"""\
Training speed with the sampler and the events over the speed without, the geometric mean over pairs of neighbouring \
stretches, with its {CONFIDENCE_PERCENT} % interval. Of the "pairs" measured those are taken that others disturbed \
least, in either stretch. Beside it stands the ratio over all pairs, for what the instruments cause beyond their own \
processor time would count as others' doing; where that one is over the bar, so is the verdict. "Foreign CPU": what \
other processes took of the worker's cores in the pairs taken. "Bar": the lowest ratio that is allowed. "Sampler": its \
CPU time, % of one core, of what is allowed."""


def table(results: Path) -> Table | str:
    """Or the line that says why there is none."""
    path = results / FILE
    try:
        stored = load.rows_of(path, SCHEMA_VERSION, "rows", KINDS)
        if stored is None:
            return f"{TITLE}: not measured: run python -m runner overhead --results {results}."
        _check(stored)
    except ValueError as error:
        return f"{TITLE}: {path}: left out: {error}"
    names = ordered(row["framework"] for row in stored["rows"])
    rows = sorted(stored["rows"], key=lambda row: names.index(row["framework"]))
    failed = stored.get("failed")
    lines = [
        f"{cell.get('framework')} {cell.get('batch_size')}: {cell.get('reason')}."
        for cell in (failed if isinstance(failed, list) else ())
        if isinstance(cell, dict)
    ]
    cells = tuple(tuple(shown(row) for shown in COLUMNS.values()) for row in rows)
    below = (HOW, _conditions(stored["conditions"]), *lines)
    return Table(NAME, TITLE, tuple(COLUMNS), cells, pd.DataFrame(rows, columns=CSV_COLUMNS), below=below)


def _check(stored: dict[str, Any]) -> None:
    """Raises ValueError with the reason."""
    if not isinstance(stored.get("conditions"), dict):
        raise ValueError("conditions are missing")
    for number, row in enumerate(stored["rows"]):
        for name in OVER_ALL:
            value = row.setdefault(name, None)
            if value is not None and not (isinstance(value, float | int) and math.isfinite(value)):
                raise ValueError(f"rows[{number}].{name} is {value!r}")


def _ratio(row: dict[str, Any], *names: str) -> Cell:
    """ "0.9981 [0.9951, 1.0011]"; a dash where one of them is not stored."""
    ratio, low, high = (row[name] for name in names)
    if None in (ratio, low, high):
        return Cell(condition_text.ABSENT)
    return Cell(f"{ratio:.4f} [{low:.4f}, {high:.4f}]", ratio)


COLUMNS: dict[str, Callable[[dict[str, Any]], Cell]] = {
    "Framework": lambda row: Cell(display_name(row["framework"])),
    "Batch size": lambda row: Cell(str(row["batch_size"]), row["batch_size"]),
    "Pairs": lambda row: Cell(f"{row['pairs']} of {row['pairs_measured']}", row["pairs"]),
    "Foreign CPU, %": lambda row: Cell(f"{row['foreign_cpu_percent']:.1f}", row["foreign_cpu_percent"]),
    "With / without": lambda row: _ratio(row, "ratio", "low", "high"),
    "Bar": lambda row: Cell(f"{row['bar']:g}", row["bar"]),
    "Verdict": lambda row: Cell(row["verdict"]),
    "Over all pairs": lambda row: _ratio(row, *OVER_ALL),
    "Sampler, % of a core": lambda row: Cell(
        f"{row['sampler_core_percent']:.2f} of {row['sampler_bar_percent']:g}", row["sampler_core_percent"]
    ),
    "Sampler's verdict": lambda row: Cell(row["sampler_verdict"]),
}


def _conditions(conditions: dict[str, Any]) -> str:
    parts = [
        f"{key.replace('_', ' ')} {value}" for key, value in conditions.items() if isinstance(value, str | int | float)
    ]
    frameworks = conditions.get("frameworks")
    for name, facts in frameworks.items() if isinstance(frameworks, dict) else ():
        version = facts.get("framework_version") if isinstance(facts, dict) else None
        parts.append(f"{display_name(name)} {version or 'version not reported'}")
    return f"Conditions: {'; '.join(parts) or 'not reported'}."
