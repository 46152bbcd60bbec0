"""Records of layers that take tokens, (t, d): the needs of a small transformer besides the dense layer."""

from __future__ import annotations

from dataclasses import dataclass

from .base import Layer, Shape, image_shape, token_shape


@dataclass(frozen=True)
class Tokens(Layer):
    """(h, w, c) -> (h*w, c): one token per pixel, row by row.

    After a Conv2D whose stride is its kernel's size they are the patches of Dosovitskiy et al. 2021.
    """

    def output_shape(self, shape: Shape) -> Shape:
        height, width, channels = image_shape(self.name, shape)
        return height * width, channels


@dataclass(frozen=True)
class PositionEmbedding(Layer):
    """x + embedding, a learned number for each position and feature (Dosovitskiy et al. 2021): (t, d) -> (t, d).

    It starts as N(0, 0.02^2).
    """

    def output_shape(self, shape: Shape) -> Shape:
        return token_shape(self.name, shape)

    def parameter_shapes(self, shape: Shape) -> dict[str, Shape]:
        return {"embedding": token_shape(self.name, shape)}


ATTENTION_PARTS = ("query", "key", "value", "output")


@dataclass(frozen=True)
class MultiHeadAttention(Layer):
    """Self-attention of Vaswani et al. 2017, without mask and dropout: (t, d) -> (t, d).

    Q, K, V = x kernel + bias, each (t, d); head i has columns i d / heads to (i + 1) d / heads of each, and gives
    softmax(Q K^T / sqrt(d / heads)) V, the softmax over the keys. The heads' columns, concatenated, go through the
    output kernel and bias. Kernels are (d, d) and start glorot-uniform.
    """

    heads: int

    def output_shape(self, shape: Shape) -> Shape:
        tokens, width = token_shape(self.name, shape)
        if width % self.heads:
            raise ValueError(f"layer {self.name}: {self.heads} heads do not divide the {width} features of {shape}")
        return tokens, width

    def parameter_shapes(self, shape: Shape) -> dict[str, Shape]:
        width = shape[-1]
        return {
            f"{part}_{role}": size
            for part in ATTENTION_PARTS
            for role, size in (("kernel", (width, width)), ("bias", (width,)))
        }

    def multiply_adds(self, shape: Shape) -> int:
        tokens, width = shape
        return len(ATTENTION_PARTS) * tokens * width**2 + 2 * tokens**2 * width


@dataclass(frozen=True)
class TokenMean(Layer):
    """The mean of all tokens: (t, d) -> (d,)."""

    def output_shape(self, shape: Shape) -> Shape:
        return (token_shape(self.name, shape)[1],)
