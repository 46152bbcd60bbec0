"""What is drawn inside the axes of a printed chart: lines with markers and bars, fitted lines, stacked areas."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..charts import Chart, Kind, Panel, Series
from ..frameworks import Style
from .looks import INK, Look, look, look_of_part

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SPACIOUS = 2.2  # points an inch: with more of them markers are smaller
SMALLEST = 0.5  # part of a marker's size
BESIDE = 0.008  # distance of two frameworks' points where there are bars: part of the axis
ROOM = 0.03  # beside the first and the last point: part of the axis
ABOVE = 1.06  # the top of the value axis, in heights of the highest point
ROOM_IN_LOG = 1.3  # the factor of it on a logarithmic axis, below too
LONGEST_BAR = 1.5  # the same where a bar reaches higher: no bar may press the points down
LONE_STACK = 0.05  # width of a stack without a neighbour: part of the axis


@dataclass(frozen=True)
class Values:
    """The value axis: its ends, and what is written on it."""

    ends: tuple[float, float]
    ticks: tuple[float, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True)
class Frame:
    """What the panels of a chart share: the places on the x axis and its ends, the value axis."""

    log: bool
    places: tuple[float, ...]
    ends: tuple[float, float]
    values: Values
    shrunk: float  # part of their size that markers have

    def moved(self, x: float, part: float) -> float:
        """x, further right by a part of the axis."""
        low, high = self.ends
        return x * (high / low) ** part if self.log else x + part * (high - low)


def frame_of(chart: Chart, values: Values, width: float) -> Frame:
    """`width` of an axis in inches."""
    places = tuple(sorted({x for panel in chart.panels for series in panel.series for x in series.x}))
    shrunk = min(1.0, max(SMALLEST, (SPACIOUS * width / len(places)) ** 0.5))
    low, high = places[0], places[-1]
    if chart.x_log:
        room = (high / low) ** ROOM if high > low else 2.0
        return Frame(True, places, (low / room, high * room), values, shrunk)
    room = (high - low) * ROOM or 0.5
    return Frame(False, places, (low - (room if low else 0.0), high + room), values, shrunk)


def value_ticks(chart: Chart) -> Values:
    """Numbers with as many decimals as the step between them has."""
    from matplotlib.ticker import LogLocator, MaxNLocator

    low, high = _value_ends(chart)
    if chart.y_log:
        found = LogLocator(subs=(1, 2, 5)).tick_values(low, high)
        ticks = tuple(float(tick) for tick in found if low <= tick <= high)
        return Values((low, high), ticks, tuple(f"{tick:,.10g}" for tick in ticks))
    found = MaxNLocator(nbins=7, steps=[1, 2, 5, 10]).tick_values(low, high)
    decimals = max(0, math.ceil(-math.log10(found[1] - found[0]) - 1e-9))
    ticks = tuple(float(tick) for tick in found if low <= tick <= high)
    return Values((low, high), ticks, tuple(f"{tick:z,.{decimals}f}" for tick in ticks))


def _value_ends(chart: Chart) -> tuple[float, float]:
    """From 0 on a linear axis, so that a height is an amount; a value above the full scale is shown, not cut off."""
    values, bars = [0.0], [0.0]
    for panel in chart.panels:
        values += [y for series in panel.series for y in series.y if y is not None]
        bars += [y for series in panel.series for y in series.high if y is not None]
        stack = [series.y for series in panel.series if series.kind is Kind.PART]
        values += [sum(y or 0.0 for y in column) for column in zip(*stack, strict=True)]
    if chart.y_log:
        above = [value for value in values if value > 0]
        return min(above) / ROOM_IN_LOG, max(above) * ROOM_IN_LOG
    lowest, highest = min(values) * ABOVE, max(values)
    if chart.full_scale is not None and highest <= chart.full_scale * (1 + 1e-9):
        return lowest, chart.full_scale
    return lowest, max(highest, min(max(bars), highest * LONGEST_BAR)) * ABOVE or 1.0


def draw(axes: Axes, panel: Panel, number: int, frame: Frame, styles: dict[str, Style]) -> dict[str, Any]:
    """Returns {label: what stands for it in the legend}. The line of series i has the SVG id panel-number-series-i."""
    stack = [series for series in panel.series if series.kind is Kind.PART]
    handles = _stacked(axes, stack, frame)
    fitted = {series.key for series in panel.series if series.kind is Kind.FIT}
    barred = [series.key for series in panel.series if series.low]
    for index, series in enumerate(panel.series):
        if series.kind is Kind.PART:
            continue
        own = look(series, styles[series.key], series.key not in fitted, bool(stack))
        aside = 0.0
        if series.low:
            aside = barred.index(series.key) - (len(barred) - 1) / 2
        step = min(BESIDE, 0.5 / len(frame.places) / max(1, len(barred)))
        line = _line(axes, series, own, frame, aside * step, f"panel-{number}-series-{index}")
        handles[series.label] = line
        if series.kind is Kind.MEASURED and series.key in fitted:
            handles[series.label] = _with_line(line, styles[series.key])
    return handles


def _with_line(points: Any, style: Style) -> Any:
    """For the legend: points, and the line that is fitted to them."""
    from matplotlib.lines import Line2D

    both = Line2D([], [])
    both.update_from(points)
    both.set(linestyle=style.line)
    return both


def _line(axes: Axes, series: Series, own: Look, frame: Frame, aside: float, gid: str) -> Any:
    """A gap where a value is missing; `aside`, a part of the axis, keeps bars from hiding bars."""
    xs = [frame.moved(x, aside) for x in series.x]
    behind = series.kind in (Kind.PUBLISHED_TABLE, Kind.PUBLISHED_CHART)
    size = own.size * frame.shrunk
    (line,) = axes.plot(
        xs,
        [math.nan if y is None else y for y in series.y],
        color=own.colour,
        linestyle=own.line,
        linewidth=own.width * frame.shrunk**0.5,
        marker=own.marker,
        markersize=size,
        markerfacecolor=own.fill,
        markeredgewidth=1.0 if behind else 1.4 * frame.shrunk,
        clip_on=False,
        zorder=2.5 if behind else 3,
        gid=gid,
    )
    if series.low:
        low, high = (np.array(ends, np.float64) for ends in (series.low, series.high))
        cap = max(size / 2, 1.5)
        axes.errorbar(
            xs, (low + high) / 2, (high - low) / 2, fmt="none", ecolor=own.colour, elinewidth=1.0, capsize=cap, zorder=3
        )
    return line


def _stacked(axes: Axes, parts: list[Series], frame: Frame) -> dict[str, Any]:
    """Areas upon each other; a place without neighbours has a narrow bar instead, for an area would have no width."""
    if not parts:
        return {}
    from matplotlib.patches import Patch

    known = [y is not None for y in parts[0].y]
    alone = [
        place
        for place, there in enumerate(known)
        if there and not any(known[near] for near in (place - 1, place + 1) if 0 <= near < len(known))
    ]
    xs = list(parts[0].x)
    joined = [there and place not in alone for place, there in enumerate(known)]
    below = [0.0 if there else math.nan for there in known]
    handles = {}
    for part in parts:
        colour, hatch = look_of_part(part.key)
        filled: dict[str, Any] = {"facecolor": colour, "hatch": hatch, "edgecolor": INK, "linewidth": 0.5}
        top = [base + (math.nan if y is None else y) for base, y in zip(below, part.y, strict=True)]
        if any(joined):
            axes.fill_between(xs, below, top, where=joined, **filled)
        for place in alone:
            ends = [frame.moved(xs[place], side * LONE_STACK / 2) for side in (-1, 1)]
            axes.fill_between(ends, [below[place]] * 2, [top[place]] * 2, **filled)
        handles[part.label] = Patch(**filled)
        below = top
    return handles
