"""PyTorch: Adam's counter of steps goes on with every part, and its bias correction with it."""

from typing import Any

from adapters.base import Floats, Order
from adapters.pytorch import adapter

FRAMEWORK, WRONG = "pytorch", "adam"


class Adapter(adapter.Adapter):
    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> list[Any]:
        losses = []
        for number, batch in enumerate(order):
            losses += super().train(batch[None], None if rates is None else rates[number : number + 1], part)
            for state in self.optimizer.state.values():
                if "step" in state:
                    state["step"] += len(batch) // (part or len(batch))
        return losses
