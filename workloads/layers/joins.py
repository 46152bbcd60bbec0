"""Records of layers that join branches of their input, and functions that visit a whole network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from .base import Layer, Shape


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
