"""Charts for print: a Chart drawn with matplotlib as PNG and SVG, the same chart always the same file."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..charts import Chart
from . import figure_layout as layout
from . import figure_panels as panels
from .figure_layout import Layout
from .looks import INK, framework_styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("png", "svg")
DPI = 200
NEARLY = 3  # of 255: what a colour is off by when there are 256 of them
GRID, FAINT = "#D8D8D8", "#404040"
SETTINGS: dict[Any, Any] = {
    "font.size": layout.TEXT_POINTS,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "hatch.linewidth": 0.6,
    "text.hinting": "none",  # at this resolution it shows nowhere and takes time
    "text.parse_math": False,  # a dollar in a name is a dollar
    "svg.hashsalt": "batchwise",  # the same results give the same file
}


def draw(chart: Chart, stem: Path, formats: Collection[str] = FORMATS) -> list[Path]:
    """Write `stem`.png and `stem`.svg, those of the two that are among `formats`; returns their paths.

    Raises OSError where a file cannot be written.
    """
    wanted = [name for name in FORMATS if name in formats]
    if not wanted:
        return []
    # Here, not above: tables need no drawing library, and its import takes as long as all of them.
    import matplotlib as mpl

    paths = [stem.with_name(f"{stem.name}.{name}") for name in wanted]
    with mpl.rc_context(SETTINGS):
        figure = drawn(chart)
        about = {"Title": layout.plain(chart.title), "Description": layout.plain(chart.alt)}
        for name, path in zip(wanted, paths, strict=True):
            if name == "png":
                _save_png(figure, path, about)
            else:
                figure.savefig(path, format=name, metadata=about | {"Date": None})
    return paths


def _save_png(figure: Figure, path: Path, about: dict[str, str]) -> None:
    """In 256 colours: a quarter of the bytes, and sooner written. The colour of a line or an area is off by a few
    255ths at most, which nobody sees; white is white and black is black.
    """
    import numpy as np
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image, PngImagePlugin

    canvas = FigureCanvasAgg(figure)
    figure.set_dpi(DPI)
    canvas.draw()  # type: ignore[no-untyped-call]
    picture = Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3])  # type: ignore[no-untyped-call]
    few = picture.quantize(256, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    few.putpalette([_to_the_end(level) for level in few.getpalette() or []])
    info = PngImagePlugin.PngInfo()
    for name, text in about.items():
        info.add_text(name, text)
    few.save(path, pnginfo=info, dpi=(DPI, DPI))


def _to_the_end(level: int) -> int:
    """0 and 255 for what is nearly that."""
    return 0 if level <= NEARLY else 255 if level >= 255 - NEARLY else level


def drawn(chart: Chart) -> Figure:
    """The whole picture. Raises ValueError for a chart without a point."""
    from matplotlib.figure import Figure

    every = [series for panel in chart.panels for series in panel.series]
    count, styles, legend = len(chart.panels), framework_styles(every), layout.legend_columns(every)
    values = panels.value_ticks(chart)
    width = layout.axes_width(values.labels, count)
    frame = panels.frame_of(chart, values, width)
    labels = layout.tick_labels(frame.places, width, count == 1) if chart.x_log else []
    tick_rows = 1 + max((label.count("\n") for label in labels), default=0)
    place = layout.layout(chart, values.labels, tick_rows, max(map(len, legend)))
    figure = Figure(figsize=(layout.WIDTH, place.height))
    handles: dict[str, Any] = {}
    for number, (panel, rectangle) in enumerate(zip(chart.panels, place.axes, strict=True)):
        axes = figure.add_axes(rectangle)
        handles = panels.draw(axes, panel, number, frame, styles) | handles
        _batch_axis(axes, frame, labels)
        _value_axis(axes, chart, frame, first=number % place.columns == 0)
        name = chart.y_label + (" (logarithmic)" if chart.y_log else "")
        _text_of_panel(axes, panel.title, "" if number % place.columns else name, values.labels, count)
    _text_around(figure, chart, place, legend, handles)
    return figure


def _batch_axis(axes: Axes, frame: panels.Frame, labels: list[str]) -> None:
    """`labels` name the places of a logarithmic axis; a linear one counts whole numbers of its own."""
    from matplotlib.ticker import MaxNLocator

    if frame.log:
        axes.set_xscale("log", base=2)
        axes.set_xticks(frame.places, labels)
        axes.set_xticks([], minor=True)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))
    axes.set_xlim(*frame.ends)


def _value_axis(axes: Axes, chart: Chart, frame: panels.Frame, first: bool) -> None:
    """`first` of its row: the others' numbers stand there."""
    if chart.y_log:
        axes.set_yscale("log", nonpositive="clip")
    axes.set_yticks(frame.values.ticks, frame.values.labels)
    axes.set_yticks([], minor=True)
    axes.set_ylim(*frame.values.ends)
    axes.grid(axis="y", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    if not first:
        axes.tick_params(axis="y", left=False, labelleft=False)


def _text_of_panel(axes: Axes, title: str, name: str, value_labels: tuple[str, ...], count: int) -> None:
    """Title and the value axis' name, at places that are set: else every tick label is measured for each format."""
    width = layout.axes_width(value_labels, count)
    axes.set_title(
        layout.shortened(title, int(width * layout.INCH / (layout.CHARACTER * layout.PANEL_POINTS))),
        loc="left",
        fontsize=layout.PANEL_POINTS,
        pad=6,
        y=1.0,
    )
    axes.xaxis.set_label_coords(0.5, 0)
    axes.yaxis.set_label_coords(-layout.room_for_numbers(value_labels, count) / width, 0.5)
    axes.set_ylabel(layout.shortened(name))
    axes.tick_params(labelsize=layout.tick_points(count))


def _text_around(figure: Figure, chart: Chart, place: Layout, legend: list[list[str]], handles: dict[str, Any]) -> None:
    from matplotlib.lines import Line2D

    left, nothing = layout.MARGIN / layout.WIDTH, Line2D([], [], linestyle="none")
    names = [label for column in legend for label in column]
    figure.text(left, place.title_top, place.title, va="top", fontsize=layout.TITLE_POINTS)
    figure.legend(
        [handles.get(name, nothing) for name in names],
        [layout.shortened(name) for name in names],
        loc="upper left",
        bbox_to_anchor=(left, place.legend_top),
        ncols=max(1, len(legend)),
        frameon=False,
        fontsize=layout.LEGEND_POINTS,
        handlelength=layout.HANDLE,
        handletextpad=layout.PAD,
        columnspacing=layout.COLUMN_GAP,
        labelspacing=0.25,
        borderaxespad=0,
        borderpad=0,
    )
    figure.text(*place.x_label_at, layout.plain(chart.x_label), va="top", ha="center")
    figure.text(
        left,
        place.caption_bottom,
        place.caption,
        va="bottom",
        fontsize=layout.CAPTION_POINTS,
        color=FAINT,
        linespacing=layout.LINE_SPACING,
    )
