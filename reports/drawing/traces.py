"""What print and page both draw of a chart, worked out once: places, stacks, spans of the axes, styles, the legend."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from ..charts import Chart, Kind, Panel, Series
from ..frameworks import Style, styles
from .styles import SeriesStyle, part_style, series_style

Span = tuple[float, float]
ROOM = 0.03  # beside the first and the last point: part of the axis
BESIDE = 0.008  # distance of two frameworks' points where there are bars: part of the axis
ABOVE = 1.06  # the top of the value axis, in heights of the highest point
ROOM_IN_LOG = 1.3  # the factor of it on a logarithmic axis, below too
LONGEST_BAR = 1.5  # the same where a bar reaches higher: no bar may press the points down


@dataclass(frozen=True)
class Trace:
    """A series in its panel. `at` are its x, moved where bars would hide bars; `above` is the sum of a part and of
    those that it lies on, () for what is no part. `linear` and `logarithmic` are what a value axis needs to show it.
    """

    series: Series
    style: SeriesStyle
    in_legend: SeriesStyle | None  # a fitted line has no entry: it goes through the points of its own look
    at: tuple[float, ...]
    above: tuple[float | None, ...]
    linear: Span
    logarithmic: Span | None


@dataclass(frozen=True)
class Entry:
    """Of a legend. `key` is "" where series of several frameworks have this label."""

    label: str
    key: str
    kind: Kind
    style: SeriesStyle


def traces(chart: Chart, frameworks: Mapping[str, Style] | None = None) -> tuple[tuple[Trace, ...], ...]:
    """Of each panel. `frameworks` are all that a reader sees, None where they are this chart's."""
    frameworks = styles(chart.frameworks) if frameworks is None else frameworks
    return tuple(_of_panel(chart, panel, frameworks) for panel in chart.panels)


def _of_panel(chart: Chart, panel: Panel, frameworks: Mapping[str, Style]) -> tuple[Trace, ...]:
    barred = list(dict.fromkeys(series.key for series in panel.series if series.low))
    step = min(BESIDE, 0.5 / len(chart.places) / max(1, len(barred)))
    fitted = {series.key for series in panel.series if series.kind is Kind.FIT}
    stack: list[float | None] = [0.0] * max((len(part.x) for part in panel.parts), default=0)
    panel_traces = []
    for series in panel.series:
        if series.kind is Kind.PART:
            stack = [None if y is None or base is None else base + y for base, y in zip(stack, series.y, strict=True)]
        above = tuple(stack) if series.kind is Kind.PART else ()
        style, in_legend = _styles(series, frameworks, series.key not in fitted, bool(panel.parts))
        aside = step * (barred.index(series.key) - (len(barred) - 1) / 2) if series.low else 0.0
        panel_traces.append(
            Trace(
                series,
                style,
                in_legend,
                tuple(moved(chart, x, aside) for x in series.x),
                above,
                _linear(chart, series, above or series.y),
                _logarithmic(series),
            )
        )
    return tuple(panel_traces)


def _styles(
    series: Series, frameworks: Mapping[str, Style], joined: bool, over_areas: bool
) -> tuple[SeriesStyle, SeriesStyle | None]:
    """(in the panel, in the legend)."""
    if series.kind is Kind.PART:
        return part_style(series.key), part_style(series.key)
    framework = frameworks[series.key]
    style = series_style(series.kind, framework, joined, over_areas)
    return style, None if series.kind is Kind.FIT else series_style(series.kind, framework, True, over_areas)


def legend(panels: tuple[tuple[Trace, ...], ...]) -> list[Entry]:
    """Each label once, in the order of the series."""
    entries: dict[str, Entry] = {}
    for trace in itertools.chain(*panels):
        if trace.in_legend:
            label, key = trace.series.label, trace.series.key
            several = label in entries and entries[label].key != key
            entries[label] = Entry(label, "" if several else key, trace.series.kind, trace.in_legend)
    return list(entries.values())


def x_span(chart: Chart) -> Span:
    """The ends of the x axis; from 0 where the first place is 0."""
    low, high = chart.places[0], chart.places[-1]
    if chart.x_log:
        room = (high / low) ** ROOM if high > low else 2.0
        return low / room, high * room
    room = (high - low) * ROOM or 0.5
    return low - (room if low else 0.0), high + room


def moved(chart: Chart, x: float, part: float) -> float:
    """x, further right by a part of the axis."""
    low, high = x_span(chart)
    return x * (high / low) ** part if chart.x_log else x + part * (high - low)


def _linear(chart: Chart, series: Series, reached: tuple[float | None, ...]) -> Span:
    """From 0, so that a height is an amount; a value above the full scale is shown, not cut off."""
    values = [0.0, *(y for y in reached if y is not None)]
    bars = [y for y in series.high if y is not None]
    low, high = min(values) * ABOVE, max(values)
    if chart.full_scale is not None and high <= chart.full_scale * (1 + 1e-9):
        return low, chart.full_scale
    return low, max(high, min(max(bars, default=0.0), high * LONGEST_BAR)) * ABOVE


def _logarithmic(series: Series) -> Span | None:
    """None where there is nothing above 0."""
    values = [y for y in series.y if y is not None and y > 0]
    return (min(values) / ROOM_IN_LOG, max(values) * ROOM_IN_LOG) if values else None
