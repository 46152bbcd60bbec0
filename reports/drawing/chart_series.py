"""Build the series of a chart from stored results: means against batch size, with intervals and trials."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from workloads.statistics import Described

from .. import tables
from ..charts import ChartSeries, Scale, SeriesKind
from ..conditions import Section
from ..quantities import Quantity

BATCH_AXIS = "Batch size, images"
CLOSE = 1.1  # ratio of sizes; closer points coincide on a logarithmic axis of a few powers of two


@dataclass(frozen=True)
class FrameworkSeries:
    """One series per framework; `most` is the largest number of repeats of a point, 0 if no point has a value."""

    series: tuple[ChartSeries, ...]
    most: int


def build_series(section: Section, quantity: Quantity) -> FrameworkSeries:
    """Build the series; a batch size at which a framework has no value is a gap in its line.

    Raises ValueError if the condition's device has no such quantity.
    """
    of_framework: dict[str, dict[int, tables.CellSummary]] = {}
    for (framework, size), cell in tables.compute_cells(section, quantity).items():
        of_framework.setdefault(framework, {})[size] = cell
    most = max((cell.n for cells in of_framework.values() for cell in cells.values()), default=0)
    return FrameworkSeries(
        tuple(
            build_framework_series(name, section.named(name), cells, tuple(cell.known for cell in cells.values()))
            for name, cells in of_framework.items()
        ),
        most,
    )


def choose_scale(series: Iterable[ChartSeries]) -> Scale:
    """Choose the scale: batch sizes are evenly spaced if two neighbours would be hard to distinguish."""
    sizes = sorted({x for one in series for x in one.x})
    return Scale.ORDINAL if any(larger < CLOSE * size for size, larger in pairwise(sizes)) else Scale.LOG


def build_framework_series(
    framework: str,
    name: str,
    values: Mapping[int, Described] | Mapping[float, Described],
    trials: tuple[tuple[str, ...], ...],
) -> ChartSeries:
    """Build a series from {x: its values}: means, with the ends of the intervals if there is more than one repeat.

    `name` is the framework's in the report. `trials` are those of each x.
    """
    repeated = any(each.n > 1 for each in values.values())

    def finite(numbers: Iterable[float]) -> tuple[float | None, ...]:
        return tuple(float(number) if math.isfinite(number) else None for number in numbers)

    return ChartSeries(
        label=name,
        key=framework,
        kind=SeriesKind.MEASURED,
        x=tuple(map(float, values)),
        y=finite(each.mean for each in values.values()),
        low=finite(each.low for each in values.values()) if repeated else (),
        high=finite(each.high for each in values.values()) if repeated else (),
        trials=trials,
    )
