"""Forward and backward of every layer in plain numpy, as its record in workloads/layers.py defines it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads import layers

Array = NDArray[Any]
Parameters = dict[str, Array]
Backward = Callable[[Array], Array]  # gradient of the output -> of the input; those of weights go to the pass
Forward = tuple[Array, Backward]


@dataclass
class Pass:
    """One pass through a model: what it reads, and what it leaves beside its result."""

    weights: Parameters  # {"layer/role"}
    training: bool
    generator: np.random.Generator  # of dropout's masks
    outputs: Parameters = field(default_factory=dict)  # {layer: its output}
    statistics: Parameters = field(default_factory=dict)  # {"layer/role": running statistic after this batch}
    gradients: Parameters = field(default_factory=dict)  # {"layer/role"}, once backward has been called


def sequence(chain: tuple[layers.Layer, ...], x: Array, run: Pass) -> Forward:
    """The layers one after another."""
    tape = []
    for layer in chain:
        x, backward = FORWARD[type(layer)](layer, x, run)
        run.outputs[layer.name] = x
        tape.append(backward)
    return x, lambda dy: reduce(lambda gradient, backward: backward(gradient), reversed(tape), dy)


def _padded(x: Array, margins: layers.Margins) -> Array:
    return np.pad(x, ((0, 0), *margins, (0, 0)))


def _cropped(dx: Array, margins: layers.Margins) -> Array:
    (above, below), (left, right) = margins
    return dx[:, above : dx.shape[1] - below, left : dx.shape[2] - right]


def _shifted(padded: Array, i: int, j: int, rows: int, columns: int, stride: int) -> Array:
    """What a kernel's cell (i, j) sees, (n, rows, columns, c): a view."""
    return padded[:, i : i + stride * (rows - 1) + 1 : stride, j : j + stride * (columns - 1) + 1 : stride]


def conv2d(layer: layers.Conv2D, x: Array, run: Pass) -> Forward:
    """(n, h, w, c) -> (n, rows, columns, filters)."""
    kernel, margins, stride = run.weights[f"{layer.name}/kernel"], layer.margins(x.shape[1:]), layer.stride
    height, width, _, filters = kernel.shape
    padded = _padded(x, margins)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (height, width), axis=(1, 2))[:, ::stride, ::stride]
    patches = windows.transpose(0, 1, 2, 4, 5, 3).reshape(-1, kernel[..., 0].size)
    y = (patches @ kernel.reshape(-1, filters)).reshape(*windows.shape[:3], filters)

    def backward(dy: Array) -> Array:
        run.gradients[f"{layer.name}/kernel"] = (patches.T @ dy.reshape(-1, filters)).reshape(kernel.shape)
        dx, (_, rows, columns, _) = np.zeros_like(padded), dy.shape
        for i, j in np.ndindex(height, width):
            _shifted(dx, i, j, rows, columns, stride)[...] += dy @ kernel[i, j].T
        return _cropped(dx, margins)

    return _biased(layer, y, backward, run)


def depthwise_conv2d(layer: layers.DepthwiseConv2D, x: Array, run: Pass) -> Forward:
    """(n, h, w, c) -> (n, rows, columns, c)."""
    kernel, margins, stride = run.weights[f"{layer.name}/kernel"], layer.margins(x.shape[1:]), layer.stride
    height, width, _, channels = kernel.shape
    rows, columns, _ = layer.output_shape(x.shape[1:])
    padded = _padded(x, margins)
    y = np.zeros((len(x), rows, columns, channels), x.dtype)
    for i, j in np.ndindex(height, width):
        y += _shifted(padded, i, j, rows, columns, stride) * kernel[i, j, 0]

    def backward(dy: Array) -> Array:
        dx = np.zeros_like(padded)
        dkernel = run.gradients[f"{layer.name}/kernel"] = np.zeros_like(kernel)
        for i, j in np.ndindex(height, width):
            dkernel[i, j, 0] = (_shifted(padded, i, j, rows, columns, stride) * dy).sum(axis=(0, 1, 2))
            _shifted(dx, i, j, rows, columns, stride)[...] += dy * kernel[i, j, 0]
        return _cropped(dx, margins)

    return _biased(layer, y, backward, run)


def _biased(layer: layers.Conv2D | layers.DepthwiseConv2D, y: Array, backward: Backward, run: Pass) -> Forward:
    """A convolution with its bias, where it has one."""
    if not layer.bias:
        return y, backward

    def with_bias(dy: Array) -> Array:
        run.gradients[f"{layer.name}/bias"] = dy.sum(axis=(0, 1, 2))
        return backward(dy)

    return y + run.weights[f"{layer.name}/bias"], with_bias


def _pool_windows(layer: layers.Pool2D, x: Array) -> Array:
    """(n, rows, columns, c, size * size), a copy; the remainder at the edge is left out."""
    size = layer.size
    windows = np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=(1, 2))[:, ::size, ::size]
    return windows.reshape(*windows.shape[:4], size * size)


def _unpooled(layer: layers.Pool2D, windows: Array, x: Array) -> Array:
    """The inverse of `_pool_windows`, zeros in the remainder."""
    dx, (_, rows, columns, *_) = np.zeros_like(x), windows.shape
    for number, (i, j) in enumerate(np.ndindex(layer.size, layer.size)):
        _shifted(dx, i, j, rows, columns, layer.size)[...] = windows[..., number]
    return dx


def max_pool2d(layer: layers.MaxPool2D, x: Array, run: Pass) -> Forward:
    """(n, h, w, c) -> (n, rows, columns, c); of equal pixels the first gets the gradient."""
    windows = _pool_windows(layer, x)
    winner = windows.argmax(axis=-1)[..., None]

    def backward(dy: Array) -> Array:
        spread = np.zeros_like(windows)
        np.put_along_axis(spread, winner, dy[..., None], axis=-1)
        return _unpooled(layer, spread, x)

    return np.take_along_axis(windows, winner, axis=-1)[..., 0], backward


def average_pool2d(layer: layers.AveragePool2D, x: Array, run: Pass) -> Forward:
    """(n, h, w, c) -> (n, rows, columns, c)."""
    windows = _pool_windows(layer, x)

    def backward(dy: Array) -> Array:
        return _unpooled(layer, np.broadcast_to(dy[..., None] / layer.size**2, windows.shape), x)

    return windows.mean(axis=-1), backward


def global_average_pool2d(layer: layers.GlobalAveragePool2D, x: Array, run: Pass) -> Forward:
    """(n, h, w, c) -> (n, c)."""
    pixels = x.shape[1] * x.shape[2]
    return x.mean(axis=(1, 2)), lambda dy: np.broadcast_to(dy[:, None, None] / pixels, x.shape)


def batch_norm(layer: layers.BatchNorm, x: Array, run: Pass) -> Forward:
    """(..., c) -> the same; in training by the batch's statistics, and the running ones go to `run.statistics`."""
    gamma, beta, running_mean, running_variance = (
        run.weights[f"{layer.name}/{role}"] for role in ("gamma", "beta", "running_mean", "running_variance")
    )
    axes = tuple(range(x.ndim - 1))
    mean, variance = running_mean, running_variance
    if run.training:
        mean, variance = x.mean(axis=axes), x.var(axis=axes)
        for role, running, batch in (("mean", running_mean, mean), ("variance", running_variance, variance)):
            moved = layer.momentum * running + (1 - layer.momentum) * batch
            run.statistics[f"{layer.name}/running_{role}"] = moved.astype(x.dtype)
    deviation = np.sqrt(variance + layer.epsilon)
    normal = ((x - mean) / deviation).astype(x.dtype)

    def backward(dy: Array) -> Array:
        run.gradients |= {f"{layer.name}/gamma": (dy * normal).sum(axis=axes), f"{layer.name}/beta": dy.sum(axis=axes)}
        dnormal = dy * gamma
        if run.training:  # mean and variance depend on x too
            dnormal = dnormal - dnormal.mean(axis=axes) - normal * (dnormal * normal).mean(axis=axes)
        return dnormal / deviation

    return gamma * normal + beta, backward


def dropout(layer: layers.Dropout, x: Array, run: Pass) -> Forward:
    """Inverted: what is kept is divided by 1 - rate in training, so evaluation changes nothing."""
    if not run.training or layer.rate == 0:
        return x, lambda dy: dy
    kept = (run.generator.random(x.shape) >= layer.rate) / x.dtype.type(1 - layer.rate)
    return x * kept, lambda dy: dy * kept


def _hard_sigmoid(x: Array) -> Array:
    return np.clip(x + 3, 0, 6) / 6


# {record: x -> (value, slope)}
ELEMENTWISE: dict[type[layers.Layer], Callable[[Array], tuple[Array, Array]]] = {
    layers.Relu: lambda x: (np.maximum(x, 0), x > 0),
    layers.Relu6: lambda x: (np.clip(x, 0, 6), (x > 0) & (x < 6)),
    layers.HardSigmoid: lambda x: (_hard_sigmoid(x), (np.abs(x) < 3) / 6),
    layers.HardSwish: lambda x: (x * _hard_sigmoid(x), _hard_sigmoid(x) + x * (np.abs(x) < 3) / 6),
}


def elementwise(layer: layers.Layer, x: Array, run: Pass) -> Forward:
    """As ELEMENTWISE has it, in the precision of `x`."""
    y, slope = ELEMENTWISE[type(layer)](x)
    return y.astype(x.dtype), lambda dy: (dy * slope).astype(x.dtype)


def flatten(layer: layers.Flatten, x: Array, run: Pass) -> Forward:
    """(n, ...) -> (n, values), the last axis fastest."""
    return x.reshape(len(x), -1), lambda dy: dy.reshape(x.shape)


def dense(layer: layers.Dense, x: Array, run: Pass) -> Forward:
    """(n, values) -> (n, units)."""
    kernel, bias = run.weights[f"{layer.name}/kernel"], run.weights[f"{layer.name}/bias"]

    def backward(dy: Array) -> Array:
        run.gradients |= {f"{layer.name}/kernel": x.T @ dy, f"{layer.name}/bias": dy.sum(axis=0)}
        return dy @ kernel.T

    return x @ kernel + bias, backward


def residual(layer: layers.Residual, x: Array, run: Pass) -> Forward:
    """x + branch(x)."""
    y, backward = sequence(layer.layers, x, run)
    return x + y, lambda dy: dy + backward(dy)


def squeeze_excite(layer: layers.SqueezeExcite, x: Array, run: Pass) -> Forward:
    """x * branch(x), (n, h, w, c) by (n, c)."""
    branch, backward = sequence(layer.layers, x, run)
    factor = branch[:, None, None]
    return x * factor, lambda dy: dy * factor + backward((dy * x).sum(axis=(1, 2)))


FORWARD: dict[type[layers.Layer], Callable[[Any, Array, Pass], Forward]] = {
    layers.Conv2D: conv2d,
    layers.DepthwiseConv2D: depthwise_conv2d,
    layers.MaxPool2D: max_pool2d,
    layers.AveragePool2D: average_pool2d,
    layers.GlobalAveragePool2D: global_average_pool2d,
    layers.BatchNorm: batch_norm,
    layers.Dropout: dropout,
    **dict.fromkeys(ELEMENTWISE, elementwise),
    layers.Flatten: flatten,
    layers.Dense: dense,
    layers.Residual: residual,
    layers.SqueezeExcite: squeeze_excite,
}
