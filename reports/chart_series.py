"""Series of a chart from stored results: a framework's medians against batch size, with intervals and trials."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from workloads.trial import Status, TrialResult

from . import tables
from .charts import Kind, Series
from .conditions import Condition
from .frameworks import display_name, ordered
from .quantities import Quantity


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
    cells = tables.cells(results, quantity, condition)
    behind = _trials(results, source.figure)
    series = tuple(
        _of_framework(framework, cells[cells["framework"] == framework], behind)
        for framework in ordered(cells["framework"])
    )
    return Measured(series, int(cells["n"].max()))


def _of_framework(framework: str, cells: pd.DataFrame, behind: dict[tuple[str, int], tuple[str, ...]]) -> Series:
    sizes = [int(size) for size in cells["batch_size"]]
    repeated = bool((cells["n"] > 1).any())
    return Series(
        label=display_name(framework),
        key=framework,
        kind=Kind.MEASURED,
        x=tuple(map(float, sizes)),
        y=known(cells["median"]),
        low=known(cells["low"]) if repeated else (),
        high=known(cells["high"]) if repeated else (),
        trials=tuple(behind.get((framework, size), ()) for size in sizes),
    )


def known(values: Sequence[float] | pd.Series) -> tuple[float | None, ...]:
    """None for what is not finite."""
    return tuple(float(value) if math.isfinite(value) else None for value in values)


def _trials(results: Sequence[TrialResult], figure: str) -> dict[tuple[str, int], tuple[str, ...]]:
    """{(framework, batch size): the ids of the trials that have the figure}."""
    found: dict[tuple[str, int], list[str]] = {}
    for result in results:
        if result.status is Status.OK and tables.figure_of(result, figure).value is not None:
            found.setdefault((result.spec.framework, result.spec.batch_size), []).append(result.spec.id)
    return {place: tuple(ids) for place, ids in found.items()}
