"""The interval of a mean by Student's t, mean +- t(n-1) s / sqrt(n) with n-1 in s, for runner and reports; how
values hang together in their order; and the least that accuracies can spread by.

NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.5.2. No worker has scipy.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence

from workloads.datasets import DATASETS

from .job import ImageSource

CONFIDENCE_PERCENT = 95
UNKNOWN_STEP = 1.0  # points; of a data set whose test images nobody counted


def mean_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """(mean, low, high). Raises statistics.StatisticsError below two values."""
    mean, half = statistics.fmean(values), reach(len(values), statistics.stdev(values))
    return mean, mean - half, mean + half


def reach(n: int, deviation: float, percent: float = CONFIDENCE_PERCENT) -> float:
    """Half the width of the interval of a mean of `n`, two or more, from their standard deviation."""
    return student(n - 1, percent) * deviation / math.sqrt(n)


def student(freedom: int, percent: float = CONFIDENCE_PERCENT) -> float:
    """Student's t that both sides together exceed in 100 - `percent` % of draws."""
    # Here, not above: its import takes longer than the start of a run or all tables, and one repeat has no use for it.
    from scipy import special  # type: ignore[import-untyped]

    return float(special.stdtrit(freedom, (1 + percent / 100) / 2))


def neighbour_score(values: Sequence[float]) -> float:
    """Standard score of the correlation of neighbours: high where values hang together in their order.

    The lag-1 correlation with mean -1/n and variance (n-2)^2 / n^2 (n-1) under independence (Moran 1948, Biometrika 35:
    255-260). Three values or more; 0 where all are equal.
    """
    n, mean = len(values), statistics.fmean(values)
    deviations = [value - mean for value in values]
    squares = math.fsum(each * each for each in deviations)
    if not squares:
        return 0.0
    products = math.fsum(a * b for a, b in itertools.pairwise(deviations))
    return (products / squares + 1 / n) * n * math.sqrt(n - 1) / (n - 2)


def trend_score(values: Sequence[float]) -> float:
    """Standard score of the correlation with the place in the order; 0 where all values are equal."""
    if len(set(values)) == 1:
        return 0.0
    return statistics.correlation(range(len(values)), values) * math.sqrt(len(values) - 1)


def accuracy_step(dataset: str, source: ImageSource | None = None) -> float:
    """Percentage points that one test image is worth."""
    images = tested_images(dataset, source)
    return UNKNOWN_STEP if images is None else 100 / images


def tested_images(dataset: str, source: ImageSource | None) -> int | None:
    """How many there are; None of a data set that is no more in the catalogue."""
    if source is not None:
        return source.test
    known = DATASETS.get(dataset)
    return known.test_count if known else None
