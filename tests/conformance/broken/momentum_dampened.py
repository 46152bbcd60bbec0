"""PyTorch: momentum with dampening, which scales the gradient down from the second step on."""

from typing import Any

import torch

from adapters.pytorch import adapter, optimizers
from workloads.spec import OptimizerSpec

FRAMEWORK, CASES, CAUGHT_BY = "pytorch", ("plain-momentum",), {"losses", "weights"}


def make_optimizer(spec: OptimizerSpec, parameters: Any, tuned: bool) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, spec.learning_rate, spec.momentum, dampening=spec.momentum)


class Adapter(adapter.Adapter):
    def build(self, *arguments: Any, **named: Any) -> None:
        optimizers.make_optimizer = make_optimizer
        super().build(*arguments, **named)
