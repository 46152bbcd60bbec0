"""Mean of repeats, its interval and their coefficient of variation: one way for every table."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workloads.datasets import DATASETS
from workloads.records.intervals import reach
from workloads.records.job import ImageSource

# Repeats that agree better than this do not say what a further one will do: what they hide is unknown, not nothing.
LEAST_SPREAD = 0.005  # standard deviation over mean; of accuracies: one test image
UNKNOWN_STEP = 1.0  # points; of a data set whose test images nobody counted


@dataclass(frozen=True)
class Spread:
    """In the unit of the values. NaN: the mean of none; the interval and cv_percent of fewer than two, and the
    cv_percent where the mean is 0.
    """

    n: int
    mean: float
    low: float
    high: float
    cv_percent: float


def accuracy_step(dataset: str, source: ImageSource | None = None) -> float:
    """Percentage points that one test image is worth."""
    if source is not None:
        return 100 / source.test
    known = DATASETS.get(dataset)
    return 100 / known.test_count if known else UNKNOWN_STEP


def spread(values: Sequence[float], least: float = 0.0) -> Spread:
    """`least` is the standard deviation of repeats that agree better than that, in the unit of the values."""
    n = len(values)
    mean = statistics.fmean(values) if n else math.nan
    if n < 2:
        return Spread(n, mean, math.nan, math.nan, math.nan)
    deviation = max(float(np.std(values, ddof=1)), least)
    half = reach(n, deviation)
    return Spread(n, mean, mean - half, mean + half, 100 * deviation / abs(mean) if mean else math.nan)
