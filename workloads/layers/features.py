"""Records of layers that take any input (norms, masks, activations, the dense layer), and of those that take tokens,
the needs of a small transformer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .base import Initializer, Layer, Shape, image_shape, token_shape


@dataclass(frozen=True)
class BatchNorm(Layer):
    """gamma (x - mean) / sqrt(variance + epsilon) + beta per channel (the last axis), Ioffe & Szegedy 2015.

    Training uses the batch's mean and biased variance (over batch and space), and then running = momentum running + (1
    - momentum) batch; evaluation uses the running ones. Without `scale` there is no gamma, without `center` no beta.
    """

    momentum: float = 0.9
    epsilon: float = 1e-3
    scale: bool = True
    center: bool = True

    def output_shape(self, shape: Shape) -> Shape:
        if len(shape) == 2:
            raise ValueError(f"layer {self.name}: needs an image (h, w, c) or a vector (n,), got {shape}")
        return shape

    def parameter_shapes(self, shape: Shape) -> dict[str, Shape]:
        learned = {"gamma": self.scale, "beta": self.center}
        return {role: (shape[-1],) for role, kept in learned.items() if kept}

    def statistic_shapes(self, shape: Shape) -> dict[str, Shape]:
        return {"running_mean": (shape[-1],), "running_variance": (shape[-1],)}


@dataclass(frozen=True)
class LayerNorm(Layer):
    """gamma (x - mean) / sqrt(variance + epsilon) + beta, over the last axis (Ba et al. 2016).

    The mean and the biased variance are those of each token's features, each pixel's channels.
    """

    epsilon: float = 1e-5

    def parameter_shapes(self, shape: Shape) -> dict[str, Shape]:
        return {"gamma": (shape[-1],), "beta": (shape[-1],)}


@dataclass(frozen=True)
class ChannelScale(Layer):
    """scale x, a learned factor per channel, which is the last axis (Touvron et al. 2021, section 2).

    Every factor starts at `initial`.
    """

    initial: float = 1e-6

    def parameter_shapes(self, shape: Shape) -> dict[str, Shape]:
        return {"scale": (shape[-1],)}


@dataclass(frozen=True)
class Normalise(Layer):
    """(x - mean) / std with a constant mean and a constant std per channel: (h, w, c) -> (h, w, c)."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.mean) != len(self.std):
            raise ValueError(f"layer {self.name}: has {len(self.mean)} means and {len(self.std)} stds")
        if not all(map(math.isfinite, (*self.mean, *self.std))) or 0 in self.std:
            raise ValueError(f"layer {self.name}: a mean or a std is not finite, or a std is 0")

    def output_shape(self, shape: Shape) -> Shape:
        channels = image_shape(self.name, shape)[2]
        if channels != len(self.mean):
            raise ValueError(f"layer {self.name}: has {len(self.mean)} means for the {channels} channels of {shape}")
        return shape


@dataclass(frozen=True)
class Masked(Layer):
    """Zeroes a random part of its input in training, and divides the rest by 1 - rate; in evaluation it does nothing.

    A framework draws the masks; a rate of 0 draws none.
    """

    rate: float

    def __post_init__(self) -> None:
        if not 0 <= self.rate < 1:
            raise ValueError(f"layer {self.name}: rate {self.rate}; needs 0 <= rate < 1")


@dataclass(frozen=True)
class Dropout(Masked):
    """Zeroes each value with probability `rate` (Srivastava et al. 2014)."""


@dataclass(frozen=True)
class StochasticDepth(Masked):
    """Zeroes all values of an image with probability `rate` (Huang et al. 2016).

    At the end of a branch it drops the branch.
    """


@dataclass(frozen=True)
class Relu(Layer):
    """max(x, 0); its derivative at 0 is 0."""


@dataclass(frozen=True)
class Relu6(Layer):
    """min(max(x, 0), 6); its derivative at 0 and at 6 is 0."""


@dataclass(frozen=True)
class HardSigmoid(Layer):
    """min(max(x + 3, 0), 6) / 6 (Howard et al. 2019); its derivative at -3 and at 3 is 0."""


@dataclass(frozen=True)
class HardSwish(Layer):
    """x min(max(x + 3, 0), 6) / 6 (Howard et al. 2019)."""


@dataclass(frozen=True)
class Gelu(Layer):
    """x (1 + erf(x / sqrt(2))) / 2 (Hendrycks & Gimpel 2016).

    If `approximate`, x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, of the same source.
    """

    approximate: bool = False


@dataclass(frozen=True)
class Silu(Layer):
    """x / (1 + exp(-x)) (Elfwing et al. 2018; swish with beta 1)."""


@dataclass(frozen=True)
class Sigmoid(Layer):
    """1 / (1 + exp(-x))."""


@dataclass(frozen=True)
class Tanh(Layer):
    """tanh(x)."""


@dataclass(frozen=True)
class Softmax(Layer):
    """exp(x_i) / sum_k exp(x_k) over the last axis."""


@dataclass(frozen=True)
class Flatten(Layer):
    """(h, w, c) -> (h*w*c,) in that order: the channel varies fastest. Tokens (t, d) -> (t*d,) likewise."""

    def output_shape(self, shape: Shape) -> Shape:
        return (math.prod(shape),)


@dataclass(frozen=True)
class Dense(Layer):
    """Fully connected layer: (in,) -> (units,), and each of the tokens (t, in) -> (t, units)."""

    units: int
    initializer: Initializer = "glorot-uniform"
    bias: bool = True

    def output_shape(self, shape: Shape) -> Shape:
        if len(shape) not in (1, 2):
            raise ValueError(f"layer {self.name}: needs a flat input or tokens, got {shape}; put a Flatten before it")
        return (*shape[:-1], self.units)

    def parameter_shapes(self, shape: Shape) -> dict[str, Shape]:
        kernel = {"kernel": (shape[-1], self.units)}
        return kernel | ({"bias": (self.units,)} if self.bias else {})

    def multiply_adds(self, shape: Shape) -> int:
        return math.prod(shape) * self.units


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


@dataclass(frozen=True)
class ClassToken(Layer):
    """Puts one learned token before the others (Dosovitskiy et al. 2021): (t, d) -> (t + 1, d). It starts at zero."""

    def output_shape(self, shape: Shape) -> Shape:
        tokens, width = token_shape(self.name, shape)
        return tokens + 1, width

    def parameter_shapes(self, shape: Shape) -> dict[str, Shape]:
        return {"token": (token_shape(self.name, shape)[1],)}


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


@dataclass(frozen=True)
class FirstToken(Layer):
    """The first token alone: (t, d) -> (d,)."""

    def output_shape(self, shape: Shape) -> Shape:
        return (token_shape(self.name, shape)[1],)
