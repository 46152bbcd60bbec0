"""PyTorch's reports of its settings and of its loaded libraries."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
import torch._dynamo
from torch import nn

from adapters import kernels

CUBLAS = "CUBLAS_WORKSPACE_CONFIG"
MOST_COMPILED = 4096  # forms of a model: batch sizes, modes of training


def facts_of(device: str, precision: str) -> dict[str, Any]:
    """Return the current versions and settings."""
    on_gpu = device == "cuda"
    return {
        "framework_version": torch.__version__,
        "cuda_version": torch.version.cuda if on_gpu else None,
        "cudnn_version": torch.backends.cudnn.version() if on_gpu else None,
        "cudnn_autotune": torch.backends.cudnn.benchmark if on_gpu else None,
        "multiprocessors": torch.cuda.get_device_properties(0).multi_processor_count if on_gpu else None,
        "precision": precision,
        "tf32": torch.backends.cudnn.allow_tf32 if on_gpu else False,
        "intra_op_threads": torch.get_num_threads(),
        "inter_op_threads": torch.get_num_interop_threads(),
        "allocator_policy": "caching" if on_gpu else "host",
    }


def compile_into(folder: Path) -> None:
    """Keep what torch.compile makes in `folder`."""
    os.environ |= {
        "TORCHINDUCTOR_CACHE_DIR": str(folder),
        "TRITON_CACHE_DIR": str(folder / "triton"),
    }


def compiled(model: nn.Module, whole: bool) -> Any:
    """Return the model as torch.compile makes it, each batch size compiled for itself; what was compiled before is
    forgotten. With `whole` nothing may be left to Python. Nothing falls back to eager without an error.
    """
    from torch._inductor import config

    torch.compiler.reset()
    config.compile_threads = 1  # in this process: helpers would be measured; the variable was read at PyTorch's import
    config.cpp_cache_precompile_headers = False  # they would outlive the trial, in another folder
    torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit = MOST_COMPILED
    torch._dynamo.config.fail_on_recompile_limit_hit = True
    return torch.compile(model, dynamic=False, fullgraph=whole)


def compute_deterministically() -> dict[str, Any]:
    """Set PyTorch's switch, and cuDNN's and cuBLAS', which it leaves as they are; return what they then report."""
    os.environ[CUBLAS] = ":4096:8"  # read when cuBLAS is first used
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False
    return {
        "algorithms": torch.are_deterministic_algorithms_enabled(),
        "cudnn_deterministic": torch.backends.cudnn.deterministic,
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        CUBLAS: os.environ[CUBLAS],
    }


def chosen_kernels() -> dict[str, Any]:
    """Return facts on the vector instructions of ATen and on oneDNN, as `kernels` reads them."""
    on = torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled
    return {"cpu_capability": torch.backends.cpu.get_cpu_capability(), **kernels.of_onednn(on, convolve)}


def convolve() -> None:
    """Compute a small convolution by oneDNN, (4, 3, 32, 32) -> (4, 16, 30, 30), on one thread."""
    torch.set_num_threads(1)
    nn.functional.conv2d(torch.zeros(4, 3, 32, 32), torch.zeros(16, 3, 3, 3))
