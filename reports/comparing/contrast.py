"""One cell of A against the same cell of B: effect, 95 % interval, test; and the correction for many cells.

Speed, memory, usage, energy: the ratio B/A of geometric means, by Welch's t on the logarithms, for their noise is
relative and the two sides' need not be alike. Accuracy: the difference B - A in percentage points, paired by repeat
where both had the same inputs, so that what a seed does to both falls out. The p-values are adjusted after Benjamini
and Hochberg (1995): of the cells called changed at most 5 % are so by chance, in expectation; and where nothing
differs at all, that is the probability that any cell is called changed, which is how often a gate fails for nothing.
Holm's procedure would hold the second bound under some true differences too, at the price of missing more of them at
the few repeats that trials of minutes allow.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from ..parity import FEWEST
from ..quantities import QUANTITIES, Quantity
from ..spread import CONFIDENCE_PERCENT

ERROR = 1 - CONFIDENCE_PERCENT / 100  # of the list of changes; see above
ONE_REPEAT = "cannot be tested: one repeat on a side"


class Verdict(StrEnum):
    REGRESSION = "regression"
    IMPROVEMENT = "improvement"
    NO_DIFFERENCE = "no difference found"
    NOT_TESTED = "not tested"
    NOT_JUDGED = "not judged"  # neither more nor less of it is better
    NO_VALUE = "no value"


@dataclass(frozen=True)
class Measure:
    """`better` is 1 where more is better, -1 where less is, 0 where neither is: such a one is shown, not tested.

    `in_points`: compared by difference, else by ratio.
    """

    quantity: Quantity
    better: int
    in_points: bool = False


@dataclass(frozen=True)
class Effect:
    """Ratio or difference in points with its interval; NaN where it cannot be told. `p` None: `untested` says why."""

    value: float
    low: float = math.nan
    high: float = math.nan
    p: float | None = None
    untested: str = ""


_BY_NAME = {quantity.name: quantity for quantity in QUANTITIES}
# Step time is the batch size over the speed: the same finding twice. What start-up takes depends on the disk's cache.
MEASURES = (
    Measure(_BY_NAME["speed"], 1),
    Measure(_BY_NAME["memory"], -1),
    Measure(_BY_NAME["accuracy"], 1, in_points=True),
    Measure(_BY_NAME["energy"], -1),
    Measure(_BY_NAME["usage"], 0),
)


def ratio(a: Sequence[float], b: Sequence[float]) -> Effect:
    """Of the geometric means, b over a, from independent repeats. Without any spread the values are taken as exact."""
    if min(*a, *b) <= 0:
        return Effect(math.nan, untested="cannot be told: a value is not above 0, so there is no ratio")
    logs_a, logs_b = [math.log(x) for x in a], [math.log(x) for x in b]
    value = math.exp(statistics.fmean(logs_b) - statistics.fmean(logs_a))
    if min(len(a), len(b)) < 2:
        return Effect(value, untested=ONE_REPEAT)
    if len({*a}) == len({*b}) == 1:
        return Effect(b[0] / a[0], b[0] / a[0], b[0] / a[0], p=float(a[0] == b[0]))
    found = _welch(logs_a, logs_b)
    return Effect(value, math.exp(found.low), math.exp(found.high), found.p)


def difference(a: Sequence[float], b: Sequence[float], paired: bool) -> Effect:
    """Of the means, b minus a, in the unit of the values; `paired`: a[i] and b[i] had the same inputs.

    Tested from FEWEST repeats on, and not where they show no spread: accuracies come in steps of one test image, and
    two or three that fall on the same step are no proof that the next one will.
    """
    value = statistics.fmean(b) - statistics.fmean(a)
    if min(len(a), len(b)) < 2:
        return Effect(value, untested=ONE_REPEAT)
    if min(len(a), len(b)) < FEWEST:
        return Effect(value, untested=f"cannot be tested: fewer than {FEWEST} repeats on a side")
    # Rounded, because 0.71 - 0.70 and 0.31 - 0.30 differ in floating point.
    steps = [round(y - x, 9) for x, y in zip(a, b, strict=True)] if paired else []
    if (len({*steps}) == 1) if paired else (len({*a}) == len({*b}) == 1):
        if round(value, 9) == 0:
            return Effect(0.0, 0.0, 0.0, p=1.0)
        return Effect(value, untested="cannot be tested: the repeats show no spread to hold the difference against")
    if not paired:
        return _welch(a, b)
    from scipy import stats  # type: ignore[import-untyped]

    found = stats.ttest_1samp(steps, 0)
    interval = found.confidence_interval(CONFIDENCE_PERCENT / 100)
    return Effect(value, float(interval.low), float(interval.high), float(found.pvalue))


def _welch(a: Sequence[float], b: Sequence[float]) -> Effect:
    """Difference of means, b minus a, by Welch's t-test."""
    from scipy import stats  # here, not above: its import takes longer than all tables of a report

    found = stats.ttest_ind(b, a, equal_var=False)
    interval = found.confidence_interval(CONFIDENCE_PERCENT / 100)
    value = statistics.fmean(b) - statistics.fmean(a)
    return Effect(value, float(interval.low), float(interval.high), float(found.pvalue))


def adjusted(p_values: Sequence[float]) -> list[float]:
    """By Benjamini and Hochberg, in the same order."""
    if not p_values:
        return []
    from scipy import stats

    told = [1.0 if math.isnan(p) else p for p in p_values]  # NaN: values that differ in their last bit alone
    return [float(p) for p in stats.false_discovery_control(told, method="bh")]


def worsening_percent(measure: Measure, effect: Effect) -> float:
    """By how much B is worse: percent of A, of accuracy percentage points; negative where it is better."""
    change = effect.value if measure.in_points else 100 * (effect.value - 1)
    return -measure.better * change


def verdict(measure: Measure, effect: Effect, p_adjusted: float | None) -> Verdict:
    if math.isnan(effect.value):
        return Verdict.NO_VALUE
    if measure.better == 0:
        return Verdict.NOT_JUDGED
    if p_adjusted is None:
        return Verdict.NOT_TESTED
    if p_adjusted > ERROR:
        return Verdict.NO_DIFFERENCE
    return Verdict.REGRESSION if worsening_percent(measure, effect) > 0 else Verdict.IMPROVEMENT
