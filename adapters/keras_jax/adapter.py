"""Keras 3 on JAX. Default profile: `train_on_batch`, a step that `compile` gives to jax.jit with its state donated.
Fit: `fit`, with the same step.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import keras

from adapters.base import Count, Facts, Unsupported
from adapters.keras_shared.adapter import Computed
from adapters.keras_shared.own_step import OwnStepAdapter
from workloads.records.build import TF32

NO_MEMORY = "RESOURCE_EXHAUSTED"


class Adapter(OwnStepAdapter):
    def open(self, device: str, threads: int, profile: str, precision: str, feed: str, allocator: str) -> Facts:
        os.environ["NPROC"] = str(threads)  # XLA's pool of threads; read when the CPU is first used
        jax.config.update("jax_platforms", "cuda,cpu" if device == "cuda" else "cpu")
        # By default products are in TF32 on a GPU that has it.
        jax.config.update("jax_default_matmul_precision", "tensorfloat32" if precision == TF32 else "float32")
        try:
            found = jax.devices("gpu" if device == "cuda" else "cpu")[:1]
        except RuntimeError as error:
            raise Unsupported(f"JAX finds no GPU: {error}") from error
        self.chip = found[0]
        facts = super().open(device, threads, profile, precision, feed, allocator)
        jax.numpy.zeros(1).block_until_ready()
        return facts | {
            "framework_version": jax.__version__,
            "jaxlib_version": jax.lib.__version__,
            "cuda_version": None,
            "cudnn_version": None,
            "cudnn_autotune": None,
            "tf32": device == "cuda" and precision == TF32,
            "intra_op_threads": threads,
            "execution": "XLA, one jit per step",
            "allocator_policy": {"cpu": "host", "cuda": "growth" if allocator == "on-demand" else "most of card"}[
                device
            ],
        }

    def differentiate(
        self, compute: Callable[[], Computed], variables: Sequence[keras.Variable]
    ) -> tuple[Any, list[Any]]:
        def of(values: list[Any]) -> Computed:
            with keras.StatelessScope(state_mapping=list(zip(variables, values, strict=True))):
                return compute()

        (_, computed), gradients = jax.jit(jax.value_and_grad(of, has_aux=True))([each.value for each in variables])
        return computed, gradients

    def memory(self) -> dict[str, Count]:
        counted = self.chip.memory_stats() or {}
        why = "JAX does not count what is in use on a CPU"
        return super().memory() | {
            "gradients": "they live inside the compiled step",
            "allocator_peak": counted.get("peak_bytes_in_use", why),
            "allocator_reserved": counted.get("bytes_reserved", why),
        }

    def synchronize(self) -> None:
        (jax.device_put(0.0, self.chip) + 0).block_until_ready()  # after all that was submitted to the device
        jax.effects_barrier()

    def out_of_memory(self, error: BaseException) -> bool:
        refused = isinstance(error, jax.errors.JaxRuntimeError) and NO_MEMORY in str(error)
        return refused or isinstance(error, MemoryError)
