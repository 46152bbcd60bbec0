"""The update rules of the numeric contract as Keras' optimizers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from workloads.spec import OptimizerName, OptimizerSpec


class DecayingSGD(keras.optimizers.SGD):
    """With the decay in the gradient, where momentum keeps it; Keras' own is always decoupled."""

    def __init__(self, decay: float, *arguments: float, nesterov: bool) -> None:
        super().__init__(*arguments, nesterov=nesterov)
        self.decay = decay

    def update_step(self, gradient: tf.Tensor, variable: keras.Variable, learning_rate: tf.Tensor) -> None:
        """Keras' own, of another gradient."""
        super().update_step(ops.add(gradient, ops.multiply(variable, self.decay)), variable, learning_rate)


class OuterRMSprop(keras.optimizers.RMSprop):
    """With epsilon outside the root; Keras' own is inside."""

    def update_step(self, gradient: tf.Tensor, variable: keras.Variable, learning_rate: tf.Tensor) -> None:
        """One variable's."""
        mean_square = self._velocities[self._get_variable_index(variable)]
        self.assign(
            mean_square,
            ops.add(ops.multiply(self.rho, mean_square), ops.multiply(1 - self.rho, ops.square(gradient))),
        )
        size = ops.add(ops.sqrt(mean_square), self.epsilon)
        self.assign_sub(variable, ops.divide(ops.multiply(learning_rate, gradient), size))


def sgd(spec: OptimizerSpec) -> keras.optimizers.Optimizer:
    """With or without momentum; the rate is inside of what momentum keeps: `set_rate`."""
    momentum = 0.0 if spec.name == "sgd" else spec.momentum
    nesterov = spec.name == "nesterov"
    if spec.weight_decay:
        return DecayingSGD(spec.weight_decay, spec.learning_rate, momentum, nesterov=nesterov)
    return keras.optimizers.SGD(spec.learning_rate, momentum, nesterov=nesterov)


def rmsprop(spec: OptimizerSpec) -> keras.optimizers.Optimizer:
    """Without momentum."""
    return OuterRMSprop(spec.learning_rate, spec.rho, epsilon=spec.epsilon)


def adam(spec: OptimizerSpec) -> keras.optimizers.Optimizer:
    """Its epsilon is outside the bias correction."""
    return keras.optimizers.Adam(spec.learning_rate, spec.beta1, spec.beta2, spec.epsilon)


def adamw(spec: OptimizerSpec) -> keras.optimizers.Optimizer:
    """The same, with a decoupled decay."""
    return keras.optimizers.AdamW(spec.learning_rate, spec.weight_decay, spec.beta1, spec.beta2, spec.epsilon)


RULES: dict[OptimizerName, Callable[[OptimizerSpec], keras.optimizers.Optimizer]] = {
    "sgd": sgd,
    "momentum": sgd,
    "nesterov": sgd,
    "rmsprop": rmsprop,
    "adam": adam,
    "adamw": adamw,
}


def make_optimizer(spec: OptimizerSpec) -> keras.optimizers.Optimizer:
    """At the spec's own learning rate."""
    return RULES[spec.name](spec)


def set_rate(optimizer: keras.optimizers.Optimizer, rate: tf.Tensor) -> None:
    """Of the steps from here on; `rate` is a scalar. Velocities, which hold the rate that was, are put right."""
    if isinstance(optimizer, keras.optimizers.SGD) and optimizer.momentum:
        ratio = rate / optimizer.learning_rate.value
        for velocity in optimizer.momentums:
            velocity.assign(velocity * ratio)
    optimizer.learning_rate.assign(rate)


def at_rates(step: Any, rule: keras.optimizers.Optimizer) -> Any:
    """The compiled step with its learning rate as the first input: traced once for all rates."""

    @tf.function(input_signature=(tf.TensorSpec((), tf.float32), *step.input_signature))
    def step_at(rate: tf.Tensor, *inputs: tf.Tensor) -> tf.Tensor:
        set_rate(rule, rate)
        return step(*inputs)

    return step_at
