"""Initial weights: drawn once by the runner, handed over as npz, canonical layouts (HWIO, (in, out))."""

from __future__ import annotations

import math
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from .spec import Dense, Flatten, Shape, Workload

Weights = dict[str, NDArray[np.float32]]


def draw(workload: Workload, seed: int) -> Weights:
    """Glorot-uniform kernels (Glorot & Bengio 2010: U(-a, a), a = sqrt(6 / (fan_in + fan_out))), zero biases."""
    generator = np.random.Generator(np.random.PCG64(seed))
    weights: Weights = {}
    for key, shape in workload.parameter_shapes().items():
        if key.endswith("/kernel"):
            receptive_field = math.prod(shape[:-2])
            limit = math.sqrt(6 / (receptive_field * (shape[-2] + shape[-1])))
            weights[key] = generator.uniform(-limit, limit, shape).astype(np.float32)
        else:
            weights[key] = np.zeros(shape, np.float32)
    return weights


def save(file: BinaryIO | Path, weights: Weights) -> None:
    """As npz; the same weights give the same bytes."""
    np.savez(file, **weights)  # type: ignore[arg-type]


def load(path: Path) -> Weights:
    with np.load(path, allow_pickle=False) as archive:
        return {key: archive[key] for key in archive.files}


def channels_first(workload: Workload, weights: Weights) -> Weights:
    """Canonical -> the layout of PyTorch and MXNet: OIHW; (out, in), the first dense layer's rows reordered.

    Flatten of an NCHW tensor runs channel by channel, the canonical order keeps the channel fastest;
    so the rows of the dense layer behind a Flatten move.
    """
    flattened = _flattened_inputs(workload)
    native: Weights = {}
    for key, array in weights.items():
        layer = key.split("/")[0]
        if array.ndim == 4:
            array = array.transpose(3, 2, 0, 1)
        elif array.ndim == 2:
            if layer in flattened:
                array = array[_rows_channels_first(flattened[layer])]
            array = array.T
        native[key] = np.ascontiguousarray(array)
    return native


def channels_last(workload: Workload, native: Weights) -> Weights:
    """The inverse of `channels_first`."""
    flattened = _flattened_inputs(workload)
    weights: Weights = {}
    for key, array in native.items():
        layer = key.split("/")[0]
        if array.ndim == 4:
            array = array.transpose(2, 3, 1, 0)
        elif array.ndim == 2:
            array = array.T
            if layer in flattened:
                array = array[np.argsort(_rows_channels_first(flattened[layer]))]
        weights[key] = np.ascontiguousarray(array)
    return weights


def _flattened_inputs(workload: Workload) -> dict[str, Shape]:
    """{dense layer: (h, w, c) that the Flatten before it took}, for the first dense layer behind a Flatten."""
    found: dict[str, Shape] = {}
    pending: Shape | None = None
    for layer, shape in workload.walk():
        if isinstance(layer, Flatten) and len(shape) == 3:
            pending = shape
        elif isinstance(layer, Dense) and pending is not None:
            found[layer.name], pending = pending, None
    return found


def _rows_channels_first(shape: Shape) -> NDArray[np.intp]:
    return np.arange(math.prod(shape)).reshape(shape).transpose(2, 0, 1).ravel()
