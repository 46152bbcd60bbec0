"""Compute rank correlations: do two rows of numbers rise and fall together?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

FEWEST, ALPHA = 4, 0.05
RESAMPLES, SEED = 9999, 0  # for up to seven pairs all orders are tried, for more this many random ones


@dataclass(frozen=True)
class Correlation:
    """Spearman's rho, the number of pairs, and the probability of as much by chance; NaN if one row is constant."""

    rho: float
    n: int
    p: float

    def __str__(self) -> str:
        p = "p < 0.001" if self.p < 0.001 else f"p = {self.p:.3f}"
        return f"rank correlation {self.rho:.2f}, n = {self.n}, {p}"


def rho(x: Sequence[float], y: Sequence[float]) -> float:
    """Compute rho without importing scipy. NaN if one of them is constant."""
    return float(pd.DataFrame({"x": list(x), "y": list(y)}).corr(method="spearman").to_numpy()[0, 1])


def correlation(x: Sequence[float], y: Sequence[float]) -> Correlation:
    """Compute the correlation; p is two-sided.

    p is by permutation, as scipy advises for few pairs: its formula gives 0 for four in order.
    """
    coefficient = rho(x, y)
    if math.isnan(coefficient):
        return Correlation(math.nan, len(x), math.nan)
    # Imported here because the import takes longer than all tables.
    from scipy import stats  # type: ignore[import-untyped]

    ranks_x, ranks_y = stats.rankdata(x), stats.rankdata(y)

    def statistic(permuted: Any, axis: int) -> Any:
        return (permuted * ranks_y).sum(axis=axis)  # mean and spread of ranks are fixed, so this orders as rho does

    tested = stats.permutation_test(
        (ranks_x,), statistic, permutation_type="pairings", vectorized=True, n_resamples=RESAMPLES, rng=SEED
    )
    return Correlation(coefficient, len(x), float(tested.pvalue))
