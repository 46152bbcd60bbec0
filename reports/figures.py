"""Charts for print: a Chart drawn with matplotlib as PNG and SVG, the same chart always the same file."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import figure_layout as layout
from . import figure_panels as panels
from .charts import Chart
from .figure_layout import Layout
from .looks import INK, framework_styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("png", "svg")
DPI = 200
GRID, FAINT = "#D8D8D8", "#404040"
SETTINGS: dict[Any, Any] = {
    "font.size": layout.TEXT_POINTS,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "hatch.linewidth": 0.6,
    "text.hinting": "none",  # at this resolution it shows nowhere and takes time
    "text.hinting_factor": 1,
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
        figure = _drawn(chart)
        for name, path in zip(wanted, paths, strict=True):
            about = {"Title": layout.plain(chart.title), "Description": layout.plain(chart.alt)}
            figure.savefig(path, format=name, dpi=DPI, metadata=about | ({"Date": None} if name == "svg" else {}))
    return paths


def _drawn(chart: Chart) -> Figure:
    from matplotlib.figure import Figure

    every = [series for panel in chart.panels for series in panel.series]
    styles, frame = framework_styles(every), panels.frame_of(chart, layout.axes_width(len(chart.panels)))
    legend = layout.legend_columns(every)
    alone = len(chart.panels) == 1
    labels = layout.tick_labels(frame.places, layout.axes_width(len(chart.panels)), alone) if chart.x_log else []
    tick_rows = 1 + max((label.count("\n") for label in labels), default=0)
    titled = any(panel.title for panel in chart.panels)
    place = layout.layout(
        chart.title, chart.caption, len(chart.panels), titled, max(map(len, legend), default=0), tick_rows
    )
    figure = Figure(figsize=(layout.WIDTH, place.height))
    handles: dict[str, Any] = {}
    characters = int(layout.axes_width(len(chart.panels)) / (layout.CHARACTER * layout.PANEL_POINTS / layout.INCH))
    for number, (panel, rectangle) in enumerate(zip(chart.panels, place.axes, strict=True)):
        axes = figure.add_axes(rectangle)
        handles = panels.draw(axes, panel, number, frame, styles) | handles
        _batch_axis(axes, frame, labels)
        _value_axis(axes, chart, frame, number % place.columns == 0)
        axes.set_title(
            layout.shortened(panel.title, characters), loc="left", fontsize=layout.PANEL_POINTS, pad=6, y=1.0
        )
        if not alone:
            axes.tick_params(labelsize=layout.SMALL_TICK_POINTS)
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
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.set_xlim(*frame.ends)


def _value_axis(axes: Axes, chart: Chart, frame: panels.Frame, first: bool) -> None:
    """`first` of its row: the others' numbers and name stand there."""
    from matplotlib.ticker import LogLocator, MaxNLocator

    if chart.y_log:
        axes.set_yscale("log", nonpositive="clip")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.set_yticks([], minor=True)
    else:
        axes.yaxis.set_major_locator(MaxNLocator(nbins=7, steps=[1, 2, 5, 10]))
    axes.set_ylim(*frame.values)
    axes.grid(axis="y", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    # Where matplotlib is not told it measures every tick's label, again for each format.
    axes.xaxis.set_label_coords(0.5, 0)
    points = layout.TEXT_POINTS if len(chart.panels) == 1 else layout.SMALL_TICK_POINTS
    away = layout.room_for_numbers(frame.values[1], points)
    axes.yaxis.set_label_coords(-away / layout.axes_width(len(chart.panels)), 0.5)
    if first:
        axes.set_ylabel(layout.shortened(chart.y_label) + (" (logarithmic)" if chart.y_log else ""))
    else:
        axes.tick_params(axis="y", left=False, labelleft=False)


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
