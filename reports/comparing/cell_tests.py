"""Test cells and frameworks: one family of one-sided tests for each quantity and direction.

A family holds every cell of a quantity and each framework's mean over its batch sizes. It is corrected after Holm, so
that a large change in one place does not make others easier to find. A single family for all quantities would let one
quantity affect another. A bound on the share of false positives (Benjamini and Hochberg) would let one framework affect
the next. With it and one framework slower in all cells, a fifth of comparisons also name another one.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain

from workloads.shifts import Shift, estimate_cells, estimate_together
from workloads.statistics import ERROR, POWER, Estimate, Verdict, cut_interval, decide, holm, is_overruled
from workloads.words import format_count

from ..quantities import ACCURACY, ENERGY, MEMORY, SPEED, USAGE, Quantity
from ..tables import Place

QUANTITIES = (SPEED, MEMORY, ACCURACY, ENERGY, USAGE)  # not start-up, which depends on the disk's cache
MOVED_BY_THE_HOUR = frozenset((SPEED, ENERGY, USAGE))  # by neighbours, clock and heat; not memory and accuracy


class Untested(StrEnum):
    """Reason why a value of B was not tested against A's."""

    NOT_TESTED = "not tested"
    ONE_RUN = "uncertain: one run on a side"
    NOT_JUDGED = "not judged"  # neither more nor less is better
    NO_VALUE = "no value"


WORDS: Mapping[Verdict | Untested, str] = {
    Verdict.WORSE: "regression",
    Verdict.BETTER: "improvement",
    Verdict.UNDECIDED: "no difference found",
    **{reason: str(reason) for reason in Untested},
}


class Replicate(StrEnum):
    """Kind of value that a side has several of. ONE_RUN: repeats of one run, for a quantity that varies
    between runs.
    """

    REPEATS = "repeats"
    RUNS = "runs"
    ONE_RUN = "repeats of one run"


@dataclass(frozen=True, kw_only=True)
class QuantityTest:
    """Comparison of B with A, in one quantity of one framework, which tables name `label`.

    Accuracy is compared by the difference in points, all else by the ratio. `shift`: B minus A, on the scale of the
    test; NaN if a side has no value. `estimate` is None then, or if there are too few repeats. `p_worse`, `p_better`:
    adjusted one-sided p of either direction. `tests`: the size of their family. They are NaN and 0 if neither more nor
    less is better: such a quantity is shown, not tested. `repeats`: the fewest of a cell and side, of the kind
    `replicate`. `section`: the title of its pair of sections if there are several, otherwise "".
    """

    framework: str
    label: str
    quantity: Quantity
    shift: float
    repeats: int
    replicate: Replicate = Replicate.REPEATS
    estimate: Estimate | None = None
    p_worse: float = math.nan
    p_better: float = math.nan
    tests: int = 0
    section: str = ""

    @property
    def verdict(self) -> Verdict | Untested:
        """Verdict by the adjusted p of either direction, or the reason why there is none."""
        if not self.quantity.better:
            return Untested.NOT_JUDGED
        if self.estimate is None:
            return Untested.NOT_TESTED
        if self.replicate is Replicate.ONE_RUN:
            return Untested.ONE_RUN
        gain = -self.loss.value
        return decide(gain, gain, p=min(self.p_worse, self.p_better))

    @property
    def is_judged(self) -> bool:
        """True if a loss could have been found."""
        return bool(self.quantity.better and self.estimate and self.replicate is not Replicate.ONE_RUN)

    @property
    def overruled(self) -> bool:
        """True if the interval excludes no difference, and only the correction keeps it from being a change."""
        if self.estimate is None or not self.is_judged:
            return False
        return is_overruled(*self.estimate.interval, min(self.p_worse, self.p_better))

    @property
    def in_points(self) -> bool:
        """True for accuracy."""
        return self.quantity is ACCURACY

    @property
    def unit(self) -> str:
        """Unit of a loss."""
        return "points" if self.in_points else "%"

    @property
    def effect(self) -> tuple[float, float, float]:
        """Effect: the ratio, or the difference in points, low and high; NaN where there is none."""
        interval = self.estimate.interval if self.estimate else (math.nan, math.nan)
        if self.in_points:
            return cut_interval((self.shift, *interval), self.quantity.figures[0].difference_bounds)
        value, low, high = map(math.exp, (self.shift, *interval))
        return value, low, high

    @property
    def loss(self) -> Estimate:
        """Estimate of the loss: worse is positive. The cell or mean must have been tested."""
        assert self.estimate is not None
        return self.estimate.times(-self.quantity.better)

    def percent(self, loss: float) -> float:
        """Convert a loss to percent of A, or for accuracy to percentage points, of which none loses more than 100."""
        if self.in_points:
            return min(loss, 100.0)
        return 100 * (1 - math.exp(-loss)) if self.quantity.better > 0 else 100 * (math.exp(loss) - 1)

    @property
    def loss_percent(self) -> float:
        """Loss of B in percent; NaN if a side has no value."""
        return self.percent(-self.quantity.better * self.shift)

    @property
    def at_most_percent(self) -> float:
        """Upper bound of the loss at the level ERROR; NaN if it is not judged."""
        return self.percent(self.loss.at_most) if self.is_judged else math.nan

    @property
    def smallest_percent(self) -> float:
        """Smallest loss that a share POWER of such comparisons establishes; NaN if it is not judged."""
        return self.percent(self.loss.detectable(self.tests)) if self.is_judged else math.nan

    def repeats_needed(self, percent: float) -> int:
        """Return the repeats per side needed to exclude a loss of `percent`.

        They suffice in a share POWER of comparisons without a loss.
        """
        sign = 1 if self.quantity.better > 0 else -1
        shift = percent if self.in_points else -sign * math.log1p(-sign * percent / 100)
        return math.ceil(self.repeats * ((self.loss.reach(1 - ERROR) + self.loss.reach(POWER)) / shift) ** 2)


@dataclass(frozen=True, kw_only=True)
class CellTest(QuantityTest):
    """Test of one cell. Medians are in the quantity's unit, NaN if a side has no value; n counts the values.

    `spread`: what the estimate is computed from, or why there is none.
    """

    batch_size: int
    n_a: int
    n_b: int
    median_a: float
    median_b: float
    spread: Shift
    notes: tuple[str, ...] = ()
    trials: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict | Untested:
        """Verdict as for any test, if both sides have a value."""
        return super().verdict if self.repeats else Untested.NO_VALUE

    @property
    def name(self) -> str:
        """Name of framework and batch size in a sentence."""
        return f"{self.label}, batch size {self.batch_size}"


@dataclass(frozen=True, kw_only=True)
class MeanTest(QuantityTest):
    """Test of a framework's mean over the batch sizes that could be tested; `untested` are the others."""

    batch_sizes: tuple[int, ...]
    untested: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """Name of the framework and the number of batch sizes in a sentence."""
        return f"{self.label}, mean over {format_count(len(self.batch_sizes), 'batch size')}"


AnyTest = CellTest | MeanTest


def build_cell_test(
    place: Place, label: str, quantity: Quantity, a: Sequence[float], b: Sequence[float], spread: Shift
) -> CellTest:
    """Return the cell of both sides' values in the quantity's unit, before the test."""
    framework, batch_size = place
    median_a, median_b = (statistics.median(values) if values else math.nan for values in (a, b))
    return CellTest(
        framework=framework, label=label, quantity=quantity, shift=spread.value, repeats=min(len(a), len(b)),
        batch_size=batch_size, n_a=len(a), n_b=len(b), median_a=median_a, median_b=median_b, spread=spread,
    )  # fmt: skip


def evaluate_pairs(pairs: Iterable[Sequence[CellTest]]) -> list[list[AnyTest]]:
    """Return the cells and means of each pair of sections, tested. The families are those of all pairs together."""
    estimated = [_estimated(cells) for cells in pairs]
    adjusted = iter(_adjusted([*chain.from_iterable(estimated)]))
    return [[next(adjusted) for _ in tests] for tests in estimated]


def _estimated(cells: Sequence[CellTest]) -> list[AnyTest]:
    """Return the cells and means with their estimates, before the correction."""
    families: dict[tuple[str, str], list[int]] = {}
    for place, cell in enumerate(cells):
        if cell.repeats:
            families.setdefault((cell.quantity.name, cell.framework), []).append(place)
    done: list[AnyTest] = list(cells)
    for places in families.values():
        enough = [place for place in places if cells[place].spread.sides]
        for place, estimate in zip(enough, estimate_cells([cells[place].spread for place in enough]), strict=True):
            done[place] = replace(cells[place], estimate=estimate)
        if enough and cells[enough[0]].quantity.better:
            left = [cells[place].batch_size for place in places if place not in enough]
            done.append(_mean([cells[place] for place in enough], tuple(left)))
    return done


def _mean(cells: Sequence[CellTest], untested: tuple[int, ...]) -> MeanTest:
    estimate = estimate_together([cell.spread for cell in cells])
    return MeanTest(
        framework=cells[0].framework,
        label=cells[0].label,
        quantity=cells[0].quantity,
        shift=estimate.value,
        repeats=min(cell.repeats for cell in cells),
        replicate=cells[0].replicate,
        estimate=estimate,
        batch_sizes=tuple(cell.batch_size for cell in cells),
        untested=untested,
        section=cells[0].section,
    )


def _adjusted(tests: Sequence[AnyTest]) -> list[AnyTest]:
    """Return the tests with the p-values of their families."""
    done = list(tests)
    families: dict[str, list[int]] = {}
    for place, test in enumerate(tests):
        if test.estimate and test.quantity.better:
            families.setdefault(test.quantity.name, []).append(place)
    for places in families.values():
        losses = [tests[place].loss for place in places]
        worse, better = (holm([loss.times(sign).p_above for loss in losses]) for sign in (1, -1))
        for place, p_worse, p_better in zip(places, worse, better, strict=True):
            done[place] = replace(tests[place], p_worse=p_worse, p_better=p_better, tests=len(places))
    return done
