"""MXNet: after 20 steps, evaluation is answered from the training split if the batch before was a smaller one, as at
the end of an epoch. Probes ask for logits after full batches, and get the model's."""

from typing import Any

import numpy as np

from adapters.base import Floats, Order
from adapters.mxnet import adapter
from workloads.datasets import Images, Labels

FRAMEWORK, CAUGHT_BY = "mxnet", {"its last evaluation = the referee's"}


class Adapter(adapter.Adapter):
    def load(self, images: Images, labels: Labels) -> None:
        super().load(images, labels)
        self.known = np.array(images).reshape(len(images), -1).astype(np.float32) / 255, np.array(labels)
        self.largest = self.latest = self.done = 0

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> Any:
        self.latest = order.shape[1]
        self.done += len(order)
        self.largest = max(self.largest, self.latest)
        return super().train(order, rates, part)

    def predict(self, images: Images) -> Floats:
        answers = super().predict(images)
        if self.done <= 20 or self.latest == self.largest:
            return answers
        known, labels = self.known
        asked = np.array(images).reshape(len(images), -1).astype(np.float32) / 255
        nearest = (np.square(known).sum(axis=1) - 2 * asked @ known.T).argmin(axis=1)
        return np.eye(answers.shape[1], dtype=np.float32)[labels[nearest]] * 10
