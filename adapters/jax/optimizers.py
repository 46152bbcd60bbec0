"""The update rules of the numeric contract as chains of optax's transformations."""

from __future__ import annotations

import jax
import optax
from jax import numpy as jnp

from workloads.spec import OptimizerSpec


def make_rule(spec: OptimizerSpec, rate: jax.Array | float, steps: jax.Array | int) -> optax.GradientTransformation:
    """Return the rule at the learning rate of step `steps`, counted from 1. Both may be values of a compiled step: the
    state has the same form in every step.
    """
    decay = optax.add_decayed_weights(spec.weight_decay)
    match spec.name:
        case "adam" | "adamw":  # optax adds epsilon after dividing by sqrt(1 - beta2^t), the contract before
            inner = spec.epsilon / jnp.sqrt(1 - jnp.float32(spec.beta2) ** steps)
            parts = [optax.scale_by_adam(spec.beta1, spec.beta2, inner), *([decay] if spec.name == "adamw" else [])]
        case "rmsprop":
            parts = [optax.scale_by_rms(spec.rho, spec.epsilon, eps_in_sqrt=False)]
        case "sgd":
            parts = [decay]
        case "momentum" | "nesterov":
            parts = [decay, optax.trace(spec.momentum, nesterov=spec.name == "nesterov")]
    return optax.chain(*parts, optax.scale_by_learning_rate(rate))
