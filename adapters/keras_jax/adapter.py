"""Keras 3 on JAX. Default profile: `train_on_batch`, a step that `compile` gives to jax.jit with its state donated.
Fit: `fit`, with the same step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import keras

from adapters.base import JIT, Count, Facts
from adapters.jax_shared.libraries import count_allocated, is_out_of_memory, read_facts, take_device
from adapters.keras_shared.adapter import Computed
from adapters.keras_shared.own_step import OwnStepAdapter


class Adapter(OwnStepAdapter):
    execution = JIT

    def open(self, device: str, threads: int, profile: str, precision: str, feed: str, allocator: str) -> Facts:
        platforms = device if device == "cpu" else f"{device},cpu"  # Keras uses the CPU, too
        self.chip = take_device(platforms, threads, precision, allocator)
        facts = super().open(device, threads, profile, precision, feed, allocator)
        jax.numpy.zeros(1).block_until_ready()
        return facts | read_facts(self.chip, device, threads, precision, allocator)

    def differentiate(
        self, compute: Callable[[], Computed], variables: Sequence[keras.Variable]
    ) -> tuple[Any, list[Any]]:
        def compute_with(values: list[Any]) -> Computed:
            with keras.StatelessScope(state_mapping=list(zip(variables, values, strict=True))):
                return compute()

        # Without jit, which would compile each call's `compute` anew: single operations are compiled once per shape.
        (_, computed), gradients = jax.value_and_grad(compute_with, has_aux=True)([each.value for each in variables])
        return computed, gradients

    def memory(self) -> dict[str, Count]:
        gradients = {"gradients": "they exist only inside the compiled step"}
        return super().memory() | gradients | count_allocated(self.chip)

    def synchronize(self) -> None:
        (jax.device_put(0.0, self.chip) + 0).block_until_ready()  # after all that was submitted to the device
        jax.effects_barrier()

    def out_of_memory(self, error: BaseException) -> bool:
        return is_out_of_memory(error)
