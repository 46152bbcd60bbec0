"""Keras: from step 11 on, a learning rate that decays by 1 % per step."""

from typing import Any

from adapters.base import Floats, Order
from adapters.tensorflow import adapter
from workloads.spec import OptimizerSpec, Workload

FRAMEWORK, CAUGHT_BY = "tensorflow", {"updates at its end = the referee's"}


class Adapter(adapter.Adapter):
    def build(self, workload: Workload, optimizer: OptimizerSpec, *arguments: Any, **named: Any) -> None:
        super().build(workload, optimizer, *arguments, **named)
        self.done, self.rate = 0, optimizer.learning_rate

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> list[Any]:
        losses = []
        for batch in order:
            self.done += 1
            self.optimizer.learning_rate.assign(self.rate * 0.99 ** max(0, self.done - 10))
            losses += super().train(batch[None])
        return losses
