"""PyTorch's reports of its settings and of its loaded libraries."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from adapters import kernels


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


def chosen_kernels() -> dict[str, Any]:
    """Return facts on the vector instructions of ATen and on oneDNN, as `kernels` reads them."""
    on = torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled
    return {"cpu_capability": torch.backends.cpu.get_cpu_capability(), **kernels.of_onednn(on, convolve)}


def convolve() -> None:
    """Compute a small convolution by oneDNN, (4, 3, 32, 32) -> (4, 16, 30, 30), on one thread."""
    torch.set_num_threads(1)
    nn.functional.conv2d(torch.zeros(4, 3, 32, 32), torch.zeros(16, 3, 3, 3))
