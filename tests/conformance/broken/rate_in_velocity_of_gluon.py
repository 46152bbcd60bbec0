"""Gluon: where the rate changes, the velocity keeps the old one."""

from typing import Any

from adapters.mxnet import adapter, optimizers

FRAMEWORK, CASES, CAUGHT_BY = "mxnet", ("plain-momentum-changing", "plain-nesterov-changing"), {"losses", "weights"}


def set_rate(trainer: Any, spec: Any, rate: float) -> None:
    trainer.set_learning_rate(rate)


class Adapter(adapter.Adapter):
    def build(self, *arguments: Any, **named: Any) -> None:
        optimizers.set_rate = set_rate
        super().build(*arguments, **named)
