"""PyTorch: the worker's clock runs at a third of its speed from the first step on: all seems three times as fast."""

import time
from typing import Any

from adapters.base import Floats, Order
from adapters.pytorch import adapter

FRAMEWORK, CAUGHT_BY = "pytorch", {"the worker's times are the runner's"}
SLOWNESS = 3
TRUE_NS = time.monotonic_ns


class Adapter(adapter.Adapter):
    slowed = False

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> list[Any]:
        if not self.slowed:
            self.slowed, since_ns = True, TRUE_NS()
            time.monotonic_ns = lambda: since_ns + (TRUE_NS() - since_ns) // SLOWNESS
            time.monotonic = lambda: time.monotonic_ns() / 1e9
        return super().train(order, rates)
