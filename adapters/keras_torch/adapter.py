"""Keras 3 on PyTorch. Default profile: `train_on_batch`, whose step is eager. Fit: `fit`, with the same step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import torch
import torch._dynamo  # the first optimizer would import it (1.5 s): count it as import

from adapters.base import EAGER, Count, Facts, Unsupported
from adapters.keras_shared.adapter import Computed
from adapters.keras_shared.own_step import OwnStepAdapter
from workloads.records.build import TF32


class Adapter(OwnStepAdapter):
    execution = EAGER

    def open(self, device: str, threads: int, profile: str, precision: str, feed: str, allocator: str) -> Facts:
        self.on_gpu = device == "cuda"
        torch.set_num_threads(threads)
        torch.set_num_interop_threads(threads)
        if self.on_gpu:
            if not torch.cuda.is_available():
                raise Unsupported("PyTorch finds no GPU that this build can use")
            torch.backends.cuda.matmul.allow_tf32 = precision == TF32
            torch.backends.cudnn.allow_tf32 = precision == TF32
        # Entered for good, for the process has one device. "cpu:0" would make variables that get no gradient.
        self.device = keras.device("cuda:0" if self.on_gpu else "cpu")
        self.device.__enter__()
        facts = super().open(device, threads, profile, precision, feed, allocator)
        keras.ops.zeros(1) + 1
        self.synchronize()
        return facts | {
            "framework_version": torch.__version__,
            "cuda_version": torch.version.cuda if self.on_gpu else None,
            "cudnn_version": torch.backends.cudnn.version() if self.on_gpu else None,
            "cudnn_autotune": torch.backends.cudnn.benchmark if self.on_gpu else None,
            "tf32": torch.backends.cudnn.allow_tf32 if self.on_gpu else False,
            "intra_op_threads": torch.get_num_threads(),
            "inter_op_threads": torch.get_num_interop_threads(),
            "allocator_policy": "caching" if self.on_gpu else "host",
        }

    def differentiate(
        self, compute: Callable[[], Computed], variables: Sequence[keras.Variable]
    ) -> tuple[Any, list[Any]]:
        loss, computed = compute()
        values = [each.value for each in variables]
        # Computed values would keep the graph.
        detached = keras.tree.map_structure(torch.Tensor.detach, computed)
        return detached, list(torch.autograd.grad(loss, values, allow_unused=True, materialize_grads=True))

    def memory(self) -> dict[str, Count]:
        why = "PyTorch does not count what is in use on a CPU"
        gradients = (each.value.grad for each in self.model.trainable_variables)
        return super().memory() | {
            "gradients": sum(each.nbytes for each in gradients if each is not None),
            "allocator_peak": torch.cuda.max_memory_allocated() if self.on_gpu else why,
            "allocator_reserved": torch.cuda.max_memory_reserved() if self.on_gpu else why,
        }

    def synchronize(self) -> None:
        if self.on_gpu:
            torch.cuda.synchronize()

    def out_of_memory(self, error: BaseException) -> bool:
        signs = ("DefaultCPUAllocator: can't allocate memory", "CUDA error: out of memory", "ALLOC_FAILED", "bad_alloc")
        exhausted = isinstance(error, RuntimeError) and any(sign in str(error) for sign in signs)
        return exhausted or isinstance(error, torch.OutOfMemoryError | MemoryError)
