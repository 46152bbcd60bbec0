"""Draw inside the axes of a printed chart: lines with markers and bars, fitted lines, stacked areas."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ..charts import Chart, SeriesKind
from .styles import SeriesStyle
from .traces import Trace, shift_right

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

INK = "#222222"  # of the axes, and around areas
LONE_STACK = 0.05  # width of a stack without a neighbour: share of the axis


def draw(axes: Axes, chart: Chart, number: int, panel: tuple[Trace, ...], shrunk: float) -> None:
    """Draw a panel. The line of series i has the SVG id panel-number-series-i; `shrunk` scales markers."""
    _stack(axes, chart, [trace for trace in panel if trace.series.kind is SeriesKind.PART])
    for index, trace in enumerate(panel):
        if trace.series.kind is not SeriesKind.PART:
            _line(axes, trace, shrunk).set_gid(f"panel-{number}-series-{index}")
    if chart.line_at is not None:
        axes.axhline(chart.line_at, color=axes.spines["left"].get_edgecolor(), linewidth=0.9, zorder=2)


def line_settings(style: SeriesStyle, shrunk: float) -> dict[str, Any]:
    """Return matplotlib's settings for a line and for its sample in the legend."""
    from matplotlib.colors import to_hex, to_rgb

    # Mixed with white instead of transparent: otherwise a line would show through its markers.
    red, green, blue = (1 - style.opacity * (1 - channel) for channel in to_rgb(style.colour))
    colour = to_hex((red, green, blue))
    return {
        "color": colour,
        "linestyle": style.line or "none",
        "linewidth": style.width * shrunk**0.5,
        "marker": style.marker,
        "markersize": style.size * shrunk,
        "markerfacecolor": (colour if style.fill == style.colour else style.fill) or "none",
        "markeredgewidth": 1.0 if style.opacity < 1 else min(1.4, 1.5 * style.width) * shrunk,
    }


def area_settings(style: SeriesStyle) -> dict[str, Any]:
    """Return matplotlib's settings for an area."""
    return {"facecolor": style.fill, "hatch": style.hatch, "edgecolor": INK, "linewidth": style.width}


def _line(axes: Axes, trace: Trace, shrunk: float) -> Line2D:
    """Draw a line, with a gap where a value is missing."""
    from matplotlib.transforms import ScaledTranslation

    series, settings = trace.series, line_settings(trace.style, shrunk)
    there = axes.transData + ScaledTranslation(trace.aside * shrunk / 72, 0, axes.figure.dpi_scale_trans)
    values = [math.nan if y is None else y for y in series.y]
    behind = trace.style.opacity < 1 or series.kind is SeriesKind.FRONT_LINE
    zorder = 2.5 if behind else 3.0
    (line,) = axes.plot(trace.at, values, clip_on=False, zorder=zorder, transform=there, **settings)
    if series.low:
        low, high = (np.array(ends, np.float64) for ends in (series.low, series.high))
        cap = max(settings["markersize"] / 2, 1.5)
        axes.errorbar(
            trace.at,
            (low + high) / 2,
            (high - low) / 2,
            fmt="none",
            ecolor=settings["color"],
            elinewidth=max(1.0, shrunk**0.5),
            capsize=cap,
            zorder=3,
            transform=there,
        )
    return line


def _stack(axes: Axes, chart: Chart, parts: list[Trace]) -> None:
    """Draw stacked areas; a point without neighbours gets a narrow bar, because an area would have no width."""
    for part in parts:
        known = [y is not None for y in part.series.y]
        near = [left or right for left, right in zip([False, *known], [*known[1:], False], strict=False)]
        above = np.array(part.above, np.float64)
        below = above - np.array(part.series.y, np.float64)
        settings = area_settings(part.style)
        joined = list(map(all, zip(known, near, strict=True)))
        if any(joined):
            axes.fill_between(part.at, below, above, where=joined, **settings)
        for point, x in enumerate(part.at):
            if known[point] and not near[point]:
                ends = [shift_right(chart, x, side * LONE_STACK / 2) for side in (-1, 1)]
                axes.fill_between(ends, below[point], above[point], **settings)
