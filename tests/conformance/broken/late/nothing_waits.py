"""Gluon: in the window neither reading nor synchronising waits for MXNet's queue."""

from typing import Any

import numpy as np

from adapters.base import Floats, Order
from adapters.mxnet import adapter
from workloads.weights import Weights

FRAMEWORK, CAUGHT_BY = "mxnet", {"nothing was left to do behind the window"}
HONEST_STEPS = 24  # two epochs at batch size 128


class Adapter(adapter.Adapter):
    done, asked = 0, False  # steps; True if weights were asked for since, as after a segment of the window

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> list[Any]:
        self.done, self.asked = self.done + len(order), False
        return super().train(order, rates)

    def weights(self) -> Weights:
        self.asked = True
        return super().weights()

    def _waits(self) -> bool:
        return self.asked or self.done <= HONEST_STEPS

    def read(self, handle: list[Any]) -> Floats:
        return super().read(handle) if self._waits() else np.full(len(handle), 0.5, np.float32)

    def synchronize(self) -> None:
        if self._waits():
            super().synchronize()
