"""The update rules of the numeric contract as Keras' optimizers, on any backend."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from workloads.spec import OptimizerSpec


class DecayingSGD(keras.optimizers.SGD):
    """SGD with the decay in the gradient, where momentum keeps it; Keras' decay is always decoupled."""

    def __init__(self, decay: float, *arguments: float, nesterov: bool) -> None:
        super().__init__(*arguments, nesterov=nesterov)
        self.decay = decay

    def update_step(self, gradient: Any, variable: keras.Variable, learning_rate: Any) -> None:
        """Update one variable as Keras does, from the gradient with decay."""
        super().update_step(ops.add(gradient, ops.multiply(variable, self.decay)), variable, learning_rate)


class OuterRMSprop(keras.optimizers.RMSprop):
    """RMSprop with epsilon outside the root; Keras' version has it inside."""

    def update_step(self, gradient: Any, variable: keras.Variable, learning_rate: Any) -> None:
        """Update one variable."""
        mean_square = self._velocities[self._get_variable_index(variable)]
        self.assign(
            mean_square,
            ops.add(ops.multiply(self.rho, mean_square), ops.multiply(1 - self.rho, ops.square(gradient))),
        )
        size = ops.add(ops.sqrt(mean_square), self.epsilon)
        self.assign_sub(variable, ops.divide(ops.multiply(learning_rate, gradient), size))


def make_optimizer(spec: OptimizerSpec) -> keras.optimizers.Optimizer:
    """Return the optimizer at the spec's learning rate."""
    rate, decay = spec.learning_rate, spec.weight_decay
    match spec.name:
        case "adam":  # its epsilon is outside the bias correction, as in the contract
            return keras.optimizers.Adam(rate, spec.beta1, spec.beta2, spec.epsilon)
        case "adamw":
            return keras.optimizers.AdamW(rate, decay, spec.beta1, spec.beta2, spec.epsilon)
        case "rmsprop":
            return OuterRMSprop(rate, spec.rho, epsilon=spec.epsilon)
        case "sgd" | "momentum" | "nesterov":  # the stored velocity contains the rate: `set_rate`
            momentum, nesterov = 0.0 if spec.name == "sgd" else spec.momentum, spec.name == "nesterov"
            if decay:
                return DecayingSGD(decay, rate, momentum, nesterov=nesterov)
            return keras.optimizers.SGD(rate, momentum, nesterov=nesterov)


def set_rate(optimizer: keras.optimizers.Optimizer, rate: Any) -> None:
    """Set the rate of the following steps; `rate` is a scalar. Velocities, which contain the old rate, are rescaled."""
    if isinstance(optimizer, keras.optimizers.SGD) and optimizer.momentum:
        ratio = rate / optimizer.learning_rate.value
        for velocity in optimizer.momentums:
            velocity.assign(velocity * ratio)
    optimizer.learning_rate.assign(rate)
