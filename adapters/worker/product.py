"""How fast the framework multiplies matrices here, in the trial's precision: what its speeds are a share of."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from adapters.base import Adapter
from workloads import weights
from workloads.layers import Dense, Flatten
from workloads.spec import OptimizerSpec, Workload

WIDTHS = {"cpu": 2048, "cuda": 8192}  # of square matrices: far beyond what a cache or one core holds
PRODUCTS = 4
NARROW = 16  # columns of what goes in and comes out: next to nothing is copied
FEWEST_CALLS, LENGTH_S = 3, 1.0


def chain(width: int) -> Workload:
    """Dense layers alone: predicting `width` images is PRODUCTS products of matrices (width, width)."""
    products = (Dense(f"product{number}", width) for number in range(PRODUCTS))
    layers = (Flatten("flatten"), Dense("widen", width), *products, Dense("narrow", NARROW))
    return Workload("products", "", (1, 1, NARROW), layers)


def measure(adapter: Adapter, device: str) -> dict[str, Any]:
    """Operations a second, two a multiply-add, of the fastest of several calls, and how many calls there were.

    It builds another network. Raises what the adapter raises.
    """
    width = WIDTHS[device]
    workload = chain(width)
    adapter.build(workload, OptimizerSpec.named("sgd"), weights.draw(workload, 0), 0)
    images = np.random.default_rng(0).integers(0, 256, (width, *workload.input_shape), dtype=np.uint8)
    adapter.predict(images)  # compiled
    seconds: list[float] = []
    while len(seconds) < FEWEST_CALLS or sum(seconds) < LENGTH_S:
        began_s = time.monotonic()
        adapter.predict(images)
        seconds.append(time.monotonic() - began_s)
    return {"flop_per_s": 2 * workload.multiply_adds * width / min(seconds), "calls": len(seconds)}
