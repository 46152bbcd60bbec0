"""Models of the caller's own code: modules of Flax NNX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from flax import nnx
from jax import numpy as jnp

from adapters.jax.steps import Network
from adapters.shared import PROBED, make_checked
from workloads.records.network import OwnCode


def take_model(make_model: Callable[[int], Any], own: OwnCode, seed: int) -> tuple[Network, Any, Any, int]:
    """Return (the model as a function, its parameters, everything else that it changes, bytes of its running
    statistics). Weights and masks are drawn from the seeds that the code gives nnx.Rngs: numpy's generator is seeded
    for that. Raises TypeError, ValueError.
    """
    np.random.seed(seed % 2**32)

    def predict(model: nnx.Module) -> Any:
        model.eval()
        return model(jnp.zeros((PROBED, *own.input_shape)))

    model = make_checked(make_model, own, (nnx.Module, jax.Array), predict)
    definition, parameters, statistics = nnx.split(model, nnx.Param, ...)
    # Copies, for steps are given their arrays away: the caller's code may keep the model's.
    parameters, statistics = (jax.tree.map(jnp.copy, of_model) for of_model in (parameters, statistics))

    def network(parameters: Any, statistics: Any, key: jax.Array, x: jax.Array, training: bool) -> Any:
        model = nnx.merge(definition, parameters, statistics, copy=True)  # variables of this trace
        if training:
            model.train()
        else:
            model.eval()
        logits = model(x)
        return logits.astype(jnp.float32), nnx.split(model, nnx.Param, ...)[2], {}

    kept = jax.tree.leaves(nnx.state(model, nnx.BatchStat))
    return network, parameters, statistics, sum(array.nbytes for array in kept)
