"""PyTorch: no work after step 12; the loss of that step is reported again and again."""

from typing import Any

from adapters.base import Floats, Order
from adapters.pytorch import adapter

FRAMEWORK, CAUGHT_BY = "pytorch", {"its speed is possible", "losses at its end = the referee's"}


class Adapter(adapter.Adapter):
    def build(self, *arguments: Any, **named: Any) -> None:
        super().build(*arguments, **named)
        self.done, self.stored = 0, None

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> list[Any]:
        self.done += len(order)
        if self.done > 12 and self.stored is not None:
            return [self.stored] * len(order)
        losses = super().train(order, rates)
        self.stored = losses[-1]
        return losses
