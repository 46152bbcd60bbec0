"""Compute the mean of repeats, its interval and their coefficient of variation in the same way for every table."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workloads.records.intervals import reach

# Repeats that agree better than this do not predict a further one: their true spread is unknown, not zero.
LEAST_SPREAD = 0.005  # standard deviation over mean; for accuracies one test image is used instead


@dataclass(frozen=True)
class Spread:
    """Spread of repeats, in the unit of the values.

    NaN: the mean of no values; the interval and cv_percent of fewer than two, and the cv_percent if the mean is 0.
    """

    n: int
    mean: float
    low: float
    high: float
    cv_percent: float


def spread(values: Sequence[float], least: float = 0.0) -> Spread:
    """Compute the spread; `least` is the smallest standard deviation assumed, in the unit of the values."""
    n = len(values)
    mean = statistics.fmean(values) if n else math.nan
    if n < 2:
        return Spread(n, mean, math.nan, math.nan, math.nan)
    deviation = max(float(np.std(values, ddof=1)), least)
    half = reach(n, deviation)
    return Spread(n, mean, mean - half, mean + half, 100 * deviation / abs(mean) if mean else math.nan)
