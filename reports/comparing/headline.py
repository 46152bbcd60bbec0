"""Write the headline of a comparison: for each quantity with a ratio, the geometric mean over the cells.

There is one for all frameworks together and one for each.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from workloads.shifts import estimate_together
from workloads.statistics import Estimate

from ..frameworks import display_name, ordered
from ..quantities import ACCURACY
from ..sentences import say
from ..table import Cell, Table, Theme
from . import effect_words
from .cell_tests import CellTest, Replicate, Tested
from .comparison import Compared

NAME, TITLE = "compare-geometric-mean", "Geometric mean over the batch sizes"
OF_ALL = "All"
WORDING = "compare"


@dataclass(frozen=True, kw_only=True)
class GeometricMean(Tested):
    """Geometric mean over `cells` cells of a framework, or of all if it is "".

    It is taken over the cells with repeats, by the rule of a framework's mean. If no cell has repeats, it is over all
    cells, without an `estimate`.
    """

    cells: int
    names: tuple[str, str]  # of A and B

    @property
    def one_run(self) -> bool:
        """True if a side has one run, and the quantity varies between runs."""
        return self.replicate is Replicate.ONE_RUN

    @property
    def told(self) -> bool:
        """True if the interval excludes 1, and is one between runs if the quantity varies between runs."""
        _, low, high = self.effect
        return self.estimate is not None and not self.one_run and effect_words.leaves_out_1(low, high)

    @property
    def name(self) -> str:
        """Name of the framework, or "All"."""
        return display_name(self.framework) if self.framework else OF_ALL

    @property
    def sentence(self) -> str:
        """Sentence like "B is 1.95 [1.85, 2.05] times as fast as A, geometric mean over 27 cells"."""
        words = effect_words.TIMES[self.quantity.name]._asdict()
        seen = {
            "a": self.names[0],
            "b": self.names[1],
            "cells": self.cells,
            "once": self.estimate is None,
            "told": self.told,
            "one_run": self.one_run,
        }
        return say(WORDING, "geometric_mean", ratio=effect_words.ratio(*self.effect), **words, **seen)

    @property
    def cell(self) -> Cell:
        """Cell of a table."""
        value, *_ = self.effect
        text = effect_words.ratio(*self.effect)
        if self.estimate is None:
            return Cell(text, value, (say(WORDING, "one_repeat"),))
        if self.one_run:
            return Cell(text, value, (say(WORDING, "one_run_words"),))
        return Cell(text, value, () if self.told else (say(WORDING, "untold"),))


def of(compared: Compared) -> list[GeometricMean]:
    """Return the headlines of each quantity that has a better direction: for all, then for each framework."""
    cells = [cell for cell in compared.cells if not cell.in_points and not math.isnan(cell.shift)]
    means = []
    for name in dict.fromkeys(cell.quantity.name for cell in cells if cell.quantity.better):
        alike = [cell for cell in cells if cell.quantity.name == name]
        means.append(_mean(compared, alike, ""))
        for framework in ordered(cell.framework for cell in alike):
            own = [cell for cell in alike if cell.framework == framework]
            means.append(_mean(compared, own, framework))
    return means


def _mean(compared: Compared, cells: Sequence[CellTest], framework: str) -> GeometricMean:
    used, estimate = _over(cells)
    shift = estimate.value if estimate else statistics.fmean(cell.shift for cell in used)
    return GeometricMean(
        framework=framework, quantity=cells[0].quantity, shift=shift, repeats=min(cell.repeats for cell in used),
        replicate=used[0].replicate, estimate=estimate, cells=len(used), names=compared.names,
    )  # fmt: skip


def _over(cells: Sequence[CellTest]) -> tuple[Sequence[CellTest], Estimate | None]:
    """Return the cells with repeats and the estimate of their mean; without repeats all cells, and None."""
    tested = [cell for cell in cells if cell.spread.sides]
    return (tested, estimate_together([cell.spread for cell in tested])) if tested else (cells, None)


def sentences(compared: Compared) -> list[str]:
    """Return a sentence for each quantity with a ratio, over all cells; then for accuracy, where it was measured."""
    ratios = [
        f"{effect_words.label(compared, mean.quantity)}: {mean.sentence}" for mean in of(compared) if not mean.framework
    ]
    accuracy = [cell for cell in compared.cells if cell.quantity is ACCURACY and not math.isnan(cell.shift)]
    return [*ratios, *([_accuracy(compared, accuracy)] if accuracy else [])]


def _accuracy(compared: Compared, cells: Sequence[CellTest]) -> str:
    """Describe the mean difference in points, by the rule of a geometric mean."""
    used, estimate = _over(cells)
    shift = estimate.value if estimate else statistics.fmean(cell.shift for cell in used)
    ends = [f"{end:+z.2f}" for end in estimate.interval] if estimate else []
    return say(
        WORDING,
        "mean_points",
        a=compared.names[0],
        b=compared.names[1],
        label=effect_words.label(compared, ACCURACY),
        points=f"{shift:+z.2f}",
        ends=ends,
        cells=len(used),
        once=estimate is None,
        told=bool(ends) and (float(ends[0]) > 0 or float(ends[1]) < 0),
    )


def table(compared: Compared, suffix: str = "") -> Table | None:
    """Build a table with a row for all and for each framework, a column per quantity; None without a ratio."""
    means = of(compared)
    if not means:
        return None
    quantities = list(dict.fromkeys(mean.quantity for mean in means))
    every, *names = dict.fromkeys(mean.framework for mean in means)
    names = [every, *names] if len(names) > 1 else names  # a single framework is the same as all
    known = {(mean.framework, mean.quantity): mean for mean in means}
    rows = []
    for name in names:
        of_name = [known.get((name, quantity)) for quantity in quantities]
        first = next(mean for mean in of_name if mean)
        rows.append((Cell(first.name), *(mean.cell if mean else Cell("no value") for mean in of_name)))
    labels = [
        f"{effect_words.label(compared, quantity)}, {effect_words.TIMES[quantity.name].times}"
        for quantity in quantities
    ]
    return Table(
        f"{NAME}{suffix}",
        f"{TITLE}, {compared.against}",
        ("Framework", *labels),
        tuple(rows),
        above=(compared.pair.title,),
        theme=Theme.CHANGES,
    )
