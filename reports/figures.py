"""The charts of the thesis: one quantity against batch size, one line a framework; PNG and SVG."""

from __future__ import annotations

import math
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from .frameworks import Style, styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DPI = 200
WIDTH_IN, PLOT_HEIGHT_IN, CAPTION_LINE_IN = 7.0, 4.2, 0.14
BESIDE, LABEL_WIDTH = 0.008, 0.05  # distance of two frameworks' points, width of a label: parts of the batch axis
CAPTION_CHARACTERS = 126  # of the caption's size that fit into WIDTH_IN
LOOK: dict[Any, Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.parse_math": False,  # a dollar in a name is a dollar
    "svg.hashsalt": "batchwise",  # the same results give the same file
}


def draw(cells: pd.DataFrame, title: str, label: str, caption: str, stem: Path, full_scale: float | None) -> bool:
    """Write `stem`.png and .svg from the cells of `tables.cells`; False, and no file, if no cell has a value.

    `label` is the y axis with its unit. A cell without a value is a gap in its line.
    """
    if not cells["n"].any():
        return False
    # Here, not above: tables need no drawing library, and its import takes as long as all of them.
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    with mpl.rc_context(LOOK):
        lines = textwrap.wrap(caption, CAPTION_CHARACTERS)
        height = PLOT_HEIGHT_IN + CAPTION_LINE_IN * len(lines)
        figure = Figure(figsize=(WIDTH_IN, height), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08))
        axes = figure.add_subplot()
        sizes = sorted(set(cells["batch_size"]))
        looks = styles(cells["framework"])
        for place, (framework, style) in enumerate(looks.items()):
            aside = (place - (len(looks) - 1) / 2) * BESIDE * _doublings(sizes) if cells["n"].max() > 1 else 0
            _line(axes, cells[cells["framework"] == framework], framework, style, 2**aside)
        _batch_axis(axes, sizes)
        _value_axis(axes, float(cells["max"].max()), full_scale)
        axes.set_ylabel(label)
        _text_around(figure, axes, title, "\n".join(lines))
        figure.savefig(stem.with_name(stem.name + ".png"), dpi=DPI)
        figure.savefig(stem.with_name(stem.name + ".svg"), metadata={"Date": None})
    return True


def _line(axes: Axes, cells: pd.DataFrame, framework: str, style: Style, aside: float) -> None:
    """Medians joined by a line, with bars from the lowest to the highest repeat where there are several.

    `aside` is the factor that sets this framework's points beside the others', so that bars do not hide bars.
    """
    drawn = axes.errorbar(
        cells["batch_size"].to_numpy() * aside,
        cells["median"].to_numpy(),
        yerr=[(cells["median"] - cells["min"]).to_numpy(), (cells["max"] - cells["median"]).to_numpy()]
        if (cells["n"] > 1).any()
        else None,
        label=style.name,
        color=style.colour,
        marker=style.marker,
        linestyle=style.line,
        linewidth=1.6,
        markersize=style.size,
        markerfacecolor="none",
        markeredgewidth=1.4,
        elinewidth=1.0,
        capsize=style.size / 2,
        clip_on=False,
        zorder=3,
    )
    drawn.lines[0].set_gid(f"line-{framework}")


def _batch_axis(axes: Axes, sizes: list[int]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, _tick_labels(sizes))
    axes.set_xticks([], minor=True)
    room = 2**0.25 if len(sizes) > 1 else 2
    axes.set_xlim(sizes[0] / room, sizes[-1] * room)
    axes.set_xlabel("Batch size, images (logarithmic)")


def _tick_labels(sizes: list[int]) -> list[str]:
    """Neighbours too close for labels side by side are written in up to three rows."""
    ends = [-math.inf] * 3
    labels = []
    for size in sizes:
        place = math.log2(size)
        row = next((row for row, end in enumerate(ends) if place >= end), None)
        labels.append("" if row is None else "\n" * row + str(size))
        if row is not None:
            ends[row] = place + LABEL_WIDTH * _doublings(sizes)
    return labels


def _doublings(sizes: list[int]) -> float:
    """Length of the batch axis, in powers of two."""
    return math.log2(sizes[-1] / sizes[0]) or 1.0


def _value_axis(axes: Axes, highest: float, full_scale: float | None) -> None:
    """From 0, so that a length is an amount; a value above `full_scale` is shown, not cut off."""
    fits = full_scale is not None and highest <= full_scale
    axes.set_ylim(0, full_scale if fits else highest * 1.08 or 1)
    axes.grid(axis="y", color="#d0d0d0", linewidth=0.6)
    axes.set_axisbelow(True)


def _text_around(figure: Figure, axes: Axes, title: str, caption: str) -> None:
    frameworks = len(axes.get_legend_handles_labels()[1])
    columns = min(4, frameworks)
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(0, 1.01),
        borderaxespad=0,
        ncols=columns,
        frameon=False,
        handlelength=4,
    )
    rows = -(-frameworks // columns)
    axes.set_title("\n".join(textwrap.wrap(title, 90)), loc="left", pad=8 + 15 * rows, fontsize=10)
    figure.supxlabel(caption, x=0.015, ha="left", fontsize=7, color="#404040", linespacing=1.3)
