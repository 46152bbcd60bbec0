"""The updates of an epoch, and the learning rate of each, computed once and given to every framework as data.

The schedules, as parts of the learning rate, with T steps after the warm-up, numbered t = 0 ... T - 1:
    constant    1
    cosine      LEAST + (1 - LEAST) (1 + cos(pi t / (T - 1))) / 2
    one-cycle   PyTorch's default OneCycleLR of T steps, with cycle_momentum=False: half a cosine up from
                1/RISE_FACTOR at t = 0 to 1 at RISE T - 1, half a cosine down to 1/(RISE_FACTOR FALL_FACTOR) at T - 1
    step        1, 1/10 from half of all steps on, 1/100 from three quarters on; the warm-up's steps count
Warm-up of W steps comes before: (t + 1) / W, for t = 0 ... W - 1. One-cycle has its own rise, and no warm-up.
No rate is 0. After the last step the last rate holds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .spec import OptimizerSpec

LEAST = 0.01  # not 0: steps after the epochs must still train
# Smith & Topin 2018; OneCycleLR's pct_start, div_factor and final_div_factor.
RISE, RISE_FACTOR, FALL_FACTOR = 0.3, 25.0, 1e4

Rates = NDArray[np.float32]


def count_steps(images: int, batch_size: int, last_batch: str) -> int:
    """Return the updates of an epoch; `last_batch` is "keep" or "drop"."""
    return images // batch_size + (last_batch == "keep" and images % batch_size > 0)


def count_warm_up_steps(optimizer: OptimizerSpec, steps: int) -> int:
    """Return the number of warm-up steps out of `steps`; a part of them is rounded down."""
    return int(optimizer.warm_up * steps) if optimizer.warm_up < 1 else int(optimizer.warm_up)


def compute_rates(optimizer: OptimizerSpec, steps: int) -> Rates:
    """Return (steps,), all above 0; a rule whose rate is scaled is taken `at` a batch size first. Raises ValueError
    for a warm-up that leaves none of the steps.
    """
    warm_up = count_warm_up_steps(optimizer, steps)
    if warm_up >= steps:
        raise ValueError(f"a warm-up of {warm_up} steps leaves none of the {steps} steps")
    parts = np.concatenate([np.arange(1, warm_up + 1) / max(1, warm_up), _parts(optimizer.schedule, steps, warm_up)])
    return (optimizer.learning_rate * parts).astype(np.float32)


def _parts(schedule: str, steps: int, warm_up: int) -> NDArray[np.float64]:
    """Return (steps - warm_up,) in float64: the steps after the warm-up."""
    if schedule == "cosine":
        return _cosine(steps - warm_up)
    if schedule == "one-cycle":
        return _one_cycle(steps)
    passed = np.arange(warm_up, steps) / steps
    stepped = np.where(passed < 0.5, 1.0, np.where(passed < 0.75, 0.1, 0.01))
    return stepped if schedule == "step" else np.ones(steps - warm_up)


def _one_cycle(steps: int) -> NDArray[np.float64]:
    """Return OneCycleLR's parts; a step has the highest rate only if RISE of the steps is a whole number."""
    first, last, peak, t = 1 / RISE_FACTOR, 1 / RISE_FACTOR / FALL_FACTOR, RISE * steps - 1, np.arange(steps)
    up = 1 + (first - 1) * (1 + np.cos(np.pi * t / peak)) / 2
    down = last + (1 - last) * (1 + np.cos(np.pi * (t - peak) / (steps - 1 - peak))) / 2
    parts: NDArray[np.float64] = np.where(t <= peak, up, down)
    return parts


def _cosine(steps: int) -> NDArray[np.float64]:
    """Return parts from 1 to LEAST."""
    return LEAST + (1 - LEAST) * (1 + np.cos(np.pi * np.arange(steps) / max(1, steps - 1))) / 2


def divide_batch(global_batch: int, largest: int) -> tuple[int, int]:
    """Return (parts K, images b of each): the fewest parts of no more than `largest` images, as even as possible. The
    last is smaller if K does not divide the global batch, and then a study's K x b exceeds it, by less than K.

    Raises ValueError if one of them is less than 1.
    """
    if global_batch < 1 or largest < 1:
        raise ValueError(f"a global batch of {global_batch} in parts of at most {largest}: both must be 1 or more")
    parts = -(-global_batch // largest)
    return parts, -(-global_batch // parts)
