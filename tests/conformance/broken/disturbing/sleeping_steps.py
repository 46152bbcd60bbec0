"""PyTorch: since weights were copied, each step goes to sleep many times, as threads do that wait for one another."""

import time
from typing import Any

from adapters.base import Floats, Order
from adapters.pytorch import adapter
from workloads.weights import Weights

FRAMEWORK, CAUGHT_BY = "pytorch", ("copies", "context_switches")


class Adapter(adapter.Adapter):
    sleeps = 0

    def weights(self) -> Weights:
        self.sleeps = 500
        return super().weights()

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> list[Any]:
        for _ in range(self.sleeps * len(order)):
            time.sleep(1e-6)
        return super().train(order, rates, part)
