"""Keras: the margins of a max pool are pixels of value 0, which exceed what lies below 0."""

from typing import Any

import keras

from adapters.keras_shared import layers
from adapters.tensorflow.adapter import Adapter as Right

FRAMEWORK, CASES, CAUGHT_BY = "tensorflow", ("margins-max",), {"forward", "outputs", "gradients", "losses"}


class Adapter(Right):
    def build(self, *arguments: Any, **named: Any) -> None:
        layers.MinusInfinityPadding = keras.layers.ZeroPadding2D  # type: ignore[misc]
        super().build(*arguments, **named)
