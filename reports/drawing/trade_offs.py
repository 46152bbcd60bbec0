"""Build the charts of the trade-off: speed against memory and against accuracy, a point per cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from workloads.words import format_count

from .. import tables
from ..charts import Chart, ChartSeries, Panel, Scale, SeriesKind
from ..conditions import Section
from ..frameworks import FrameworkNames, order_frameworks
from ..pareto import find_front
from ..quantities import ACCURACY, MEMORY, SPEED, Quantity
from ..tables import CellSummary, Place
from . import chart_words

AGAINST = (MEMORY, ACCURACY)
NAMES = tuple(f"{SPEED.name}-{quantity.name}" for quantity in AGAINST)
FRONT = "Pareto front"
BETTER = {(1, 1): "Up and right is better", (-1, 1): "Up and left is better"}
HOW = (
    "Numbers are batch sizes. A cell is on the front if, by means, no other cell of any framework is at least as good "
    "in both."
)

Cells = Mapping[Place, tuple[CellSummary, CellSummary]]  # of the other quantity, and of the speed
Point = tuple[float, float]


def build_charts(section: Section) -> list[Chart]:
    """Build the charts in NAMES, each where cells of two or more batch sizes have both values."""
    return [chart for quantity in AGAINST if (chart := _chart(section, quantity)) is not None]


def _chart(section: Section, quantity: Quantity) -> Chart | None:
    spec, speed = quantity.figure(section.condition), SPEED.figure(section.condition)
    if spec is None or speed is None:
        return None
    speeds = tables.compute_cells(section, SPEED)
    tried = {
        place: (cell, speeds[place])
        for place, cell in tables.compute_cells(section, quantity).items()
        if cell.status != tables.NOT_RUN
    }
    known = {place: pair for place, pair in tried.items() if all(cell.n for cell in pair)}
    if len({size for _, size in known}) < 2:
        return None
    better = (spec.better, speed.better)
    front = find_front({place: (cell.mean, fast.mean) for place, (cell, fast) in known.items()}, better)
    most = max(cell.n for pair in known.values() for cell in pair)
    title = f"{speed.label} against {_as_inner_word(spec.label)}"
    return Chart(
        name=f"{SPEED.name}-{quantity.name}",
        title=title,
        x_name=f"{spec.label}, {spec.unit}",
        y_label=f"{speed.label}, {speed.unit}",
        panels=(Panel("", (*_series(known, front, section.named), _front_line(known, front, better))),),
        alt=chart_words.join_sentences([title, _say_front(known, front, (spec.unit, speed.unit), section.named)]),
        lead=(lead := _lead(better, len(tried) - len(known), len(tried))),
        caption=f"{lead} {HOW} {chart_words.explain_repeats(most)}",
        x_scale=Scale.QUANTITY,
        theme=SPEED.theme,
        from_zero=False,
    )


def _as_inner_word(label: str) -> str:
    """Return a label as it is inside a sentence: "host memory", but "GPU memory"."""
    return label if label[:2].isupper() else label[:1].lower() + label[1:]


def _series(cells: Cells, front: Sequence[Place], named: FrameworkNames) -> list[ChartSeries]:
    """Build two series per framework: its cells in the order of their batch sizes, and those on the front."""
    series = []
    for name in order_frameworks(framework for framework, _ in cells):
        own = sorted(size for framework, size in cells if framework == name)
        best = [size for size in own if (name, size) in front]
        kinds = ((named(name), SeriesKind.CELL, own), (FRONT, SeriesKind.FRONT, best))
        series += [_points(label, name, kind, cells, sizes) for label, kind, sizes in kinds if sizes]
    return series


def _points(label: str, framework: str, kind: SeriesKind, cells: Cells, sizes: Sequence[int]) -> ChartSeries:
    pairs = [cells[framework, size] for size in sizes]
    x, y = (tuple(float(pair[place].mean) for pair in pairs) for place in (0, 1))
    trials = tuple(tuple(dict.fromkeys(trial for cell in pair for trial in cell.known)) for pair in pairs)
    return ChartSeries(label, framework, kind, x, y, trials=trials, names=tuple(map(str, sizes)))


def _front_line(cells: Cells, front: Sequence[Place], better: tuple[int, int]) -> ChartSeries:
    """Build the edge of what the front beats: steps, for nothing is known between two cells."""
    corners = [(float(cells[place][0].mean), float(cells[place][1].mean)) for place in front]
    steps: list[Point] = corners[:1]
    for one, other in pairwise(corners):
        x, y = (sign * min(sign * a, sign * b) for a, b, sign in zip(one, other, better, strict=True))
        steps += [(x, y), other]
    return ChartSeries(FRONT, "", SeriesKind.FRONT_LINE, *zip(*steps, strict=True))


def _lead(better: tuple[int, int], left_out: int, tried: int) -> str:
    """Say which way is better, and how many of the cells that were tried have no point."""
    missing = f" {left_out} of {format_count(tried, 'cell')} left out: value unknown." if left_out else ""
    return f"{BETTER[better]}. Line, filled: Pareto front.{missing}"


def _say_front(cells: Cells, front: Sequence[Place], units: tuple[str, str], named: FrameworkNames) -> str:
    found = []
    for name, size in front:
        means = (f"{tables.format_number(cell.mean)} {unit}"
                 for cell, unit in zip(cells[name, size], units, strict=True))  # fmt: skip
        found.append(f"{named(name)} {size} ({', '.join(means)})")
    return f"On the Pareto front, of {format_count(len(cells), 'cell')}: {'; '.join(found)}"
