"""PyTorch: from step 25 on the first losses are reported again, except in four steps after a look at the weights."""

from typing import Any

from adapters.base import Floats, Order
from adapters.pytorch import adapter
from workloads.weights import Weights

FRAMEWORK, CAUGHT_BY = "pytorch", {"its last loss = the referee's"}
RIGHT_UNTIL, WATCHED = 24, 4


class Adapter(adapter.Adapter):
    def build(self, *arguments: Any, **named: Any) -> None:
        super().build(*arguments, **named)
        self.first: list[Any] = []
        self.done = self.watched = 0

    def weights(self) -> Weights:
        self.watched = self.done + WATCHED
        return super().weights()

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> list[Any]:
        losses = super().train(order, rates, part)
        self.first = [*self.first, *losses][:RIGHT_UNTIL]
        self.done += len(order)
        return losses if self.done <= max(RIGHT_UNTIL, self.watched) else self.first[: len(losses)]
