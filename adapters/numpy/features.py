"""Forward and backward of norms, masks, dense layers and layers of tokens in plain numpy."""

from __future__ import annotations

import math

import numpy as np

from adapters.numpy.passes import Array, Forward, Pass
from workloads import layers


def batch_norm(layer: layers.BatchNorm, x: Array, run: Pass) -> Forward:
    """(..., c) -> the same; training uses the batch's statistics, and the running ones go to `run.statistics`."""
    gamma, beta = (run.weights.get(f"{layer.name}/{role}", usual) for role, usual in (("gamma", 1.0), ("beta", 0.0)))
    running_mean, running_variance = (run.weights[f"{layer.name}/running_{role}"] for role in ("mean", "variance"))
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
        if layer.scale:
            run.gradients[f"{layer.name}/gamma"] = (dy * normal).sum(axis=axes)
        if layer.center:
            run.gradients[f"{layer.name}/beta"] = dy.sum(axis=axes)
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


def channel_scale(layer: layers.ChannelScale, x: Array, run: Pass) -> Forward:
    """(..., c) -> the same."""
    scale = run.weights[f"{layer.name}/scale"]

    def backward(dy: Array) -> Array:
        run.gradients[f"{layer.name}/scale"] = (dy * x).sum(axis=tuple(range(x.ndim - 1)))
        return dy * scale

    return x * scale, backward


def normalise(layer: layers.Normalise, x: Array, run: Pass) -> Forward:
    """(n, h, w, c) -> the same."""
    mean, std = np.array(layer.mean, x.dtype), np.array(layer.std, x.dtype)
    return (x - mean) / std, lambda dy: dy / std


def masked(layer: layers.Masked, x: Array, run: Pass) -> Forward:
    """(n, ...) -> the same. Kept values are divided by 1 - rate in training, so evaluation changes nothing."""
    if not run.training or layer.rate == 0:
        return x, lambda dy: dy
    masks = (len(x), *(1 for _ in x.shape[1:])) if isinstance(layer, layers.StochasticDepth) else x.shape
    kept = (run.generator.random(masks) >= layer.rate) / x.dtype.type(1 - layer.rate)
    return x * kept, lambda dy: dy * kept


def _softmax(x: Array) -> Forward:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    y = powers / powers.sum(axis=-1, keepdims=True)
    return y, lambda dy: y * (dy - (dy * y).sum(axis=-1, keepdims=True))


def softmax(layer: layers.Softmax, x: Array, run: Pass) -> Forward:
    """(..., c) -> the same, the last axis sums to 1."""
    return _softmax(x)


def _affine(layer: layers.Layer, x: Array, run: Pass, part: str = "") -> Forward:
    """Compute x kernel + bias along the last axis; `part` goes before their roles."""
    roles = f"{layer.name}/{part}kernel", f"{layer.name}/{part}bias"
    kernel, bias = run.weights[roles[0]], run.weights.get(roles[1])

    def backward(dy: Array) -> Array:
        rows, gradients = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])
        run.gradients[roles[0]] = rows.T @ gradients
        if bias is not None:
            run.gradients[roles[1]] = gradients.sum(axis=0)
        return dy @ kernel.T

    return x @ kernel if bias is None else x @ kernel + bias, backward


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


def class_token(layer: layers.ClassToken, x: Array, run: Pass) -> Forward:
    """(n, t, d) -> (n, t + 1, d)."""
    token = run.weights[f"{layer.name}/token"]

    def backward(dy: Array) -> Array:
        run.gradients[f"{layer.name}/token"] = dy[:, 0].sum(axis=0)
        return dy[:, 1:]

    return np.concatenate([np.broadcast_to(token, (len(x), 1, x.shape[2])), x], axis=1), backward


def first_token(layer: layers.FirstToken, x: Array, run: Pass) -> Forward:
    """(n, t, d) -> (n, d)."""

    def backward(dy: Array) -> Array:
        dx = np.zeros_like(x)
        dx[:, 0] = dy
        return dx

    return x[:, 0], backward
