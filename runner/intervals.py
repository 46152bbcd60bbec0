"""The interval of a mean."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

CONFIDENCE = 0.95


def mean_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """(mean, low, high): the 95 % interval by Student's t, mean +- t(n-1) s / sqrt(n), with n-1 in s.

    NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.5.2. Raises statistics.StatisticsError below two values.
    """
    # Here, not above: its import takes longer than the whole start of a run, which has no use for it.
    from scipy import special  # type: ignore[import-untyped]

    mean, spread = statistics.fmean(values), statistics.stdev(values)
    reach = float(special.stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2)) * spread / math.sqrt(len(values))
    return mean, mean - reach, mean + reach
