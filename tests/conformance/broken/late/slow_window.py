"""PyTorch: the worker's clock runs at half its speed in the window alone, and goes on from there: 1.2 s off at most."""

import time
from typing import Any

from adapters.base import Floats, Order
from adapters.pytorch import adapter

FRAMEWORK, CAUGHT_BY = "pytorch", {"the worker's times are the runner's"}
STEPS_BEFORE, SLOWNESS, SLOW_NS = 24, 2, 2_400_000_000
TRUE_NS = time.monotonic_ns


class Adapter(adapter.Adapter):
    trained = 0

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> list[Any]:
        if self.trained == STEPS_BEFORE:
            since_ns = TRUE_NS()
            time.monotonic_ns = lambda: TRUE_NS() - min(TRUE_NS() - since_ns, SLOW_NS) // SLOWNESS
            time.monotonic = lambda: time.monotonic_ns() / 1e9
        self.trained += len(order)
        return super().train(order, rates, part)
