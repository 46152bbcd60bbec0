"""Norms, masks, activations and layers of tokens as Gluon blocks."""

from __future__ import annotations

import math
from typing import Any

import mxnet as mx
from mxnet import gluon

from workloads import layers


class PositionEmbedding(gluon.HybridBlock):
    """Adds an embedding: x + embedding."""

    def __init__(self, shape: layers.Shape) -> None:
        super().__init__()
        with self.name_scope():
            self.embedding = self.params.get("embedding", shape=shape)

    def hybrid_forward(self, F: Any, x: Any, embedding: Any) -> Any:
        """Return (n, t, d), the same shape as `x`."""
        return F.broadcast_add(x, F.expand_dims(embedding, 0))


class MultiHeadAttention(gluon.HybridBlock):
    """Four dense layers around two batched products, as in GluonNLP: Gluon itself has no attention."""

    def __init__(self, layer: layers.MultiHeadAttention, shape: layers.Shape) -> None:
        super().__init__()
        self.heads, self.scale = layer.heads, math.sqrt(layer.heads / shape[1])
        with self.name_scope():
            for part in layers.ATTENTION_PARTS:
                setattr(self, part, gluon.nn.Dense(shape[1], in_units=shape[1], flatten=False))

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return (n, t, d), the same shape as `x`."""
        query, key, value = (
            # (n, t, d) -> (n, t, heads, d / heads) -> (n, heads, t, d / heads) -> (n * heads, t, d / heads)
            F.reshape(F.transpose(F.reshape(part(x), (0, 0, self.heads, -1)), (0, 2, 1, 3)), (-3, 0, 0))
            for part in (self.query, self.key, self.value)
        )
        shares = F.softmax(F.batch_dot(query * self.scale, key, transpose_b=True))
        heads = F.reshape(F.batch_dot(shares, value), (-4, -1, self.heads, 0, 0))
        return self.output(F.reshape(F.transpose(heads, (0, 2, 1, 3)), (0, 0, -3)))


class ClassToken(gluon.HybridBlock):
    """Puts a learned token before the others."""

    def __init__(self, shape: layers.Shape) -> None:
        super().__init__()
        with self.name_scope():
            self.token = self.params.get("token", shape=shape[1:])

    def hybrid_forward(self, F: Any, x: Any, token: Any) -> Any:
        """(n, t, d) -> (n, t + 1, d)."""
        tokens = F.broadcast_like(F.reshape(token, (1, 1, -1)), F.slice_axis(x, axis=1, begin=0, end=1))
        return F.concat(tokens, x, dim=1)


def first_token(F: Any, x: Any) -> Any:
    """(n, t, d) -> (n, d)."""
    return F.squeeze(F.slice_axis(x, axis=1, begin=0, end=1), axis=1)


def spread_channels(shape: layers.Shape) -> tuple[int, ...]:
    """Return the shape in which one number per channel applies to images, tokens or vectors of `shape`."""
    return (1, -1, 1, 1) if len(shape) == 3 else (*(1 for _ in shape), -1)


def gelu_by_tanh(F: Any, x: Any) -> Any:
    """Return the approximation of GELU by tanh, in the shape of `x`; MXNet's own GELU is the exact one."""
    return x * (1 + F.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))) / 2


def gelu(layer: layers.Gelu, shape: layers.Shape) -> gluon.HybridBlock:
    """Return the layer (n, ...) -> the same."""
    return gluon.nn.HybridLambda(gelu_by_tanh) if layer.approximate else gluon.nn.GELU()


class ChannelScale(gluon.HybridBlock):
    """Multiplies each channel by a learned factor."""

    def __init__(self, shape: layers.Shape) -> None:
        super().__init__()
        self.spread = spread_channels(shape)
        with self.name_scope():
            self.scale = self.params.get("scale", shape=shape[-1:])

    def hybrid_forward(self, F: Any, x: Any, scale: Any) -> Any:
        """Return (n, c, h, w), (n, t, d) or (n, d), the same shape as `x`."""
        return F.broadcast_mul(x, F.reshape(scale, self.spread))


class Normalise(gluon.HybridBlock):
    """Subtracts a constant from each channel and divides by another."""

    def __init__(self, layer: layers.Normalise, shape: layers.Shape) -> None:
        super().__init__()
        spread = spread_channels(shape)
        with self.name_scope():
            self.mean = self.params.get_constant("mean", mx.nd.array(layer.mean).reshape(spread))
            self.std = self.params.get_constant("std", mx.nd.array(layer.std).reshape(spread))

    def hybrid_forward(self, F: Any, x: Any, mean: Any, std: Any) -> Any:
        """Return (n, c, h, w), the same shape as `x`."""
        return F.broadcast_div(F.broadcast_sub(x, mean), std)


def stochastic_depth(layer: layers.StochasticDepth, shape: layers.Shape) -> gluon.HybridBlock:
    """Return the layer for (n, ...), whose masks drop whole images."""
    return gluon.nn.Dropout(layer.rate, axes=tuple(range(1, 1 + len(shape))))


def layer_norm(layer: layers.LayerNorm, shape: layers.Shape) -> gluon.HybridBlock:
    """Return the layer for (n, c, h, w), (n, t, d) or (n, d), which keeps the shape."""
    return gluon.nn.LayerNorm(channel_axis(shape), layer.epsilon, in_channels=shape[-1])


def channel_axis(shape: layers.Shape) -> int:
    """Channel axis of an array of such images, tokens or vectors, channels first."""
    return 1 if len(shape) == 3 else -1


def relu6(F: Any, x: Any) -> Any:
    """Compute clip(relu(x), 0, 6); `clip` alone passes the gradient at 0."""
    return F.clip(F.relu(x), 0, 6)


def hard_sigmoid(F: Any, x: Any) -> Any:
    """Compute clip(x + 3, 0, 6) / 6 with MXNet's operator."""
    return F.hard_sigmoid(x, alpha=1 / 6, beta=0.5)


def softmax(shape: layers.Shape) -> gluon.HybridBlock:
    """Return the layer for (n, c, h, w), (n, t, d) or (n, d), which keeps the shape."""
    return gluon.nn.HybridLambda(lambda F, x: F.softmax(x, axis=channel_axis(shape)))
