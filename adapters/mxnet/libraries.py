"""What the libraries that MXNet has loaded tell of themselves."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

import mxnet as mx

from adapters import kernels


def version(library: str, call: str) -> str | None:
    """As the library that MXNet has loaded tells it, e.g. "11020" for CUDA 11.2; MXNet itself does not."""
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
    """Facts on oneDNN and OpenBLAS, as `kernels` reads them."""
    on = mx.runtime.Features().is_enabled("MKLDNN") and os.environ.get("MXNET_MKLDNN_ENABLED") != "0"
    return kernels.of_onednn(on, convolve) | kernels.of_openblas(Path(mx.__file__).parent)


def convolve() -> None:
    """A small convolution by oneDNN, (4, 3, 8, 8) -> (4, 16, 6, 6); computed when it returns."""
    images, weights = mx.nd.zeros((4, 3, 8, 8)), mx.nd.zeros((16, 3, 3, 3))
    mx.nd.Convolution(images, weights, no_bias=True, kernel=(3, 3), num_filter=16).asnumpy()
