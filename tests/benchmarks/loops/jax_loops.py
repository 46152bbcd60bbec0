"""Loop of optax's and JAX's guides: one jitted step with donated state."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import optax
from jax import lax
from jax import numpy as jnp

Train = Callable[[Any], list[float]]  # (steps, batch) -> losses


def logits_of(weights: Any, x: Any) -> Any:
    for layer, pooled in (("conv1", True), ("conv2", True), ("conv3", False)):
        x = lax.conv_general_dilated(
            x, weights[f"{layer}/kernel"], (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = jax.nn.relu(x + weights[f"{layer}/bias"])
        if pooled:
            x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = jax.nn.relu(x.reshape(len(x), -1) @ weights["dense1/kernel"] + weights["dense1/bias"])
    return x @ weights["dense2/kernel"] + weights["dense2/bias"]


def by_hand(images: Any, labels: Any, weights: Any, threads: int, settings: set[str]) -> Train:
    optimizer = optax.sgd(0.01, momentum=0.9)
    state: Any = {key: jnp.array(array) for key, array in weights.items()}
    state = state, optimizer.init(state)

    def step(state: Any, x: Any, y: Any) -> Any:
        def loss_of(parameters: Any) -> Any:
            logits = logits_of(parameters, x.astype(jnp.float32) / 255)
            return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

        parameters, kept = state
        loss, gradients = jax.value_and_grad(loss_of)(parameters)
        updates, kept = optimizer.update(gradients, kept, parameters)
        return (optax.apply_updates(parameters, updates), kept), loss

    def loop(state: Any, xs: Any, ys: Any) -> Any:
        return lax.scan(lambda state, batch: step(state, *batch), state, (xs, ys))

    in_a_loop = "steps-in-a-loop" in settings
    compiled = jax.jit(loop if in_a_loop else step, donate_argnums=0)

    def train(order: Any) -> list[float]:
        nonlocal state
        if in_a_loop:
            state, losses = compiled(state, images[order], labels[order])
            return np.array(losses).tolist()
        losses = []
        for batch in order:
            state, loss = compiled(state, images[batch], labels[batch])
            losses.append(loss)
        return [float(loss) for loss in np.array(jax.device_get(losses))]

    return train


LOOPS = {"by-hand": by_hand}
FEEDS: dict[str, Any] = {}
TRAINERS: dict[str, Any] = {}
