"""Keras: where the rate changes, the velocity keeps the old one."""

from typing import Any

from adapters.keras_shared import optimizers
from adapters.tensorflow import adapter

FRAMEWORK, CASES, CAUGHT_BY = (
    "tensorflow",
    ("plain-momentum-changing", "plain-nesterov-changing"),
    {"losses", "weights"},
)


def set_rate(optimizer: Any, rate: Any) -> None:
    optimizer.learning_rate.assign(rate)


class Adapter(adapter.Adapter):
    def build(self, *arguments: Any, **named: Any) -> None:
        optimizers.set_rate = set_rate
        super().build(*arguments, **named)
