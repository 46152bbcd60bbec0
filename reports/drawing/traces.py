"""Compute once what print and page both draw of a chart: positions, stacks, spans of the axes, styles, the legend."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ..charts import PARTS, Chart, ChartSeries, Panel, Scale, SeriesKind
from ..frameworks import Style, choose_styles
from .styles import FRONT_LINE, SeriesStyle, choose_part_line_style, choose_part_style, choose_series_style

Span = tuple[float, float]
ROOM = 0.03  # before the first and after the last point: share of the axis
ROOM_FOR_NAMES = 0.08  # the same where points have names
ABOVE = 1.06  # top of the value axis, as a multiple of the highest point
CUT = 0.2  # an axis may start above 0 if the lowest value is above this share of the highest
LEAST_ROOM = 0.01  # margin above and below what is drawn on such an axis: share of the highest value
ROOM_IN_LOG = 1.3  # margin on a logarithmic axis, as a factor, above and below
LONGEST_BAR = 1.5  # as ABOVE, for a bar that reaches higher; limits how far bars may compress the points


@dataclass(frozen=True)
class Trace:
    """A series in its panel.

    `at` are its x positions on the axis. It is drawn `aside` points further right so that bars do not hide other bars.
    `above` is the top edge of a stacked part: its own values plus those of the parts below; () for anything else.
    `linear` and `logarithmic` are the spans that a value axis needs to show it.
    """

    series: ChartSeries
    style: SeriesStyle
    in_legend: SeriesStyle | None  # None for a fitted line, whose points have the entry, and for a Pareto front
    at: tuple[float, ...]
    aside: float
    above: tuple[float | None, ...]
    linear: Span | None
    logarithmic: Span | None


@dataclass(frozen=True)
class LegendEntry:
    """LegendEntry of a legend. `key` is "" if series of several frameworks share this label."""

    label: str
    key: str
    kind: SeriesKind
    style: SeriesStyle


def build_traces(chart: Chart, frameworks: Mapping[str, Style] | None = None) -> tuple[tuple[Trace, ...], ...]:
    """Compute the traces of each panel. `frameworks` are all that the reader sees; None means this chart's."""
    frameworks = choose_styles(chart.frameworks) if frameworks is None else frameworks
    return tuple(_of_panel(chart, panel, frameworks) for panel in chart.panels)


def _of_panel(chart: Chart, panel: Panel, frameworks: Mapping[str, Style]) -> tuple[Trace, ...]:
    aside = _aside(panel, frameworks)
    over_parts = any(series.kind in PARTS for series in panel.series)
    room = _room(chart)
    fitted = {series.key for series in panel.series if series.kind is SeriesKind.FIT}
    stack: list[float | None] = [0.0] * max((len(part.x) for part in panel.stacked), default=0)
    panel_traces = []
    for series in panel.series:
        if series.kind is SeriesKind.PART:
            stack = [None if y is None or base is None else base + y for base, y in zip(stack, series.y, strict=True)]
        above = tuple(stack) if series.kind is SeriesKind.PART else ()
        style, in_legend = _styles(series, frameworks, series.key not in fitted, over_parts)
        panel_traces.append(
            Trace(
                series,
                style,
                in_legend,
                tuple(find_position(chart, x) for x in series.x),
                aside[series.key] if series.low else 0.0,
                above,
                _from_zero(chart, series, above or series.y) if room is None else _cut(chart, series, room),
                _logarithmic(series),
            )
        )
    return tuple(panel_traces)


def _aside(panel: Panel, frameworks: Mapping[str, Style]) -> dict[str, float]:
    """Compute {framework with bars: offset in points}.

    The offsets span half of the smallest marker's width on each side, so that every point still covers its position.
    """
    barred = list(dict.fromkeys(series.key for series in panel.series if series.low))
    width = min((frameworks[key].size for key in barred), default=0.0)
    last = max(1, len(barred) - 1)
    return {key: width * (number / last - 0.5) if len(barred) > 1 else 0.0 for number, key in enumerate(barred)}


def _styles(
    series: ChartSeries, frameworks: Mapping[str, Style], joined: bool, over_parts: bool
) -> tuple[SeriesStyle, SeriesStyle | None]:
    """Return the styles (in the panel, in the legend)."""
    if series.kind in PARTS:
        style = choose_part_style(series.key) if series.kind is SeriesKind.PART else choose_part_line_style(series.key)
        return style, style
    if series.kind is SeriesKind.FRONT_LINE:
        return FRONT_LINE, None
    framework = frameworks[series.key]
    style = choose_series_style(series.kind, framework, joined, over_parts)
    return style, None if series.kind in (SeriesKind.FIT, SeriesKind.FRONT) else choose_series_style(
        series.kind, framework, True, over_parts
    )


def list_legend(panels: tuple[tuple[Trace, ...], ...]) -> list[LegendEntry]:
    """List each label once, in the order of the series."""
    entries: dict[str, LegendEntry] = {}
    for trace in itertools.chain(*panels):
        if trace.in_legend:
            label, key = trace.series.label, trace.series.key
            several = label in entries and entries[label].key != key
            entries[label] = LegendEntry(label, "" if several else key, trace.series.kind, trace.in_legend)
    return list(entries.values())


def find_position(chart: Chart, x: float) -> float:
    """Position of x on the axis: its index where the positions are evenly spaced."""
    return float(chart.places.index(x)) if chart.x_scale is Scale.ORDINAL else x


def compute_x_span(chart: Chart) -> Span:
    """Return the ends of the x axis; a linear axis whose first value is 0 starts at 0.

    That of a quantity does so, too, where its lowest value is at most a share CUT of its highest.
    """
    low, high = (find_position(chart, x) for x in (chart.places[0], chart.places[-1]))
    if chart.x_scale is Scale.QUANTITY:
        room = (high - low) * ROOM_FOR_NAMES or abs(high) * ROOM or 0.5
        return 0.0 if 0 <= low <= CUT * high else low - room, high + room
    if chart.x_scale is Scale.LOG:
        room = (high / low) ** ROOM if high > low else 2.0
        return low / room, high * room
    room = (high - low) * ROOM or 0.5
    from_zero = chart.x_scale is Scale.LINEAR and low == 0
    return low - (0.0 if from_zero else room), high + room


def shift_right(chart: Chart, at: float, part: float) -> float:
    """Shift a position on the axis to the right by a share of its length."""
    low, high = compute_x_span(chart)
    return at * (high / low) ** part if chart.x_scale is Scale.LOG else at + part * (high - low)


def compute_y_span(chart: Chart, panels: Iterable[Iterable[Trace]]) -> Span:
    """Return the ends of the value axis, which all panels share."""
    each = [trace.logarithmic if chart.y_log else trace.linear for panel in panels for trace in panel]
    each += [] if chart.line_at is None else [(chart.line_at, chart.line_at)]
    lows, highs = zip(*filter(None, each), strict=True)
    return min(lows), max(highs) or 1.0


def _room(chart: Chart) -> float | None:
    """Margin above and below what is drawn; None if the value axis starts at 0."""
    lowest = min((y for series in chart.series for y in _known(series.y, series.low)), default=0.0)
    highest = max((y for series in chart.series for y in _known(series.y)), default=0.0)
    if chart.from_zero or lowest <= CUT * highest:
        return None
    return max((ABOVE - 1) * (highest - lowest), LEAST_ROOM * highest)


def _cut(chart: Chart, series: ChartSeries, room: float) -> Span | None:
    """Span for an axis that need not start at 0; None if there is nothing to show."""
    drawn = list(_known(series.y, series.low, series.high))
    if not drawn:
        return None
    low, high = min(drawn) - room, max(drawn) + room
    within = chart.full_scale is not None and all(y <= chart.full_scale for y in _known(series.y))
    return low, min(high, chart.full_scale or high) if within else high


def _from_zero(chart: Chart, series: ChartSeries, reached: tuple[float | None, ...]) -> Span:
    """Span for an axis from 0; a value above the full scale is shown, not cut off."""
    values = [0.0, *_known(reached)]
    low, high = min(values) * ABOVE, max(values)
    if chart.full_scale is not None and high <= chart.full_scale * (1 + 1e-9):
        return low, chart.full_scale
    return low, max(high, min(max(_known(series.high), default=0.0), high * LONGEST_BAR)) * ABOVE


def _known(*columns: tuple[float | None, ...]) -> Iterator[float]:
    return (y for column in columns for y in column if y is not None)


def _logarithmic(series: ChartSeries) -> Span | None:
    """Span for a logarithmic axis; None if no value is above 0."""
    values = [y for y in _known(series.y) if y > 0]
    return (min(values) / ROOM_IN_LOG, max(values) * ROOM_IN_LOG) if values else None
