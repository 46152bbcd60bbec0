"""Peak memory over batch size as a line: a fixed cost, and the cost of each sample of the batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

FEWEST_SIZES, FEWEST_TO_LEAVE_ONE_OUT = 2, 4


@dataclass(frozen=True)
class Line:
    """bytes(batch size) = fixed_bytes + per_sample_bytes x batch size; n is the number of sizes it was fitted to.

    left_out_error: the largest relative error (0.05 = 5 %) with which the other sizes predict a size left out; None
    below four sizes.
    """

    fixed_bytes: float
    per_sample_bytes: float
    r_squared: float
    left_out_error: float | None
    n: int

    def at(self, batch_size: int) -> float:
        """Return the predicted bytes."""
        return self.fixed_bytes + self.per_sample_bytes * batch_size


def fit_line(points: dict[int, float]) -> Line | None:
    """Return the line of least squares through {batch size: bytes, more than 0}; None below two sizes.

    r_squared is 1 - (sum of squared residuals) / (sum of squared distances from the mean). It is 1 if all bytes are
    equal, because the line then meets every one of them. Raises ValueError for a value that is not more than 0.
    """
    if not all(value > 0 for value in points.values()):
        raise ValueError(f"memory must be more than 0 bytes: {points}")
    if len(points) < FEWEST_SIZES:
        return None
    sizes = np.array(list(points), np.float64)
    values = np.array(list(points.values()), np.float64)
    fixed, per_sample = _least_squares(sizes, values)
    residual = np.square(values - fixed - per_sample * sizes).sum()
    spread = np.square(values - values.mean()).sum()
    error = None
    if len(points) >= FEWEST_TO_LEAVE_ONE_OUT:
        errors = []
        for left_out in range(len(sizes)):
            others = np.arange(len(sizes)) != left_out
            a, b = _least_squares(sizes[others], values[others])
            errors.append(abs(a + b * sizes[left_out] - values[left_out]) / values[left_out])
        error = float(max(errors))
    return Line(fixed, per_sample, float(1 - residual / spread) if spread else 1.0, error, len(points))


def _least_squares(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return intercept and slope; computed about the means, so that bytes of 10^10 lose no digits."""
    away = x - x.mean()
    slope = float(away @ (y - y.mean()) / (away @ away))
    return float(y.mean()) - slope * float(x.mean()), slope
