"""Where everything of a printed chart lies, in inches: worked out, for a solver takes longer than the drawing."""

from __future__ import annotations

import itertools
import math
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from ..charts import Chart, Kind, Series

WIDTH, MARGIN = 7.0, 0.1
LEFT, RIGHT, BETWEEN = 0.78, 0.16, 0.22  # beside the axes, left at least; from panel to panel
TITLE_POINTS, PANEL_POINTS, TEXT_POINTS, LEGEND_POINTS, CAPTION_POINTS = 10.0, 9.0, 9.0, 8.5, 7.0
SMALL_TICK_POINTS = 7.5  # where several panels stand in a row
LINE_SPACING = 1.3
CHARACTER, DIGIT = 0.53, 0.64  # width of one in its size: DejaVu Sans, on the average of a line
INCH = 72.0  # points
LONE_HEIGHT = 3.6
ROW_HEIGHTS = {1: 2.9, 2: 2.5, 3: 2.1, 4: 1.9}  # of the axes, by columns
HANDLE, PAD, COLUMN_GAP = 3.2, 0.6, 1.5  # of the legend, in its size
LONGEST_LABEL = 40
UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
Rectangle = tuple[float, float, float, float]


@dataclass(frozen=True)
class Layout:
    """Rectangles (left, bottom, width, height) are parts of the figure, as matplotlib wants them; heights in inches."""

    height: float
    columns: int
    axes: tuple[Rectangle, ...]
    title: str
    caption: str
    title_top: float  # parts of the height
    legend_top: float
    x_label_at: tuple[float, float]
    caption_bottom: float


def layout(chart: Chart, value_labels: Sequence[str], tick_rows: int, legend_rows: int) -> Layout:
    """`value_labels`: those of the value axis; `tick_rows`: lines of tick labels below an axis."""
    count = len(chart.panels)
    columns = columns_of(count)
    rows = -(-count // columns)
    titles, captions = wrapped(chart.title, TITLE_POINTS), wrapped(chart.caption, CAPTION_POINTS)
    head = MARGIN + _lines(len(titles), TITLE_POINTS) + 0.06
    legend = _lines(legend_rows, LEGEND_POINTS) + 0.1
    above = 0.24 if any(panel.title for panel in chart.panels) else 0.08
    ticks = 0.1 + _lines(tick_rows, tick_points(count))
    each = LONE_HEIGHT if count == 1 else ROW_HEIGHTS[columns]
    foot = 0.28 + _lines(len(captions), CAPTION_POINTS) + MARGIN
    height = head + legend + rows * (above + each + ticks) + foot
    left, width = left_of(value_labels, count), axes_width(value_labels, count)
    tops = [height - head - legend - row * (above + each + ticks) - above for row in range(rows)]
    lefts = [left + column * (width + BETWEEN) for column in range(columns)]
    return Layout(
        height=height,
        columns=columns,
        axes=tuple(
            (lefts[number % columns] / WIDTH, (tops[number // columns] - each) / height, width / WIDTH, each / height)
            for number in range(count)
        ),
        title="\n".join(titles),
        caption="\n".join(captions),
        title_top=1 - MARGIN / height,
        legend_top=1 - head / height,
        x_label_at=((left + WIDTH - RIGHT) / 2 / WIDTH, (foot - 0.02) / height),
        caption_bottom=MARGIN / height,
    )


def columns_of(panels: int) -> int:
    """Four in a row at most, and rows as full as can be."""
    if panels <= 4:
        return panels
    return 3 if panels <= 6 or panels == 9 else 4


def axes_width(value_labels: Sequence[str], panels: int) -> float:
    """Inches."""
    columns = columns_of(panels)
    return (WIDTH - left_of(value_labels, panels) - RIGHT - BETWEEN * (columns - 1)) / columns


def left_of(value_labels: Sequence[str], panels: int) -> float:
    """Inches to the left of the axes: the same for all charts as long as their numbers are not too long."""
    return max(LEFT, room_for_numbers(value_labels, panels) + TEXT_POINTS * LINE_SPACING / INCH + MARGIN / 2)


def room_for_numbers(value_labels: Sequence[str], panels: int) -> float:
    """Inches from the axes to the foot of the value axis' name: its tick labels lie between."""
    return 0.16 + max(map(len, value_labels), default=0) * DIGIT * tick_points(panels) / INCH


def tick_points(panels: int) -> float:
    """Size of a tick's label: smaller where several panels share the figure."""
    return TEXT_POINTS if panels == 1 else SMALL_TICK_POINTS


def legend_columns(every: Sequence[Series]) -> list[list[str]]:
    """Labels, each once; a fitted line has none, for it goes through the points of its own look.

    Where there are published series, frameworks stand side by side and their kinds below each other, "" where there is
    none; else labels stand in rows, as many in one as fit into the width.
    """
    named = [one for one in every if one.kind is not Kind.FIT]
    of_key: dict[str, dict[Kind, str]] = {}
    for one in named:
        of_key.setdefault(one.key, {})[one.kind] = one.label
    kinds = [kind for kind in Kind if any(kind in own for own in of_key.values())]
    apart = [[own.get(kind, "") for kind in kinds] for own in of_key.values()]
    if len(kinds) > 1 and all(Kind.MEASURED in own for own in of_key.values()) and _fits(apart):
        return apart
    labels = list(dict.fromkeys(one.label for one in named))
    for rows in range(1, len(labels) + 1):
        columns = -(-len(labels) // rows)
        found = [labels[column::columns] for column in range(columns)]
        if _fits(found):
            return found
    return [labels]


def _fits(columns: list[list[str]]) -> bool:
    widest = [min(max(map(len, column)), LONGEST_LABEL) * CHARACTER + HANDLE + PAD for column in columns]
    return (sum(widest) + COLUMN_GAP * (len(columns) - 1)) * LEGEND_POINTS / INCH <= WIDTH - 2 * MARGIN


def wrapped(text: str, points: float) -> list[str]:
    """In lines of the figure's width."""
    return textwrap.wrap(
        plain(text), break_on_hyphens=False, width=int((WIDTH - 2 * MARGIN) / (points * CHARACTER / INCH))
    )


def plain(text: str) -> str:
    """What a font and an XML file can hold: names come from outside."""
    return UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def shortened(label: str, longest: int = LONGEST_LABEL) -> str:
    """Printable, and of `longest` characters at most, the last then an ellipsis."""
    label = plain(label)
    return label if len(label) <= longest else label[: longest - 1] + "\N{HORIZONTAL ELLIPSIS}"


def tick_labels(sizes: Sequence[float], width: float, rows_allowed: bool) -> list[str]:
    """Labels of places on a logarithmic axis of `width` inches; "" where there is no room.

    Neighbours too close for labels side by side are written in up to three rows; where rows are not allowed every
    second, third, ... label is kept, counted from the last.
    """
    places = [math.log2(size) for size in sizes]
    per_inch = (places[-1] - places[0] or 1.0) / (width * 0.92)
    points = TEXT_POINTS if rows_allowed else SMALL_TICK_POINTS
    lengths = [(len(named(size)) + 1.0) * DIGIT * points / INCH * per_inch for size in sizes]
    if not rows_allowed:
        return _every_nth(sizes, places, lengths)
    ends = [-math.inf] * 3
    labels = []
    for size, place, length in zip(sizes, places, lengths, strict=True):
        row = next((row for row, end in enumerate(ends) if place - length / 2 >= end), None)
        labels.append("" if row is None else "\n" * row + named(size))
        if row is not None:
            ends[row] = place + length / 2
    return labels


def named(size: float) -> str:
    """In up to 10 significant digits; a whole number without a point."""
    return f"{size:.10g}"


def _every_nth(sizes: Sequence[float], places: list[float], lengths: list[float]) -> list[str]:
    last = len(sizes) - 1
    for step in range(1, len(sizes) + 1):
        kept = [index for index in range(len(sizes)) if (last - index) % step == 0]
        fits = all(
            places[right] - places[left] >= (lengths[left] + lengths[right]) / 2
            for left, right in itertools.pairwise(kept)
        )
        if fits:
            break
    return [named(size) if index in kept else "" for index, size in enumerate(sizes)]


def _lines(count: int, points: float) -> float:
    """Height in inches."""
    return count * points * LINE_SPACING / INCH
