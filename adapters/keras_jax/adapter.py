"""Keras 3 on JAX. Default profile: `train_on_batch`, a step that `compile` gives to jax.jit with its state donated.
Fit: `fit`, with the same step.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jaxlib
import keras

from adapters.base import JIT, Count, Facts, Unsupported
from adapters.keras_shared.adapter import Computed
from adapters.keras_shared.own_step import OwnStepAdapter
from workloads.records.build import TF32
from workloads.records.job import ON_DEMAND

NO_MEMORY = "RESOURCE_EXHAUSTED"


class Adapter(OwnStepAdapter):
    execution = JIT

    def open(self, device: str, threads: int, profile: str, precision: str, feed: str, allocator: str) -> Facts:
        # Read when the CPU, or the GPU, is first used; the first is XLA's pool of threads.
        os.environ["NPROC"] = str(threads)
        os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = str(allocator != ON_DEMAND).lower()
        jax.config.update("jax_platforms", "cuda,cpu" if device == "cuda" else "cpu")  # Keras uses the CPU, too
        # By default products are in TF32 on a GPU that has it.
        jax.config.update("jax_default_matmul_precision", "tensorfloat32" if precision == TF32 else "highest")
        try:
            self.chip = jax.devices(device)[0]
        except RuntimeError as error:
            raise Unsupported(f"JAX {jax.__version__} finds no device {device}: {error}") from error
        facts, on_gpu = super().open(device, threads, profile, precision, feed, allocator), device == "cuda"
        jax.numpy.zeros(1).block_until_ready()
        cuda = re.search(r"cuda (\d+)(\d\d)\d\b", getattr(self.chip.client, "platform_version", "")) if on_gpu else None
        policy = "growth" if allocator == ON_DEMAND else "three quarters of the card"
        return facts | {
            "framework_version": jax.__version__,
            "jaxlib_version": jaxlib.__version__,
            "cuda_version": f"{cuda[1]}.{int(cuda[2])}" if cuda else None,
            "cudnn_version": None,  # JAX does not report it
            "cudnn_autotune": True if on_gpu else None,  # XLA's default
            "tf32": on_gpu and precision == TF32,
            "intra_op_threads": threads,
            "allocator_policy": policy if on_gpu else "host",
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
