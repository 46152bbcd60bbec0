"""What measuring costs: what `python -m runner overhead` measured, as a table; read from RESULTS/overhead.json."""

from __future__ import annotations

from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

import pandas as pd

from workloads.records import validation
from workloads.records.intervals import CONFIDENCE_PERCENT
from workloads.records.validation import Count, Number

from . import condition_text
from .frameworks import display_name, ordered
from .table import Cell, Table

FILE, NAME = "overhead.json", "overhead"
TITLE = "What measuring costs"
OVER_ALL = ("ratio_all", "low_all", "high_all")  # not in every file
HEAD = (
    "Framework",
    "Batch size",
    "Pairs",
    "Foreign CPU, %",
    "With / without",
    "Bar",
    "Verdict",
    "Over all pairs",
    "Sampler, % of a core",
    "Sampler's verdict",
)
HOW = f"""\
Training speed with the sampler and the events over the speed without, the geometric mean over pairs of neighbouring \
stretches, with its {CONFIDENCE_PERCENT} % interval. Of the "pairs" measured those are taken that others disturbed \
least, in either stretch. Beside it stands the ratio over all pairs, for what the instruments cause beyond their own \
processor time would count as others' doing; where that one is over the bar, so is the verdict. "Foreign CPU": what \
other processes took of the worker's cores in the pairs taken. "Bar": the lowest ratio that is allowed. "Sampler": its \
CPU time, % of one core, of what is allowed."""


class OverheadRow(TypedDict):
    """One cell of the file."""

    framework: str
    batch_size: Count
    pairs: Count
    pairs_measured: Count
    foreign_cpu_percent: Number
    ratio: Number
    low: Number
    high: Number
    bar: Number
    verdict: str
    ratio_all: NotRequired[Number | None]
    low_all: NotRequired[Number | None]
    high_all: NotRequired[Number | None]
    sampler_core_percent: Number
    sampler_bar_percent: Number
    sampler_verdict: str
    measured_at: NotRequired[str]


COLUMNS = [name for name in OverheadRow.__annotations__ if name != "measured_at"]


class Measurement(TypedDict):
    """What was measured under the same conditions, in the order of time: of a cell the last row counts."""

    conditions: dict[str, Any]
    rows: list[OverheadRow]
    failed: NotRequired[Any]


class OverheadFile(TypedDict):
    """What the runner stored: the newest measurement is the last."""

    schema_version: Literal[2]
    measurements: list[Measurement]


def read(results: Path) -> list[Any]:
    """What was measured, the newest first. Raises ValueError with the reason for an unreadable file."""
    file = validation.read(results / FILE, OverheadFile)
    return [_newest(each) for each in reversed(file["measurements"])] if file else []


def _newest(measurement: Any) -> Any:
    """Of each cell what was measured last, or the failure that came behind it."""
    entries: dict[tuple[Any, ...], dict[str, Any]] = {}
    for entry in (*measurement["rows"], *_failed(measurement)):
        cell = entry.get("framework"), entry.get("batch_size")
        if cell not in entries or str(entry.get("measured_at", "")) >= str(entries[cell].get("measured_at", "")):
            entries[cell] = entry
    kept = {id(entry) for entry in entries.values()}
    rows = sorted((row for row in measurement["rows"] if id(row) in kept), key=itemgetter("framework", "batch_size"))
    for row in rows:
        row.update({name: row.get(name) for name in OVER_ALL})
    return measurement | {"rows": rows, "failed": [cell for cell in _failed(measurement) if id(cell) in kept]}


def tables(results: Path) -> list[Table | str]:
    """One for the conditions of each measurement, the newest first; or the line that says why there is none."""
    try:
        measurements = read(results)
    except ValueError as error:
        return [f"{TITLE}: {results / FILE}: left out: {error}"]
    if not measurements:
        return [f"{TITLE}: not measured: run python -m runner overhead --results {results}."]
    return [
        _table(each, f"{TITLE}, measured before, commit {each['conditions'].get('commit')}" if number else TITLE)
        for number, each in enumerate(measurements)
    ]


def _table(stored: Any, title: str) -> Table:
    names = ordered(row["framework"] for row in stored["rows"])
    rows = [row for name in names for row in stored["rows"] if row["framework"] == name]
    shown = tuple(
        (
            Cell(display_name(row["framework"])),
            Cell(str(row["batch_size"]), row["batch_size"]),
            Cell(f"{row['pairs']} of {row['pairs_measured']}", row["pairs"]),
            Cell(f"{row['foreign_cpu_percent']:.1f}", row["foreign_cpu_percent"]),
            _ratio(row, "ratio", "low", "high"),
            Cell(f"{row['bar']:g}", row["bar"]),
            Cell(row["verdict"]),
            _ratio(row, *OVER_ALL),
            Cell(f"{row['sampler_core_percent']:.2f} of {row['sampler_bar_percent']:g}", row["sampler_core_percent"]),
            Cell(row["sampler_verdict"]),
        )
        for row in rows
    )
    failed = [f"{cell.get('framework')} {cell.get('batch_size')}: {cell.get('reason')}." for cell in _failed(stored)]
    below = (HOW, _conditions(stored["conditions"]), *failed)
    return Table(NAME, title, HEAD, shown, pd.DataFrame(rows, columns=COLUMNS), below=below)


def _ratio(row: dict[str, Any], *names: str) -> Cell:
    """ "0.9981 [0.9951, 1.0011]"; a dash where one of them was not told."""
    ratio, low, high = (row[name] for name in names)
    if None in (ratio, low, high):
        return Cell(condition_text.ABSENT)
    return Cell(f"{ratio:.4f} [{low:.4f}, {high:.4f}]", ratio)


def _failed(stored: dict[str, Any]) -> list[dict[str, Any]]:
    """What could not be measured."""
    failed = stored.get("failed")
    return [cell for cell in failed if _is_cell(cell)] if isinstance(failed, list) else []


def _is_cell(entry: Any) -> bool:
    """Whether it says of what cell it is, if that."""
    if not isinstance(entry, dict):
        return False
    framework, batch_size = entry.get("framework"), entry.get("batch_size")
    return isinstance(framework, str | None) and isinstance(batch_size, int | None)


def _conditions(conditions: dict[str, Any]) -> str:
    parts = [
        f"{key.replace('_', ' ')} {value}" for key, value in conditions.items() if isinstance(value, str | int | float)
    ]
    frameworks = conditions.get("frameworks")
    for name, facts in frameworks.items() if isinstance(frameworks, dict) else ():
        version = facts.get("framework_version") if isinstance(facts, dict) else None
        parts.append(f"{display_name(name)} {version or 'version not reported'}")
    return f"Conditions: {'; '.join(parts) or 'not reported'}."
