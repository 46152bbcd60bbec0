"""Gluon: AdamW's decay is MXNet's `wd`, which is in the gradient."""

from typing import Any

import mxnet as mx

from adapters.mxnet import adapter, optimizers
from workloads.spec import OptimizerSpec

FRAMEWORK, CASES, CAUGHT_BY = "mxnet", ("plain-adamw", "batchnorm-adamw"), {"losses", "weights"}


def make_optimizer(spec: OptimizerSpec) -> Any:
    return mx.optimizer.Adam(spec.learning_rate, spec.beta1, spec.beta2, spec.epsilon, wd=spec.weight_decay)


class Adapter(adapter.Adapter):
    def build(self, *arguments: Any, **named: Any) -> None:
        optimizers.make_optimizer = make_optimizer
        super().build(*arguments, **named)
