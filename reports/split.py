"""The chart of what the memory holds: a bar a batch size, stacked by part, one panel a framework; PNG and SVG."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from .figures import CAPTION_LINE_IN, DPI, LOOK, WIDTH_IN
from .frameworks import display_name
from .memory import Row
from .quantities import MEMORY_PARTS, NOT_ALWAYS_THERE, PART_LABELS
from .tables import significant

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAME = "memory-split"
TITLE = "What the peak of the steps holds, % of its parts; above each bar their sum, MiB"
PANEL_HEIGHT_IN, HEAD_IN, CAPTION_CHARACTERS = 1.7, 1.1, 126
# Of the palette by Okabe and Ito, light and dark in turn, and hatched where two neighbours would print alike.
LOOKS = {
    "parameters": ("#0072B2", ""),
    "statistics": ("#999999", "//"),
    "gradients": ("#56B4E9", "//"),
    "optimizer": ("#E69F00", ""),
    "dataset": ("#000000", ""),
    "inputs": ("#F0E442", ".."),
    "activations": ("#009E73", ""),
    "workspace": ("#CC79A7", "xx"),
}


def draw(rows: list[Row], caption: str, stem: Path) -> bool:
    """Write `stem`.png and .svg from `memory.parts_rows`; False, and no file, if no row tells all its parts.

    A row with a part below 0 is left out: a bar cannot show it.
    """
    told = [row for row in rows if all(cell["n"] and cell["min"] >= 0 for cell in row.cells[: len(MEMORY_PARTS)])]
    frameworks = list(dict.fromkeys(row.framework for row in told))
    if not told:
        return False
    # Here, not above: as in figures.py.
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    sizes = sorted({row.batch_size for row in told})
    with mpl.rc_context(LOOK):
        lines = textwrap.wrap(caption, CAPTION_CHARACTERS)
        height = HEAD_IN + PANEL_HEIGHT_IN * len(frameworks) + CAPTION_LINE_IN * len(lines)
        figure = Figure(figsize=(WIDTH_IN, height), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08))
        panels = figure.subplots(len(frameworks), sharex=True, squeeze=False)[:, 0]
        for axes, framework in zip(panels, frameworks, strict=True):
            _panel(axes, [row for row in told if row.framework == framework], sizes)
            axes.set_title(display_name(framework), loc="left", fontsize=9, pad=14)
        panels[-1].set_xlabel("Batch size, images")
        figure.suptitle(TITLE, x=0.015, ha="left", fontsize=10)
        panels[0].legend(
            loc="lower left",
            bbox_to_anchor=(0, 1.28),
            borderaxespad=0,
            ncols=6,
            frameon=False,
            fontsize=8,
            handlelength=1.6,
            columnspacing=1.2,
        )
        figure.supxlabel("\n".join(lines), x=0.015, ha="left", fontsize=7, color="#404040", linespacing=1.3)
        figure.savefig(stem.with_name(stem.name + ".png"), dpi=DPI)
        figure.savefig(stem.with_name(stem.name + ".svg"), metadata={"Date": None})
    return True


def _panel(axes: Axes, rows: list[Row], sizes: list[int]) -> None:
    """Bars of medians; a batch size without all its parts has no bar."""
    places = [sizes.index(row.batch_size) for row in rows]
    sums = [sum(cell["median"] for cell in row.cells[: len(MEMORY_PARTS)]) for row in rows]
    below = [0.0] * len(rows)
    for index, part in enumerate(MEMORY_PARTS):
        if part.name in NOT_ALWAYS_THERE and not any(row.cells[index]["median"] for row in rows):
            continue
        colour, hatch = LOOKS[part.name]
        shares = [
            100 * row.cells[index]["median"] / total if total else 0 for row, total in zip(rows, sums, strict=True)
        ]
        axes.bar(
            places,
            shares,
            bottom=below,
            width=0.7,
            color=colour,
            hatch=hatch,
            edgecolor="white",
            linewidth=0.5,
            label=PART_LABELS[part.name],
        )
        below = [base + share for base, share in zip(below, shares, strict=True)]
    for place, total in zip(places, sums, strict=True):
        axes.annotate(
            f"{total:.{significant(total)}f}", (place, 100), (0, 2), textcoords="offset points", ha="center", fontsize=7
        )
    axes.set_xticks(range(len(sizes)), [str(size) for size in sizes])
    axes.set_xlim(-0.6, len(sizes) - 0.4)
    axes.set_ylim(0, 100)
    axes.set_ylabel("%")
