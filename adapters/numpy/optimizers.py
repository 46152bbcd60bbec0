"""The update rules of the numeric contract, in its own notation."""

from __future__ import annotations

import numpy as np

from adapters.numpy.passes import Array, Parameters
from workloads.layers import Shape
from workloads.spec import OptimizerSpec


class Optimizer:
    """State of a rule between steps; `rate` is that of the step, `steps` counts it."""

    def __init__(self, rule: OptimizerSpec, trained: dict[str, Shape], dtype: type) -> None:
        self.rule, self.dtype, self.rate, self.steps = rule, dtype, rule.learning_rate, 0
        self.first: Parameters = {key: np.zeros(shape, dtype) for key, shape in trained.items()}
        self.second: Parameters = {key: np.zeros(shape, dtype) for key, shape in trained.items()}

    def update(self, key: str, weights: Array, g: Array) -> Array:
        """Return what the step subtracts from these weights, whose gradient is g."""
        rule, first, second = self.rule, self.first, self.second
        if rule.name in ("adam", "adamw"):
            first[key] = rule.beta1 * first[key] + (1 - rule.beta1) * g
            second[key] = rule.beta2 * second[key] + (1 - rule.beta2) * g**2
            rate = self.rate * np.sqrt(1 - rule.beta2**self.steps) / (1 - rule.beta1**self.steps)
            change = self.dtype(rate) * first[key] / (np.sqrt(second[key]) + self.dtype(rule.epsilon))
            return change + self.rate * rule.weight_decay * weights if rule.name == "adamw" else change
        if rule.name == "rmsprop":
            second[key] = rule.rho * second[key] + (1 - rule.rho) * g**2
            return self.rate * g / (np.sqrt(second[key]) + self.dtype(rule.epsilon))
        if rule.weight_decay:
            g = g + rule.weight_decay * weights
        if rule.name == "sgd":
            return self.rate * g
        first[key] = rule.momentum * first[key] + g
        return self.rate * (g + rule.momentum * first[key] if rule.name == "nesterov" else first[key])
