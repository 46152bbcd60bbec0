"""Write the headline of a comparison: for each quantity with a ratio, the geometric mean over the cells.

There is one for all frameworks together and one for each.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from workloads.shifts import estimate_together

from ..frameworks import order_frameworks
from ..quantities import ACCURACY
from ..sentences import say
from . import effect_words
from .cell_tests import CellTest, QuantityTest, Replicate
from .comparison import PairComparison

OF_ALL = "All"


@dataclass(frozen=True, kw_only=True)
class GeometricMean(QuantityTest):
    """Geometric mean, for accuracy the mean, over `cells` cells of a framework, or of all (OF_ALL) if it is "".

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
    def is_significant(self) -> bool:
        """True if the interval excludes 1, of points 0, and is one between runs if the quantity varies between runs."""
        _, low, high = self.effect
        apart = round(low, 2) > 0 or round(high, 2) < 0 if self.in_points else effect_words.excludes_1(low, high)
        return self.estimate is not None and not self.one_run and apart

    @property
    def sentence(self) -> str:
        """Sentence like "B is 1.95 [1.85, 2.05] times as fast as A, geometric mean over 27 cells"."""
        a, b = self.names
        found = effect_words.SENTENCES[self.quantity.name].format(a=a, b=b, effect=effect_words.effect(self))
        kind = "mean" if self.in_points else "geometric mean"
        once = self.estimate is None
        return say(
            "compare.mean",
            found=found,
            kind=kind,
            cells=self.cells,
            once=once,
            told=self.is_significant,
            one_run=self.one_run,
        )

    @property
    def doubt(self) -> str:
        """Reason why no difference is stated; "" if one can."""
        if self.estimate is None:
            return say("compare.one_repeat")
        if self.one_run:
            return say("compare.one_run_words")
        return "" if self.is_significant else say("compare.untold")


def compute_means(compared: PairComparison) -> list[GeometricMean]:
    """Return the headlines of each quantity that has a better direction: for all, then for each framework."""
    cells = [cell for cell in compared.cells if not cell.in_points and not math.isnan(cell.shift)]
    means = []
    for name in dict.fromkeys(cell.quantity.name for cell in cells if cell.quantity.better):
        alike = [cell for cell in cells if cell.quantity.name == name]
        means.append(_mean(compared, alike, ""))
        for framework in order_frameworks(cell.framework for cell in alike):
            own = [cell for cell in alike if cell.framework == framework]
            means.append(_mean(compared, own, framework))
    return means


def _mean(compared: PairComparison, cells: Sequence[CellTest], framework: str) -> GeometricMean:
    """Take the mean over the cells with repeats; without repeats over all cells, and without an estimate."""
    tested = [cell for cell in cells if cell.spread.sides]
    used, estimate = tested or cells, estimate_together([cell.spread for cell in tested]) if tested else None
    shift = estimate.value if estimate else statistics.fmean(cell.shift for cell in used)
    return GeometricMean(
        framework=framework, label=compared.pair.named(framework) if framework else OF_ALL,
        quantity=cells[0].quantity, shift=shift, repeats=min(cell.repeats for cell in used),
        replicate=used[0].replicate, estimate=estimate, cells=len(used), names=compared.names,
    )  # fmt: skip


def write_sentences(compared: PairComparison) -> list[str]:
    """Return a sentence for each quantity with a ratio, over all cells; then for accuracy, where it was measured."""
    means = [mean for mean in compute_means(compared) if not mean.framework]
    accuracy = [cell for cell in compared.cells if cell.quantity is ACCURACY and not math.isnan(cell.shift)]
    means += [_mean(compared, accuracy, "")] if accuracy else []
    return [f"{effect_words.name_quantity(compared, mean.quantity)}: {mean.sentence}" for mean in means]
