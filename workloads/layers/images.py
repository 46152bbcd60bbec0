"""Records of layers that take images: convolutions and pools."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .base import Initializer, Layer, Margins, Padding, Shape, image_shape, same_margins


@dataclass(frozen=True)
class Conv2D(Layer):
    """2-D convolution (cross-correlation): (h, w, c) -> (rows, columns, filters), both axes alike.

    A kernel of k rows sees every `dilation`-th of (k - 1) dilation + 1 = e rows.
    "valid": floor((h - e) / stride) + 1 rows. "same": ceil(h / stride) rows, zeros as `same_margins` says.
    (top, bottom, left, right): so many zeros on each side, floor((top + h + bottom - e) / stride) + 1 rows.
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
        """Rows and columns that a kernel covers."""
        rows, columns = ((size - 1) * self.dilation + 1 for size in self.kernel)
        return rows, columns

    def output_shape(self, shape: Shape) -> Shape:
        rows, columns = _windows(self.name, shape, self.window, self.stride, self.margins(shape))
        if shape[2] % self.groups or self.filters % self.groups:
            raise ValueError(f"layer {self.name}: {self.groups} groups divide {shape} into {self.filters} filters")
        return rows, columns, self.filters

    def parameter_shapes(self, shape: Shape) -> dict[str, Shape]:
        bias = {"bias": (self.filters,)} if self.bias else {}
        return {"kernel": (*self.kernel, shape[2] // self.groups, self.filters), **bias}

    def multiply_adds(self, shape: Shape) -> int:
        return math.prod(self.output_shape(shape)) * math.prod(self.kernel) * shape[2] // self.groups

    def margins(self, shape: Shape) -> Margins:
        return _margins(self.name, self.padding, shape, self.window, self.stride)


@dataclass(frozen=True)
class DepthwiseConv2D(Layer):
    """A convolution of each channel by its own filter: (h, w, c) -> (rows, columns, c). Otherwise like Conv2D."""

    kernel: tuple[int, int]
    stride: int = 1
    padding: Padding = "valid"
    bias: bool = True
    initializer: Initializer = "glorot-uniform"

    def output_shape(self, shape: Shape) -> Shape:
        return (*_windows(self.name, shape, self.kernel, self.stride, self.margins(shape)), shape[2])

    def parameter_shapes(self, shape: Shape) -> dict[str, Shape]:
        bias = {"bias": (shape[2],)} if self.bias else {}
        return {"kernel": (*self.kernel, 1, shape[2]), **bias}

    def multiply_adds(self, shape: Shape) -> int:
        return math.prod(self.output_shape(shape)) * math.prod(self.kernel)

    def margins(self, shape: Shape) -> Margins:
        return _margins(self.name, self.padding, shape, self.kernel, self.stride)


def _margins(layer: str, padding: Padding, shape: Shape, window: tuple[int, int], stride: int) -> Margins:
    """Return the rows and columns around an image; ValueError names the layer if one is not an image or padding."""
    image_shape(layer, shape)
    if padding == "same":
        return same_margins(shape, window, stride)
    if padding == "valid":
        return (0, 0), (0, 0)
    is_four = isinstance(padding, tuple) and len(padding) == 4
    if not is_four or any(type(pixels) is not int or pixels < 0 for pixels in padding):
        raise ValueError(
            f"layer {layer}: padding is {str(padding)[:40]}; "
            'must be "valid", "same" or (top, bottom, left, right) in whole pixels, 0 or more'
        )
    top, bottom, left, right = padding
    return (top, bottom), (left, right)


def _windows(layer: str, shape: Shape, window: tuple[int, int], stride: int, margins: Margins) -> tuple[int, int]:
    """Return (rows, columns) of windows."""
    height, width, _ = image_shape(layer, shape)
    ((top, bottom), (left, right)), (rows, columns) = margins, window
    if top + height + bottom < rows or left + width + right < columns:
        raise ValueError(f"layer {layer}: window {window} is larger than its input {shape}")
    return (top + height + bottom - rows) // stride + 1, (left + width + right - columns) // stride + 1


@dataclass(frozen=True)
class Pool2D(Layer):
    """One number per channel of each size x size window: (h, w, c) -> (rows, columns, c).

    Rows, columns and margins as in Conv2D. Margins of any padding are not pixels: they are never the maximum, and the
    mean is of the window's pixels alone. Each margin is smaller than the window.
    """

    size: int
    stride: int | None = None  # None: `size`, adjacent windows
    padding: Padding = "valid"

    @property
    def window(self) -> tuple[int, int]:
        return self.size, self.size

    @property
    def step(self) -> int:
        """Pixels from one window to the next."""
        return self.stride or self.size

    def output_shape(self, shape: Shape) -> Shape:
        margins = self.margins(shape)
        if max(map(max, margins)) >= self.size:
            raise ValueError(f"layer {self.name}: padding {self.padding} leaves windows without a pixel")
        return (*_windows(self.name, shape, self.window, self.step, margins), shape[2])

    def margins(self, shape: Shape) -> Margins:
        return _margins(self.name, self.padding, shape, self.window, self.step)


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
class Resize(Layer):
    """Enlarges by bilinear interpolation with half-pixel centres, both axes alike: (h, w, c) -> (height, width, c).

    Row i is at s = (i + 1/2) h / height - 1/2 of the input rows, within 0..h - 1, and is (1 - f) row[floor(s)] + f
    row[floor(s) + 1], f = s - floor(s). There is no antialiasing, which is for shrinking. As for a pool, its sums are
    no multiply-adds.
    """

    height: int
    width: int

    def output_shape(self, shape: Shape) -> Shape:
        rows, columns, channels = image_shape(self.name, shape)
        if self.height < rows or self.width < columns:
            raise ValueError(f"layer {self.name}: only enlarges, got {shape} for {self.height} x {self.width}")
        return self.height, self.width, channels
