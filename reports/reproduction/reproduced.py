"""Compare a published metric with what a section measured: our values, and what prevents a comparison."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from workloads.records.status import Status
from workloads.statistics import accuracy_step
from workloads.words import format_count

from .. import order, tables
from ..conditions import Section
from ..frameworks import order_frameworks
from ..order import Point, Points
from ..quantities import ACCURACY, MEMORY_PARTS
from ..tables import CellSummary, Place
from .publication import Article, Metric

COUNTED = ("parameters", "optimizer", "statistics")  # parts of the memory that are sizes of arrays
Repeats = Mapping[Place, Mapping[int, float]]  # {(framework, batch size): {repeat: value}}


@dataclass(frozen=True)
class Reproduced:
    """Values that `section` measured of `metric`, one of the publication's metrics."""

    section: Section
    publication: Article
    metric: Metric

    @property
    def same(self) -> bool:
        """True if our figure on this section's device is the published one, not a replacement for it."""
        return self.metric.quantity.figure(self.section.condition) is self.metric.quantity.figures[0]

    @property
    def label(self) -> str:
        """Label of what we measured: "CPU usage" where the published figure is GPU usage."""
        spec = self.metric.quantity.figure(self.section.condition)
        return spec.label if spec else self.metric.label

    @property
    def obstacles(self) -> tuple[str, ...]:
        """Reasons why no verdict is possible; empty if one is."""
        task, epochs, published = self.section.condition.task, self.section.condition.passes.epochs, self.publication
        learnt = self.metric.quantity.figures[0].learnt
        reasons = {
            "CPU run": not self.same and bool(self.metric.series),
            f"other model, {task.workload}": published.workload not in ("", task.workload),
            f"other data set, {task.dataset}": published.dataset not in ("", task.dataset),
            f"{format_count(epochs, 'epoch')}, published after {published.epochs}": learnt
            and published.epochs not in (0, epochs),
        }
        others = self.metric.other_conditions(self.section.condition)
        return (*(reason for reason, holds in reasons.items() if holds), *others)

    @property
    def obstacles_of_claims(self) -> tuple[str, ...]:
        """Reasons why no claim can be tested; a stand-in task is accepted here because a claim needs no figure."""
        task, published = self.section.condition.task, self.publication
        if not published.is_stand_in(task):
            return self.obstacles
        there = replace(task, workload=published.workload, dataset=published.dataset)
        section = replace(self.section, condition=replace(self.section.condition, task=there))
        return replace(self, section=section).obstacles

    @property
    def cells(self) -> Mapping[Place, CellSummary]:
        """Our cells, from `tables`; none if our kind of device has no such figure."""
        known = self.metric.quantity.figure(self.section.condition)
        return tables.compute_cells(self.section, self.metric.quantity) if known else {}

    def cell(self, place: Place) -> CellSummary:
        """Return our cell; one that was not run where there is none."""
        return self.cells.get(place) or tables.summarise_cell((), self.metric.quantity.figures[0])

    @property
    def most(self) -> int:
        """Largest number of repeats in a cell."""
        return max((cell.n for cell in self.cells.values()), default=0)

    @cached_property
    def points(self) -> Points:
        """Points of our cells that have a value.

        Parts of the memory are asked for once for all repeats. What a framework counts is exact. A single value derived
        from peaks says nothing about its spread.
        """
        points = order.read_points(self.section, self.metric.quantity) if self.cells else {}
        if self.metric.quantity not in MEMORY_PARTS:
            return points
        exact = self.metric.quantity.name in COUNTED
        reach = 0.0 if exact else math.nan
        return {place: Point(p.value, p.value - reach, p.value + reach, 1) for place, p in points.items()}

    @cached_property
    def repeats(self) -> Repeats:
        """Values per repeat of our cells that have a value, in the quantity's unit.

        Parts of the memory are asked for once for all repeats, so they have one value, of the first repeat.
        """
        spec = self.metric.quantity.figure(self.section.condition)
        known: dict[Place, dict[int, float]] = {}
        if spec is None:
            return known
        for place, results in tables.group_by_place(self.section).items():
            for result in results:
                compared = result.status is not Status.DIVERGED and tables.is_shown(result, spec)
                value = tables.find_figure(result, spec.name).value if compared else None
                if value is not None and not (place in known and self.metric.quantity in MEMORY_PARTS):
                    known.setdefault(place, {})[result.spec.draw.repeat] = value * spec.factor
        return known

    @property
    def least_spread(self) -> float:
        """Least spread of a difference; for accuracies the share of one test image, in points.

        It is 0 for all else, because each cell has a least spread of its own.
        """
        task = self.section.condition.task
        return accuracy_step(task.dataset, task.source) if self.metric.quantity is ACCURACY else 0.0

    def pairs(self, series: str, framework: str, from_size: int = 0) -> dict[int, tuple[float, float]]:
        """Map {batch size: (ours, published)}, sorted by batch size."""
        published, source = self.metric.values[series], self.metric.source(framework)
        return {
            size: (point.value, published[source, size])
            for (name, size), point in sorted(self.points.items())
            if name == framework and size >= from_size and (source, size) in published
        }

    def distances(self) -> dict[str, tuple[float, int]]:
        """Map {framework: (root-mean-square difference, number of batch sizes)}, from the metric's `from_size` on."""
        distances = {}
        for framework in list_frameworks(self.points):
            pairs = self.pairs(self.metric.series[0], framework, self.metric.from_size)
            if pairs:
                distances[framework] = compute_rms(pairs), len(pairs)
        return distances


def compute_rms(pairs: Mapping[int, tuple[float, float]]) -> float:
    """Root mean square of the differences, in their unit. Raises ZeroDivisionError without any."""
    return math.sqrt(sum((a - b) ** 2 for a, b in pairs.values()) / len(pairs))


def list_frameworks(places: Iterable[Place]) -> list[str]:
    """List each framework once, in the reports' order."""
    return order_frameworks(name for name, _ in places)
