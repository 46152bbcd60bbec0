"""Gluon: `Trainer.step` gets the usual batch size also for the partial batch at an epoch's end."""

from typing import Any

from adapters.base import Floats, Order
from adapters.mxnet import adapter

FRAMEWORK, CAUGHT_BY = "mxnet", {"updates at its end = the referee's"}


class Adapter(adapter.Adapter):
    def build(self, *arguments: Any, **named: Any) -> None:
        super().build(*arguments, **named)
        self.nominal, step = 0, self.trainer.step
        self.trainer.step = lambda batch_size: step(self.nominal)

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> list[Any]:
        self.nominal = max(self.nominal, order.shape[1])
        return super().train(order, rates)
