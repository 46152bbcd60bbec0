"""TensorFlow: every 11th step computes nothing but the loss."""

from typing import Any

import tensorflow as tf

from adapters.base import Floats, Order
from adapters.tensorflow import adapter

FRAMEWORK, CAUGHT_BY = "tensorflow", {"updates at its end = the referee's"}


class Adapter(adapter.Adapter):
    def build(self, *arguments: Any, **named: Any) -> None:
        super().build(*arguments, **named)
        self.done = 0

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> list[Any]:
        losses = []
        for batch in order:
            self.done += 1
            if self.done % 11:
                losses += super().train(batch[None])
            else:
                logits = self.logits(tf.constant(self.images[batch]))
                losses.append(self.cross_entropy(self.labels[batch][:, None], logits))
        return losses
