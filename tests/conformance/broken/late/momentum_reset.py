"""PyTorch: after each evaluation, momentum begins at zero again."""

from typing import Any

from adapters.base import Floats, Order
from adapters.pytorch import adapter
from workloads.datasets import Images

FRAMEWORK, CAUGHT_BY = "pytorch", {"updates at its end = the referee's"}


class Adapter(adapter.Adapter):
    def build(self, *arguments: Any, **named: Any) -> None:
        super().build(*arguments, **named)
        self.done = 0

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> list[Any]:
        self.done += len(order)
        return super().train(order, rates)

    def predict(self, images: Images) -> Floats:
        if self.done > 5:
            self.optimizer.state.clear()
        return super().predict(images)
