"""Show what tuning and precisions gain: each column in another mode compared with the same build's default
in float32.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from workloads.records.build import Mode, installed_of
from workloads.records.conditions import mode_said
from workloads.records.figures import FigureSpec
from workloads.records.intervals import CONFIDENCE_PERCENT, accuracy_step
from workloads.records.result import TrialResult

from . import tables
from .condition_text import ABSENT
from .conditions import Section
from .frameworks import display_name, ordered
from .quantities import ACCURACY, MEMORY, SPEED, Quantity
from .spread import LEAST_SPREAD, spread
from .table import Cell, Table, Theme

NAME, TITLE = "modes", "What tuning and precisions change: each column beside the same framework's default in float32"
QUANTITIES = (SPEED, MEMORY, ACCURACY)
HOW = (
    "Speed and memory are parts of the default's: 2.00 is twice. Accuracy is the difference in percentage points. Of "
    "repeats with the same inputs, each beside the other's; with two or more the "
    f"{CONFIDENCE_PERCENT} % interval of their mean (of speed and memory, of the logarithms) stands in brackets."
)


@dataclass(frozen=True)
class Change:
    """Change in one quantity at one batch size; `values` are per repeat: ratios, or differences in points."""

    framework: str
    quantity: Quantity
    batch_size: int
    values: tuple[float, ...]
    trials: tuple[str, ...]
    step: float  # share of one test image, in percentage points

    @property
    def estimate(self) -> tuple[float, float, float]:
        """Estimate (mean, low, high); for ratios the geometric mean. The interval of one repeat is NaN."""
        if self.quantity is ACCURACY:
            points = spread(self.values, self.step)
            return points.mean, points.low, points.high
        logs = spread([math.log(value) for value in self.values], LEAST_SPREAD)
        return math.exp(logs.mean), math.exp(logs.low), math.exp(logs.high)

    @property
    def cell(self) -> Cell:
        """Table cell with the estimate."""
        mean, low, high = self.estimate
        sign = "+" if self.quantity is ACCURACY else ""
        interval = "" if math.isnan(low) else f" [{low:{sign}.2f}, {high:{sign}.2f}]"
        return Cell(f"{mean:{sign}.2f}{interval}", mean, trials=self.trials)


def table(section: Section) -> Table | None:
    """Build the table; None if all columns train in one mode."""
    changes = list(_changes(section))
    if not changes:
        return None
    sizes = sorted({change.batch_size for change in changes})
    cells = {(change.framework, change.quantity, change.batch_size): change.cell for change in changes}
    names = ordered(change.framework for change in changes)
    rows = tuple(
        (
            Cell(display_name(name)),
            Cell(_label(spec, quantity)),
            *(cells.get((name, quantity, size), Cell(ABSENT)) for size in sizes),
        )
        for name in names
        for quantity in QUANTITIES
        if (spec := quantity.figure(section.condition)) and any((name, quantity, size) in cells for size in sizes)
    )
    tidy = pd.DataFrame([_row(change) for change in changes])
    head = ("Framework", "", *map(str, sizes))
    return Table(NAME, TITLE, head, rows, tidy, below=(HOW,), theme=Theme.MODES, keys=2, by_size=True)


def _label(spec: FigureSpec, quantity: Quantity) -> str:
    return f"{spec.label}, {'points' if quantity is ACCURACY else 'part of the default'}"


def _changes(section: Section) -> Iterator[Change]:
    places, task = tables.places(section), section.condition.task
    step = accuracy_step(task.dataset, task.source)
    for (framework, size), results in places.items():
        usual = places.get((installed_of(framework), size))
        if mode_said(results[0]) == Mode() or not usual:
            continue
        for quantity in QUANTITIES:
            spec = quantity.figure(section.condition)
            if spec and (change := _change(framework, quantity, size, _pairs(results, usual, spec), step)):
                yield change


_Pair = tuple[TrialResult, float, float]


def _pairs(results: Sequence[TrialResult], usual: Sequence[TrialResult], spec: FigureSpec) -> list[_Pair]:
    """List (trial, its value, value of the default's repeat with the same inputs), where both have a value."""
    values = {_drawn(result): _value(result, spec) for result in usual}
    pairs = [(result, _value(result, spec), values.get(_drawn(result))) for result in results]
    return [(result, own, other) for result, own, other in pairs if own is not None and other is not None]


def _drawn(result: TrialResult) -> tuple[object, ...]:
    return result.spec.draw, *sorted((name, file.sha256) for name, file in result.spec.inputs.items())


def _value(result: TrialResult, spec: FigureSpec) -> float | None:
    value = tables.figure_of(result, spec.name).value if tables.is_shown(result, spec) else None
    return None if value is None else value * spec.factor


def _change(framework: str, quantity: Quantity, size: int, pairs: list[_Pair], step: float) -> Change | None:
    """Compute a change; None if nothing can be compared. A ratio needs two values above 0."""
    if quantity is not ACCURACY:
        pairs = [(trial, own, other) for trial, own, other in pairs if own > 0 and other > 0]
    if not pairs:
        return None
    values = tuple(own - other if quantity is ACCURACY else own / other for _, own, other in pairs)
    return Change(framework, quantity, size, values, tuple(trial.spec.id for trial, *_ in pairs), step)


def _row(change: Change) -> dict[str, object]:
    mean, low, high = change.estimate
    return {
        "framework": change.framework,
        "batch_size": change.batch_size,
        "quantity": change.quantity.name,
        "unit": "points" if change.quantity is ACCURACY else "part of the default",
        "n": len(change.values),
        "mean": mean,
        "low": low,
        "high": high,
        "trials": tables.JOINED.join(change.trials),
    }
