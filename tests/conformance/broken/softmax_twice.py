"""TensorFlow: a loss that wants logits gets probabilities.

It is written by hand, as Keras' own loss notices a softmax in front of it and undoes it.
"""

from typing import Any

import tensorflow as tf

from adapters.keras_shared import layers
from adapters.tensorflow import adapter

FRAMEWORK, CASES, CAUGHT_BY = "tensorflow", ("plain-sgd",), {"losses", "gradients", "weights"}


def loss(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    probabilities = tf.nn.softmax(logits)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels[:, 0], probabilities))


class Adapter(adapter.Adapter):
    def build(self, *arguments: Any, **named: Any) -> None:
        layers.LOSSES["softmax-cross-entropy"] = lambda: loss
        super().build(*arguments, **named)
