"""Keras: GELU is its approximation by tanh."""

import keras

from adapters.tensorflow import layers
from adapters.tensorflow.adapter import Adapter as Right
from workloads.layers import Gelu

FRAMEWORK, CASES, CAUGHT_BY = "tensorflow", ("transformer",), {"forward", "outputs", "gradients"}


def gelu(layer, seeds):
    return keras.layers.Activation(lambda x: keras.activations.gelu(x, approximate=True), name=layer.name)


class Adapter(Right):
    def build(self, *arguments, **named):
        layers.LAYERS[Gelu] = gelu
        super().build(*arguments, **named)
