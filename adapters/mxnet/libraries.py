"""MXNet's settings, and what its loaded libraries report about themselves."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

import mxnet as mx
from mxnet.base import _LIB
from mxnet.contrib import amp

from adapters import kernels
from adapters.base import Unsupported
from workloads.records.build import BFLOAT16, FLOAT32

DETERMINISM = "MXNET_ENFORCE_DETERMINISM"
NAIVE = "NaiveEngine"  # MXNet's engine that computes each operation when it is called


def compute_in(precision: str, device: str) -> bool:
    """Set the precision of every network made from now on; return True unless it is float32. Raises Unsupported."""
    if precision == FLOAT32:
        return False
    if (precision, device) != (BFLOAT16, "cpu"):
        place = "a GPU" if device == "cuda" else "a CPU"
        raise Unsupported(f"MXNet {mx.__version__} in {precision} on {place}: never compared with the referee")
    amp.init(target_dtype=precision)
    return True


def facts_of(device: str, precision: str) -> dict[str, Any]:
    """Return the current versions and settings."""
    on_gpu = device == "cuda"
    return {
        "framework_version": mx.__version__,
        "cuda_version": version("libcudart.so.11.0", "cudaRuntimeGetVersion") if on_gpu else None,
        "cudnn_version": version("libcudnn.so.8", "cudnnGetVersion") if on_gpu else None,
        "cudnn_autotune": os.environ.get("MXNET_CUDNN_AUTOTUNE_DEFAULT") != "0" if on_gpu else None,
        "precision": precision,
        "tf32": on_gpu and os.environ.get("NVIDIA_TF32_OVERRIDE") != "0",
        "intra_op_threads": int(os.environ["OMP_NUM_THREADS"]),  # MXNet has no call for it
        "allocator_policy": "pool" if on_gpu else "host",
    }


def compute_deterministically() -> dict[str, Any]:
    """Set MXNet's switch, a variable; return it, since MXNet has no call that reports it."""
    os.environ[DETERMINISM] = "1"  # read by each operation that has a choice
    return {DETERMINISM: os.environ[DETERMINISM]}


def copy_by_one_thread() -> None:
    """Let the calling thread, Python's, copy arrays without others; MXNet's own threads compute with as many as before.

    In 1.9.1 `nd.array` and `asnumpy` copy 200,000 or more elements in the calling thread, by a separate OpenMP team.
    That team stays. The process then has more OpenMP threads than cores, so all of them sleep instead of spinning, and
    every later training step is slower.
    """
    if os.environ.get("MXNET_ENGINE_TYPE") == NAIVE:  # it has no own threads: the calling one computes, too
        return
    _LIB.MXSetNumOMPThreads(ctypes.c_int(1))


def version(library: str, call: str) -> str | None:
    """Return the version that MXNet's loaded library reports, e.g. "11020" for CUDA 11.2; MXNet itself does not."""
    try:
        asked = getattr(ctypes.CDLL(library), call)
    except (OSError, AttributeError):
        return None
    if call == "cudnnGetVersion":
        asked.restype = ctypes.c_size_t
        return str(asked())
    number = ctypes.c_int()
    return str(number.value) if asked(ctypes.byref(number)) == 0 else None


def chosen_kernels() -> dict[str, Any]:
    """Return facts on oneDNN and OpenBLAS, as `kernels` reads them."""
    on = mx.runtime.Features().is_enabled("MKLDNN") and os.environ.get("MXNET_MKLDNN_ENABLED") != "0"
    return kernels.of_onednn(on, convolve) | kernels.of_openblas(Path(mx.__file__).parent)


def convolve() -> None:
    """Compute a small convolution by oneDNN, (4, 3, 8, 8) -> (4, 16, 6, 6), before returning."""
    images, weights = mx.nd.zeros((4, 3, 8, 8)), mx.nd.zeros((16, 3, 3, 3))
    mx.nd.Convolution(images, weights, no_bias=True, kernel=(3, 3), num_filter=16).asnumpy()
