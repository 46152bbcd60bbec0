"""PyTorch: the gradient of an update is the mean of its parts' means, also where the last part is smaller."""

from typing import Any

import numpy as np

from adapters.base import Floats, Order
from adapters.pytorch import adapter

FRAMEWORK, WRONG = "pytorch", "every"


class Adapter(adapter.Adapter):
    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> list[Any]:
        self.parts = 1 if part is None else -(-order.shape[1] // part)
        return super().train(order, rates, part)

    def _differentiated(self, piece: np.ndarray, update: int) -> Any:
        return super()._differentiated(piece, len(piece) * self.parts)
