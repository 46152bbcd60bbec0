"""Convert a chart to data for the page's script: the traces that print draws, too, in pixels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any

from ..charts import NOT_FROM_ZERO, Chart, Kind, Scale
from ..drawing.styles import SeriesStyle
from ..drawing.traces import Trace, legend, traces, x_span
from ..frameworks import Style
from .columns import rounded

DIGITS = 7
PIXELS = 1.2  # per point; more, as print's 4/3, would fill the smaller drawing
MARKERS = {  # in a box of 10 by 10
    "": "",
    "o": "M0,5 a5,5 0 1,0 10,0 a5,5 0 1,0 -10,0 Z",
    "s": "M0,0 H10 V10 H0 Z",
    "^": "M5,0 L10,9 H0 Z",
    "D": "M5,0 L10,5 L5,10 L0,5 Z",
    "<": "M0,5 L9,0 V10 Z",
    "v": "M0,0 L10,0 L5,9 Z",
    "P": "M3,0 H7 V3 H10 V7 H7 V10 H3 V7 H0 V3 H3 Z",
    "X": "M0,2 L2,0 L5,3 L8,0 L10,2 L7,5 L10,8 L8,10 L5,7 L2,10 L0,8 L3,5 Z",
}
DASHES = {"": [], "-": [], "--": [3.7, 1.6], "-.": [6.4, 1.6, 1, 1.6], ":": [1.3, 2]}  # in widths of the line

Indices = Callable[[Iterable[str]], list[int]]  # of trials, from their ids


def chart_data(chart: Chart, indices: Indices, frameworks: Mapping[str, Style]) -> dict[str, Any]:
    """Return the chart's data. Numbers have DIGITS significant digits, so that rounding them again agrees with the
    tables.
    """
    panels = traces(chart, frameworks)
    return {
        "title": chart.title,
        "xName": chart.x_name,
        "xLabel": chart.x_label,
        "yLabel": chart.y_label,
        "xScale": chart.x_scale,
        "places": chart.places if chart.x_scale is Scale.ORDINAL else None,
        "yLog": chart.y_log,
        "notFromZero": NOT_FROM_ZERO,
        "xSpan": x_span(chart),
        "panels": [
            {"title": panel.title, "traces": [_trace(trace, indices) for trace in shown]}
            for panel, shown in zip(chart.panels, panels, strict=True)
        ],
        "legend": [
            {"label": entry.label, "key": entry.key, "style": style_data(entry.style, entry.kind)}
            for entry in legend(panels)
        ],
    }


def _trace(trace: Trace, indices: Indices) -> dict[str, Any]:
    series = trace.series
    numbers = {"x": series.x, "y": series.y, "low": series.low, "high": series.high}
    numbers |= {"at": trace.at, "above": trace.above}
    return {
        "label": series.label,
        "key": series.key,
        "style": style_data(trace.style, series.kind),
        "aside": trace.aside * PIXELS,
        "linear": trace.linear,
        "logarithmic": trace.logarithmic,
        "trials": [indices(ids) for ids in series.trials],
        **{name: [rounded(value, DIGITS) for value in values] for name, values in numbers.items()},
    }


def style_data(style: SeriesStyle, kind: Kind) -> dict[str, Any]:
    """Return the style with the marker's outline in place of its name, and the lengths of the dashes."""
    return asdict(style) | {
        "area": kind is Kind.PART,
        "marker": MARKERS.get(style.marker, MARKERS["o"]),
        "size": style.size * PIXELS,
        "width": style.width * PIXELS if style.line else 0,
        "line": [length * style.width * PIXELS for length in DASHES[style.line]],
    }
