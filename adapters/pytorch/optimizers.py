"""The update rules of the numeric contract as PyTorch's optimizers."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn, optim

from workloads.spec import OptimizerName, OptimizerSpec

Parameters = list[nn.Parameter]


def sgd(spec: OptimizerSpec, parameters: Parameters, fused: bool | None) -> optim.Optimizer:
    """Return SGD with or without momentum; the decay is in the gradient, the rate outside the stored velocity."""
    momentum = 0.0 if spec.name == "sgd" else spec.momentum
    nesterov = spec.name == "nesterov"
    return optim.SGD(parameters, spec.learning_rate, momentum, weight_decay=spec.weight_decay, nesterov=nesterov,
                     fused=fused)  # fmt: skip


def rmsprop(spec: OptimizerSpec, parameters: Parameters, fused: bool | None) -> optim.Optimizer:
    """Return RMSprop, with its epsilon outside the root; it has no fused form."""
    return optim.RMSprop(parameters, spec.learning_rate, spec.rho, spec.epsilon)


def adam(spec: OptimizerSpec, parameters: Parameters, fused: bool | None) -> optim.Optimizer:
    """Return Adam, with its epsilon inside the bias correction: `inner_epsilon`."""
    return optim.Adam(parameters, spec.learning_rate, (spec.beta1, spec.beta2), spec.epsilon, fused=fused)


def adamw(spec: OptimizerSpec, parameters: Parameters, fused: bool | None) -> optim.Optimizer:
    """Return Adam with a decoupled decay."""
    return optim.AdamW(
        parameters, spec.learning_rate, (spec.beta1, spec.beta2), spec.epsilon, spec.weight_decay, fused=fused
    )


RULES: dict[OptimizerName, Callable[[OptimizerSpec, Parameters, bool | None], optim.Optimizer]] = {
    "sgd": sgd,
    "momentum": sgd,
    "nesterov": sgd,
    "rmsprop": rmsprop,
    "adam": adam,
    "adamw": adamw,
}


def make_optimizer(spec: OptimizerSpec, parameters: Parameters, tuned: bool) -> torch.optim.Optimizer:
    """Return the optimizer at the spec's learning rate. Tuned: one kernel updates all parameters if the rule has
    such a form; otherwise PyTorch chooses.
    """
    return RULES[spec.name](spec, parameters, tuned or None)


def inner_epsilon(spec: OptimizerSpec, steps: int) -> float:
    """Return the epsilon of PyTorch's Adam, which adds it after dividing by sqrt(1 - beta2^t), the contract before."""
    return float(spec.epsilon / (1 - spec.beta2**steps) ** 0.5)


def set_rate(optimizer: optim.Optimizer, rate: float) -> None:
    """Set the rate of the following steps."""
    for group in optimizer.param_groups:
        group["lr"] = rate
