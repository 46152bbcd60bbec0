"""PyTorch: from step 21 on, the first half of each batch."""

from typing import Any

from adapters.base import Floats, Order
from adapters.pytorch import adapter

FRAMEWORK, CAUGHT_BY = "pytorch", {"losses at its end = the referee's", "updates at its end = the referee's"}


class Adapter(adapter.Adapter):
    def build(self, *arguments: Any, **named: Any) -> None:
        super().build(*arguments, **named)
        self.done = 0

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> list[Any]:
        losses = []
        for batch in order:
            self.done += 1
            half = len(batch) if self.done <= 20 else -(-len(batch) // 2)
            losses += super().train(batch[None, :half])
        return losses
