"""The update rules of the numeric contract as MXNet's optimizers.

All of them add the gradient of a mean loss: Trainer.step divides the summed gradient, by `rescale_grad`.
"""

from __future__ import annotations

from typing import Any

import mxnet as mx
import numpy as np
from mxnet import gluon

from workloads.spec import OptimizerSpec

State = tuple[mx.nd.NDArray, ...]


class OuterRMSProp(mx.optimizer.RMSProp):
    """RMSProp with epsilon outside the root; MXNet's version has it inside."""

    def update(self, index: int, weight: mx.nd.NDArray, grad: mx.nd.NDArray, state: State) -> None:
        """Update one parameter in place."""
        self._update_count(index)
        (mean_square,) = state
        gradient = grad * self.rescale_grad
        mean_square *= self.gamma1
        mean_square += (1 - self.gamma1) * mx.nd.square(gradient)
        weight -= self._get_lr(index) * gradient / (mx.nd.sqrt(mean_square) + self.epsilon)


class DecayingNAG(mx.optimizer.NAG):
    """NAG with the decay in the gradient, in both places where Nesterov's rule has it; MXNet's `wd` is in one."""

    def __init__(self, decay: float, **settings: float) -> None:
        super().__init__(wd=0.0, **settings)
        self.decay = decay

    def update_multi_precision(self, index: int, weight: mx.nd.NDArray, grad: mx.nd.NDArray, state: State) -> None:
        """Update one parameter in place; a Trainer calls this."""
        if self.decay:
            grad = grad + (self.decay / self.rescale_grad) * weight
        super().update_multi_precision(index, weight, grad, state)


class AdamW(mx.optimizer.Adam):
    """Adam with a decoupled decay; MXNet's `wd` would be in the gradient."""

    def __init__(self, decay: float, *arguments: float) -> None:
        super().__init__(*arguments, wd=0.0)
        self.decay = decay

    def update(self, index: int, weight: mx.nd.NDArray, grad: mx.nd.NDArray, state: State) -> None:
        """Update one parameter in place."""
        weight *= 1 - self._get_lr(index) * self.decay
        super().update(index, weight, grad, state)


def make_optimizer(spec: OptimizerSpec) -> mx.optimizer.Optimizer:
    """Return the optimizer at the spec's learning rate."""
    rate, decay, adam = spec.learning_rate, spec.weight_decay, (spec.beta1, spec.beta2, spec.epsilon)
    match spec.name:
        case "adam":  # its epsilon is outside the bias correction, as in the contract
            return mx.optimizer.Adam(rate, *adam, wd=0.0)
        case "adamw":
            return AdamW(decay, rate, *adam)
        case "rmsprop":
            return OuterRMSProp(rate, spec.rho, epsilon=spec.epsilon, wd=0.0)
        case "nesterov":
            return DecayingNAG(decay, momentum=spec.momentum, learning_rate=rate)
        case "sgd" | "momentum":  # `wd` is in the gradient, the rate in the stored velocity: `set_rate`
            momentum = 0.0 if spec.name == "sgd" else spec.momentum
            return mx.optimizer.SGD(momentum=momentum, learning_rate=rate, wd=decay)


def set_rate(trainer: gluon.Trainer, spec: OptimizerSpec, rate: float) -> None:
    """Set the rate of the next step. Velocities contain the old rate, so the step keeps of them the momentum times new
    over old.

    Nesterov's rule has the momentum in a second place, which does not change: its velocities are scaled.
    """
    ratio = rate / trainer.learning_rate
    trainer.set_learning_rate(rate)
    if spec.name == "momentum":
        trainer.optimizer.momentum = spec.momentum * ratio
    elif spec.name == "nesterov" and ratio != 1:
        for updater in trainer._updaters:
            for velocity in updater.states.values():
                velocity *= ratio


def bytes_of(state: Any) -> int:
    """Bytes of an optimizer state: None, an array, or a tuple of arrays."""
    if state is None:
        return 0
    if isinstance(state, list | tuple):
        return sum(bytes_of(item) for item in state)
    return int(state.size * np.dtype(state.dtype).itemsize)
