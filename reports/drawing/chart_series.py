"""Series of a chart from stored results: a framework's medians against batch size, with intervals and trials."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from workloads.trial import Status, TrialResult

from .. import tables
from ..charts import Kind, Series
from ..conditions import Condition
from ..frameworks import display_name, ordered
from ..quantities import Quantity


@dataclass(frozen=True)
class Measured:
    """One series a framework; `most` is the largest number of repeats behind a point, 0 if no point has a value."""

    series: tuple[Series, ...]
    most: int


def against_batch_size(results: Sequence[TrialResult], quantity: Quantity, condition: Condition) -> Measured:
    """`results` are those of one section. A batch size at which a framework has no value is a gap in its line.

    Raises ValueError where the condition's device has no such quantity.
    """
    source = quantity.source(condition)
    if source is None:
        raise ValueError(f"{quantity.name}: there is none on {condition.device}")
    places: dict[tuple[str, int], list[TrialResult]] = {}
    for result in sorted(results, key=lambda result: result.spec.repeat):
        places.setdefault((result.spec.framework, result.spec.batch_size), []).append(result)
    sizes = sorted({size for _, size in places})
    series, most = [], 0
    for framework in ordered(name for name, _ in places):
        here = [places.get((framework, size), []) for size in sizes]
        cells = [tables.cell(own, quantity, source) for own in here]
        trials = tuple(_behind(own, source.figure) for own in here)
        series.append(_of_framework(framework, sizes, cells, trials))
        most = max([most, *(cell["n"] for cell in cells)])
    return Measured(tuple(series), most)


def _of_framework(
    framework: str, sizes: list[int], cells: list[dict[str, Any]], trials: tuple[tuple[str, ...], ...]
) -> Series:
    repeated = any(cell["n"] > 1 for cell in cells)
    return Series(
        label=display_name(framework),
        key=framework,
        kind=Kind.MEASURED,
        x=tuple(map(float, sizes)),
        y=known(cell["median"] for cell in cells),
        low=known(cell["low"] for cell in cells) if repeated else (),
        high=known(cell["high"] for cell in cells) if repeated else (),
        trials=trials,
    )


def known(values: Iterable[float]) -> tuple[float | None, ...]:
    """None for what is not finite."""
    return tuple(float(value) if math.isfinite(value) else None for value in values)


def _behind(results: Sequence[TrialResult], figure: str) -> tuple[str, ...]:
    """The ids of the trials that have the figure."""
    return tuple(
        result.spec.id
        for result in results
        if result.status is Status.OK and tables.figure_of(result, figure).value is not None
    )
