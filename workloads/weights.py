"""Initial weights: drawn once by the runner, handed over as npz, canonical layouts (HWIO, (in, out))."""

from __future__ import annotations

import math
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from .layers import Branch, Conv2D, Dense, DepthwiseConv2D, Flatten, Initializer, Shape
from .spec import Workload

Weights = dict[str, NDArray[np.float32]]
Features = dict[str, NDArray[np.intp]]

CHANNELS_FIRST = {1: (0,), 2: (1, 0), 4: (3, 2, 0, 1)}  # canonical axes, by how many there are


def draw(workload: Workload, seed: int) -> Weights:
    """Kernels by their layer's initializer; gamma and running_variance are one, all else is zero."""
    generator = np.random.Generator(np.random.PCG64(seed))
    weights: Weights = {}
    layers = {layer.name: layer for layer, _ in workload.walk()}
    for key, shape in workload.weight_shapes().items():
        name, role = key.split("/")
        layer = layers[name]
        if isinstance(layer, Conv2D | DepthwiseConv2D | Dense) and role == "kernel":
            weights[key] = _draw_kernel(generator, layer.initializer, shape)
        else:
            weights[key] = np.full(shape, role in ("gamma", "running_variance"), np.float32)
    return weights


def _draw_kernel(generator: np.random.Generator, initializer: Initializer, shape: Shape) -> NDArray[np.float32]:
    """glorot-uniform: U(-a, a), a = sqrt(6 / (fan_in + fan_out)) (Glorot & Bengio 2010); he-uniform: U(-a, a),
    a = sqrt(6 / fan_in); he-normal: N(0, 2 / fan_in), not truncated (He et al. 2015). A fan is the window's size
    times the kernel's I or O.
    """
    window = math.prod(shape[:-2])
    fan_in, fan_out = window * shape[-2], window * shape[-1]
    if initializer == "he-normal":
        return generator.normal(0.0, math.sqrt(2 / fan_in), shape).astype(np.float32)
    limit = math.sqrt(6 / (fan_in + fan_out) if initializer == "glorot-uniform" else 6 / fan_in)
    return generator.uniform(-limit, limit, shape).astype(np.float32)


def save(file: BinaryIO | Path, weights: Weights) -> None:
    """As npz; the same weights give the same bytes."""
    np.savez(file, **weights)  # type: ignore[arg-type]


def load(path: Path) -> Weights:
    """{"layer/role": array} of an .npz file. Raises OSError, ValueError."""
    with np.load(path, allow_pickle=False) as archive:
        return {key: archive[key] for key in archive.files}


def channels_first(workload: Workload, weights: Weights) -> Weights:
    """Canonical -> the layout of PyTorch and MXNet: OIHW; (out, in), features behind a Flatten reordered.

    Flatten of an NCHW tensor runs channel by channel, the canonical order keeps the channel fastest;
    so the rows of the dense layer behind a Flatten move, and so do the features of a BatchNorm between them.
    """
    entering, _ = _flattened(workload)
    native: Weights = {}
    for key, array in weights.items():
        layer, role = key.split("/")
        if layer in entering and role != "bias":
            array = array[entering[layer]]
        native[key] = np.ascontiguousarray(array.transpose(CHANNELS_FIRST[array.ndim]))
    return native


def channels_last(workload: Workload, native: Weights) -> Weights:
    """The inverse of `channels_first`."""
    entering, _ = _flattened(workload)
    weights: Weights = {}
    for key, array in native.items():
        layer, role = key.split("/")
        array = array.transpose(np.argsort(CHANNELS_FIRST[array.ndim]))
        if layer in entering and role != "bias":
            array = array[np.argsort(entering[layer])]
        weights[key] = np.ascontiguousarray(array)
    return weights


def outputs_channels_last(workload: Workload, native: Weights) -> Weights:
    """{layer: its output}: (n, c, h, w) -> (n, h, w, c), features behind a Flatten in the canonical order."""
    _, leaving = _flattened(workload)
    outputs: Weights = {}
    for layer, array in native.items():
        if array.ndim == 4:
            array = array.transpose(0, 2, 3, 1)
        elif layer in leaving:
            array = array[:, np.argsort(leaving[layer])]
        outputs[layer] = np.ascontiguousarray(array)
    return outputs


def _flattened(workload: Workload) -> tuple[Features, Features]:
    """({layer: order} whose input, {layer: order} whose output) is an image that a Flatten has flattened: the places of
    its features, channel by channel, in the canonical order.

    From the Flatten up to the next dense layer. ValueError where a branch starts or ends in between: what it adds
    or multiplies would be in the other order.
    """
    entering: Features = {}
    leaving: Features = {}
    image: NDArray[np.intp] | None = None
    for layer, shape in workload.walk():
        if image is not None:
            entering[layer.name] = image
        if isinstance(layer, Branch) and (
            image is not None or any(inner.name in entering for inner in layer.layers[:1])
        ):
            raise ValueError(f"layer {layer.name}: a Flatten before or at the end of a branch needs a Dense behind it")
        if isinstance(layer, Flatten) and len(shape) == 3:
            image = np.arange(math.prod(shape)).reshape(shape).transpose(2, 0, 1).ravel()
        elif isinstance(layer, Dense):
            image = None
        if image is not None:
            leaving[layer.name] = image
    return entering, leaving
