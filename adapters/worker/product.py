"""Speed of the framework's matrix products here, in the trial's precision; its training speed is a share of it."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from adapters.base import Adapter
from workloads import weights
from workloads.datasets import Images
from workloads.layers import Dense, Flatten
from workloads.spec import OptimizerSpec, Workload

WIDTHS = (1024, 2048, 4096, 8192)  # of square matrices: the first width at which a call takes LONG_ENOUGH_S is used
LONG_ENOUGH_S = 0.1  # the cost of a call besides its products is then negligible
PRODUCTS = 4
NARROW = 16  # columns of inputs and outputs: almost nothing is copied
FEWEST_CALLS, LENGTH_S = 3, 1.0


def chain(width: int) -> Workload:
    """Return dense layers only: predicting `width` images is PRODUCTS products of matrices (width, width)."""
    products = (Dense(f"product{number}", width) for number in range(PRODUCTS))
    layers = (Flatten("flatten"), Dense("widen", width), *products, Dense("narrow", NARROW))
    return Workload("products", "", (1, 1, NARROW), layers)


def measure(adapter: Adapter) -> dict[str, Any]:
    """Return operations per second, two per multiply-add, of the fastest of several calls, and the number of calls.

    It builds other networks. Raises what the adapter raises.
    """
    for width in WIDTHS:
        workload = chain(width)
        adapter.build(workload, OptimizerSpec.named("sgd"), weights.draw(workload, 0), 0)
        images = np.random.default_rng(0).integers(0, 256, (width, *workload.input_shape), dtype=np.uint8)
        adapter.predict(images)  # compiled
        seconds = [_timed(adapter, images)]
        if seconds[0] >= LONG_ENOUGH_S:
            break
    while len(seconds) < FEWEST_CALLS or sum(seconds) < LENGTH_S:
        seconds.append(_timed(adapter, images))
    return {"flop_per_s": 2 * workload.multiply_adds * width / min(seconds), "width": width, "calls": len(seconds)}


def _timed(adapter: Adapter, images: Images) -> float:
    began_s = time.monotonic()
    adapter.predict(images)
    return time.monotonic() - began_s
