"""Statistics for runner and reports: the interval of a mean, the correlation of values in their order, and the least
spread of accuracies.

The interval is Student's, mean +- t(n-1) s / sqrt(n) with n-1 in s: NIST/SEMATECH e-Handbook of Statistical Methods,
1.3.5.2. No worker has scipy.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence

from workloads.datasets import DATASETS

from .job import ImageSource

CONFIDENCE_PERCENT = 95
UNKNOWN_STEP = 1.0  # points; for a data set with an unknown number of test images


def mean_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return (mean, low, high). Raises statistics.StatisticsError below two values."""
    mean, half = statistics.fmean(values), reach(len(values), statistics.stdev(values))
    return mean, mean - half, mean + half


def reach(n: int, deviation: float, percent: float = CONFIDENCE_PERCENT) -> float:
    """Return half the width of the interval of a mean of `n`, two or more, from their standard deviation."""
    return student(n - 1, percent) * deviation / math.sqrt(n)


def student(freedom: int, percent: float = CONFIDENCE_PERCENT) -> float:
    """Return Student's t that both sides together exceed in 100 - `percent` % of draws."""
    # Imported here: it takes longer than the start of a run or all tables, and one repeat does not need it.
    from scipy import special  # type: ignore[import-untyped]

    return float(special.stdtrit(freedom, (1 + percent / 100) / 2))


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


def accuracy_step(dataset: str, source: ImageSource | None = None) -> float:
    """Return the percentage points that one test image counts."""
    images = tested_images(dataset, source)
    return UNKNOWN_STEP if images is None else 100 / images


def tested_images(dataset: str, source: ImageSource | None) -> int | None:
    """Return the number of test images; None for a data set that is no longer in the catalogue."""
    if source is not None:
        return source.test
    known = DATASETS.get(dataset)
    return known.test_count if known else None
