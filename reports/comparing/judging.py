"""Cells and frameworks, tested: one family of one-sided tests for each quantity and direction.

A family holds every cell of a quantity and each framework's mean over its batch sizes, and is corrected after Holm, so
that a large change here does not lower the bar elsewhere: neither from one quantity to another, as in one family of all
of them, nor from one framework to the next, as in a correction that bounds the share of false ones (Benjamini and
Hochberg: with one framework slower in all cells a fifth of comparisons then name another one, too).
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from ..frameworks import display_name
from ..order import ERROR, holm
from . import contrast
from .contrast import Estimate, Measure, Shift, Verdict


@dataclass(frozen=True)
class Judgement:
    """`worse`, `better`: adjusted one-sided p of either direction; `tests`: the size of their family. NaN and 0 where
    neither more nor less is better.
    """

    estimate: Estimate
    worse: float = float("nan")
    better: float = float("nan")
    tests: int = 0

    def verdict(self, measure: Measure) -> Verdict:
        """By the adjusted p at the level ERROR."""
        if not measure.better:
            return Verdict.NOT_JUDGED
        if self.worse <= ERROR:
            return Verdict.REGRESSION
        return Verdict.IMPROVEMENT if self.better <= ERROR else Verdict.NO_DIFFERENCE


@dataclass(frozen=True)
class Compared:
    """One quantity of one cell. Medians in the quantity's unit, NaN where a side has no value; n counts the values.

    No `shift`: a side has no value. No `judgement`: that, or it cannot be tested.
    """

    framework: str
    batch_size: int
    measure: Measure
    n_a: int
    n_b: int
    median_a: float
    median_b: float
    shift: Shift | None = None
    notes: tuple[str, ...] = ()
    trials: tuple[str, ...] = ()
    judgement: Judgement | None = None

    @property
    def verdict(self) -> Verdict:
        """NO_VALUE and NOT_JUDGED go before NOT_TESTED."""
        if self.shift is None:
            return Verdict.NO_VALUE
        if not self.measure.better:
            return Verdict.NOT_JUDGED
        return self.judgement.verdict(self.measure) if self.judgement else Verdict.NOT_TESTED

    @property
    def name(self) -> str:
        """Framework and batch size, as a sentence names them."""
        return f"{display_name(self.framework)}, batch size {self.batch_size}"


@dataclass(frozen=True)
class Mean:
    """One quantity of one framework, over the batch sizes that could be tested; at the others (`untested`) not."""

    framework: str
    measure: Measure
    batch_sizes: tuple[int, ...]
    untested: tuple[int, ...]
    repeats: int  # the fewest of a cell and side
    judgement: Judgement

    @property
    def verdict(self) -> Verdict:
        """Of the mean, at the level ERROR."""
        return self.judgement.verdict(self.measure)

    @property
    def name(self) -> str:
        """Framework and how many batch sizes, as a sentence names them."""
        sizes = len(self.batch_sizes)
        return f"{display_name(self.framework)}, mean over {sizes} batch size{'' if sizes == 1 else 's'}"


Tested = Compared | Mean
Item = TypeVar("Item", Compared, Mean)


@dataclass(frozen=True)
class Judged:
    """All cells of one pair of sections, and each framework's means over them."""

    cells: tuple[Compared, ...]
    means: tuple[Mean, ...]


def cell(
    framework: str, batch_size: int, measure: Measure, a: Sequence[float], b: Sequence[float], shift: Shift | None
) -> Compared:
    """Of the values of both sides in the quantity's unit."""
    median_a, median_b = (statistics.median(values) if values else float("nan") for values in (a, b))
    return Compared(framework, batch_size, measure, len(a), len(b), median_a, median_b, shift)


def judged(pairs: Sequence[Sequence[Compared]]) -> list[Judged]:
    """One for each pair of sections; the families are those of all pairs together."""
    estimated = [_estimated(cells) for cells in pairs]
    for name in dict.fromkeys(cell.measure.quantity.name for one in estimated for cell in one.cells):
        estimated = _tested(estimated, name)
    return estimated


def _estimated(cells: Sequence[Compared]) -> Judged:
    """Those with repeats to test, before the correction."""
    groups: dict[tuple[str, str], list[int]] = {}
    for place, one in enumerate(cells):
        if one.shift is not None:
            groups.setdefault((one.measure.quantity.name, one.framework), []).append(place)
    done, means = list(cells), []
    for places in groups.values():
        shifts = {place: shift for place in places if (shift := cells[place].shift) is not None and shift.groups}
        for place, estimate in zip(shifts, contrast.of_cells([*shifts.values()]), strict=True):
            done[place] = replace(cells[place], judgement=Judgement(estimate))
        first = cells[places[0]]
        if shifts and first.measure.better:
            sizes = tuple(cells[place].batch_size for place in shifts)
            left = tuple(cells[place].batch_size for place in places if place not in shifts)
            fewest = min(min(cells[place].n_a, cells[place].n_b) for place in shifts)
            mean = Judgement(contrast.of_mean([*shifts.values()]))
            means.append(Mean(first.framework, first.measure, sizes, left, fewest, mean))
    return Judged(tuple(done), tuple(means))


def _tested(pairs: Sequence[Judged], name: str) -> list[Judged]:
    """With the adjusted p-values of this quantity."""

    def estimate_of(item: Tested) -> Estimate | None:
        """None where it is not of the family."""
        mine = item.measure.quantity.name == name and item.measure.better
        return item.judgement.estimate if mine and item.judgement else None

    everything: list[Tested] = []
    for one in pairs:
        everything += [*one.cells, *one.means]
    family = [(estimate, item.measure.better) for item in everything if (estimate := estimate_of(item)) is not None]
    worse, better = (
        holm([estimate.worsening(sign * direction).p_above for estimate, direction in family]) for sign in (1, -1)
    )
    p_values = iter(zip(worse, better, strict=True))

    def tested(item: Item) -> Item:
        estimate = estimate_of(item)
        return item if estimate is None else replace(item, judgement=Judgement(estimate, *next(p_values), len(family)))

    return [Judged(tuple(map(tested, one.cells)), tuple(map(tested, one.means))) for one in pairs]
