"""Series of a chart from stored results: a framework's medians against batch size, with intervals and trials."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .. import tables
from ..charts import Kind, Series
from ..conditions import Section
from ..frameworks import display_name
from ..quantities import Quantity


@dataclass(frozen=True)
class Measured:
    """One series a framework; `most` is the largest number of repeats behind a point, 0 if no point has a value."""

    series: tuple[Series, ...]
    most: int


def against_batch_size(section: Section, quantity: Quantity) -> Measured:
    """A batch size at which a framework has no value is a gap in its line.

    Raises ValueError where the condition's device has no such quantity.
    """
    of_framework: dict[str, dict[int, Mapping[str, Any]]] = {}
    for (framework, size), cell in tables.by_place(section, quantity).items():
        of_framework.setdefault(framework, {})[size] = cell
    most = max((cell["n"] for cells in of_framework.values() for cell in cells.values()), default=0)
    return Measured(tuple(_of_framework(name, cells) for name, cells in of_framework.items()), most)


def _of_framework(framework: str, cells: Mapping[int, Mapping[str, Any]]) -> Series:
    every = cells.values()
    repeated = any(cell["n"] > 1 for cell in every)
    return Series(
        label=display_name(framework),
        key=framework,
        kind=Kind.MEASURED,
        x=tuple(map(float, cells)),
        y=known(cell["median"] for cell in every),
        low=known(cell["low"] for cell in every) if repeated else (),
        high=known(cell["high"] for cell in every) if repeated else (),
        trials=tuple(cell[tables.KNOWN] for cell in every),
    )


def known(values: Iterable[float]) -> tuple[float | None, ...]:
    """None for what is not finite."""
    return tuple(float(value) if math.isfinite(value) else None for value in values)
