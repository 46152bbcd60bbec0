"""Gluon: a call of several steps takes its batches from the last to the first."""

from typing import Any

from adapters.base import Floats, Order
from adapters.mxnet import adapter

FRAMEWORK, CASES, CAUGHT_BY = "mxnet", ("plain-sgd", "batchnorm-adam"), {"losses"}


class Adapter(adapter.Adapter):
    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> list[Any]:
        return super().train(order[::-1], rates, part)
