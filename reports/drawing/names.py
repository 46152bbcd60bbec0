"""Write names beside the points of a panel, where they cover no marker and no other name; one without room is left out.

Of several places that are free, the one that covers least of the lines is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING

from ..charts import SeriesKind
from .sizes import Size
from .traces import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Point = tuple[float, float]
Box = tuple[float, float, float, float]  # left, bottom, right, top; points
DIGIT, HEIGHT = 0.64, 0.74  # width and height of a digit, relative to its size
GAP = 1.5  # points between a marker and its name
FROM_AXIS = 4.0  # points that a name keeps from the value axis, which may have a mark
DIAGONAL = 0.7  # share of that where the name is at a corner
STEP = 2.0  # points between the places of a line that a name should not cover
SIDES = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))  # where a name is tried, in this order


def write(axes: Axes, panel: Sequence[Trace], number: int, shrunk: float, size: Size) -> None:
    """Write the names of a panel whose axes have their final place.

    That of a point of series i has the SVG id panel-number-name-i-place.
    """
    points = 72 / axes.figure.dpi
    left, bottom, right, top = (float(end) * points for end in axes.bbox.extents)
    at = {index: _find_points(axes, trace, points) for index, trace in enumerate(panel)}
    named = [(index, place) for index, trace in enumerate(panel) if trace.series.kind is SeriesKind.CELL
             for place in range(len(trace.series.names))]  # fmt: skip
    reach = {index: panel[index].style.size * shrunk / 2 for index, _ in named}
    taken = [_around(at[index][place], reach[index], reach[index]) for index, place in named]
    taken += [(min(a, c), min(b, d), max(a, c), max(b, d)) for index, trace in enumerate(panel)
              if trace.series.kind is SeriesKind.FRONT_LINE for (a, b), (c, d) in pairwise(at[index])]  # fmt: skip
    lines = list(chain.from_iterable(_walk(at[index]) for index in reach))
    height = HEIGHT * size.small
    for index, place in sorted(named, key=lambda found: _rank(panel, *found)):
        series, (x, y) = panel[index].series, at[index][place]
        width = len(series.names[place]) * DIGIT * size.small
        free = []
        for across, up in SIDES:
            gap = (reach[index] + GAP) * (DIAGONAL if across and up else 1.0)
            shift = across * (gap + width / 2), up * (gap + height / 2)
            box = _around((x + shift[0], y + shift[1]), width / 2, height / 2)
            inside = left + FROM_AXIS <= box[0] and box[2] <= right and bottom <= box[1] and box[3] <= top
            if inside and not any(_overlap(box, other) for other in taken):
                covered = sum(box[0] < at_x < box[2] and box[1] < at_y < box[3] for at_x, at_y in lines)
                free.append((covered, box, shift))
        if free:
            _, box, shift = min(free, key=lambda found: found[0])
            taken.append(box)
            text = axes.annotate(
                series.names[place], (panel[index].at[place], series.y[place] or 0.0), shift, ha="center",
                va="center_baseline", textcoords="offset points", size=size.small, zorder=5,
            )  # fmt: skip
            text.set_gid(f"panel-{number}-name-{index}-{place}")


def _walk(points: Sequence[Point]) -> Iterator[Point]:
    """Yield places along a line through points, one every STEP."""
    for (a, b), (c, d) in pairwise(points):
        count = int(math.hypot(c - a, d - b) / STEP) + 1
        yield from ((a + (c - a) * part / count, b + (d - b) * part / count) for part in range(count))


def _find_points(axes: Axes, trace: Trace, points: float) -> list[Point]:
    """List where the points of a series are in the figure, in points; none if it needs no names and is no edge."""
    if not trace.series.names and trace.series.kind is not SeriesKind.FRONT_LINE:
        return []
    found = axes.transData.transform([(x, y or 0.0) for x, y in zip(trace.at, trace.series.y, strict=True)])
    return [(float(x) * points, float(y) * points) for x, y in found]


def _rank(panel: Sequence[Trace], index: int, place: int) -> int:
    """Rank a name: those of the front come first, then the ends of a framework's line."""
    series = panel[index].series
    front = (trace.series for trace in panel if trace.series.kind is SeriesKind.FRONT)
    if any(each.key == series.key and series.names[place] in each.names for each in front):
        return 0
    return 1 if place in (0, len(series.names) - 1) else 2


def _around(at: Point, half_width: float, half_height: float) -> Box:
    return at[0] - half_width, at[1] - half_height, at[0] + half_width, at[1] + half_height


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
