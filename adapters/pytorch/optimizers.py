"""The update rules of the numeric contract as PyTorch's optimizers."""

from __future__ import annotations

from torch import nn, optim

from workloads.spec import OptimizerSpec


def make_optimizer(spec: OptimizerSpec, parameters: list[nn.Parameter], tuned: bool) -> optim.Optimizer:
    """Return the optimizer at the spec's learning rate. Tuned: one kernel updates all parameters if the rule has
    such a form; otherwise PyTorch chooses.
    """
    rate, decay, betas, fused = spec.learning_rate, spec.weight_decay, (spec.beta1, spec.beta2), tuned or None
    match spec.name:
        case "adam":  # its epsilon is inside the bias correction: `inner_epsilon`
            return optim.Adam(parameters, rate, betas, spec.epsilon, fused=fused)
        case "adamw":
            return optim.AdamW(parameters, rate, betas, spec.epsilon, decay, fused=fused)
        case "rmsprop":  # its epsilon is outside the root; it has no fused form
            return optim.RMSprop(parameters, rate, spec.rho, spec.epsilon)
        case "sgd" | "momentum" | "nesterov":  # the decay is in the gradient, the rate outside the stored velocity
            momentum, nesterov = 0.0 if spec.name == "sgd" else spec.momentum, spec.name == "nesterov"
            return optim.SGD(parameters, rate, momentum, weight_decay=decay, nesterov=nesterov, fused=fused)


def inner_epsilon(spec: OptimizerSpec, steps: int) -> float:
    """Return the epsilon of PyTorch's Adam, which adds it after dividing by sqrt(1 - beta2^t), the contract before."""
    return float(spec.epsilon / (1 - spec.beta2**steps) ** 0.5)


def set_rate(optimizer: optim.Optimizer, rate: float) -> None:
    """Set the rate of the following steps."""
    for group in optimizer.param_groups:
        group["lr"] = rate
