"""Compiled functions of one model: the step of JAX's and optax's guides, loops over it, and its parts.

A step's state is donated: XLA updates it in place. Inputs are (images, labels), or indices into the split on the
device, `resident`, which is then (images, labels), else ().
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import optax
from jax import lax
from jax import numpy as jnp

from adapters.base import LOSS_SCALE
from adapters.jax.layers import ForwardPass, mean_loss
from adapters.jax.optimizers import make_rule
from workloads.spec import OptimizerSpec, Workload

# (parameters, statistics, key of the masks, images (n, h, w, c) as float32, training) -> (logits in float32, statistics
# after the batch, {layer: its output})
Network = Callable[[Any, Any, jax.Array, jax.Array, bool], tuple[jax.Array, Any, dict[str, jax.Array]]]


class State(NamedTuple):
    """Everything that a step changes."""

    parameters: Any
    statistics: Any
    optimizer: optax.OptState
    steps: jax.Array  # () updates that were made
    key: jax.Array  # of the next masks
    scale: jax.Array  # () of the loss


def network_of(workload: Workload, dtype: Any) -> Network:
    """Return the workload's layers as a function; they compute in `dtype`."""

    def network(parameters: Any, statistics: Any, key: jax.Array, x: jax.Array, training: bool) -> Any:
        run = ForwardPass(parameters | statistics, training, dtype, key)
        logits = run.apply(workload.layers, x.astype(dtype))
        return logits.astype(jnp.float32), statistics | run.statistics, run.outputs

    return network


class Steps:
    """A model's compiled functions. Each is compiled when it is first called with inputs of a shape."""

    def __init__(self, workload: Workload, rule: OptimizerSpec, network: Network, draws: bool, scales: bool) -> None:
        self.workload, self.rule, self.network = workload, rule, network
        self.draws, self.scales = draws, scales
        self.step = jax.jit(self._step, donate_argnums=0)
        self.loop = jax.jit(self._loop, donate_argnums=0)
        self.add = jax.jit(self._add, donate_argnums=(0, 1))
        self.apply = jax.jit(self._apply, donate_argnums=(0, 1))
        self.gradients = jax.jit(self.differentiated)
        self.logits = jax.jit(self._logits)

    def start(self, parameters: Any, statistics: Any, seed: int) -> State:
        """Return the state before the first step."""
        optimizer = make_rule(self.rule, 0.0, 1).init(parameters)
        scale = jnp.float32(LOSS_SCALE if self.scales else 1)
        return State(parameters, statistics, optimizer, jnp.int32(0), jax.random.key(seed), scale)

    def _rescaled(self, images: jax.Array) -> jax.Array:
        return images.astype(jnp.float32) * np.float32(self.workload.scale)

    def differentiated(
        self, state: State, batch: Any, resident: Any = (), share: jax.Array | None = None
    ) -> tuple[Any, jax.Array, State, dict[str, jax.Array]]:
        """Return (gradients of the scaled loss, mean loss, the state with statistics and key moved on, outputs).

        Gradients and loss are multiplied by `share`, if given.
        """
        images, labels = (jnp.take(each, batch, 0, mode="clip") for each in resident) if resident else batch
        key, of_pass = jax.random.split(state.key) if self.draws else (state.key, state.key)

        def scaled_loss(parameters: Any) -> Any:
            x = self._rescaled(images)
            logits, statistics, outputs = self.network(parameters, state.statistics, of_pass, x, True)
            loss = mean_loss(self.workload, logits, labels)
            if share is not None:
                loss = loss * share
            return loss * state.scale if self.scales else loss, (loss, statistics, outputs)

        gradients, (loss, statistics, outputs) = jax.grad(scaled_loss, has_aux=True)(state.parameters)
        return gradients, loss, state._replace(statistics=statistics, key=key), outputs

    def updated(self, state: State, gradients: Any, rate: jax.Array) -> State:
        """Return the state after the optimizer's step; where a scaled gradient overflowed, it makes none."""
        if self.scales:
            gradients = jax.tree.map(lambda gradient: gradient / state.scale, gradients)
        steps = state.steps + 1
        updates, optimizer = make_rule(self.rule, rate, steps).update(gradients, state.optimizer, state.parameters)
        new = state._replace(
            parameters=optax.apply_updates(state.parameters, updates), optimizer=optimizer, steps=steps
        )
        if not self.scales:
            return new
        finite = jnp.stack([jnp.isfinite(gradient).all() for gradient in jax.tree.leaves(gradients)]).all()
        kept = jax.tree.map(lambda after, before: jnp.where(finite, after, before), new[:4], state[:4])
        parameters, statistics, optimizer, steps = kept
        scale = jnp.where(finite, state.scale, state.scale / 2)
        return State(parameters, statistics, optimizer, steps, state.key, scale)

    def _step(self, state: State, rate: jax.Array, batch: Any, resident: Any) -> tuple[State, jax.Array]:
        gradients, loss, state, _ = self.differentiated(state, batch, resident)
        return self.updated(state, gradients, rate), loss

    def _loop(self, state: State, rates: jax.Array, batches: Any, resident: Any) -> tuple[State, jax.Array]:
        """Run a step for each rate (steps,) and batch (steps, ...); losses are (steps,)."""

        def step(state: State, inputs: Any) -> tuple[State, jax.Array]:
            rate, batch = inputs
            return self._step(state, rate, batch, resident)

        return lax.scan(step, state, (rates, batches))

    def _add(self, state: State, total: Any, share: jax.Array, batch: Any, resident: Any) -> tuple[State, Any, Any]:
        """Add the gradients of a part, which is `share` of its update; returns (state, total, its part of the loss)."""
        gradients, loss, state, _ = self.differentiated(state, batch, resident, share)
        return state, jax.tree.map(jnp.add, total, gradients), loss

    def _apply(self, state: State, total: Any, rate: jax.Array) -> tuple[State, Any]:
        """Make the update from the sum; returns (state, zeros for the next one)."""
        return self.updated(state, total, rate), jax.tree.map(jnp.zeros_like, total)

    def _logits(self, state: State, images: jax.Array) -> jax.Array:
        return self.network(state.parameters, state.statistics, state.key, self._rescaled(images), False)[0]
