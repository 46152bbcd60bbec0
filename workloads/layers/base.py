"""The base class of layer records, the shapes they use, and joins of branches, by which a network is a tree."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

Shape = tuple[int, ...]
Margins = tuple[tuple[int, int], tuple[int, int]]  # (top, bottom), (left, right)
Padding = Literal["valid", "same"] | tuple[int, int, int, int]  # a word, or (top, bottom, left, right) in pixels
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


@dataclass(frozen=True)
class Join(Layer):
    """Joins the outputs of two or more branches of one input.

    A branch is layers one after another, an empty one the input itself.
    """

    branches: tuple[tuple[Layer, ...], ...]

    def __post_init__(self) -> None:
        if len(self.branches) < 2:
            raise ValueError(f"layer {self.name}: joins {len(self.branches)} branches; needs two or more")

    def branch_shapes(self, shape: Shape) -> list[Shape]:
        """Return the output shape of each branch."""
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

    With an empty branch it is the residual connection of He et al. 2016, whose projection shortcut is a branch as well.
    """

    def output_shape(self, shape: Shape) -> Shape:
        first, *others = self.branch_shapes(shape)
        if any(other != first for other in others):
            raise self._misfit(shape, "added")
        return first


@dataclass(frozen=True)
class Concatenate(Join):
    """The branches concatenated along the last axis, in their order (Szegedy et al. 2015, Huang et al. 2017)."""

    def output_shape(self, shape: Shape) -> Shape:
        first, *others = shapes = self.branch_shapes(shape)
        if any(other[:-1] != first[:-1] for other in others):
            raise self._misfit(shape, "concatenated")
        return (*first[:-1], sum(leaving[-1] for leaving in shapes))


@dataclass(frozen=True)
class Multiply(Join):
    """The product of branches of one shape.

    Combined with images (h, w, c), vectors (c,) are one factor per channel: squeeze and excite (Hu et al. 2018).
    """

    def output_shape(self, shape: Shape) -> Shape:
        shapes = self.branch_shapes(shape)
        product = max(shapes, key=len)
        fitting = {product, product[-1:]} if len(product) == 3 else {product}
        if not fitting.issuperset(shapes):
            raise self._misfit(shape, "multiplied")
        return product


def residual(name: str, layers: tuple[Layer, ...], shortcut: tuple[Layer, ...] = ()) -> Add:
    """Return the layers' output plus their input, or plus the shortcut's output."""
    return Add(name, (layers, shortcut))


def squeeze_excite(name: str, layers: tuple[Layer, ...]) -> Multiply:
    """Return the input times the layers' output, one factor per channel."""
    return Multiply(name, ((), layers))


def changed(layers: tuple[Layer, ...], change: Callable[[Layer], Layer]) -> tuple[Layer, ...]:
    """Return every layer as changed by `change`, those of branches too."""
    return tuple(
        replace(layer, branches=tuple(changed(branch, change) for branch in layer.branches))
        if isinstance(layer, Join)
        else change(layer)
        for layer in layers
    )


def walk(layers: tuple[Layer, ...], shape: Shape) -> Iterator[tuple[Layer, Shape]]:
    """Yield each layer with the shape that enters it, in the order of computation: a join comes after its branches."""
    for layer in layers:
        if isinstance(layer, Join):
            for branch in layer.branches:
                yield from walk(branch, shape)
        yield layer, shape
        shape = layer.output_shape(shape)
