"""Set up JAX, and read what its libraries report about themselves: for JAX itself and for Keras on it."""

from __future__ import annotations

import ctypes
import os
import re
from typing import Any

import jax
import jaxlib

from adapters.base import Count, Unsupported
from workloads.records.build import TF32
from workloads.records.job import ON_DEMAND

NO_MEMORY = "RESOURCE_EXHAUSTED"
TRIED = re.compile(r"--xla_gpu_autotune_level=(\d)")  # XLA's default is to try convolutions


def count_allocated(device: jax.Device) -> dict[str, Count]:
    """Return the allocator's peak and its pool, in bytes, or why JAX does not count them.

    XLA keeps its pool in `peak_pool_bytes`; on a GPU its `bytes_reserved` stays 0.
    """
    told = device.memory_stats() or {}
    names = {"allocator_peak": "peak_bytes_in_use", "allocator_reserved": "peak_pool_bytes"}
    return {kind: told.get(name, f"JAX does not count it on {device.platform}") for kind, name in names.items()}


def take_device(platforms: str, threads: int, precision: str, allocator: str) -> jax.Device:
    """Return the device, with settings that JAX reads when it first uses it. Raises Unsupported if there is none.

    `platforms` are all that the process may use, as `jax_platforms` takes them: "cuda,cpu". The device is of the first.
    """
    kind = platforms.partition(",")[0]
    os.environ["NPROC"] = str(threads)  # of XLA's pool on a CPU
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = str(allocator != ON_DEMAND).lower()
    jax.config.update("jax_platforms", platforms)
    jax.config.update("jax_default_matmul_precision", "tensorfloat32" if precision == TF32 else "highest")
    try:
        return jax.devices(kind)[0]  # without it, JAX would take the CPU where there is no card
    except (RuntimeError, AssertionError) as error:  # JAX only asserts that it knows one of the platforms
        why = str(error) or "this build is for others"
        raise Unsupported(f"JAX {jax.__version__} finds no device {kind}: {why}") from error


def read_facts(device: jax.Device, kind: str, threads: int, precision: str, allocator: str) -> dict[str, Any]:
    """Return the current versions and settings; `kind` is "cpu" or "cuda"."""
    on_gpu = kind == "cuda"
    cuda = re.search(r"cuda (\d+)(\d\d)\d\b", getattr(device.client, "platform_version", ""))
    tried = TRIED.search(os.environ.get("XLA_FLAGS", ""))
    policy = "growth" if allocator == ON_DEMAND else "three quarters of the card"
    return {
        "framework_version": jax.__version__,
        "jaxlib_version": jaxlib.__version__,
        "cuda_version": f"{cuda[1]}.{int(cuda[2])}" if on_gpu and cuda else None,
        "cudnn_version": read_cudnn_version() if on_gpu else None,
        "cudnn_autotune": (tried is None or tried[1] != "0") if on_gpu else None,
        "multiprocessors": getattr(device, "core_count", None) if on_gpu else None,
        "precision": precision,
        "tf32": on_gpu and jax.config.jax_default_matmul_precision == "tensorfloat32",
        "intra_op_threads": threads,
        "allocator_policy": policy if on_gpu else "host",
    }


def read_cudnn_version() -> int | None:
    """Return the version number of the cuDNN that JAX has loaded, None if none is found."""
    try:
        return int(ctypes.CDLL("libcudnn.so.9").cudnnGetVersion())
    except (OSError, AttributeError):
        return None


def is_out_of_memory(error: BaseException) -> bool:
    """Return True if XLA, or this process, was refused memory."""
    refused = isinstance(error, jax.errors.JaxRuntimeError) and NO_MEMORY in str(error)
    return refused or isinstance(error, MemoryError)
