"""Statistics of the runner and the reports, in one place: intervals, tests, corrections, correlations, the verdict.

An interval is Student's (NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.5.2). A ratio is that of geometric means,
by logarithms, because the noise of speed, memory and energy is relative. Accuracies are compared by their difference in
percentage points. Values are paired where both sides had the same inputs: what a seed does to both then cancels. No
worker has scipy; it and numpy are imported where they are used, because that takes longer than a report's tables.
"""

from __future__ import annotations

import itertools
import math
import statistics
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Literal

from workloads.datasets import DATASETS
from workloads.records.job import ImageSource

CONFIDENCE_PERCENT = 95
ERROR = 0.05  # of each family of tests
POWER = 0.8
# Repeats that agree better than this do not predict a further one: their true spread is unknown, not zero.
LEAST_SPREAD = 0.005  # standard deviation over mean; for accuracies one test image is used instead
UNKNOWN_STEP = 1.0  # points; for a data set with an unknown number of test images
RESAMPLES = 9999  # of a permutation test, which tries all orders of up to seven pairs, and of a bootstrap
FEWEST_RANKED, FEWEST_TESTED = 4, 5  # pairs of a rank correlation; of one with a p, which is 2/24 or more for four


class Verdict(Enum):
    """Position of an interval; higher is better. WITHIN: no difference that matters."""

    BETTER = "better"
    WORSE = "worse"
    WITHIN = "within"
    UNDECIDED = "undecided"


def decide(low: float, high: float, *, margin: tuple[float, float] | None = None, p: float = 0.0) -> Verdict:
    """Decide where an interval lies: beyond 0, or beyond or within a margin of values that count as no difference.

    `p`, corrected for the number of tests, must be at most ERROR for BETTER and WORSE. UNDECIDED if an end is NaN.
    """
    bottom, top = margin or (0.0, 0.0)
    if p <= ERROR and low > top:
        return Verdict.BETTER
    if p <= ERROR and high < bottom:
        return Verdict.WORSE
    return Verdict.WITHIN if margin and bottom <= low and high <= top else Verdict.UNDECIDED


def is_significant(p: float) -> bool:
    """True if chance explains so little that a difference is stated; NaN is no test."""
    return p <= ERROR


def judge(found: tuple[float, float, float], p: float, margin: float = 0.0) -> Verdict:
    """Judge a (value, low, high): by the value's sign if p allows it, otherwise by the interval and +- `margin`.

    `p` is corrected for the number of tests. Without a margin nothing is WITHIN.
    """
    value, low, high = found
    sign = decide(value, value, p=p)
    return decide(low, high, margin=(-margin, margin), p=p) if margin and sign is Verdict.UNDECIDED else sign


def is_overruled(low: float, high: float, p: float, margin: float = 0.0) -> bool:
    """True if an interval lies beyond +- `margin`, and `p`, corrected for the number of tests, allows no difference."""
    apart = decide(low, high, margin=(-margin, margin)) in (Verdict.BETTER, Verdict.WORSE)
    return apart and p > ERROR


@dataclass(frozen=True)
class Estimate:
    """A mean of `n` values with this standard deviation, and the degrees of freedom of that deviation."""

    value: float
    deviation: float
    freedom: float
    n: int = 1

    @property
    def error(self) -> float:
        """Standard error of `value`."""
        return self.deviation / math.sqrt(self.n)

    def reach(self, probability: float) -> float:
        """Return how far Student's t of this probability lies above 0."""
        from scipy import special  # type: ignore[import-untyped]

        return float(special.stdtrit(self.freedom, probability)) * self.deviation / math.sqrt(self.n)

    @property
    def half_width(self) -> float:
        """Half the width of the interval."""
        return self.reach((1 + CONFIDENCE_PERCENT / 100) / 2)

    @property
    def interval(self) -> tuple[float, float]:
        """Interval (low, high) of CONFIDENCE_PERCENT, in the unit of `value`."""
        half = self.half_width
        return self.value - half, self.value + half

    def upper_end(self, comparisons: int) -> float:
        """Return the upper end of the interval, corrected for the number of comparisons after Bonferroni."""
        percent = 100 - (100 - CONFIDENCE_PERCENT) / comparisons
        return self.value + self.reach((1 + percent / 100) / 2)

    def p_past(self, bound: float) -> float:
        """Probability of so high a value by chance if the true one is not above `bound`."""
        if not self.error:  # all values are the same
            return 0.5 if self.value == bound else float(self.value < bound)
        from scipy import special

        return float(special.stdtr(self.freedom, -(self.value - bound) / self.error))

    @property
    def p_above(self) -> float:
        """Probability of so high a value by chance if the true one is not above 0."""
        return self.p_past(0.0)

    @property
    def p_apart(self) -> float:
        """Probability of a value so far from 0, on either side, by chance if the true one is 0."""
        return 2 * min(self.p_above, self.times(-1).p_above)

    def p_beyond(self, tolerance: float) -> float:
        """Probability of a value so far from 0 by chance if the true one is at most `tolerance` from 0."""
        away = replace(self, value=abs(self.value))
        return min(1.0, away.p_past(tolerance) + away.p_past(-tolerance))

    def times(self, sign: int) -> Estimate:
        """Return the estimate multiplied by `sign`, 1 or -1."""
        return replace(self, value=sign * self.value)

    @property
    def at_most(self) -> float:
        """One-sided upper bound: in a share ERROR of all comparisons the true value is above it."""
        return self.value + self.reach(1 - ERROR)

    def detectable(self, tests: int) -> float:
        """Smallest true value that a share POWER of such comparisons finds, as one of so many tests."""
        return self.reach(1 - ERROR / tests) + self.reach(POWER)


def estimate_mean(values: Sequence[float], least_spread: float = 0.0) -> Estimate:
    """Estimate the mean of two or more values; their standard deviation is at least `least_spread`."""
    import numpy as np

    n = len(values)
    return Estimate(statistics.fmean(values), max(float(np.std(values, ddof=1)), least_spread), n - 1, n)


def mean_interval(values: Sequence[float], least_spread: float = 0.0) -> tuple[float, float, float]:
    """Return (mean, low, high); NaN without values, and for the ends of one value's interval."""
    if len(values) < 2:
        return values[0] if values else math.nan, math.nan, math.nan
    mean = estimate_mean(values, least_spread)
    return mean.value, *mean.interval


@dataclass(frozen=True)
class Described:
    """Number of values, their mean with its interval, and the coefficient of variation; NaN where it is undefined."""

    n: int
    mean: float
    low: float
    high: float
    cv_percent: float


def describe(values: Sequence[float], bounds: tuple[float, float] | None = None) -> Described:
    """Describe values, none of them beyond `bounds`; with fewer than two only their number and mean are known."""
    if len(values) < 2:
        return Described(len(values), *mean_interval(values), math.nan)
    mean = estimate_mean(values)
    cv_percent = 100 * mean.deviation / abs(mean.value) if mean.value else math.nan
    return Described(mean.n, *cut_interval((mean.value, *mean.interval), bounds), cv_percent)


def cut_interval(
    interval: tuple[float, float, float], bounds: tuple[float, float] | None
) -> tuple[float, float, float]:
    """Return (value, low, high) without what lies beyond the bounds of the quantity; None = it has none.

    The true mean lies within the bounds. So the part beyond them never holds it, and without it the interval holds the
    true mean exactly as often.
    """
    value, low, high = interval
    if bounds is None or math.isnan(low):  # one value has no interval
        return interval
    return value, min(value, max(low, bounds[0])), max(value, min(high, bounds[1]))


def ratio_interval(logarithms: Sequence[float], least_spread: float = 0.0) -> tuple[float, float, float]:
    """Return (ratio of geometric means, low, high) from the logarithm of each pair's ratio, as `mean_interval` does."""
    value, low, high = map(math.exp, mean_interval(logarithms, least_spread))
    return value, low, high


def pool(estimates: Iterable[Estimate]) -> tuple[float, float]:
    """Return the mean variance of one value, and its degrees of freedom; the variance is NaN without any."""
    squares = freedom = 0.0
    for each in estimates:
        squares, freedom = squares + each.freedom * each.deviation**2, freedom + each.freedom
    return squares / freedom if freedom else math.nan, freedom


def trimmed_mean(values: Sequence[float], share: float) -> float:
    """Return the mean of the values without this share of them at either end."""
    from scipy import stats

    return float(stats.trim_mean(values, share))


def bootstrap_interval(pairs: Sequence[Any], statistic: Callable[..., Any], seed: int) -> tuple[float, float]:
    """Return the bootstrap interval of a statistic of paired samples; the same samples give the same interval."""
    import numpy as np
    from scipy import stats

    limits = stats.bootstrap(
        pairs,
        statistic,
        paired=True,
        vectorized=True,
        n_resamples=RESAMPLES,
        confidence_level=CONFIDENCE_PERCENT / 100,
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return float(limits.low), float(limits.high)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p values by Holm (1979), in the same order; NaN is no test, and stays.

    The probability that chance alone puts any of them at or below ERROR is at most ERROR. That holds whichever of the
    other effects are real.
    """
    adjusted, highest = [math.nan] * len(p_values), 0.0
    tested = [place for place, p in enumerate(p_values) if not math.isnan(p)]
    for rank, place in enumerate(sorted(tested, key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(tested) - rank) * p_values[place]))
        adjusted[place] = highest
    return adjusted


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Adjust p values by Benjamini and Hochberg (1995), in the same order; NaN is no test, and stays.

    Of those at or below ERROR, the expected share due to chance alone is at most ERROR. If nothing differs, that is the
    probability that any is at or below ERROR.
    """
    # scipy.stats has it, but its import takes a second of every report.
    adjusted, lowest = [math.nan] * len(p_values), 1.0
    tested = [place for place, p in enumerate(p_values) if not math.isnan(p)]
    n = len(tested)
    for rank, place in enumerate(sorted(tested, key=p_values.__getitem__, reverse=True)):
        lowest = min(lowest, p_values[place] * (n / (n - rank)))
        adjusted[place] = lowest
    return adjusted


def neighbour_score(values: Sequence[float]) -> float:
    """Return the standard score of the correlation of neighbours: high if successive values are similar.

    The lag-1 correlation with mean -1/n and variance (n-2)^2 / n^2 (n-1) under independence (Moran 1948, Biometrika 35:
    255-260). Three values or more; 0 if all are equal.
    """
    n, mean = len(values), statistics.fmean(values)
    deviations = [value - mean for value in values]
    squares = math.fsum(each * each for each in deviations)
    if not squares:
        return 0.0
    products = math.fsum(a * b for a, b in itertools.pairwise(deviations))
    return (products / squares + 1 / n) * n * math.sqrt(n - 1) / (n - 2)


def trend_score(values: Sequence[float]) -> float:
    """Return the standard score of the correlation with the position in the order; 0 if all values are equal."""
    if len(set(values)) == 1:
        return 0.0
    return statistics.correlation(range(len(values)), values) * math.sqrt(len(values) - 1)


def _ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 1, of equal values their mean."""
    in_order = sorted(values)
    return [(bisect_left(in_order, value) + bisect_right(in_order, value) + 1) / 2 for value in values]


def rank_correlation(x: Sequence[float], y: Sequence[float]) -> float:
    """Return Spearman's rho; NaN if one of them is constant."""
    if min(len(set(x)), len(set(y))) < 2:
        return math.nan
    return statistics.correlation(_ranks(x), _ranks(y))


def p_of_ranks(x: Sequence[float], y: Sequence[float]) -> float:
    """Probability of so high a rank correlation by chance, two-sided; NaN if one of them is constant.

    By permutation, as scipy advises for few pairs: its formula gives 0 for four in order.
    """
    if min(len(set(x)), len(set(y))) < 2:
        return math.nan
    import numpy as np
    from scipy import stats

    ranks_x, ranks_y = np.array(_ranks(x)), np.array(_ranks(y))

    def statistic(permuted: Any, axis: int) -> Any:
        return (permuted * ranks_y).sum(axis=axis)  # mean and spread of ranks are fixed, so this orders as rho does

    tested = stats.permutation_test(
        (ranks_x,), statistic, permutation_type="pairings", vectorized=True, n_resamples=RESAMPLES, rng=0
    )
    return float(tested.pvalue)


def accuracy_step(dataset: str, source: ImageSource | None = None) -> float:
    """Return the percentage points that one test image counts: the least spread of accuracies."""
    images = count_images(dataset, source, "test")
    return UNKNOWN_STEP if images is None else 100 / images


def count_images(dataset: str, source: ImageSource | None, split: Literal["train", "test"]) -> int | None:
    """Return the number of images in a split; None for a data set that is no longer in the catalogue."""
    if source is not None:
        return source.train if split == "train" else source.test
    if known := DATASETS.get(dataset):
        return known.train_count if split == "train" else known.test_count
    return None
