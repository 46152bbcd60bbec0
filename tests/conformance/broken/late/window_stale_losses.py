"""PyTorch: from step 25 on the first loss is reported again, except right after a single look at the weights."""

from typing import Any

from adapters.base import Floats, Order
from adapters.pytorch import adapter
from workloads.weights import Weights

FRAMEWORK, CAUGHT_BY = "pytorch", {"its last loss = the referee's"}
RIGHT_UNTIL = 24


class Adapter(adapter.Adapter):
    def build(self, *arguments: Any, **named: Any) -> None:
        super().build(*arguments, **named)
        self.first: list[Any] = []
        self.done = self.looks = 0

    def weights(self) -> Weights:
        self.looks += 1
        return super().weights()

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> list[Any]:
        losses = super().train(order, rates, part)
        self.first = self.first or losses[:1]
        self.done += len(order)
        looks, self.looks = self.looks, 0
        return losses if looks == 1 or self.done <= RIGHT_UNTIL else self.first * len(losses)
