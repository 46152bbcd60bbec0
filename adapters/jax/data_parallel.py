"""JAX on several devices: one program for all of them by shard_map, on XLA's CPU devices or GPUs, in one process.

GPUs: written as in JAX's guide, never run.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from adapters import base
from adapters.base import Facts, Floats, Order, Unsupported
from adapters.jax import adapter
from adapters.jax.steps import State, Steps
from adapters.shared import Share, refuse, refuse_parts, shares

NAME, AXIS = "JAX", "devices"
SAME, OWN = PartitionSpec(), PartitionSpec(AXIS)  # of an array that all devices have, and of one with an entry for each
PLACES = State(parameters=SAME, statistics=OWN, optimizer=SAME, steps=SAME, key=OWN, scale=SAME)


class DataParallel(adapter.Adapter):
    """A replica on each of `devices`. Evaluation, weights and running statistics are the first one's."""

    build_model, memory_use, snapshot = base.Adapter.build_model, base.Adapter.memory_use, base.Adapter.snapshot

    def __init__(self, devices: int) -> None:
        self.devices = devices
        self.spread: State | None = None  # of all devices

    def open(self, device: str, threads: int, profile: str, precision: str, feed: str, allocator: str) -> Facts:
        refuse(profile, precision, feed, NAME)
        if device == "cpu":
            jax.config.update("jax_num_cpu_devices", self.devices)
        # XLA's CPU devices share one pool of threads.
        facts = super().open(device, threads * self.devices, profile, precision, feed, allocator)
        found = jax.devices(self.device.platform)
        if len(found) < self.devices:
            raise Unsupported(f"JAX finds {len(found)} GPUs, {self.devices} are requested")
        self.mesh = Mesh(np.array(found[: self.devices]), (AXIS,))
        self.places = jax.tree.map(lambda place: NamedSharding(self.mesh, place), PLACES)
        return facts | {"devices": self.devices, "data_parallel": "shard_map in one jitted step"}

    # The adapter of one device sees the first one's.
    @property
    def state(self) -> Any:
        if self.spread is None:
            return None
        return first_entries(jax.tree.map(lambda array: array.addressable_data(0), self.spread))

    @state.setter
    def state(self, value: State | None) -> None:
        if value is None:
            self.spread = None
            return
        statistics = jax.tree.map(lambda array: jnp.stack([array] * self.devices), value.statistics)
        keys = jax.random.split(value.key, self.devices)
        self.spread = self._placed(value._replace(statistics=statistics, key=keys))

    def _placed(self, state: State) -> State:
        return State(*map(jax.device_put, state, self.places))

    def _begin(self, steps: Steps, parameters: Any, statistics: Any, seed: int) -> None:
        super()._begin(steps, parameters, statistics, seed)

        def step(state: State, rate: jax.Array, images: jax.Array, labels: jax.Array) -> tuple[State, jax.Array]:
            share = jnp.float32(1 / self.devices)
            gradients, loss, own, _ = steps.differentiated(first_entries(state), (images, labels), (), share)
            gradients, loss = lax.psum((gradients, loss), AXIS)
            return with_entries(steps.updated(own, gradients, rate)), loss

        mapped = jax.shard_map(
            step, mesh=self.mesh, in_specs=(PLACES, SAME, OWN, OWN), out_specs=(PLACES, SAME), check_vma=False
        )
        self.step, self.update = jax.jit(mapped, donate_argnums=0), jax.jit(steps.updated)

    def probe(self, images: Any, labels: Any) -> Any:
        raise Unsupported("JAX on several devices only runs steps: probes use one device")

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> list[jax.Array]:
        refuse_parts(part, NAME)
        each = np.full(len(order), self.rate) if rates is None else rates.astype(np.float32)
        self.rate = each[-1]
        return [self._update(batch, rate) for batch, rate in zip(order, each, strict=True)]

    def _update(self, batch: Order, rate: np.float32) -> jax.Array:
        """Make one update; returns its mean loss."""
        divided = shares(batch, self.devices)
        if len({len(share.rows) for share in divided}) > 1:
            return self._update_unevenly(divided, rate)
        of_each = NamedSharding(self.mesh, OWN)
        images, labels = (jax.device_put(split[batch], of_each) for split in (self.images, self.labels))
        self.spread, loss = self.step(self.spread, rate, images, labels)
        return loss

    def _update_unevenly(self, divided: list[Share], rate: np.float32) -> jax.Array:
        """Make an update of shares of different lengths on the first device alone, e.g. the last one of an epoch. One
        program for all devices has one shape of its inputs.
        """
        state = jax.device_put(self.spread, self.device)
        every = []
        for number, share in enumerate(divided):
            own = first_entries(state, number)
            inputs = self.images[share.rows], self.labels[share.rows]
            every.append(self.steps.gradients(own, inputs, (), np.float32(share.weight))[:3])
        gradients, losses, states = zip(*every, strict=True)
        total = jax.tree.map(lambda *parts: sum(parts[1:], start=parts[0]), *gradients)
        new = self.update(states[0], total, rate)
        entries = jax.tree.map(lambda *each: jnp.stack(each), *((own.statistics, own.key) for own in states))
        self.spread = self._placed(new._replace(statistics=entries[0], key=entries[1]))
        return sum(losses[1:], start=losses[0])

    def synchronize(self) -> None:
        jax.block_until_ready(self.spread)


def first_entries(state: State, number: int = 0) -> State:
    """Return one device's state, of the entries for each that `state` has."""
    entries = jax.tree.map(lambda array: array[number], (state.statistics, state.key))
    return state._replace(statistics=entries[0], key=entries[1])


def with_entries(state: State) -> State:
    """Return one device's state as its entry of all devices' state."""
    entries = jax.tree.map(lambda array: array[None], (state.statistics, state.key))
    return state._replace(statistics=entries[0], key=entries[1])
