"""Charts for print: a Chart drawn with matplotlib as PNG and SVG, the same chart always the same file."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..charts import Chart, Kind
from . import panels
from .traces import Entry, Trace, legend, traces, x_span

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend
    from matplotlib.text import Text

FORMATS = ("png", "svg")
DPI = 200
WIDTH, MARGIN = 7.0, 0.1  # inches
HEIGHTS = {1: 4.05, 2: 3.1, 3: 2.7, 4: 2.5}  # of a row of panels with its numbers, by columns
TITLE_POINTS, TEXT_POINTS, LEGEND_POINTS, SMALL_POINTS, CAPTION_POINTS = 10.0, 9.0, 8.5, 7.5, 7.0
GRID, FAINT = "#D8D8D8", "#404040"
SPACIOUS = 2.2  # points an inch: with more of them markers are smaller
SMALLEST = 0.5  # part of a marker's size
DIGIT, LABEL_ROWS = 0.64, 3  # width of a digit in its size; of tick labels
NEARLY_WHOLE = 0.93  # of the width is filled by a line of mean letters
LONGEST_LABEL, LONGEST_TITLES = 40, 80  # characters: of a label, of the titles in a row
UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
SETTINGS: dict[Any, Any] = {
    "font.size": TEXT_POINTS,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": panels.INK,
    "hatch.linewidth": 0.6,
    "text.hinting": "none",  # at this resolution it shows nowhere and takes time
    "text.parse_math": False,  # a dollar in a name is a dollar
    "svg.hashsalt": "batchwise",  # the same results give the same file
}


def draw(chart: Chart, stem: Path, formats: Collection[str] = FORMATS) -> list[Path]:
    """Write `stem`.png and `stem`.svg, those of the two that are among `formats`; returns their paths.

    Raises OSError where a file cannot be written.
    """
    paths = {name: stem.with_name(f"{stem.name}.{name}") for name in FORMATS if name in formats}
    if not paths:
        return []
    # Here, not above: tables need no drawing library, and its import takes as long as all of them.
    import matplotlib as mpl

    with mpl.rc_context(SETTINGS):
        save(drawn(chart), list(paths.values()), {"Title": plain(chart.title), "Description": plain(chart.alt)})
    return list(paths.values())


def save(figure: Figure, paths: Iterable[Path], about: dict[str, str]) -> None:
    """As PNG and SVG, by the endings; `about` goes into the file. Raises OSError."""
    for path in paths:
        if path.suffix == ".png":
            _save_png(figure, path, about)
        else:
            figure.savefig(path, metadata=about | {"Date": None})


def _save_png(figure: Figure, path: Path, about: dict[str, str]) -> None:
    """In 256 colours: less than half of the bytes, and nobody sees by what they are off."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image, PngImagePlugin

    figure.set_dpi(DPI)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # type: ignore[no-untyped-call]
    pixels = canvas.buffer_rgba()  # type: ignore[no-untyped-call]
    picture = Image.frombuffer("RGBA", canvas.get_width_height(), pixels).convert("RGB")
    info = PngImagePlugin.PngInfo()
    for name, text in about.items():
        info.add_text(name, text)
    few = picture.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(path, pnginfo=info, dpi=(DPI, DPI))


def drawn(chart: Chart) -> Figure:
    """The whole picture. Raises ValueError for a chart without a point."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    shown, columns = traces(chart), columns_of(len(chart.panels))
    rows = -(-len(shown) // columns)
    width = (WIDTH - 1) / columns  # nearly that of the axes, inches
    shrunk = min(1.0, max(SMALLEST, (SPACIOUS * width / len(chart.places)) ** 0.5))
    figure = Figure((WIDTH, HEIGHTS[columns] * rows))
    FigureCanvasAgg(figure)  # texts are measured with it
    every = figure.subplots(rows, columns, sharey=True, squeeze=False).ravel()
    for number, (axes, panel) in enumerate(zip(every, shown, strict=False)):
        panels.draw(axes, chart, number, panel, shrunk)
        axes.set_title(shortened(chart.panels[number].title, LONGEST_TITLES // columns), loc="left", size=TEXT_POINTS)
        axes.grid(axis="y", color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
        _batch_axis(axes, chart, width, TEXT_POINTS if columns == 1 else SMALL_POINTS)
        if number % columns == 0:
            axes.set_ylabel(shortened(chart.y_label + (" (logarithmic)" if chart.y_log else "")))
        else:
            axes.tick_params(axis="y", left=False)
    for axes in every[len(shown) :]:
        axes.remove()
    _value_axis(every[0], chart, shown)
    _text_around(figure, chart, legend(shown), shrunk)
    return figure


def columns_of(panels: int) -> int:
    """Four in a row at most, and rows as full as can be."""
    if panels <= 4:
        return panels
    return 3 if panels <= 6 or panels == 9 else 4


def _batch_axis(axes: Axes, chart: Chart, width: float, size: float) -> None:
    """The places of a logarithmic axis, `width` inches long, are named; a linear one counts whole numbers of its own.

    Neighbours too close for labels side by side are written in up to three rows; a label without room is left out.
    """
    from matplotlib.ticker import MaxNLocator

    low, high = x_span(chart)
    axes.set_xlim(low, high)
    axes.tick_params(labelsize=size)
    if not chart.x_log:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))
        return
    points = width * 72 / math.log(high / low)
    ends, labels = [-math.inf] * LABEL_ROWS, []
    for x in chart.places:
        middle, name = points * math.log(x), f"{x:.10g}"
        half = (len(name) + 1) * DIGIT * size / 2
        row = next((row for row, end in enumerate(ends) if middle - half >= end), None)
        labels.append("" if row is None else "\n" * row + name)
        if row is not None:
            ends[row] = middle + half
    axes.set_xscale("log", base=2)
    axes.set_xticks(chart.places, labels)
    axes.set_xticks([], minor=True)


def _value_axis(axes: Axes, chart: Chart, shown: Sequence[Sequence[Trace]]) -> None:
    """Of all panels: they share it."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator, StrMethodFormatter

    if chart.y_log:
        axes.set_yscale("log", nonpositive="clip")
    spans = [trace.logarithmic if chart.y_log else trace.linear for panel in shown for trace in panel]
    lows, highs = zip(*filter(None, spans), strict=True)
    axes.set_ylim(min(lows), max(highs) or 1.0)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)) if chart.y_log else MaxNLocator(7, steps=[1, 2, 5, 10]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))


def _text_around(figure: Figure, chart: Chart, entries: list[Entry], shrunk: float) -> None:
    """Title, legend, name of the batch axis and caption, each as high as it is; the panels get what is between."""
    left = MARGIN / WIDTH
    title = _wrapped(figure, chart.title, TITLE_POINTS)
    caption = _wrapped(figure, f"{chart.caption} {chart.provenance}", CAPTION_POINTS, color=FAINT, linespacing=1.3)
    names = _legend(figure, entries, shrunk)
    x_label = figure.text(0.5, 0, plain(chart.x_label), ha="center", va="bottom")
    heights = [part.get_window_extent().height / figure.dpi + MARGIN for part in (title, names, x_label, caption)]
    whole = figure.get_figheight() + sum(heights) + MARGIN
    figure.set_figheight(whole)
    title.set_position((left, 1 - MARGIN / whole))
    names.set_bbox_to_anchor((left, 1 - (MARGIN + heights[0]) / whole))
    caption.set_position((left, MARGIN / whole))
    x_label.set_y((MARGIN + heights[3]) / whole)
    below, above = (MARGIN + heights[2] + heights[3]) / whole, (MARGIN + heights[0] + heights[1]) / whole
    figure.tight_layout(rect=(0, below, 1, 1 - above), pad=0.3, h_pad=1, w_pad=0.8)


def _wrapped(figure: Figure, words: str, points: float, **settings: Any) -> Text:
    """In lines of the figure's width."""
    text = figure.text(0, 0, plain(words), size=points, va="bottom" if settings else "top", **settings)
    if words:
        each = text.get_window_extent().width / figure.dpi / len(words)
        lines = textwrap.wrap(text.get_text(), int(NEARLY_WHOLE * WIDTH / each), break_on_hyphens=False)
        text.set_text("\n".join(lines))
    return text


def _legend(figure: Figure, entries: list[Entry], shrunk: float) -> Legend:
    """Where there are published series, frameworks stand side by side and their kinds below each other, as far as the
    width allows; else labels stand in rows.
    """
    kinds = [kind for kind in Kind if any(entry.kind is kind for entry in entries)]
    of_key: dict[str, dict[Kind, Entry]] = {}
    for entry in entries:
        of_key.setdefault(entry.key, {})[entry.kind] = entry
    choices: list[tuple[int, list[Entry | None]]] = []
    if len(kinds) > 1 and all(Kind.MEASURED in of_kind for of_kind in of_key.values()):
        choices.append((len(of_key), [of_kind.get(kind) for of_kind in of_key.values() for kind in kinds]))
    for columns in range(len(entries), 0, -1):
        choices.append((columns, [entry for column in range(columns) for entry in entries[column::columns]]))
    for columns, chosen in choices:
        legend = figure.legend(
            [_handle(entry, shrunk) for entry in chosen],
            [shortened(entry.label) if entry else "" for entry in chosen],
            loc="upper left",
            ncols=columns,
            frameon=False,
            fontsize=LEGEND_POINTS,
            handlelength=3.2,
            handletextpad=0.6,
            columnspacing=1.5,
            labelspacing=0.25,
            borderaxespad=0,
            borderpad=0,
        )
        if columns == 1 or legend.get_window_extent().width <= (WIDTH - 2 * MARGIN) * figure.dpi:
            break
        legend.remove()
    return legend


def _handle(entry: Entry | None, shrunk: float) -> Artist:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    if entry is None:
        return Line2D([], [], linestyle="none")
    if entry.kind is Kind.PART:
        return Patch(**panels.area_settings(entry.style))
    return Line2D([], [], **panels.line_settings(entry.style, shrunk))


def plain(text: str) -> str:
    """What a font and an XML file can hold: names come from outside."""
    return UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def shortened(label: str, longest: int = LONGEST_LABEL) -> str:
    """Printable, and of `longest` characters at most, the last then an ellipsis."""
    label = plain(label)
    return label if len(label) <= longest else label[: longest - 1] + "\N{HORIZONTAL ELLIPSIS}"
