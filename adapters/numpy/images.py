"""Forward and backward of convolutions and pools in plain numpy."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

import numpy as np

from adapters.numpy.passes import Array, Backward, Forward, Pass
from workloads import layers


def _padded(x: Array, margins: layers.Margins, value: float = 0) -> Array:
    return np.pad(x, ((0, 0), *margins, (0, 0)), constant_values=value) if any(map(any, margins)) else x


def _cropped(dx: Array, margins: layers.Margins) -> Array:
    (above, below), (left, right) = margins
    return dx[:, above : dx.shape[1] - below, left : dx.shape[2] - right]


def _windows(padded: Array, window: tuple[int, int], stride: int, dilation: int = 1) -> Array:
    """Return a view (n, rows, columns, c, window rows, window columns)."""
    windows = np.lib.stride_tricks.sliding_window_view(padded, window, axis=(1, 2))
    return windows[:, ::stride, ::stride, :, ::dilation, ::dilation]


def _shifted(padded: Array, i: int, j: int, rows: int, columns: int, stride: int) -> Array:
    """Return a view (n, rows, columns, c) of the pixel i rows and j columns into each window."""
    return padded[:, i : i + stride * (rows - 1) + 1 : stride, j : j + stride * (columns - 1) + 1 : stride]


def _joined(parts: list[Array]) -> Array:
    """Return the groups' arrays next to each other along the last axis; a single one is not copied."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)


def conv2d(layer: layers.Conv2D, x: Array, run: Pass) -> Forward:
    """(n, h, w, c) -> (n, rows, columns, filters)."""
    kernel, margins, stride = run.weights[f"{layer.name}/kernel"], layer.margins(x.shape[1:]), layer.stride
    kernels = np.split(kernel, layer.groups, axis=-1)
    cells, group_filters = kernels[0][..., 0].size, kernels[0].shape[-1]
    padded = _padded(x, margins)
    windows = _windows(padded, layer.window, stride, layer.dilation)
    patches = [part.transpose(0, 1, 2, 4, 5, 3).reshape(-1, cells) for part in np.split(windows, layer.groups, axis=3)]
    y = _joined([seen @ each.reshape(cells, -1) for seen, each in zip(patches, kernels, strict=True)])
    y = y.reshape(*windows.shape[:3], layer.filters)

    def backward(dy: Array) -> Array:
        dys = np.split(dy, layer.groups, axis=-1)
        gradients = [seen.T @ part.reshape(-1, group_filters) for seen, part in zip(patches, dys, strict=True)]
        run.gradients[f"{layer.name}/kernel"] = _joined(gradients).reshape(kernel.shape)
        if x is run.images:
            return np.zeros_like(x)
        dx, (_, rows, columns, _) = np.zeros_like(padded), dy.shape
        for i, j in np.ndindex(*layer.kernel):
            parts = [part.reshape(-1, group_filters) @ each[i, j].T for part, each in zip(dys, kernels, strict=True)]
            shifted = _shifted(dx, i * layer.dilation, j * layer.dilation, rows, columns, stride)
            shifted += _joined(parts).reshape(shifted.shape)
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
    """Return a convolution with its bias, if it has one."""
    if not layer.bias:
        return y, backward

    def with_bias(dy: Array) -> Array:
        run.gradients[f"{layer.name}/bias"] = dy.sum(axis=(0, 1, 2))
        return backward(dy)

    return y + run.weights[f"{layer.name}/bias"], with_bias


def _pooled(layer: layers.Pool2D, padded: Array, x: Array) -> Iterator[Array]:
    """Yield views (n, rows, columns, c) of the padded `x`: the first pixel of each window, then the second, ..."""
    rows, columns, _ = layer.output_shape(x.shape[1:])
    return (_shifted(padded, i, j, rows, columns, layer.step) for i, j in np.ndindex(layer.window))


def max_pool2d(layer: layers.MaxPool2D, x: Array, run: Pass) -> Forward:
    """(n, h, w, c) -> (n, rows, columns, c); of equal pixels the first gets the gradient."""
    margins = layer.margins(x.shape[1:])
    padded = _padded(x, margins, -np.inf)
    y = reduce(np.maximum, _pooled(layer, padded, x))

    def backward(dy: Array) -> Array:
        dx, left = np.zeros_like(padded), np.ones(y.shape, bool)
        for pixel, gradient in zip(_pooled(layer, padded, x), _pooled(layer, dx, x), strict=True):
            won = (pixel == y) & left
            left ^= won
            gradient += dy * won
        return _cropped(dx, margins)

    return y, backward


def average_pool2d(layer: layers.AveragePool2D, x: Array, run: Pass) -> Forward:
    """(n, h, w, c) -> (n, rows, columns, c)."""
    margins, one = layer.margins(x.shape[1:]), np.ones((1, *x.shape[1:3], 1), x.dtype)
    padded = _padded(x, margins)
    pixels = reduce(np.add, _pooled(layer, _padded(one, margins), one))

    def backward(dy: Array) -> Array:
        dx, share = np.zeros_like(padded), dy / pixels
        for gradient in _pooled(layer, dx, x):
            gradient += share
        return _cropped(dx, margins)

    return reduce(np.add, _pooled(layer, padded, x)) / pixels, backward


def global_average_pool2d(layer: layers.GlobalAveragePool2D, x: Array, run: Pass) -> Forward:
    """(n, h, w, c) -> (n, c)."""
    pixels = x.shape[1] * x.shape[2]
    return x.mean(axis=(1, 2)), lambda dy: np.broadcast_to(dy[:, None, None] / pixels, x.shape)


def _interpolation(entering: int, leaving: int, x: Array) -> Array:
    """Return (leaving, entering): each output row's shares of the input rows, in the precision of `x`."""
    places = np.clip((np.arange(leaving) + 0.5) * entering / leaving - 0.5, 0, entering - 1)
    below = np.floor(places).astype(int)
    matrix, rows = np.zeros((leaving, entering)), np.arange(leaving)
    matrix[rows, below] = 1 - (places - below)
    matrix[rows, np.minimum(below + 1, entering - 1)] += places - below
    return matrix.astype(x.dtype)


def resize(layer: layers.Resize, x: Array, run: Pass) -> Forward:
    """(n, h, w, c) -> (n, height, width, c)."""
    down = _interpolation(x.shape[1], layer.height, x)
    across = _interpolation(x.shape[2], layer.width, x)

    def spread(images: Array, rows: Array, columns: Array) -> Array:
        return np.einsum("ih,nhwc,jw->nijc", rows, images, columns, optimize=True)

    return spread(x, down, across), lambda dy: spread(dy, down.T, across.T)
