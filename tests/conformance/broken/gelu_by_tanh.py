"""Keras: GELU is its approximation by tanh."""

from collections.abc import Iterator
from typing import Any

import keras

from adapters.keras_shared import layers
from adapters.tensorflow.adapter import Adapter as Right
from workloads.layers import Gelu

FRAMEWORK, CASES, CAUGHT_BY = "tensorflow", ("transformer",), {"forward", "outputs", "gradients"}


def gelu(layer: Gelu, seeds: Iterator[Any]) -> keras.layers.Layer:
    return keras.layers.Activation(lambda x: keras.activations.gelu(x, approximate=True), name=layer.name)


class Adapter(Right):
    def build(self, *arguments: Any, **named: Any) -> None:
        layers.LAYERS[Gelu] = gelu
        super().build(*arguments, **named)
