"""Forward and backward of every layer in plain numpy, as its record in workloads/layers defines it."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

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


def batch_norm(layer: layers.BatchNorm, x: Array, run: Pass) -> Forward:
    """(..., c) -> the same; training uses the batch's statistics, and the running ones go to `run.statistics`."""
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


def layer_norm(layer: layers.LayerNorm, x: Array, run: Pass) -> Forward:
    """(..., c) -> the same; mean and variance of the last axis."""
    gamma, beta = run.weights[f"{layer.name}/gamma"], run.weights[f"{layer.name}/beta"]
    axes = tuple(range(x.ndim - 1))
    deviation = np.sqrt(x.var(axis=-1, keepdims=True) + layer.epsilon)
    normal = ((x - x.mean(axis=-1, keepdims=True)) / deviation).astype(x.dtype)

    def backward(dy: Array) -> Array:
        run.gradients |= {f"{layer.name}/gamma": (dy * normal).sum(axis=axes), f"{layer.name}/beta": dy.sum(axis=axes)}
        dnormal = dy * gamma
        mean, along = (part.mean(axis=-1, keepdims=True) for part in (dnormal, dnormal * normal))
        return (dnormal - mean - normal * along) / deviation

    return gamma * normal + beta, backward


def dropout(layer: layers.Dropout, x: Array, run: Pass) -> Forward:
    """Inverted dropout: kept values are divided by 1 - rate in training, so evaluation changes nothing."""
    if not run.training or layer.rate == 0:
        return x, lambda dy: dy
    kept = (run.generator.random(x.shape) >= layer.rate) / x.dtype.type(1 - layer.rate)
    return x * kept, lambda dy: dy * kept


def _hard_sigmoid(x: Array) -> Array:
    return np.clip(x + 3, 0, 6) / 6


_erf: Callable[[Array], Array] = np.frompyfunc(math.erf, 1, 1)


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
    y, slope = ELEMENTWISE[type(layer)](x)
    return y.astype(x.dtype), lambda dy: (dy * slope).astype(x.dtype)


def _softmax(x: Array) -> Forward:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    y = powers / powers.sum(axis=-1, keepdims=True)
    return y, lambda dy: y * (dy - (dy * y).sum(axis=-1, keepdims=True))


def softmax(layer: layers.Softmax, x: Array, run: Pass) -> Forward:
    """(..., c) -> the same, the last axis sums to 1."""
    return _softmax(x)


def flatten(layer: layers.Flatten, x: Array, run: Pass) -> Forward:
    """(n, ...) -> (n, values), the last axis fastest."""
    return x.reshape(len(x), -1), lambda dy: dy.reshape(x.shape)


def _affine(layer: layers.Layer, x: Array, run: Pass, part: str = "") -> Forward:
    """Compute x kernel + bias along the last axis; `part` goes before their roles."""
    roles = f"{layer.name}/{part}kernel", f"{layer.name}/{part}bias"
    kernel, bias = (run.weights[role] for role in roles)

    def backward(dy: Array) -> Array:
        rows, gradients = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])
        run.gradients |= zip(roles, (rows.T @ gradients, gradients.sum(axis=0)), strict=True)
        return dy @ kernel.T

    return x @ kernel + bias, backward


def dense(layer: layers.Dense, x: Array, run: Pass) -> Forward:
    """(n, values) -> (n, units), (n, t, values) -> (n, t, units)."""
    return _affine(layer, x, run)


def tokens(layer: layers.Tokens, x: Array, run: Pass) -> Forward:
    """(n, h, w, c) -> (n, h * w, c)."""
    return x.reshape(len(x), -1, x.shape[-1]), lambda dy: dy.reshape(x.shape)


def position_embedding(layer: layers.PositionEmbedding, x: Array, run: Pass) -> Forward:
    """(n, t, d) -> the same."""

    def backward(dy: Array) -> Array:
        run.gradients[f"{layer.name}/embedding"] = dy.sum(axis=0)
        return dy

    return x + run.weights[f"{layer.name}/embedding"], backward


def multi_head_attention(layer: layers.MultiHeadAttention, x: Array, run: Pass) -> Forward:
    """(n, t, d) -> the same."""

    def split(features: Array) -> Array:
        """(n, t, d) -> (n, heads, t, d / heads)."""
        return features.reshape(*x.shape[:2], layer.heads, -1).transpose(0, 2, 1, 3)

    def merged(heads: Array) -> Array:
        return heads.transpose(0, 2, 1, 3).reshape(x.shape)

    projections = [_affine(layer, x, run, f"{part}_") for part in ("query", "key", "value")]
    query, key, value = (split(features) for features, _ in projections)
    scale = 1 / math.sqrt(query.shape[-1])
    shares, shares_backward = _softmax(query @ key.swapaxes(2, 3) * scale)
    y, output_backward = _affine(layer, merged(shares @ value), run, "output_")

    def backward(dy: Array) -> Array:
        dheads = split(output_backward(dy))
        dscores = shares_backward(dheads @ value.swapaxes(2, 3)) * scale
        parts = dscores @ key, dscores.swapaxes(2, 3) @ query, shares.swapaxes(2, 3) @ dheads
        dx = [back(merged(part)) for part, (_, back) in zip(parts, projections, strict=True)]
        return dx[0] + dx[1] + dx[2]

    return y, backward


def token_mean(layer: layers.TokenMean, x: Array, run: Pass) -> Forward:
    """(n, t, d) -> (n, d)."""
    return x.mean(axis=1), lambda dy: np.broadcast_to(dy[:, None] / x.shape[1], x.shape)


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
    layers.BatchNorm: batch_norm,
    layers.LayerNorm: layer_norm,
    layers.Dropout: dropout,
    **dict.fromkeys(ELEMENTWISE, elementwise),
    layers.Softmax: softmax,
    layers.Flatten: flatten,
    layers.Dense: dense,
    layers.Tokens: tokens,
    layers.PositionEmbedding: position_embedding,
    layers.MultiHeadAttention: multi_head_attention,
    layers.TokenMean: token_mean,
    layers.Add: add,
    layers.Concatenate: concatenate,
    layers.Multiply: multiply,
}
