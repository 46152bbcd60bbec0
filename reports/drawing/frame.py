"""Lay out what surrounds the panels of a figure: title, legend, name of the batch axis, caption; shorten names."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..charts import NOT_FROM_ZERO, Chart, Scale, SeriesKind
from . import panels
from .sizes import Layout, Size
from .traces import LegendEntry, compute_x_span

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend
    from matplotlib.text import Text

FAINT = "#404040"
NEARLY_WHOLE = 0.93  # share of the width filled by a line of letters of mean width
LONGEST_LABEL = 40  # characters
ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"
UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True)
class _Part:
    """A text or legend above or below the panels. `put` sets its y; `height` includes a margin, in inches."""

    put: Callable[[float], object]
    height: float


@dataclass(frozen=True)
class Around:
    """Parts around the panels: `above` from the highest down, `below` from the lowest up."""

    above: tuple[_Part, ...]
    below: tuple[_Part, ...]
    margin: float

    @property
    def height(self) -> float:
        """Height of all parts, in inches."""
        return sum(part.height for part in (*self.above, *self.below)) + self.margin


def build_frame(figure: Figure, chart: Chart, entries: list[LegendEntry], shrunk: float, layout: Layout) -> Around:
    """Build title, legend, name of the batch axis and caption; bare figures have no title and no caption."""
    size = layout.size
    left = size.margin / size.width
    names = _legend(figure, entries, shrunk, size)
    cut = f" ({NOT_FROM_ZERO})" if chart.x_scale is Scale.QUANTITY and compute_x_span(chart)[0] > 0 else ""
    x_label = figure.text(0.5, 0, replace_unprintable(f"{chart.x_label}{cut}"), ha="center", va="bottom")

    def part(shown: Text | Legend, put: Callable[[float], object]) -> _Part:
        return _Part(put, shown.get_window_extent().height / figure.dpi + size.margin)

    above, below = [part(names, lambda y: names.set_bbox_to_anchor((left, y)))], [part(x_label, x_label.set_y)]
    if not layout.bare:
        title = _wrapped(figure, chart.title, size.title, size)
        told = f"{chart.caption} {chart.provenance}"
        caption = _wrapped(figure, told, size.caption, size, va="bottom", color=FAINT, linespacing=1.3)
        above.insert(0, part(title, title.set_y))
        below.insert(0, part(caption, caption.set_y))
    return Around(tuple(above), tuple(below), size.margin)


def place_parts(figure: Figure, around: Around, whole: float) -> None:
    """Position each part in a figure of height `whole`, in inches; the panels get what is between."""
    figure.set_figheight(whole)
    top = bottom = around.margin
    for part in around.above:
        part.put(1 - top / whole)
        top += part.height
    for part in around.below:
        part.put(bottom / whole)
        bottom += part.height
    figure.tight_layout(pad=0.3, h_pad=1, w_pad=0.8)
    figure.set_layout_engine(None)  # otherwise saving would draw everything twice, to lay it out again
    rows = len({round(axes.get_position().y0, 6) for axes in figure.axes})
    _squeeze(figure, rows, bottom / whole, top / whole)


def _squeeze(figure: Figure, rows: int, below: float, above: float) -> None:
    """Leave these shares of the height free around panels that fill the figure; what is between rows stays as high.

    `tight_layout(rect=...)` does so, too, by measuring all texts once more.
    """
    found = figure.subplotpars
    between = found.hspace * (found.top - found.bottom) / (rows + found.hspace * (rows - 1))
    bottom, top = found.bottom + below, found.top - above
    each = (top - bottom - between * (rows - 1)) / rows
    figure.subplots_adjust(bottom=bottom, top=top, hspace=between / each)


def _wrapped(figure: Figure, words: str, points: float, size: Size, va: str = "top", **settings: Any) -> Text:
    """Wrap text into lines of the figure's width."""
    text = figure.text(size.margin / size.width, 0, replace_unprintable(words), size=points, va=va, **settings)
    if words:
        each = text.get_window_extent().width / figure.dpi / len(words)
        lines = textwrap.wrap(text.get_text(), int(NEARLY_WHOLE * size.width / each), break_on_hyphens=False)
        text.set_text("\n".join(lines))
    return text


def _legend(figure: Figure, entries: list[LegendEntry], shrunk: float, size: Size) -> Legend:
    """Build the legend.

    With published series, each framework gets a column with its kinds below each other, if the width allows. Otherwise
    labels are arranged in rows.
    """
    kinds = [kind for kind in SeriesKind if any(entry.kind is kind for entry in entries)]
    of_key: dict[str, dict[SeriesKind, LegendEntry]] = {}
    for entry in entries:
        of_key.setdefault(entry.key, {})[entry.kind] = entry
    choices: list[tuple[int, list[LegendEntry | None]]] = []
    if len(kinds) > 1 and all(SeriesKind.MEASURED in of_kind for of_kind in of_key.values()):
        choices.append((len(of_key), [of_kind.get(kind) for of_kind in of_key.values() for kind in kinds]))
    for columns in range(len(entries), 0, -1):
        choices.append((columns, [entry for column in range(columns) for entry in entries[column::columns]]))
    for columns, chosen in choices:
        legend = figure.legend(
            [_handle(entry, shrunk) for entry in chosen],
            [shorten(entry.label) if entry else "" for entry in chosen],
            loc="upper left",
            ncols=columns,
            frameon=False,
            fontsize=size.legend,
            handlelength=3.2,
            handletextpad=0.6,
            columnspacing=1.5,
            labelspacing=0.25,
            borderaxespad=0,
            borderpad=0,
        )
        if columns == 1 or legend.get_window_extent().width <= (size.width - 2 * size.margin) * figure.dpi:
            break
        legend.remove()
    return legend


def _handle(entry: LegendEntry | None, shrunk: float) -> Artist:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    if entry is None:
        return Line2D([], [], linestyle="none")
    if entry.kind is SeriesKind.PART:
        return Patch(**panels.area_settings(entry.style))
    return Line2D([], [], **panels.line_settings(entry.style, shrunk))


def replace_unprintable(text: str) -> str:
    """Replace characters that fonts or XML files cannot hold, because names come from outside."""
    return UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def shorten(label: str, longest: int = LONGEST_LABEL) -> str:
    """Make a label printable and at most `longest` characters long; a longer one ends in an ellipsis."""
    label = replace_unprintable(label)
    return label if len(label) <= longest else label[: longest - 1] + ELLIPSIS
