"""PyTorch: between two steps of one call the weights are kept in bfloat16."""

from typing import Any

import torch

from adapters.base import Floats, Order
from adapters.pytorch import adapter

FRAMEWORK, CASES, CAUGHT_BY = "pytorch", ("plain-sgd", "batchnorm-adam"), {"weights"}


class Adapter(adapter.Adapter):
    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> list[Any]:
        losses = []
        for number, batch in enumerate(order):
            if number:
                with torch.no_grad():
                    for parameter in self.model.parameters():
                        parameter.copy_(parameter.bfloat16().float())
            losses += super().train(batch[None], None if rates is None else rates[number : number + 1], part)
        return losses
