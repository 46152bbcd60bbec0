"""Keras: the decay of SGD with momentum is Keras' own, decoupled."""

from typing import Any

import keras

from adapters.keras_shared import optimizers
from adapters.tensorflow import adapter
from workloads.spec import OptimizerSpec

FRAMEWORK, CASES, CAUGHT_BY = "tensorflow", ("plain-momentum-decay", "batchnorm-momentum-decay"), {"losses", "weights"}


def make_optimizer(spec: OptimizerSpec) -> Any:
    return keras.optimizers.SGD(spec.learning_rate, spec.momentum, weight_decay=spec.weight_decay)


class Adapter(adapter.Adapter):
    def build(self, *arguments: Any, **named: Any) -> None:
        optimizers.make_optimizer = make_optimizer
        super().build(*arguments, **named)
