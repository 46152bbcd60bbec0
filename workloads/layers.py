"""The layer records: what a layer is called, what shapes it takes and gives, what it holds. No arithmetic.

Shapes are without the batch: an image is (h, w, c), a vector is (n,).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

Shape = tuple[int, ...]
Margins = tuple[tuple[int, int], tuple[int, int]]  # (above, below), (left, right)
Padding = Literal["valid", "same"]
Initializer = Literal["glorot-uniform", "he-uniform", "he-normal"]


def image_shape(layer: str, shape: Shape) -> tuple[int, int, int]:
    """The shape as (h, w, c); ValueError naming the layer where it is none."""
    if len(shape) != 3:
        raise ValueError(f"layer {layer}: needs an image (h, w, c), got {shape}")
    return shape[0], shape[1], shape[2]


def token_shape(layer: str, shape: Shape) -> tuple[int, int]:
    """The shape as (t, d); ValueError naming the layer where it is none."""
    if len(shape) != 2:
        raise ValueError(f"layer {layer}: needs tokens (t, d), got {shape}")
    return shape[0], shape[1]


def same_margins(shape: Shape, window: tuple[int, int], stride: int) -> Margins:
    """Rows and columns that "same" padding adds around an image: as few as give ceil(size / stride) outputs, half of
    them on either side, the odd one below and on the right.
    """
    before_after = []
    for size, seen in zip(shape[:2], window, strict=True):
        total = max((math.ceil(size / stride) - 1) * stride + seen - size, 0)
        before_after.append((total // 2, total - total // 2))
    return before_after[0], before_after[1]


@dataclass(frozen=True)
class Layer:
    """What every layer tells; these answers are those of an elementwise one, with nothing in it."""

    name: str

    def output_shape(self, shape: Shape) -> Shape:
        """ValueError naming the layer where `shape` does not fit."""
        return shape

    def parameter_shapes(self, shape: Shape) -> dict[str, Shape]:
        """{role: shape} of what is trained."""
        return {}

    def statistic_shapes(self, shape: Shape) -> dict[str, Shape]:
        """{role: shape} of what is kept beside it."""
        return {}

    def multiply_adds(self, shape: Shape) -> int:
        """Of the forward pass of one image; elementwise work is not counted."""
        return 0


@dataclass(frozen=True)
class Conv2D(Layer):
    """2-D convolution (cross-correlation): (h, w, c) -> (rows, columns, filters), both axes alike.

    A kernel of k rows sees every `dilation`-th of (k - 1) dilation + 1 = e rows.
    "valid": floor((h - e) / stride) + 1 rows. "same": ceil(h / stride) rows, zeros as `same_margins` says.
    With groups, the first c / groups channels make the first filters / groups filters, and so on (Xie et al. 2017).
    """

    filters: int
    kernel: tuple[int, int]
    stride: int = 1
    padding: Padding = "valid"
    bias: bool = True
    initializer: Initializer = "glorot-uniform"
    groups: int = 1
    dilation: int = 1

    @property
    def window(self) -> tuple[int, int]:
        """Rows and columns that a kernel reaches over."""
        rows, columns = ((size - 1) * self.dilation + 1 for size in self.kernel)
        return rows, columns

    def output_shape(self, shape: Shape) -> Shape:
        rows, columns = _windows(self.name, shape, self.window, self.stride, self.padding)
        if shape[2] % self.groups or self.filters % self.groups:
            raise ValueError(f"layer {self.name}: {self.groups} groups divide {shape} into {self.filters} filters")
        return rows, columns, self.filters

    def parameter_shapes(self, shape: Shape) -> dict[str, Shape]:
        bias = {"bias": (self.filters,)} if self.bias else {}
        return {"kernel": (*self.kernel, shape[2] // self.groups, self.filters), **bias}

    def multiply_adds(self, shape: Shape) -> int:
        return math.prod(self.output_shape(shape)) * math.prod(self.kernel) * shape[2] // self.groups

    def margins(self, shape: Shape) -> Margins:
        return _margins(self.padding, shape, self.window, self.stride)


@dataclass(frozen=True)
class DepthwiseConv2D(Layer):
    """A convolution of each channel by a filter of its own: (h, w, c) -> (rows, columns, c). Else as Conv2D."""

    kernel: tuple[int, int]
    stride: int = 1
    padding: Padding = "valid"
    bias: bool = True
    initializer: Initializer = "glorot-uniform"

    def output_shape(self, shape: Shape) -> Shape:
        return (*_windows(self.name, shape, self.kernel, self.stride, self.padding), shape[2])

    def parameter_shapes(self, shape: Shape) -> dict[str, Shape]:
        bias = {"bias": (shape[2],)} if self.bias else {}
        return {"kernel": (*self.kernel, 1, shape[2]), **bias}

    def multiply_adds(self, shape: Shape) -> int:
        return math.prod(self.output_shape(shape)) * math.prod(self.kernel)

    def margins(self, shape: Shape) -> Margins:
        return _margins(self.padding, shape, self.kernel, self.stride)


def _margins(padding: Padding, shape: Shape, window: tuple[int, int], stride: int) -> Margins:
    return same_margins(shape, window, stride) if padding == "same" else ((0, 0), (0, 0))


def _windows(layer: str, shape: Shape, window: tuple[int, int], stride: int, padding: Padding) -> tuple[int, int]:
    """(rows, columns) of windows."""
    height, width, _ = image_shape(layer, shape)
    ((above, below), (left, right)), (rows, columns) = _margins(padding, shape, window, stride), window
    if above + height + below < rows or left + width + right < columns:
        raise ValueError(f"layer {layer}: window {window} is larger than its input {shape}")
    return (above + height + below - rows) // stride + 1, (left + width + right - columns) // stride + 1


@dataclass(frozen=True)
class Pool2D(Layer):
    """One number a channel of each size x size window: (h, w, c) -> (rows, columns, c).

    Rows, columns and margins as Conv2D has them; the margins of "same" are no pixels and enter no result.
    """

    size: int
    stride: int | None = None  # None: `size`, windows side by side
    padding: Padding = "valid"

    @property
    def window(self) -> tuple[int, int]:
        return self.size, self.size

    @property
    def step(self) -> int:
        """Pixels from one window to the next."""
        return self.stride or self.size

    def output_shape(self, shape: Shape) -> Shape:
        return (*_windows(self.name, shape, self.window, self.step, self.padding), shape[2])

    def margins(self, shape: Shape) -> Margins:
        return _margins(self.padding, shape, self.window, self.step)


@dataclass(frozen=True)
class MaxPool2D(Pool2D):
    """The maximum of each window."""


@dataclass(frozen=True)
class AveragePool2D(Pool2D):
    """The mean of each window's pixels."""


@dataclass(frozen=True)
class GlobalAveragePool2D(Layer):
    """The mean of each channel: (h, w, c) -> (c,)."""

    def output_shape(self, shape: Shape) -> Shape:
        return (image_shape(self.name, shape)[2],)


@dataclass(frozen=True)
class BatchNorm(Layer):
    """gamma (x - mean) / sqrt(variance + epsilon) + beta per channel (the last axis), Ioffe & Szegedy 2015.

    In training with the batch's mean and biased variance (over batch and space), and then
    running = momentum running + (1 - momentum) batch; in evaluation with the running ones.
    """

    momentum: float = 0.9
    epsilon: float = 1e-3

    def output_shape(self, shape: Shape) -> Shape:
        if len(shape) == 2:
            raise ValueError(f"layer {self.name}: needs an image (h, w, c) or a vector (n,), got {shape}")
        return shape

    def parameter_shapes(self, shape: Shape) -> dict[str, Shape]:
        return {"gamma": (shape[-1],), "beta": (shape[-1],)}

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
class Dropout(Layer):
    """In training each value is zero with probability `rate`, the others are divided by 1 - rate; else nothing."""

    rate: float


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
    """x (1 + erf(x / sqrt(2))) / 2 (Hendrycks & Gimpel 2016), not its approximation by tanh."""


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
    """Fully connected layer with bias: (in,) -> (units,), and each of the tokens (t, in) -> (t, units)."""

    units: int
    initializer: Initializer = "glorot-uniform"

    def output_shape(self, shape: Shape) -> Shape:
        if len(shape) not in (1, 2):
            raise ValueError(f"layer {self.name}: needs a flat input or tokens, got {shape}; put a Flatten before it")
        return (*shape[:-1], self.units)

    def parameter_shapes(self, shape: Shape) -> dict[str, Shape]:
        return {"kernel": (shape[-1], self.units), "bias": (self.units,)}

    def multiply_adds(self, shape: Shape) -> int:
        return math.prod(shape) * self.units


@dataclass(frozen=True)
class Tokens(Layer):
    """(h, w, c) -> (h*w, c): a token a pixel, row by row.

    Behind a Conv2D whose stride is its kernel's size they are the patches of Dosovitskiy et al. 2021.
    """

    def output_shape(self, shape: Shape) -> Shape:
        height, width, channels = image_shape(self.name, shape)
        return height * width, channels


@dataclass(frozen=True)
class PositionEmbedding(Layer):
    """x + embedding, a learned number for each place and feature (Dosovitskiy et al. 2021): (t, d) -> (t, d).

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
    softmax(Q K^T / sqrt(d / heads)) V, the softmax over the keys. The heads' columns side by side go through the output
    kernel and bias. Kernels are (d, d) and start glorot-uniform.
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
class Join(Layer):
    """What two or more branches make of one input, made one.

    A branch is layers one after another, an empty one the input itself.
    """

    branches: tuple[tuple[Layer, ...], ...]

    def __post_init__(self) -> None:
        if len(self.branches) < 2:
            raise ValueError(f"layer {self.name}: joins {len(self.branches)} branches; needs two or more")

    def branch_shapes(self, shape: Shape) -> list[Shape]:
        """What leaves each branch."""
        shapes = []
        for branch in self.branches:
            leaving = shape
            for layer in branch:
                leaving = layer.output_shape(leaving)
            shapes.append(leaving)
        return shapes

    def _misfit(self, shape: Shape, done: str) -> ValueError:
        made = " and ".join(map(str, self.branch_shapes(shape)))
        return ValueError(f"layer {self.name}: its branches make {made} of {shape}; they cannot be {done}")


@dataclass(frozen=True)
class Add(Join):
    """The sum of branches of one shape.

    With an empty branch the residual connection of He et al. 2016, whose projection shortcut is a branch as well.
    """

    def output_shape(self, shape: Shape) -> Shape:
        first, *others = self.branch_shapes(shape)
        if any(other != first for other in others):
            raise self._misfit(shape, "added")
        return first


@dataclass(frozen=True)
class Concatenate(Join):
    """The branches side by side along the last axis, in their order (Szegedy et al. 2015, Huang et al. 2017)."""

    def output_shape(self, shape: Shape) -> Shape:
        first, *others = shapes = self.branch_shapes(shape)
        if any(other[:-1] != first[:-1] for other in others):
            raise self._misfit(shape, "concatenated")
        return (*first[:-1], sum(leaving[-1] for leaving in shapes))


@dataclass(frozen=True)
class Multiply(Join):
    """The product of branches of one shape.

    Among images (h, w, c), vectors (c,) are a factor for each channel: squeeze and excite (Hu et al. 2018).
    """

    def output_shape(self, shape: Shape) -> Shape:
        shapes = self.branch_shapes(shape)
        product = max(shapes, key=len)
        fitting = {product, product[-1:]} if len(product) == 3 else {product}
        if not fitting.issuperset(shapes):
            raise self._misfit(shape, "multiplied")
        return product


def residual(name: str, layers: tuple[Layer, ...], shortcut: tuple[Layer, ...] = ()) -> Add:
    """The layers' output plus their input, or what the shortcut makes of it."""
    return Add(name, (layers, shortcut))


def squeeze_excite(name: str, layers: tuple[Layer, ...]) -> Multiply:
    """The input times what the layers make of it, a factor for each channel."""
    return Multiply(name, ((), layers))


def changed(layers: tuple[Layer, ...], change: Callable[[Layer], Layer]) -> tuple[Layer, ...]:
    """Every layer as `change` gives it, those of branches too."""
    return tuple(
        replace(layer, branches=tuple(changed(branch, change) for branch in layer.branches))
        if isinstance(layer, Join)
        else change(layer)
        for layer in layers
    )


def walk(layers: tuple[Layer, ...], shape: Shape) -> Iterator[tuple[Layer, Shape]]:
    """Each layer with the shape that enters it, in the order of computation: a join comes after its branches."""
    for layer in layers:
        if isinstance(layer, Join):
            for branch in layer.branches:
                yield from walk(branch, shape)
        yield layer, shape
        shape = layer.output_shape(shape)
