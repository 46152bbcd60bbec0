"""Describe a chart once, for print (drawing/figures.py) and for the page: series and labels, no drawing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from .table import Theme


class SeriesKind(StrEnum):
    """Kind of a series; each kind has its own look."""

    MEASURED = "measured"
    PUBLISHED_TABLE = "published-table"
    PUBLISHED_CHART = "published-chart"
    FIT = "fit"
    PART = "part"  # of the memory: stacked
    PART_LINE = "part-line"  # the same, where a stack would hide it
    CELL = "cell"  # a framework's cells, of two quantities
    FRONT = "front"  # those of them on the Pareto front
    FRONT_LINE = "front-line"  # through those of all frameworks


PARTS = (SeriesKind.PART, SeriesKind.PART_LINE)


class Scale(StrEnum):
    """Scale of the horizontal axis."""

    LOG = "log"  # base 2
    LINEAR = "linear"
    ORDINAL = "ordinal"  # evenly spaced positions
    QUANTITY = "quantity"  # linear, of a quantity instead of batch sizes or epochs; need not start at 0


NOT_FROM_ZERO = "axis does not start at 0"
SCALE_NAMES = {Scale.LOG: "logarithmic", Scale.ORDINAL: "evenly spaced"}


@dataclass(frozen=True)
class ChartSeries:
    """A series; `x`, `y` and, unless empty, `low`, `high` and `trials` have the same length.

    None in `y` is a gap. `low` and `high` are the ends of the bar at a point; `trials` are the ids it was computed
    from. `key` gives colour and marker: a framework's name or a part's. `names` are written beside the points: the
    batch sizes, where x is another quantity.
    """

    label: str
    key: str
    kind: SeriesKind
    x: tuple[float, ...]
    y: tuple[float | None, ...]
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()
    trials: tuple[tuple[str, ...], ...] = ()
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Panel:
    """One pair of axes. `title` is "" if the chart has one panel; `key` is the framework that all of it is about."""

    title: str
    series: tuple[ChartSeries, ...]
    key: str = ""

    @property
    def stacked(self) -> tuple[ChartSeries, ...]:
        """Parts that are stacked."""
        return tuple(series for series in self.series if series.kind is SeriesKind.PART)


@dataclass(frozen=True)
class Chart:
    """A chart. `x_name` does not mention the scale. `full_scale` is the top of the value axis; None = the data decide.

    `from_zero`: the value axis starts at 0, so that a height is an amount. Without it, the axis may start higher.
    `line_at`: value of a line across the panels, None without one. `alt` says in a sentence or two, from the data, what
    the chart shows. `caption` says how to read it. `provenance` says where its numbers come from, the same for all
    charts of a chapter. `lead`: the beginning of the caption that has to be read first, "" for none. `cells` of a chart
    across sections: (section's number, framework, batch size).
    """

    name: str  # stem of its files, unique within a chapter
    title: str
    x_name: str
    y_label: str
    panels: tuple[Panel, ...]
    alt: str
    caption: str
    provenance: str = ""
    x_scale: Scale = Scale.LOG
    full_scale: float | None = None
    from_zero: bool = True
    y_log: bool = False  # only if every value is above 0
    line_at: float | None = None
    theme: Theme = Theme.RUN
    lead: str = ""
    cells: frozenset[tuple[int, str, int]] = frozenset()

    @property
    def series(self) -> tuple[ChartSeries, ...]:
        """Series of all panels."""
        return tuple(series for panel in self.panels for series in panel.series)

    @property
    def frameworks(self) -> set[str]:
        """Keys of all series that are about one framework."""
        return {series.key for series in self.series if series.kind not in (*PARTS, SeriesKind.FRONT_LINE)}

    @property
    def heading(self) -> str:
        """Short title: what is shown, where the axis of batch sizes needs no mention."""
        return self.title if self.x_scale is Scale.QUANTITY else self.y_label

    @property
    def x_label(self) -> str:
        """Name of the axis, with its scale unless that is linear."""
        scale = SCALE_NAMES.get(self.x_scale)
        return f"{self.x_name} ({scale})" if scale else self.x_name

    @cached_property
    def places(self) -> tuple[float, ...]:
        """Sorted x values of all series."""
        return tuple(sorted({x for series in self.series for x in series.x}))
