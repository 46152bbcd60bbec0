"""Keras: in a call of several steps, each trains on the first batch: the loop's index is forgotten."""

from typing import Any

from adapters.base import Floats, Order
from adapters.tensorflow import adapter

FRAMEWORK, CASES, CAUGHT_BY = "tensorflow", ("plain-sgd", "plain-momentum-changing"), {"losses", "weights"}


class Adapter(adapter.Adapter):
    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> list[Any]:
        losses = []
        for number in range(len(order)):
            losses += super().train(order[:1], None if rates is None else rates[number : number + 1], part)
        return losses
