"""Keras: RMSprop's epsilon stays where Keras has it, inside the root."""

from typing import Any

import keras

from adapters.keras_shared import optimizers
from adapters.tensorflow import adapter
from workloads.spec import OptimizerSpec

FRAMEWORK, CASES, CAUGHT_BY = "tensorflow", ("plain-rmsprop", "batchnorm-rmsprop"), {"losses", "weights"}


def make_optimizer(spec: OptimizerSpec) -> Any:
    return keras.optimizers.RMSprop(spec.learning_rate, spec.rho, epsilon=spec.epsilon)


class Adapter(adapter.Adapter):
    def build(self, *arguments: Any, **named: Any) -> None:
        optimizers.make_optimizer = make_optimizer
        super().build(*arguments, **named)
