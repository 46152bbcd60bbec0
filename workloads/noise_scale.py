"""The gradient noise scale from squared norms of gradients at fixed weights (McCandlish et al. 2018, arXiv 1812.06162,
appendix A.1).

With g_b the mean gradient of a batch of b images, |.|^2 over everything trained: E|g_b|^2 = |G|^2 + S/b. G is the
gradient of the whole training split's loss and S the trace of the covariance of one image's gradient. Two batch sizes,
b < B, give both without bias. B_simple = S / |G|^2 is a ratio of averages over steps, and is biased.

Images are drawn with replacement: so batches are independent, and the formula is exact for a split of any size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

PROGRESS = (0.0, 0.25, 0.5, 1.0)  # parts of all updates, after which the weights are saved
BATCHES, HELD = "noise_batches", tuple(f"held_{number}" for number in range(len(PROGRESS)))  # names of inputs
STEPS, PARTS = 100, 8  # a step's large batch has so many small ones
SMALL_BATCH = 16  # with BatchNorm, a smaller one would be another network (its statistics are the batch's)
STREAM = 1812  # part of the seed: none of the trial's own draws uses it

# For the finder, as in the published figure of MNIST by fastai_bs_finder: n_batch, beta, and 750 batches.
WINDOW, DECAY, WINDOWS = 20, 0.99, 37


def draw(images: int, seed: int) -> NDArray[np.int32]:
    """Return (len(PROGRESS), STEPS, PARTS, SMALL_BATCH) indices into a split of `images`, all equally likely."""
    generator = np.random.Generator(np.random.PCG64([seed, STREAM]))
    return generator.integers(0, images, (len(PROGRESS), STEPS, PARTS, SMALL_BATCH), np.int32)


def updates_before(steps: int) -> list[int]:
    """Return, by PROGRESS, the number of updates out of `steps` after which the weights are saved."""
    return [round(progress * steps) for progress in PROGRESS]


class Norms:
    """Squared norms of gradients of small batches, and of the mean of them all, which is that of the large batch."""

    def __init__(self) -> None:
        self.small: list[float] = []
        self.sums: dict[str, Floats] = {}

    def add(self, gradients: Mapping[str, NDArray[Any]]) -> None:
        """Add the gradients of one batch's mean loss; batches are equally large."""
        square = 0.0
        for key, array in gradients.items():
            wide = array.ravel().astype(np.float64)
            square += float(wide @ wide)
            self.sums[key] = self.sums[key] + wide if key in self.sums else wide
        self.small.append(square)

    @property
    def large(self) -> float:
        """Squared norm of the gradient of all batches together."""
        return sum(float(total @ total) for total in self.sums.values()) / len(self.small) ** 2

    @property
    def mean(self) -> dict[str, Floats]:
        """The gradient of all batches together, each array flat."""
        return {key: total / len(self.small) for key, total in self.sums.items()}


def estimates(small: Any, large: Any, small_batch: int, large_batch: int) -> tuple[Any, Any]:
    """Return (|G|^2, S) from squared norms at two batch sizes, unbiased; the first may be negative."""
    squared_gradient = (large_batch * large - small_batch * small) / (large_batch - small_batch)
    trace = (small - large) / (1 / small_batch - 1 / large_batch)
    return squared_gradient, trace


def running_averages(values: Floats) -> Floats:
    """Return (n,) exponential averages of (n,), each divided by the weight that its terms have."""
    averages, average = [], 0.0
    for number, value in enumerate(values, start=1):
        average = DECAY * average + (1 - DECAY) * value
        averages.append(average / (1 - DECAY**number))
    return np.array(averages)
