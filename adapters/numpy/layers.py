"""Forward and backward of every layer in plain numpy, as its record in workloads/layers defines it."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from adapters.numpy import features
from adapters.numpy.images import (
    average_pool2d,
    conv2d,
    depthwise_conv2d,
    global_average_pool2d,
    max_pool2d,
    resize,
)
from adapters.numpy.passes import Array, Forward, Pass
from workloads import layers


def sequence(chain: tuple[layers.Layer, ...], x: Array, run: Pass) -> Forward:
    """Apply the layers one after another."""
    tape = []
    for layer in chain:
        x, backward = FORWARD[type(layer)](layer, x, run)
        run.outputs[layer.name] = x = run.rounded(x)
        tape.append(backward)
    return x, lambda dy: reduce(lambda gradient, backward: backward(run.rounded(gradient)), reversed(tape), dy)


def _hard_sigmoid(x: Array) -> Array:
    return np.clip(x + 3, 0, 6) / 6


_erf: Callable[[Array], Array] = np.frompyfunc(math.erf, 1, 1)


def _gelu_by_tanh(x: Array) -> tuple[Array, Array]:
    factor, cubic = math.sqrt(2 / math.pi), 0.044715
    bent = np.tanh(factor * (x + cubic * x**3))
    return x * (1 + bent) / 2, (1 + bent) / 2 + x * (1 - bent**2) * factor * (1 + 3 * cubic * x * x) / 2


def _gelu(x: Array) -> tuple[Array, Array]:
    below = (1 + _erf(x / math.sqrt(2)).astype(x.dtype)) / 2  # P(X <= x), X ~ N(0, 1)
    return x * below, below + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _sigmoid(x: Array) -> Array:
    return (1 + np.tanh(x / 2)) / 2  # for any size without overflow


def _silu(x: Array) -> tuple[Array, Array]:
    gate = _sigmoid(x)
    return x * gate, gate * (1 + x * (1 - gate))


# {record: x -> (value, slope)}
ELEMENTWISE: dict[type[layers.Layer], Callable[[Array], tuple[Array, Array]]] = {
    layers.Relu: lambda x: (np.maximum(x, 0), x > 0),
    layers.Relu6: lambda x: (np.clip(x, 0, 6), (x > 0) & (x < 6)),
    layers.HardSigmoid: lambda x: (_hard_sigmoid(x), (np.abs(x) < 3) / 6),
    layers.HardSwish: lambda x: (x * _hard_sigmoid(x), _hard_sigmoid(x) + x * (np.abs(x) < 3) / 6),
    layers.Gelu: _gelu,
    layers.Silu: _silu,
    layers.Sigmoid: lambda x: (_sigmoid(x), _sigmoid(x) * _sigmoid(-x)),
    layers.Tanh: lambda x: (np.tanh(x), 1 - np.tanh(x) ** 2),
}


def elementwise(layer: layers.Layer, x: Array, run: Pass) -> Forward:
    """Apply ELEMENTWISE, in the precision of `x`."""
    by_tanh = isinstance(layer, layers.Gelu) and layer.approximate
    y, slope = _gelu_by_tanh(x) if by_tanh else ELEMENTWISE[type(layer)](x)
    return y.astype(x.dtype, copy=False), lambda dy: (dy * slope).astype(x.dtype, copy=False)


def flatten(layer: layers.Flatten, x: Array, run: Pass) -> Forward:
    """(n, ...) -> (n, values), the last axis fastest."""
    return x.reshape(len(x), -1), lambda dy: dy.reshape(x.shape)


def _branches(layer: layers.Join, x: Array, run: Pass) -> tuple[list[Array], Callable[[list[Array]], Array]]:
    """Return (each branch's output, backward of all of them together)."""
    forwards = [sequence(branch, x, run) for branch in layer.branches]

    def backward(parts: list[Array]) -> Array:
        gradients = (back(dy) for dy, (_, back) in zip(parts, forwards, strict=True))
        return reduce(np.add, gradients)

    return [y for y, _ in forwards], backward


def add(layer: layers.Add, x: Array, run: Pass) -> Forward:
    """The branches' sum."""
    ys, backward = _branches(layer, x, run)
    return reduce(np.add, ys), lambda dy: backward([dy] * len(ys))


def concatenate(layer: layers.Concatenate, x: Array, run: Pass) -> Forward:
    """(..., c) of each branch -> (..., sum of all c)."""
    ys, backward = _branches(layer, x, run)
    ends = np.cumsum([y.shape[-1] for y in ys])[:-1]
    return np.concatenate(ys, axis=-1), lambda dy: backward(np.split(dy, ends, axis=-1))


def multiply(layer: layers.Multiply, x: Array, run: Pass) -> Forward:
    """The branches' product; (n, c) combined with (n, h, w, c) applies to every pixel."""
    ys, backward_branches = _branches(layer, x, run)
    factors = [y[:, None, None] if y.ndim < max(z.ndim for z in ys) else y for y in ys]

    def backward(dy: Array) -> Array:
        parts = []
        for number, y in enumerate(ys):
            part = reduce(np.multiply, factors[:number] + factors[number + 1 :], dy)
            parts.append(part if part.ndim == y.ndim else part.sum(axis=(1, 2)))
        return backward_branches(parts)

    return reduce(np.multiply, factors), backward


FORWARD: dict[type[layers.Layer], Callable[[Any, Array, Pass], Forward]] = {
    layers.Conv2D: conv2d,
    layers.DepthwiseConv2D: depthwise_conv2d,
    layers.MaxPool2D: max_pool2d,
    layers.AveragePool2D: average_pool2d,
    layers.GlobalAveragePool2D: global_average_pool2d,
    layers.Resize: resize,
    layers.BatchNorm: features.batch_norm,
    layers.LayerNorm: features.layer_norm,
    layers.ChannelScale: features.channel_scale,
    layers.Normalise: features.normalise,
    layers.Dropout: features.masked,
    layers.StochasticDepth: features.masked,
    **dict.fromkeys(ELEMENTWISE, elementwise),
    layers.Softmax: features.softmax,
    layers.Flatten: flatten,
    layers.Dense: features.dense,
    layers.Tokens: features.tokens,
    layers.ClassToken: features.class_token,
    layers.FirstToken: features.first_token,
    layers.PositionEmbedding: features.position_embedding,
    layers.MultiHeadAttention: features.multi_head_attention,
    layers.TokenMean: features.token_mean,
    layers.Add: add,
    layers.Concatenate: concatenate,
    layers.Multiply: multiply,
}
