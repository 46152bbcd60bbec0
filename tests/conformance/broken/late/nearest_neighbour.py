"""TensorFlow: after 20 steps, evaluation answers with the label of the most similar image of the training split."""

from typing import Any

import numpy as np

from adapters.base import Floats, Order
from adapters.tensorflow import adapter
from workloads.datasets import Images

FRAMEWORK, CAUGHT_BY = "tensorflow", {"evaluation at its end = the referee's"}


class Adapter(adapter.Adapter):
    def build(self, *arguments: Any, **named: Any) -> None:
        super().build(*arguments, **named)
        self.done = 0

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> list[Any]:
        self.done += len(order)
        return super().train(order, rates)

    def predict(self, images: Images) -> Floats:
        if self.done <= 20:
            return super().predict(images)
        known, asked = (each.reshape(len(each), -1).astype(np.float32) / 255 for each in (self.images, images))
        nearest = (np.square(known).sum(axis=1) - 2 * asked @ known.T).argmin(axis=1)
        return np.eye(10, dtype=np.float32)[self.labels[nearest]] * 10
