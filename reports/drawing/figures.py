"""Draw a Chart for print with matplotlib as PNG, SVG and PDF; the same chart always gives the same file."""

from __future__ import annotations

import importlib
import math
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from ..charts import NOT_FROM_ZERO, SCALE_NAMES, Chart, Scale, SeriesKind
from ..frameworks import Style
from . import frame, names, panels, sizes
from .sizes import Layout
from .traces import Trace, build_traces, compute_x_span, compute_y_span, find_position, list_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")
DPI = 200
GRID = "#D8D8D8"
SPACIOUS = 2.2  # batch sizes per inch: with more than that markers are smaller
SMALLEST = 0.5  # smallest scale of a marker
DIGIT, LABEL_ROWS = 0.64, 3  # width of a digit, relative to its size; rows of tick labels
BREAK = ((0, -3), (1.6, -2), (-1.6, -0.7), (1.6, 0.7), (-1.6, 2), (0, 3))
BREAK_POINTS = 10.0  # height of the mark showing that an axis does not start at 0, and of its middle above the foot
MOST_DECADES = 2.5  # decades of a logarithmic axis with three numbers in each; with more decades each has one
TOUCH = 0.01  # inches: smaller differences do not count
WIDE_LETTER = 0.7  # width of a wide letter, relative to its size, for names that must fit
SHORTEST_LINE = 6  # letters per line of the value axis's name
SETTINGS: dict[Any, Any] = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": panels.INK,
    "axes.titley": 1.0,  # otherwise it is searched for, by measuring all texts of the panel
    "hatch.linewidth": 0.6,
    "text.hinting": "none",  # invisible at this resolution, and slow
    "text.parse_math": False,  # a dollar sign in a name is printed as it is
    "svg.hashsalt": "batchwise",  # the same results give the same file
    "pdf.fonttype": 42,  # TrueType: publishers refuse Type 3
}


@contextmanager
def apply_style(size: sizes.Size, more: Mapping[Any, Any] = MappingProxyType({})) -> Iterator[None]:
    """Draw with matplotlib's default settings plus ours, whatever the caller's matplotlibrc says."""
    # Imported here because tables need no drawing library, and the import is slow.
    import matplotlib as mpl

    defaults: dict[Any, Any] = {name: value for name, value in mpl.rcParamsDefault.items() if name != "backend"}
    with mpl.rc_context({**defaults, **SETTINGS, **size.settings, **more}):
        yield


def preload() -> None:
    """Import what drawing needs, so that processes forked later share it."""
    for name in ("figure", "lines", "backends.backend_agg", "backends.backend_svg"):
        importlib.import_module(f"matplotlib.{name}")


def draw(
    chart: Chart,
    stem: Path,
    formats: Collection[str] = FORMATS,
    layout: Layout = sizes.USUAL,
    looks: Mapping[str, Style] | None = None,
) -> list[Path]:
    """Write `stem`.png, `stem`.svg and `stem`.pdf, as far as they are in `formats`; returns their paths. `looks` are
    the styles of frameworks, as of `draw_figure`.

    Raises OSError if a file cannot be written.
    """
    paths = {name: stem.with_name(f"{stem.name}.{name}") for name in FORMATS if name in formats}
    if not paths:
        return []
    with apply_style(layout.size):
        save(
            draw_figure(chart, layout, looks),
            list(paths.values()),
            frame.replace_unprintable(chart.title),
            frame.replace_unprintable(chart.alt),
        )
    return list(paths.values())


def save(figure: Figure, paths: Iterable[Path], title: str, alt: str) -> None:
    """Save as PNG, SVG and PDF, by the endings; title and alternative text go into the file. Raises OSError."""
    for path in paths:
        match path.suffix:
            case ".png":
                _save_png(figure, path, {"Title": title, "Description": alt})
            case ".svg":
                figure.savefig(path, metadata={"Title": title, "Description": alt, "Date": None})
            case _:
                figure.savefig(path, metadata={"Title": title, "Subject": alt, "CreationDate": None})


def _save_png(figure: Figure, path: Path, about: dict[str, str]) -> None:
    """Save in 256 colours: less than half the bytes, without a visible difference."""
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
    few.save(path, pnginfo=info, dpi=(DPI, DPI), compress_level=6)  # 9 takes five times as long for 6 % fewer bytes


def _leave_out_of_layout(axes: Axes) -> None:
    """Keep the place of these from being searched for, which takes time: the axis' label has no text."""
    axes.xaxis.set_label_coords(0, 0)
    for inside in (*axes.spines.values(), *axes.lines, *axes.collections):
        inside.set_in_layout(False)


def draw_figure(chart: Chart, layout: Layout = sizes.USUAL, looks: Mapping[str, Style] | None = None) -> Figure:
    """Draw the whole picture, with these styles of frameworks, or those that the chart would have alone.

    Raises ValueError for a chart without a point.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    size = layout.size
    shown, columns = build_traces(chart, looks), count_columns(len(chart.panels), size.most_columns)
    rows = -(-len(shown) // columns)
    width = _axes_width(chart, size)
    shrunk = compute_marker_scale(chart, size)
    longest = int(size.width * 72 / WIDE_LETTER / size.text) // columns
    figure = Figure((size.width, size.row_height(columns) * rows))
    FigureCanvasAgg(figure)  # needed to measure texts
    every = figure.subplots(rows, columns, sharey=True, squeeze=False).ravel()
    for number, (axes, panel) in enumerate(zip(every, shown, strict=False)):
        panels.draw(axes, chart, number, panel, shrunk)
        title = frame.replace_unprintable(chart.panels[number].title)
        lines = textwrap.wrap(title, longest, max_lines=2, placeholder=frame.ELLIPSIS)
        axes.set_title("\n".join(lines), loc="left", size=size.text)
        _grid(axes, chart, size)
        _batch_axis(axes, chart, width, size.numbers if columns == 1 else size.small)
        if number % columns:
            axes.tick_params(axis="y", left=False)
            axes.yaxis.set_label_coords(0, 0)
        _leave_out_of_layout(axes)
    for axes in every[len(shown) :]:
        axes.remove()
    _value_axis(every[0], chart, shown)
    around = frame.build_frame(figure, chart, list_legend(shown), shrunk, layout)
    whole = size.row_height(columns) * rows + around.height
    if size.shape:
        if whole * size.shape > size.width + TOUCH:
            return draw_figure(chart, replace(layout, size=size.as_high_as(whole)), looks)
        whole = size.width / size.shape
    _name_values(figure, list(every[: len(shown) : columns]), _value_label(chart, shown), around, whole)
    for number, (axes, panel) in enumerate(zip(every, shown, strict=False)):
        names.write(axes, panel, number, shrunk, size)
    return figure


def _grid(axes: Axes, chart: Chart, size: sizes.Size) -> None:
    """Draw lines at the values, and at both of two quantities."""
    which: Literal["both", "y"] = "both" if chart.x_scale is Scale.QUANTITY else "y"
    axes.grid(axis=which, color=GRID, linewidth=0.6 * size.thick, clip_on=False)
    axes.set_axisbelow(True)


def _name_values(figure: Figure, first: Sequence[Axes], label: str, around: frame.Around, whole: float) -> None:
    """Name the value axis next to the first panel of each row, in as many lines as needed; positions the figure's
    parts.
    """
    longest = max(map(len, label.splitlines()), default=SHORTEST_LINE)
    while True:
        lines = [line for part in label.splitlines() for line in textwrap.wrap(part, longest)]
        for axes in first:
            axes.set_ylabel("\n".join(lines))
        frame.place_parts(figure, around, whole)
        taken = max(axes.yaxis.label.get_window_extent().height / axes.get_window_extent().height for axes in first)
        if taken <= 1 or longest <= SHORTEST_LINE:
            return
        longest = max(SHORTEST_LINE, min(int(longest / taken), longest - 1))


def compute_marker_scale(chart: Chart, size: sizes.Size) -> float:
    """Factor for markers: they are smaller where batch sizes are close, or points of a framework many."""
    in_a_row = chart.places
    if chart.x_scale is Scale.QUANTITY:
        in_a_row = max((each.x for each in chart.series if each.kind is not SeriesKind.FRONT_LINE), key=len)
    spacing = SPACIOUS * _axes_width(chart, size) / size.thick / len(in_a_row)
    return size.thick * min(1.0, max(SMALLEST, math.sqrt(spacing)))


def _axes_width(chart: Chart, size: sizes.Size) -> float:
    """Approximate width of a panel's axes, in inches."""
    return (size.width - size.beside) / count_columns(len(chart.panels), size.most_columns)


def count_columns(panels: int, most: int) -> int:
    """Number of columns: at most `most`, with rows as full as possible."""
    rows = -(-panels // most)
    return -(-panels // rows)


def _batch_axis(axes: Axes, chart: Chart, width: float, size: float) -> None:
    """Label the batch axis, which is `width` inches long; a linear axis chooses its own whole numbers.

    Labels too close together are written in up to three rows; a position without space has no tick.
    """
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    low, high = compute_x_span(chart)
    axes.set_xlim(low, high)
    axes.tick_params(labelsize=size)
    if chart.x_scale is Scale.LINEAR:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))
        return
    if chart.x_scale is Scale.QUANTITY:
        axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))
        return
    even = math.log if chart.x_scale is Scale.LOG else float
    points = width * 72 / (even(high) - even(low))
    ends, ticks = [-math.inf] * LABEL_ROWS, {}
    for x in chart.places:
        at, name = find_position(chart, x), f"{x:.10g}"
        half = (len(name) + 1) * DIGIT * size / 2
        row = next((row for row, end in enumerate(ends) if points * even(at) - half >= end), None)
        if row is not None:
            ticks[at] = "\n" * row + name
            ends[row] = points * even(at) + half
    if chart.x_scale is Scale.LOG:
        axes.set_xscale("log", base=2)
    axes.set_xticks(list(ticks), list(ticks.values()))
    axes.set_xticks([], minor=True)


def _value_axis(axes: Axes, chart: Chart, shown: Sequence[Sequence[Trace]]) -> None:
    """Set up the value axis shared by all panels."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator, StrMethodFormatter

    if chart.y_log:
        axes.set_yscale("log", nonpositive="clip")
    low, high = compute_y_span(chart, shown)
    axes.set_ylim(low, high)
    if chart.y_log:
        few = math.log10(high / low) > MOST_DECADES
        axes.yaxis.set_major_locator(LogLocator(subs=(1,) if few else (1, 2, 5)))
    else:
        axes.yaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))
    if low > 0 and not chart.y_log:
        for each in axes.figure.axes:
            _break_mark(each)


def _break_mark(axes: Axes) -> None:
    """Draw a zigzag at the foot of the value axis."""
    from matplotlib.transforms import ScaledTranslation

    foot = axes.transAxes + ScaledTranslation(0, BREAK_POINTS / 72, axes.figure.dpi_scale_trans)
    ink = axes.spines["left"].get_edgecolor()
    for shape, colour, width in ((BREAK[::5], "white", 3.0), (BREAK, ink, 1.0)):
        axes.plot(
            [0], [0], transform=foot, clip_on=False, zorder=4, marker=shape, markersize=BREAK_POINTS, color=colour,
            markerfacecolor="none", markeredgewidth=width,
        )  # fmt: skip


def _value_label(chart: Chart, shown: Sequence[Sequence[Trace]]) -> str:
    """Label of the value axis with a note on its scale, on a separate line if it is long."""
    cut = NOT_FROM_ZERO if compute_y_span(chart, shown)[0] > 0 else ""
    note, name = SCALE_NAMES[Scale.LOG] if chart.y_log else cut, frame.shorten(chart.y_label)
    if not note:
        return name
    return f"{name}{' ' if len(name) + len(note) < frame.LONGEST_LABEL - 2 else chr(10)}({note})"
