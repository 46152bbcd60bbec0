"""PyTorch: momentum with dampening, which scales the gradient down from the second step on."""

import torch

from adapters.pytorch import adapter

FRAMEWORK, CASES, CAUGHT_BY = "pytorch", ("plain-momentum",), {"losses", "weights"}


def make_optimizer(spec, parameters):
    return torch.optim.SGD(parameters, spec.learning_rate, spec.momentum, dampening=spec.momentum)


class Adapter(adapter.Adapter):
    def build(self, *arguments, **named):
        adapter.make_optimizer = make_optimizer
        super().build(*arguments, **named)
