"""TensorFlow: the batches of the first epoch are kept and come again, whatever is asked for."""

from typing import Any

from adapters.base import Floats, Order
from adapters.tensorflow import adapter

FRAMEWORK, CAUGHT_BY = "tensorflow", {"losses at its end = the referee's", "updates at its end = the referee's"}
KEPT = 11


class Adapter(adapter.Adapter):
    def build(self, *arguments: Any, **named: Any) -> None:
        super().build(*arguments, **named)
        self.done = 0
        self.kept: list[Order] = []

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> list[Any]:
        losses = []
        for batch in order:
            if len(self.kept) < KEPT:
                self.kept.append(batch)
            cached = self.kept[self.done % len(self.kept)] if self.done >= KEPT else batch
            self.done += 1
            losses += super().train((cached if len(cached) == len(batch) else batch)[None])
        return losses
