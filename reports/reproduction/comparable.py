"""Which of our quantities stands beside which published one, and what keeps the two from being compared."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from .. import order, tables
from ..conditions import Section
from ..frameworks import ordered
from ..order import Point
from ..quantities import QUANTITIES, Quantity
from ..spread import LEAST_SPREAD, accuracy_step
from . import literature


@dataclass(frozen=True)
class Metric:
    """A published quantity, and ours beside it. `unit` is that of a difference."""

    name: str  # in the literature
    label: str
    quantity: Quantity
    unit: str
    decimals: int
    of_gpu: bool  # published for a GPU: a CPU has another quantity in its place
    alone: str = ""  # the framework it is published for, if for one: every framework is held against it

    def same(self, section: Section) -> bool:
        return not self.of_gpu or section.condition.placement.device_kind == "cuda"

    def framework(self, framework: str) -> str:
        """Whose published figure this framework is held against."""
        return self.alone or framework


QUANTITIES_BY_NAME = {quantity.name: quantity for quantity in QUANTITIES}
USAGE = Metric("gpu_usage_percent", "GPU usage", QUANTITIES_BY_NAME["usage"], "points", 1, True)
MEMORY = Metric("gpu_memory_mib", "GPU memory", QUANTITIES_BY_NAME["memory"], "MiB", 0, True)
ACCURACY = Metric("accuracy_percent", "Test accuracy", QUANTITIES_BY_NAME["accuracy"], "points", 2, False, "tensorflow")
METRICS = (USAGE, MEMORY, ACCURACY)


Points = dict[literature.Place, Point]


def label(section: Section, metric: Metric) -> str:
    """What we measured: "CPU usage" where the published one is GPU usage."""
    source = metric.quantity.source(section.condition)
    return source.label if source else metric.label


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
    return ordered(name for name, _ in found)


def listed(items: Iterable[object]) -> str:
    """ "4, 8 and 16"."""
    told = [str(item) for item in items]
    return " and ".join([", ".join(told[:-1]), told[-1]]) if len(told) > 1 else "".join(told)
