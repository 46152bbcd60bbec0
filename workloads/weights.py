"""Initial weights: drawn once by the runner, passed on as npz, canonical layouts (HWIO, (in, out))."""

from __future__ import annotations

import math
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from .layers import ChannelScale, Concatenate, Conv2D, Dense, DepthwiseConv2D, Flatten, Initializer, Join, Layer, Shape
from .spec import Workload

Weights = dict[str, NDArray[np.float32]]
Piece = tuple[int, int]  # pixels and channels of flattened features; (n, 1): n features in the canonical order
Order = tuple[Piece, ...]  # of all features of a layer
Orders = dict[str, Order]  # by layer
CANONICAL: Order = ()

# 16 half units in the last place of float32: the error of a sum of some 256 rounded products.
DISTURBANCE = 2.0**-20
DISTURBANCES = 3  # draws
CHANNELS_FIRST = {2: (1, 0), 4: (3, 2, 0, 1)}  # a kernel's canonical axes, by their number


def draw(workload: Workload, seed: int) -> Weights:
    """Draw kernels by their layer's initializer, else glorot-uniform; an embedding is N(0, 0.02^2); gamma and
    running_variance are one, a ChannelScale is its `initial`, all else is zero.
    """
    generator = np.random.Generator(np.random.PCG64(seed))
    weights: Weights = {}
    layers = {layer.name: layer for layer, _ in workload.walk()}
    for key, shape in workload.weight_shapes().items():
        name, role = key.split("/")
        layer = layers[name]
        if role.endswith("kernel"):
            initializer: Initializer = "glorot-uniform"
            if isinstance(layer, Conv2D | DepthwiseConv2D | Dense):
                initializer = layer.initializer
            weights[key] = _draw_kernel(generator, initializer, shape)
        elif role == "embedding":
            weights[key] = generator.normal(0.0, 0.02, shape).astype(np.float32)
        elif isinstance(layer, ChannelScale):
            weights[key] = np.full(shape, layer.initial, np.float32)
        else:
            weights[key] = np.full(shape, role in ("gamma", "running_variance"), np.float32)
    return weights


def _draw_kernel(generator: np.random.Generator, initializer: Initializer, shape: Shape) -> NDArray[np.float32]:
    """Draw a kernel. glorot-uniform: U(-a, a), a = sqrt(6 / (fan_in + fan_out)) (Glorot & Bengio 2010); he-uniform:
    U(-a, a), a = sqrt(6 / fan_in); he-normal: N(0, 2 / fan_in), not truncated (He et al. 2015). A fan is the
    window's size times the kernel's I or O.
    """
    window = math.prod(shape[:-2])
    fan_in, fan_out = window * shape[-2], window * shape[-1]
    if initializer == "he-normal":
        return generator.normal(0.0, math.sqrt(2 / fan_in), shape).astype(np.float32)
    limit = math.sqrt(6 / (fan_in + fan_out) if initializer == "glorot-uniform" else 6 / fan_in)
    return generator.uniform(-limit, limit, shape).astype(np.float32)


def disturbed(weights: Weights, number: int) -> Weights:
    """Return weights made larger or smaller by the relative amount DISTURBANCE; `number` seeds the signs."""
    generator = np.random.Generator(np.random.PCG64([2020, number]))
    return {
        key: (array * (1 + generator.choice((-DISTURBANCE, DISTURBANCE), array.shape))).astype(np.float32)
        for key, array in weights.items()
    }


def save(file: BinaryIO | Path, weights: Weights) -> None:
    """Write an npz file; the same weights give the same bytes."""
    np.savez(file, **weights)  # type: ignore[arg-type]


def load(path: Path) -> Weights:
    """Return {"layer/role": array} of an .npz file. Raises OSError, ValueError."""
    with np.load(path, allow_pickle=False) as archive:
        return {key: archive[key] for key in archive.files}


def channels_first(workload: Workload, weights: Weights) -> Weights:
    """Convert canonical -> the layout of PyTorch and MXNet: kernels OIHW or (out, in), features after a Flatten
    reordered.

    Flatten of an NCHW tensor runs channel by channel, while the canonical order keeps the channel fastest. So the rows
    of the dense layer after a Flatten move, and so do the features of a norm between them.
    """
    entering, _ = _flattened(workload)
    native: Weights = {}
    for key, array in weights.items():
        layer, role = key.split("/")
        if layer in entering and role != "bias":
            array = array[_places(entering[layer])]
        if role.endswith("kernel"):
            array = array.transpose(CHANNELS_FIRST[array.ndim])
        native[key] = np.ascontiguousarray(array)
    return native


def channels_last(workload: Workload, native: Weights) -> Weights:
    """Invert `channels_first`."""
    entering, _ = _flattened(workload)
    weights: Weights = {}
    for key, array in native.items():
        layer, role = key.split("/")
        if role.endswith("kernel"):
            array = array.transpose(np.argsort(CHANNELS_FIRST[array.ndim]))
        if layer in entering and role != "bias":
            array = array[np.argsort(_places(entering[layer]))]
        weights[key] = np.ascontiguousarray(array)
    return weights


def outputs_channels_last(workload: Workload, native: Weights) -> Weights:
    """Return {layer: its output}: (n, c, h, w) -> (n, h, w, c), features after a Flatten in the canonical order."""
    _, leaving = _flattened(workload)
    outputs: Weights = {}
    for layer, array in native.items():
        if array.ndim == 4:
            array = array.transpose(0, 2, 3, 1)
        elif layer in leaving:
            array = array[:, np.argsort(_places(leaving[layer]))]
        outputs[layer] = np.ascontiguousarray(array)
    return outputs


def list_flattened(workload: Workload) -> Orders:
    """Return {layer: order} of the layers whose input features channels first gives in another order than ours."""
    entering, _ = _flattened(workload)
    return entering


def refuse_unordered(workload: Workload) -> None:
    """Raise ValueError if features would leave the network, or be added, in two orders: channels first runs channel
    by channel, channels last pixel by pixel.
    """
    _, leaving = _flattened(workload)
    if workload.layers and workload.layers[-1].name in leaving:
        name = [layer.name for layer, shape in workload.walk() if isinstance(layer, Flatten) and len(shape) == 3][-1]
        raise ValueError(
            f"layer {name}: a Flatten of several pixels and channels needs a Dense after it, or the logits of "
            "frameworks have different orders"
        )


def _flattened(workload: Workload) -> tuple[Orders, Orders]:
    """Return ({layer: order} whose input, {layer: order} whose output) is an image that a Flatten has flattened.

    This holds from the Flatten up to the next dense layer. ValueError if branches add or multiply features in two
    orders.
    """
    entering: Orders = {}
    leaving: Orders = {}

    def follow(chain: tuple[Layer, ...], shape: Shape, order: Order) -> Order:
        """Return the order in which features leave the chain."""
        for layer in chain:
            if order:
                entering[layer.name] = order
            if isinstance(layer, Join):
                order = _joined(layer, shape, [follow(branch, shape, order) for branch in layer.branches])
            elif isinstance(layer, Flatten) and len(shape) == 3:
                order = _tidied([(shape[0] * shape[1], shape[2])])
            elif isinstance(layer, Dense):
                order = CANONICAL
            shape = layer.output_shape(shape)
            if order:
                leaving[layer.name] = order
        return order

    follow(workload.layers, workload.input_shape, CANONICAL)
    return entering, leaving


def _joined(layer: Join, shape: Shape, orders: list[Order]) -> Order:
    """Return the order of the branches' joined output."""
    if not any(orders):
        return CANONICAL
    if isinstance(layer, Concatenate):
        sizes = [math.prod(leaving) for leaving in layer.branch_shapes(shape)]
        return _tidied([piece for order, size in zip(orders, sizes, strict=True) for piece in order or ((size, 1),)])
    if any(order != orders[0] for order in orders):
        raise ValueError(f"layer {layer.name}: a Flatten before or at the end of a branch needs a Dense after it")
    return orders[0]


def _tidied(pieces: list[Piece]) -> Order:
    """Return the same order in its unique form: for one pixel, or one channel, both orders are the same."""
    tidied: list[Piece] = []
    for pixels, channels in pieces:
        in_order = pixels == 1 or channels == 1
        if in_order and tidied and tidied[-1][1] == 1:
            tidied[-1] = (tidied[-1][0] + pixels * channels, 1)
        else:
            tidied.append((pixels * channels, 1) if in_order else (pixels, channels))
    return CANONICAL if len(tidied) == 1 and tidied[0][1] == 1 else tuple(tidied)


def _places(order: Order) -> NDArray[np.intp]:
    """Return the index of each feature of the channels-first order in the canonical order."""
    places, start = [], 0
    for pixels, channels in order:
        places.append(start + np.arange(pixels * channels).reshape(pixels, channels).T.ravel())
        start += pixels * channels
    return np.concatenate(places)
