"""PyTorch: from step 13 on, convolutions and dense layers in bfloat16."""

from typing import Any

import torch

from adapters.base import Floats, Order
from adapters.pytorch import adapter

FRAMEWORK, CAUGHT_BY = "pytorch", {"updates at its end = the referee's"}


class Adapter(adapter.Adapter):
    def build(self, *arguments: Any, **named: Any) -> None:
        super().build(*arguments, **named)
        self.done = 0

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> list[Any]:
        losses = []
        for batch in order:
            self.done += 1
            with torch.autocast("cpu", torch.bfloat16, enabled=self.done > 12):
                losses += super().train(batch[None])
        return losses
