"""Compute the gradient noise scale and its interval from squared norms of gradients.

The interval is a bootstrap over steps of |G|^2 / S, the inverse of the noise scale: S is never near 0, |G|^2 may be.
Its limits are inverted. Where |G|^2 / S may be 0 or less, there is only a lower bound instead of a number: the inverse
of the upper limit. For simulated gradients, the interval or the lower bound was correct 93 to 97 % of the time
(docs/reference/noise-scale.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.noise_scale import WINDOW, estimates, running_averages
from workloads.records.batch_answers import Noise, NoisePoint
from workloads.statistics import bootstrap_interval

Floats = NDArray[np.float64]

SEED = 1812  # the same norms give the same interval in every framework and run


@dataclass(frozen=True)
class Measured:
    """Squared norms of the gradients at one point of a training; a value that is not a number is NaN."""

    progress: float
    small: Floats  # (steps, parts)
    large: Floats  # (steps,)
    small_batch: int
    large_batch: int

    @property
    def finite(self) -> bool:
        """True if all are numbers."""
        return bool(np.isfinite(self.small).all() and np.isfinite(self.large).all())


def point(measured: Measured) -> NoisePoint:
    """Return the noise scale at one point; the norms must be finite."""
    small, large = measured.small.mean(axis=1), measured.large
    sizes = measured.small_batch, measured.large_batch
    squared_gradient, trace = (float(each) for each in estimates(small.mean(), large.mean(), *sizes))
    known = NoisePoint(measured.progress, squared_gradient, trace, None, None, None, None, len(large), *sizes)
    if trace <= 0:  # every gradient is the same
        return replace(known, noise_scale=0.0) if squared_gradient > 0 else known
    low, high = _inverse_interval(small, large, *sizes)
    if not (math.isfinite(low) and math.isfinite(high)):
        return known
    if squared_gradient <= 0 or low <= 0:
        return replace(known, at_least=1 / high if high > 0 else float(measured.large_batch))
    return replace(known, noise_scale=trace / squared_gradient, low=1 / high, high=1 / low)


def _inverse_interval(small: Floats, large: Floats, small_batch: int, large_batch: int) -> tuple[float, float]:
    """Return the interval of |G|^2 / S; NaN where steps do not differ."""
    if np.ptp(small) == np.ptp(large) == 0:
        return math.nan, math.nan

    def inverse(small: Any, large: Any, axis: int) -> Any:
        squared_gradient, trace = estimates(small.mean(axis=axis), large.mean(axis=axis), small_batch, large_batch)
        return squared_gradient / trace

    return bootstrap_interval((small, large), inverse, SEED)


def pooled(measured: Sequence[Measured]) -> Noise:
    """Return each point, and the noise scale of |G|^2 and S averaged over all points; all norms must be finite."""
    small, large = (np.mean([getattr(each, name) for each in measured], axis=0) for name in ("small", "large"))
    whole = point(replace(measured[0], small=small, large=large))
    return Noise(tuple(map(point, measured)), whole.noise_scale, whole.low, whole.high, whole.at_least)


def apart(measured: Sequence[Measured], others: Sequence[Measured]) -> tuple[float, float]:
    """Return how far squared norms are from the others' with the same weights and batches.

    The result is (of a typical small or large batch, of the mean), both relative to the mean, at the point where it is
    largest. Typical means the median. A value on a kink of the network (ReLU, max pooling) may fall to the other side
    of it in another framework. That changes the few affected batches by much. The difference is relative to the mean
    because an almost vanished gradient has a larger relative rounding error.
    """
    pairs = [
        (getattr(each, name), getattr(other, name))
        for each, other in zip(measured, others, strict=True)
        for name in ("small", "large")
    ]
    means = [float(np.mean(other)) or 1.0 for _, other in pairs]  # without any gradient, the difference stays absolute
    typical = [float(np.median(np.abs(each - other))) / mean for (each, other), mean in zip(pairs, means, strict=True)]
    whole = [abs(float(np.mean(each - other))) / mean for (each, other), mean in zip(pairs, means, strict=True)]
    return max(typical), max(whole)


def finder(small: Floats, large: Floats, batch_size: int) -> tuple[float | None, int]:
    """Return the noise scale as fastai_bs_finder computes it, from arrays (windows, WINDOW) and (windows,).

    The result is (mean noise scale, number of windows with a negative |G|^2). The mean is over the noise scales after
    each window, each from averages of all windows up to it. It is None where an average of |G|^2 is not positive, as a
    ratio to it means nothing. It is None where the mean itself is not positive, too. Only the last small batch of each
    window is used.
    """
    squared_gradients, traces = estimates(small[:, -1], large, batch_size, batch_size * WINDOW)
    averages = running_averages(squared_gradients)
    figure = float((running_averages(traces) / averages).mean()) if (averages > 0).all() else 0.0
    return figure if figure > 0 else None, int((squared_gradients < 0).sum())
