"""Gluon: from step 21 on, every gradient is clipped to 0.001."""

from typing import Any

from adapters.base import Floats, Order
from adapters.mxnet import adapter

FRAMEWORK, CAUGHT_BY = "mxnet", {"updates at its end = the referee's"}


class Adapter(adapter.Adapter):
    def build(self, *arguments: Any, **named: Any) -> None:
        super().build(*arguments, **named)
        self.done = 0

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> list[Any]:
        losses = []
        for batch in order:
            self.done += 1
            if self.done > 20:
                self.trainer._optimizer.clip_gradient = 1e-3
            losses += super().train(batch[None])
        return losses
