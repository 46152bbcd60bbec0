"""Draw the picture: speed and memory against batch size, one column per framework, with the answers marked."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workloads.records.advice import judged
from workloads.records.batch_answers import Answers, BatchAnswers, Point
from workloads.records.status import Status

from ..charts import Kind
from ..drawing import figures, frame, panels
from ..drawing.sizes import PAGE
from ..drawing.styles import series_style
from ..frameworks import Style, styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STEM = "batch-size"
HEIGHT = 4.6  # inches
ALT = "Training speed and memory against batch size, a column for each framework; vertical lines mark the answers."
MARKS: dict[str, tuple[str, str, Any]] = {  # answer: (label, colour, line)
    "fastest": ("Fastest: the smallest within 2 % of the best", "#222222", "-"),
    "least_energy": ("Least energy an image", "#009E73", "-."),
    "largest": ("Largest that fits", "#D55E00", ":"),
    "noise": ("Gradient noise scale, with its interval", "#CC79A7", "--"),
}
LIMIT = ("Memory limit", "#D55E00")


def write(answers: BatchAnswers, folder: Path, formats: Collection[str] = figures.FORMATS) -> list[Path]:
    """Write STEM.png, .svg and .pdf in `folder`, as asked for; none if no framework has a curve. Raises OSError."""
    drawable = [each for each in answers.frameworks if each.fastest and each.fastest.points and not _unverified(each)]
    if not drawable:
        return []
    paths = [folder / f"{STEM}.{name}" for name in figures.FORMATS if name in formats]
    with figures.styled(PAGE):
        figures.save(drawn(drawable), paths, "Which batch size", ALT)
    return paths


def _unverified(each: Answers) -> bool:
    """True if its speeds do not count: the ordinary trial at the fastest size was unverified."""
    trial = judged(each, each.fastest.batch_size if each.fastest else None)
    return trial is not None and trial.status is Status.UNVERIFIED


def drawn(answers: Sequence[Answers]) -> Figure:
    """Draw the frameworks that have a curve of speed."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    looks = styles(each.framework for each in answers)
    figure = Figure((PAGE.width, HEIGHT), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(2, len(answers), sharex=True, sharey="row", squeeze=False)
    for column, each in enumerate(answers):
        upper, lower = grid[0][column], grid[1][column]
        upper.set_title(frame.shortened(looks[each.framework].name), loc="left", size=PAGE.text)
        _curve(upper, each.fastest.points if each.fastest else (), looks[each.framework], 1.0)
        _curve(lower, each.memory, looks[each.framework], 2.0**-20)
        if each.largest and each.memory:
            lower.axhline(each.largest.limit_bytes / 2**20, color=LIMIT[1], linewidth=1.2, linestyle=(0, (1, 1)))
        for axes in (upper, lower):
            _marks(axes, each)
            axes.grid(axis="y", color=figures.GRID, linewidth=0.6)
    grid[0][0].set_ylabel("Training speed, images/s")
    grid[1][0].set_ylabel("Peak memory, MiB")
    _axes(grid)
    figure.supxlabel("Batch size, images (logarithmic)", size=PAGE.text)
    _legend(figure, answers)
    return figure


def _curve(axes: Axes, points: Sequence[Point], look: Style, factor: float) -> None:
    known = sorted(points, key=lambda point: point.batch_size)
    sizes, means = [point.batch_size for point in known], [factor * point.mean for point in known]
    settings = panels.line_settings(series_style(Kind.MEASURED, look), 0.7)
    axes.plot(sizes, means, zorder=3, **settings)
    barred = [point for point in known if point.low is not None and point.high is not None]
    for point in barred:
        axes.vlines(
            point.batch_size, factor * (point.low or 0), factor * (point.high or 0), settings["color"], zorder=3
        )


def _marks(axes: Axes, each: Answers) -> None:
    for name, size in marked(each).items():
        _, colour, line = MARKS[name]
        axes.axvline(size, color=colour, linestyle=line, linewidth=1.1, zorder=2)
    if each.noise and each.noise.low is not None and each.noise.high is not None and each.noise.low > 0:
        axes.axvspan(each.noise.low, each.noise.high, color=MARKS["noise"][1], alpha=0.15, linewidth=0, zorder=1)


def marked(each: Answers) -> dict[str, float]:
    """Map {answer: batch size} for the known answers."""
    sizes = {
        "fastest": each.fastest.batch_size if each.fastest else None,
        "least_energy": each.least_energy.batch_size if each.least_energy else None,
        "largest": each.largest.batch_size if each.largest else None,
        "noise": each.noise.noise_scale if each.noise else None,
    }
    return {name: size for name, size in sizes.items() if size}


def _axes(grid: Any) -> None:
    """Format the axes: powers of two below, amounts from 0 at the side; `grid` is (rows, columns) of Axes."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    for row in grid:
        row[0].set_ylim(bottom=0)
        row[0].yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
        row[0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
        for axes in row:
            axes.set_xscale("log", base=2)
            low, high = axes.get_xlim()
            each = max(1, math.ceil(math.log2(high / low) / 6))  # about six labels per column
            axes.xaxis.set_major_locator(LogLocator(2.0**each))
            axes.xaxis.set_minor_locator(NullLocator())
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.10g}"))
            axes.tick_params(labelsize=PAGE.small)


def _legend(figure: Figure, answers: Sequence[Answers]) -> None:
    """Draw the legend of the marks that are used."""
    from matplotlib.lines import Line2D

    used = {name for each in answers for name in marked(each)}
    entries = [
        (Line2D([], [], color=colour, linestyle=line), label)
        for name, (label, colour, line) in MARKS.items()
        if name in used
    ]
    if any(each.largest and each.memory for each in answers):
        entries.append((Line2D([], [], color=LIMIT[1], linestyle=(0, (1, 1))), LIMIT[0]))
    if entries:
        handles, labels = zip(*entries, strict=True)
        figure.legend(handles, labels, loc="outside upper left", ncols=2, frameon=False, fontsize=PAGE.small)
