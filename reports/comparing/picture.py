"""Draw dot plots of a comparison: for each quantity the ratio B/A of every cell with its interval, and a line at 1."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workloads.statistics import CONFIDENCE_PERCENT

from ..charts import Kind
from ..drawing import figures, frame, panels
from ..drawing.sizes import PAGE
from ..drawing.styles import series_style
from ..frameworks import Style, ordered, styles
from ..quantities import Quantity
from . import effect_words, headline
from .cell_tests import CellTest
from .comparison import Compared

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, ROW, AROUND = 3.7, 0.17, 1.0  # inches: width for a phone; height of a row; of title and axis together
MOST_BEYOND = 1.5  # limit of the axis beyond the values; a longer interval leaves the frame
LINEAR_BELOW = 3.0  # highest over lowest; below this the ticks are evenly spaced numbers
SHRUNK = 0.6  # of a marker
MEAN = "mean"
HOW = (
    f"A point is the ratio B/A of one batch size, the bar its {CONFIDENCE_PERCENT} % interval, which goes on beyond a "
    "frame that it meets; filled where the interval leaves 1 out. A point without a bar has one repeat on a side. The "
    "axis is logarithmic."
)


@dataclass(frozen=True)
class Dot:
    """A row of the plot; low and high are NaN without an interval."""

    label: str
    value: float
    low: float
    high: float

    @property
    def told(self) -> bool:
        """True if an interval excludes 1."""
        return not math.isnan(self.low) and effect_words.leaves_out_1(self.low, self.high)


Rows = dict[str, list[Dot]]  # of each framework


@dataclass(frozen=True)
class Picture:
    """A picture; `svg` is the text of the file."""

    svg: str
    alt: str


def of(compared: Compared) -> list[Picture]:
    """Draw a picture for each quantity with a ratio and a better direction."""
    means = headline.of(compared)
    pictures = []
    for mean in (mean for mean in means if not mean.framework):
        rows = _rows(compared.cells, [each for each in means if each.quantity is mean.quantity], mean.quantity)
        title = f"{effect_words.label(compared, mean.quantity)}, {compared.against}"
        axis = f"{effect_words.TIMES[mean.quantity.name].times} ({effect_words.BETTER[mean.quantity.better]})"
        alt = f"{title}: a point for each framework and batch size. {mean.sentence}."
        pictures.append(Picture(_svg(rows, title, axis, alt), alt))
    return pictures


def _rows(cells: Sequence[CellTest], means: Sequence[headline.GeometricMean], quantity: Quantity) -> Rows:
    rows: Rows = {}
    known = [cell for cell in cells if cell.quantity is quantity and not math.isnan(cell.shift)]
    for framework in ordered(cell.framework for cell in known):
        of_framework = sorted((c for c in known if c.framework == framework), key=lambda cell: cell.batch_size)
        rows[framework] = [Dot(str(cell.batch_size), *cell.effect) for cell in of_framework]
        rows[framework] += [Dot(MEAN, *mean.effect) for mean in means if mean.framework == framework]
    return rows


def _svg(rows: Rows, title: str, axis: str, alt: str) -> str:
    # In a dark page the ink is inverted, so everything that is not ink is transparent.
    with figures.styled(PAGE, {"text.color": panels.INK, "axes.labelcolor": panels.INK}):
        figure = drawn(rows, title, axis)
        file = io.StringIO()
        about = {"Date": None, "Title": frame.plain(title), "Description": frame.plain(alt)}
        figure.savefig(file, format="svg", transparent=True, metadata=about)
    return file.getvalue()


def drawn(rows: Rows, title: str, axis: str) -> Figure:
    """Draw a column of dots, with the frameworks below each other."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    count = sum(len(dots) + 1 for dots in rows.values())
    figure = Figure((WIDTH, AROUND + ROW * count), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    looks = styles(rows)
    place = 0
    labels: list[str] = []
    for framework, dots in rows.items():
        axes.annotate(
            frame.shortened(looks[framework].name), (0, place), (4, 0), xycoords=("axes fraction", "data"),
            textcoords="offset points", va="center", size=PAGE.small, weight="bold",
        )  # fmt: skip
        labels.append("")
        for dot in dots:
            place += 1
            labels.append(dot.label)
            _draw(axes, dot, place, looks[framework])
        axes.vlines(1, place - len(dots) + 0.5, place + 0.5, panels.INK, linewidth=0.9, zorder=2)  # not through a name
        place += 1
    axes.set_yticks(range(count), labels, size=PAGE.small)
    axes.set_ylim(count - 0.4, -0.8)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=figures.GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_title(title, loc="left", size=PAGE.text)
    axes.set_xlabel(axis, size=PAGE.small)
    axes.set_ylabel("Batch size", size=PAGE.small)
    _ratio_axis(axes, [dot for dots in rows.values() for dot in dots])
    return figure


def _draw(axes: Axes, dot: Dot, place: int, look: Style) -> None:
    settings = panels.line_settings(series_style(Kind.MEASURED, look), SHRUNK)
    colour = settings["color"]
    if not math.isnan(dot.low):
        axes.hlines(place, dot.low, dot.high, colour, linewidth=2.2 if dot.label == MEAN else 1.2, zorder=3)
    filled = settings | {"linestyle": "none", "markerfacecolor": colour if dot.told else "none"}
    axes.plot([dot.value], [place], zorder=4, **filled)


def _ratio_axis(axes: Axes, dots: Sequence[Dot]) -> None:
    """Draw the axis of ratios, with 1 on it."""
    from matplotlib.ticker import FuncFormatter, NullLocator

    values = [1.0, *(dot.value for dot in dots)]
    ends = [end for dot in dots for end in (dot.low, dot.high) if not math.isnan(end)]
    low = max(min([*values, *ends]), min(values) / MOST_BEYOND)
    high = min(max([*values, *ends]), max(values) * MOST_BEYOND)
    beyond = max((high / low) ** 0.04, 1.005)
    axes.set_xscale("log")
    axes.set_xlim(low / beyond, high * beyond)
    axes.set_xticks(ticks(low / beyond, high * beyond))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.10g}"))
    axes.tick_params(axis="x", labelsize=PAGE.small)


def ticks(low: float, high: float) -> list[float]:
    """List about six ticks of a ratio's axis, including 1."""
    from matplotlib.ticker import MaxNLocator

    if high / low < LINEAR_BELOW:
        found = MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(low, high)
        return [round(float(tick), 6) for tick in found if low <= tick <= high]
    first, last = math.ceil(math.log2(low)), math.floor(math.log2(high))
    step = max(1, math.ceil((last - first) / 6))
    return [2.0**power for power in range(first, last + 1) if power % step == 0]
