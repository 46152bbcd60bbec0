"""Which of our quantities stands beside which published one, and what keeps the two from being compared."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from .. import order, quantities, tables
from ..conditions import Section
from ..frameworks import ordered
from ..order import Point
from ..quantities import Quantity
from ..spread import LEAST_SPREAD, accuracy_step
from . import literature


@dataclass(frozen=True)
class Metric:
    """A published figure, the first of our quantity, which a CPU may have another one in the place of."""

    name: str  # in the literature
    quantity: Quantity
    alone: str = ""  # the framework it is published for, if for one: every framework is held against it

    @property
    def label(self) -> str:
        """As an axis names it."""
        return self.quantity.figures[0].label

    @property
    def unit(self) -> str:
        """That of a difference."""
        return "points" if self.quantity.unit == "%" else self.quantity.unit

    @property
    def decimals(self) -> int:
        """Behind the point; 0 where the quantity leaves it open."""
        return self.quantity.decimals or 0

    def same(self, section: Section) -> bool:
        """Whether our figure on this section's device is the published one, not the one in its place."""
        return self.quantity.figure(section.condition) is self.quantity.figures[0]

    def framework(self, framework: str) -> str:
        """Whose published figure this framework is held against."""
        return self.alone or framework


USAGE = Metric("gpu_usage_percent", quantities.USAGE)
MEMORY = Metric("gpu_memory_mib", quantities.MEMORY)
ACCURACY = Metric("accuracy_percent", quantities.ACCURACY, "tensorflow")
METRICS = (USAGE, MEMORY, ACCURACY)


Points = dict[literature.Place, Point]


def label(section: Section, metric: Metric) -> str:
    """What we measured: "CPU usage" where the published one is GPU usage."""
    spec = metric.quantity.figure(section.condition)
    return spec.label if spec else metric.label


def another_quantity(section: Section, metric: Metric) -> str:
    """ "" where ours is the published quantity."""
    if metric.same(section):
        return ""
    return f"another quantity: {label(section, metric)} here, {metric.label} published"


def obstacles(section: Section, metric: Metric) -> tuple[str, ...]:
    """Why no verdict may be passed; empty where one may."""
    condition, found = section.condition, []
    if not metric.same(section):
        found.append("CPU run")
    if condition.task.workload != literature.WORKLOAD:
        found.append(f"other model, {condition.task.workload}")
    if condition.task.dataset != literature.DATASET:
        found.append(f"other data set, {condition.task.dataset}")
    if metric is ACCURACY and condition.passes.epochs != literature.EPOCHS:
        found.append(f"{condition.passes.epochs} epochs, published after {literature.EPOCHS}")
    return tuple(found)


def cells(section: Section, metric: Metric) -> pd.DataFrame:
    """`tables.cells` of ours."""
    return tables.cells(section, metric.quantity)


def points(found: pd.DataFrame, metric: Metric, section: Section) -> Points:
    """Of the cells that have a value."""
    return {(row["framework"], row["batch_size"]): _point(row, metric, section) for row in found.to_dict("records")
            if row["n"] > 0}  # fmt: skip


def _point(row: dict[Any, Any], metric: Metric, section: Section) -> Point:
    least = accuracy_step(section.condition.task.dataset) if metric is ACCURACY else LEAST_SPREAD * abs(row["mean"])
    return order.of_cell(row, least)


def exact(series: str, metric: Metric) -> Points:
    """Published figures: nothing is known of their spread, so they are taken at their word."""
    return {place: Point(value, value, value, 0) for place, value in literature.values(series, metric.name).items()}


def frameworks(found: Iterable[literature.Place]) -> list[str]:
    """Each once, in the reports' order."""
    return ordered(name for name, _ in found)


def listed(items: Iterable[object]) -> str:
    """ "4, 8 and 16"."""
    words = [str(item) for item in items]
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)
