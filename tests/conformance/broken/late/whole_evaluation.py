"""MXNet: right in each single call, and from the third call in a row on answered from the training split: an evaluation
of a whole split is recognised, and no probe is."""

from typing import Any

import numpy as np

from adapters.base import Floats, Order
from adapters.mxnet import adapter
from workloads.datasets import Images, Labels

FRAMEWORK, CAUGHT_BY = "mxnet", {"its last evaluation = the referee's"}
PROBED = 3  # batches of the test split in a row that a probe asks for


class Adapter(adapter.Adapter):
    def load(self, images: Images, labels: Labels) -> None:
        super().load(images, labels)
        self.known = np.array(images).reshape(len(images), -1).astype(np.float32) / 255, np.array(labels)
        self.in_a_row = 0

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> Any:
        self.in_a_row = 0
        return super().train(order, rates, part)

    def predict(self, images: Images) -> Floats:
        self.in_a_row += 1
        answers = super().predict(images)
        if self.in_a_row <= PROBED:
            return answers
        known, labels = self.known
        asked = np.array(images).reshape(len(images), -1).astype(np.float32) / 255
        nearest = (np.square(known).sum(axis=1) - 2 * asked @ known.T).argmin(axis=1)
        return np.eye(answers.shape[1], dtype=np.float32)[labels[nearest]] * 10
