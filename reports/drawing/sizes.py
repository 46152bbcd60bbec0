"""Define figure sizes: width, type sizes and the number of panels side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Size:
    """Size of a figure: lengths in inches, type in points as printed at that width. Figures are not meant to be scaled.

    `heights` are those of a row of panels with its numbers, by number of columns; the last one also holds for more.
    With a `shape` (width / height) they are minimum heights, and the rows share what the texts leave. A figure without
    enough space for them grows in both directions.
    """

    width: float
    heights: tuple[float, ...]
    most_columns: int
    beside: float  # part of the width for the value axis's name and numbers
    margin: float
    title: float
    text: float
    legend: float
    numbers: float  # of the axes of a single panel
    small: float  # of the axes of several panels
    caption: float
    thick: float = 1.0  # factor for markers and lines, relative to a page
    shape: float | None = None

    def row_height(self, columns: int) -> float:
        """Height of a row with so many panels."""
        return self.heights[min(columns, len(self.heights)) - 1]

    def as_high_as(self, height: float) -> Size:
        """Return a size of this height with the same shape and type."""
        return replace(self, width=height * self.shape) if self.shape else self

    @property
    def settings(self) -> dict[Any, Any]:
        """Settings for matplotlib."""
        lines = {"axes.linewidth": 0.8, "xtick.major.width": 0.8, "ytick.major.width": 0.8}
        ticks = {"xtick.major.size": 3.5, "ytick.major.size": 3.5}
        return {"font.size": self.text, **{name: each * self.thick for name, each in (lines | ticks).items()}}


PAGE = Size(
    width=7.0,
    heights=(4.05, 3.1, 2.7, 2.5),
    most_columns=4,
    beside=1.0,
    margin=0.1,
    title=10.0,
    text=9.0,
    legend=8.5,
    numbers=9.0,
    small=7.5,
    caption=7.0,
)
COLUMN = Size(
    width=3.4,
    heights=(2.3, 1.8),
    most_columns=2,
    beside=0.7,
    margin=0.05,
    title=9.0,
    text=8.0,
    legend=7.5,
    numbers=7.5,
    small=7.0,
    caption=7.0,
)
SLIDE = Size(
    width=40 / 3,
    heights=(3.6, 3.2, 2.8, 2.4),
    most_columns=4,
    beside=1.8,
    margin=0.25,
    title=22.0,
    text=18.0,
    legend=17.0,
    numbers=17.0,
    small=14.0,
    caption=11.0,
    thick=2.0,
    shape=16 / 9,
)
SIZES: Mapping[str, Size] = {"column": COLUMN, "page": PAGE, "slide": SLIDE}


@dataclass(frozen=True)
class Layout:
    """Layout of every figure of a report. `bare`: without title and caption, for a text that has its own.

    `stems` are those of the figures that are drawn as files; None means all.
    """

    size: Size = PAGE
    bare: bool = False
    stems: tuple[str, ...] | None = None


USUAL = Layout()
