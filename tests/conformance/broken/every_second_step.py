"""PyTorch: in a call of several steps, every second step gives a loss and no update."""

from typing import Any

import torch

from adapters.base import Floats, Order
from adapters.pytorch import adapter

FRAMEWORK, CASES, CAUGHT_BY = "pytorch", ("plain-sgd", "batchnorm-momentum"), {"losses", "weights"}


class Adapter(adapter.Adapter):
    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> list[Any]:
        losses = []
        for number, batch in enumerate(order):
            if number % 2:
                with torch.no_grad():
                    images, labels = self._gathered(batch)
                    losses.append(self.loss(self._logits(images), labels))
            else:
                losses += super().train(batch[None], None if rates is None else rates[number : number + 1], part)
        return losses
