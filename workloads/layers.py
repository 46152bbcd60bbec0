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


def same_margins(shape: Shape, kernel: tuple[int, int], stride: int) -> Margins:
    """Rows and columns of zeros that "same" padding adds around an image: as few as give ceil(size / stride)
    outputs, half of them on either side, the odd one below and on the right.
    """
    before_after = []
    for size, window in zip(shape[:2], kernel, strict=True):
        total = max((math.ceil(size / stride) - 1) * stride + window - size, 0)
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
    """2-D convolution (cross-correlation): (h, w, c) -> (rows, columns, filters), one stride for both axes.

    "valid": floor((h - kh) / stride) + 1 rows. "same": ceil(h / stride) rows, zeros as `same_margins` says.
    """

    filters: int
    kernel: tuple[int, int]
    stride: int = 1
    padding: Padding = "valid"
    bias: bool = True
    initializer: Initializer = "glorot-uniform"

    def output_shape(self, shape: Shape) -> Shape:
        return (*_windows(self, shape), self.filters)

    def parameter_shapes(self, shape: Shape) -> dict[str, Shape]:
        bias = {"bias": (self.filters,)} if self.bias else {}
        return {"kernel": (*self.kernel, shape[2], self.filters), **bias}

    def multiply_adds(self, shape: Shape) -> int:
        return math.prod(self.output_shape(shape)) * math.prod(self.kernel) * shape[2]

    def margins(self, shape: Shape) -> Margins:
        return same_margins(shape, self.kernel, self.stride) if self.padding == "same" else ((0, 0), (0, 0))


@dataclass(frozen=True)
class DepthwiseConv2D(Layer):
    """A convolution of each channel by a filter of its own: (h, w, c) -> (rows, columns, c). Else as Conv2D."""

    kernel: tuple[int, int]
    stride: int = 1
    padding: Padding = "valid"
    bias: bool = True
    initializer: Initializer = "glorot-uniform"

    def output_shape(self, shape: Shape) -> Shape:
        return (*_windows(self, shape), shape[2])

    def parameter_shapes(self, shape: Shape) -> dict[str, Shape]:
        bias = {"bias": (shape[2],)} if self.bias else {}
        return {"kernel": (*self.kernel, 1, shape[2]), **bias}

    def multiply_adds(self, shape: Shape) -> int:
        return math.prod(self.output_shape(shape)) * math.prod(self.kernel)

    def margins(self, shape: Shape) -> Margins:
        return same_margins(shape, self.kernel, self.stride) if self.padding == "same" else ((0, 0), (0, 0))


def _windows(layer: Conv2D | DepthwiseConv2D, shape: Shape) -> tuple[int, int]:
    """(rows, columns) of a convolution's output."""
    height, width, _ = image_shape(layer.name, shape)
    ((above, below), (left, right)), (rows, columns) = layer.margins(shape), layer.kernel
    if above + height + below < rows or left + width + right < columns:
        raise ValueError(f"layer {layer.name}: kernel {layer.kernel} is larger than its input {shape}")
    return (above + height + below - rows) // layer.stride + 1, (left + width + right - columns) // layer.stride + 1


@dataclass(frozen=True)
class Pool2D(Layer):
    """size x size windows, stride = size; a remainder at the edge is dropped."""

    size: int

    def output_shape(self, shape: Shape) -> Shape:
        height, width, channels = image_shape(self.name, shape)
        if height < self.size or width < self.size:
            raise ValueError(f"layer {self.name}: window {self.size} is larger than its input {shape}")
        return (height // self.size, width // self.size, channels)


@dataclass(frozen=True)
class MaxPool2D(Pool2D):
    """The maximum of each window."""


@dataclass(frozen=True)
class AveragePool2D(Pool2D):
    """The mean of each window."""


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

    def parameter_shapes(self, shape: Shape) -> dict[str, Shape]:
        return {"gamma": (shape[-1],), "beta": (shape[-1],)}

    def statistic_shapes(self, shape: Shape) -> dict[str, Shape]:
        return {"running_mean": (shape[-1],), "running_variance": (shape[-1],)}


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
class Flatten(Layer):
    """(h, w, c) -> (h*w*c,) in that order: the channel varies fastest."""

    def output_shape(self, shape: Shape) -> Shape:
        return (math.prod(shape),)


@dataclass(frozen=True)
class Dense(Layer):
    """Fully connected layer with bias: (in,) -> (units,)."""

    units: int
    initializer: Initializer = "glorot-uniform"

    def output_shape(self, shape: Shape) -> Shape:
        if len(shape) != 1:
            raise ValueError(f"layer {self.name}: needs a flat input, got {shape}; put a Flatten before it")
        return (self.units,)

    def parameter_shapes(self, shape: Shape) -> dict[str, Shape]:
        return {"kernel": (shape[0], self.units), "bias": (self.units,)}

    def multiply_adds(self, shape: Shape) -> int:
        return shape[0] * self.units


@dataclass(frozen=True)
class Branch(Layer):
    """f(x), the given layers one after another, joined with the x that enters it."""

    layers: tuple[Layer, ...]

    def _inner_shape(self, shape: Shape) -> Shape:
        for layer in self.layers:
            shape = layer.output_shape(shape)
        return shape


@dataclass(frozen=True)
class Residual(Branch):
    """x + f(x) (He et al. 2016)."""

    def output_shape(self, shape: Shape) -> Shape:
        if (inner := self._inner_shape(shape)) != shape:
            raise ValueError(f"layer {self.name}: its branch makes {inner} of {shape}; they cannot be added")
        return shape


@dataclass(frozen=True)
class SqueezeExcite(Branch):
    """x times f(x), one factor per channel (Hu et al. 2018): (h, w, c) -> (h, w, c), f(x) is (c,)."""

    def output_shape(self, shape: Shape) -> Shape:
        _, _, channels = image_shape(self.name, shape)
        if (inner := self._inner_shape(shape)) != (channels,):
            raise ValueError(f"layer {self.name}: its branch makes {inner} of {shape}; needs {(channels,)}")
        return shape


def changed(layers: tuple[Layer, ...], change: Callable[[Layer], Layer]) -> tuple[Layer, ...]:
    """Every layer as `change` gives it, those of branches too."""
    return tuple(
        replace(layer, layers=changed(layer.layers, change)) if isinstance(layer, Branch) else change(layer)
        for layer in layers
    )


def walk(layers: tuple[Layer, ...], shape: Shape) -> Iterator[tuple[Layer, Shape]]:
    """Each layer with the shape that enters it, in the order of computation: a branch comes after its own layers."""
    for layer in layers:
        if isinstance(layer, Branch):
            yield from walk(layer.layers, shape)
        yield layer, shape
        shape = layer.output_shape(shape)
