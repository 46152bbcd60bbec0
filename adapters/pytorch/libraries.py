"""Reports of PyTorch's loaded libraries about themselves."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from adapters import kernels


def chosen_kernels() -> dict[str, Any]:
    """Return facts on the vector instructions of ATen and on oneDNN, as `kernels` reads them."""
    on = torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled
    return {"cpu_capability": torch.backends.cpu.get_cpu_capability(), **kernels.of_onednn(on, convolve)}


def convolve() -> None:
    """Compute a small convolution by oneDNN, (4, 3, 32, 32) -> (4, 16, 30, 30), on one thread."""
    torch.set_num_threads(1)
    nn.functional.conv2d(torch.zeros(4, 3, 32, 32), torch.zeros(16, 3, 3, 3))
