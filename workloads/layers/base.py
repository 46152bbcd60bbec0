"""The base class of layer records, and the shapes they use."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Shape = tuple[int, ...]
Margins = tuple[tuple[int, int], tuple[int, int]]  # (above, below), (left, right)
Padding = Literal["valid", "same"]
Initializer = Literal["glorot-uniform", "he-uniform", "he-normal"]


def image_shape(layer: str, shape: Shape) -> tuple[int, int, int]:
    """Return the shape as (h, w, c); ValueError naming the layer if it is none."""
    if len(shape) != 3:
        raise ValueError(f"layer {layer}: needs an image (h, w, c), got {shape}")
    return shape[0], shape[1], shape[2]


def token_shape(layer: str, shape: Shape) -> tuple[int, int]:
    """Return the shape as (t, d); ValueError naming the layer if it is none."""
    if len(shape) != 2:
        raise ValueError(f"layer {layer}: needs tokens (t, d), got {shape}")
    return shape[0], shape[1]


def same_margins(shape: Shape, window: tuple[int, int], stride: int) -> Margins:
    """Return rows and columns that "same" padding adds around an image: as few as give ceil(size / stride) outputs.
    Half of them are on either side, the odd one below and on the right.
    """
    before_after = []
    for size, seen in zip(shape[:2], window, strict=True):
        total = max((math.ceil(size / stride) - 1) * stride + seen - size, 0)
        before_after.append((total // 2, total - total // 2))
    return before_after[0], before_after[1]


@dataclass(frozen=True)
class Layer:
    """The interface of a layer; its default answers are those of an elementwise one, without weights."""

    name: str

    def output_shape(self, shape: Shape) -> Shape:
        """Return the output shape; ValueError naming the layer if `shape` does not fit."""
        return shape

    def parameter_shapes(self, shape: Shape) -> dict[str, Shape]:
        """Return {role: shape} of its trained weights."""
        return {}

    def statistic_shapes(self, shape: Shape) -> dict[str, Shape]:
        """Return {role: shape} of its running statistics."""
        return {}

    def multiply_adds(self, shape: Shape) -> int:
        """Return the multiply-adds of the forward pass of one image; elementwise work is not counted."""
        return 0
