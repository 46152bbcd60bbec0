"""A chart as the page's script wants it, and how its series look."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..charts import Chart, Kind, Series
from ..drawing.looks import OTHER_PART, PARTS
from ..frameworks import styles
from .pack import ranges, rounded

DIGITS = 7
SYMBOLS = {
    "o": "circle",
    "s": "rect",
    "^": "triangle",
    "D": "diamond",
    "v": "path://M0,0 L10,0 L5,9 Z",
    "P": "path://M3,0 H7 V3 H10 V7 H7 V10 H3 V7 H0 V3 H3 Z",
    "X": "path://M0,2 L2,0 L5,3 L8,0 L10,2 L7,5 L10,8 L8,10 L5,7 L2,10 L0,8 L3,5 Z",
}
DASHES: dict[str, list[float]] = {"-": [], "--": [7, 3], "-.": [8, 3, 2, 3], ":": [2, 3]}

Indices = Callable[[Iterable[str]], list[int]]  # of trials, from their ids


def chart_data(chart: Chart, indices: Indices) -> dict[str, Any]:
    """Numbers to DIGITS significant digits, so that rounding them again gives what the tables say."""
    return {
        "title": chart.title,
        "xLabel": chart.x_label,
        "yLabel": chart.y_label,
        "xLog": chart.x_log,
        "yLog": chart.y_log,
        "fullScale": chart.full_scale,
        "panels": [
            {"title": panel.title, "series": [_series(series, indices) for series in panel.series]}
            for panel in chart.panels
        ],
    }


def _series(series: Series, indices: Indices) -> dict[str, Any]:
    found: dict[str, Any] = {"label": series.label, "key": series.key, "kind": series.kind.value}
    for name in ("x", "y", "low", "high"):
        found[name] = [rounded(value, DIGITS) for value in getattr(series, name)]
    found["trials"] = [ranges(indices(ids)) for ids in series.trials]
    return found


def looks(charts: Iterable[Chart], frameworks: Iterable[str]) -> dict[str, dict[str, Any]]:
    """{key: colour, symbol, size, dashes} of every framework, and of every other key of a series."""
    keys = {series.key: series.kind for chart in charts for panel in chart.panels for series in panel.series}
    parts = [key for key, kind in keys.items() if kind is Kind.PART]
    rivals = {*frameworks, *(key for key in keys if key not in parts)}
    found: dict[str, dict[str, Any]] = {
        key: {
            "colour": style.colour,
            "symbol": SYMBOLS.get(style.marker, "circle"),
            "size": style.size + 2,
            "dashes": DASHES.get(style.line, []),
        }
        for key, style in styles(rivals).items()
    }
    for key in parts:
        colour, _ = PARTS.get(key, OTHER_PART)
        found[key] = {"colour": colour, "symbol": "rect", "size": 10}
    return found
