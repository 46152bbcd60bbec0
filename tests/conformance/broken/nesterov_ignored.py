"""Keras: momentum where Nesterov was asked for."""

from typing import Any

import keras

from adapters.keras_shared import optimizers
from adapters.tensorflow import adapter

FRAMEWORK, CASES, CAUGHT_BY = "tensorflow", ("plain-nesterov",), {"losses", "weights"}


class Adapter(adapter.Adapter):
    def build(self, *arguments: Any, **named: Any) -> None:
        optimizers.make_optimizer = lambda spec: keras.optimizers.SGD(spec.learning_rate, spec.momentum)
        super().build(*arguments, **named)
