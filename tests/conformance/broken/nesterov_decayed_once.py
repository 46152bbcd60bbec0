"""Gluon: the decay of Nesterov's rule is MXNet's `wd`, which is in only one of the two places."""

from typing import Any

import mxnet as mx

from adapters.mxnet import adapter, optimizers
from workloads.spec import OptimizerSpec

FRAMEWORK, CASES, CAUGHT_BY = "mxnet", ("plain-nesterov-decay", "batchnorm-nesterov-decay"), {"losses", "weights"}


def make_optimizer(spec: OptimizerSpec) -> Any:
    return mx.optimizer.NAG(momentum=spec.momentum, learning_rate=spec.learning_rate, wd=spec.weight_decay)


class Adapter(adapter.Adapter):
    def build(self, *arguments: Any, **named: Any) -> None:
        optimizers.make_optimizer = make_optimizer
        super().build(*arguments, **named)
