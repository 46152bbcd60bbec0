"""Give each node of a graph its layer record and its shape: what is done depends on the shape of its input."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from .. import layers
from ..layers import Join, Layer, Pool2D, Shape
from ..records.network import layer_from_json
from .vocabulary import INPUT, PADDING, RECORDS, SCALE, SHIFT, ImportRefused, Node

Windowed = (layers.Conv2D, layers.DepthwiseConv2D, Pool2D)
POSITIVE = (layers.Relu, layers.Relu6, layers.HardSigmoid, layers.Sigmoid, layers.Softmax)  # their outputs are >= 0
SIGN_KEEPING = (Pool2D, layers.GlobalAveragePool2D, layers.Dropout, layers.Flatten, layers.Tokens, Join)


@dataclass(frozen=True)
class Step:
    """A node with its layer; a join has empty branches, the input no layer."""

    node: Node
    layer: Layer | None
    inputs: tuple[str, ...]  # names of the steps that come before it
    shape: Shape  # of its output


@dataclass(frozen=True)
class _Padded:
    """A zero padding that waits for the convolutions and pools that use it."""

    node: Node
    before: str
    margins: tuple[int, int, int, int]


def list_steps(graph: Mapping[str, Node], input_shape: Shape) -> dict[str, Step]:
    """Return {name: step}, each after its inputs, the input first. Raises ImportRefused."""
    steps: dict[str, Step] = {}
    instead: dict[str, str] = {}  # nodes that change nothing here, and what they are seen as
    padded: dict[str, _Padded] = {}
    source = next(node for node in graph.values() if node.operator == INPUT)
    steps[source.name] = Step(source, None, (), tuple(input_shape))
    for name, node in graph.items():
        if node.operator == INPUT:
            continue
        inputs = tuple(instead.get(each, each) for each in node.inputs)
        waiting = [padded[each] for each in inputs if each in padded]
        if node.operator == PADDING:
            padded[name] = _pad(node, inputs[0], waiting)
            continue
        try:
            step = _merge(node, waiting[0], steps) if waiting else _make(node, inputs, steps)
        except (TypeError, LookupError, ArithmeticError) as error:  # a setting of another type, or none
            raise ImportRefused(f"{node.place}: its settings cannot be read: {error!r}") from error
        if step is None:
            instead[name] = inputs[0]
        else:
            steps[name] = step
    if padded and list(graph)[-1] in padded:
        raise ImportRefused(f"{padded[list(graph)[-1]].node.place}: a zero padding ends the network")
    return steps


def _make(node: Node, inputs: tuple[str, ...], steps: Mapping[str, Step]) -> Step | None:
    """Return the node's step; None if it changes nothing."""
    shapes = [steps[name].shape for name in inputs]
    kind = RECORDS.get(node.operator)
    if kind is not None and issubclass(kind, Join):
        return _join(node, kind, inputs, shapes)
    if len(set(inputs)) != 1:
        raise ImportRefused(f"{node.place}: takes one input, has {len(inputs)}")
    layer = _choose(node, shapes[0])
    return None if layer is None else _fitted(node, layer, inputs[:1], shapes[0])


def _fitted(node: Node, layer: Layer, inputs: tuple[str, ...], shape: Shape) -> Step:
    try:
        return Step(node, layer, inputs, layer.output_shape(shape))
    except ValueError as error:
        raise ImportRefused(f"{node.place}: {str(error).partition(': ')[2] or error}") from error


def _join(node: Node, kind: type[Join], inputs: tuple[str, ...], shapes: list[Shape]) -> Step:
    """Return the step of a join, with the shape that its record gives to such branches."""
    widest = max(shapes, key=len)
    if kind is layers.Concatenate:
        fits = len({shape[:-1] for shape in shapes}) == 1
        shape = (*widest[:-1], sum(each[-1] for each in shapes))
    elif kind is layers.Multiply and len(widest) == 3:
        fits, shape = {widest, widest[-1:]}.issuperset(shapes), widest
    else:
        fits, shape = len(set(shapes)) == 1, widest
    if not fits:
        sizes = " and ".join(map(str, shapes))
        raise ImportRefused(f"{node.place}: there is no {kind.__name__} of {sizes}; shapes must be equal")
    return Step(node, kind(node.name, branches=((),) * len(inputs)), inputs, shape)


def _choose(node: Node, shape: Shape) -> Layer | None:
    """Return the record for a node whose input has this shape; None if it changes nothing."""
    settings = dict(node.settings)
    match node.operator:
        case "reshape":
            return _reshape(node, shape)
        case "shift" | "scale":
            return _constant(node, shape)
        case "flatten" | "globalaveragepool2d" if len(shape) == 1:
            return None
        case "conv2d" if len(shape) == 1:
            return _dense_of_convolution(node, settings)
        case "conv2d" if _is_depthwise(settings, shape):
            for name in ("filters", "groups", "dilation"):
                settings.pop(name, None)
            return _record(node, "depthwiseconv2d", settings)
        case "dense":
            return _dense(node, settings, shape)
        case "multiheadattention":
            _check_attention(node, settings, shape)
        case "normalise" if _changes_nothing(settings):
            return None
    return _record(node, node.operator, settings)


def _record(node: Node, operator: str, settings: Mapping[str, Any]) -> Layer:
    """Return the layer record with these fields."""
    kind = RECORDS.get(operator)
    if kind is None:
        raise ImportRefused(f"{node.place}: there is no layer for {operator}")
    try:
        return layer_from_json({"layer": kind.__name__, "name": node.name, **settings})
    except (TypeError, KeyError, ValueError) as error:
        raise ImportRefused(f"{node.place}: cannot be a {kind.__name__}: {error}") from error


def _check_attention(node: Node, settings: dict[str, Any], shape: Shape) -> None:
    """Remove what a MultiHeadAttention has no field for. Raise ImportRefused for another dropout or width."""
    if settings.pop("dropout", 0) != 0:
        raise ImportRefused(f"{node.place}: its attention has a dropout, for which there is no layer; set it to 0")
    heads, width = settings["heads"], settings.pop("width", None)
    if width is not None and heads * width != shape[-1]:
        raise ImportRefused(f"{node.place}: {heads} heads of {width} features are not the {shape[-1]} of its input")


def _is_depthwise(settings: Mapping[str, Any], shape: Shape) -> bool:
    groups = settings.get("groups", 1)
    return bool(1 < groups == shape[-1] == settings.get("filters") and settings.get("dilation", 1) == 1)


def _changes_nothing(settings: Mapping[str, Any]) -> bool:
    return set(settings.get("mean", ())) == {0.0} and set(settings.get("std", ())) == {1.0}


def _dense_of_convolution(node: Node, settings: dict[str, Any]) -> Layer:
    """Return the dense layer that a 1 x 1 convolution of one pixel is."""
    if tuple(settings["kernel"]) != (1, 1) or settings.get("groups", 1) != 1:
        raise ImportRefused(f"{node.place}: on one pixel only a convolution with kernel (1, 1) and one group is known")
    dense = {"units": settings["filters"], "bias": settings.get("bias", True)}
    if "initializer" in settings:
        dense["initializer"] = settings["initializer"]
    return _dense(node, dense, (0,))


def _dense(node: Node, settings: dict[str, Any], shape: Shape) -> Layer:
    """Return a dense layer, on an image the 1 x 1 convolution that it is."""
    if len(shape) == 3:
        convolution = settings | {"filters": settings["units"], "kernel": (1, 1)}
        convolution.pop("units")
        return _record(node, "conv2d", convolution)
    return _record(node, "dense", settings)


def _reshape(node: Node, shape: Shape) -> Layer | None:
    target = tuple(node.settings["shape"])
    known = math.prod(size for size in target if size != -1)
    target = tuple(math.prod(shape) // max(known, 1) if size == -1 else size for size in target)
    if target == shape or (len(shape) == 1 and target == (1, 1, *shape)):
        return None
    if target == (math.prod(shape),):
        return layers.Flatten(node.name)
    if len(shape) == 3 and target == (shape[0] * shape[1], shape[2]):
        return layers.Tokens(node.name)
    raise ImportRefused(f"{node.place}: there is no layer that turns {shape} into {target}")


def _constant(node: Node, shape: Shape) -> Layer:
    """Return x + value or x * value as a Normalise."""
    value, channels = float(node.settings["value"]), shape[-1]
    if node.operator == SCALE and value == 0:
        raise ImportRefused(f"{node.place}: multiplies by 0")
    mean, std = (-value, 1.0) if node.operator == SHIFT else (0.0, 1 / value)
    return _record(node, "normalise", {"mean": (mean,) * channels, "std": (std,) * channels})


def _pad(node: Node, before: str, waiting: list[_Padded]) -> _Padded:
    margins = tuple(node.settings["padding"])
    if waiting:
        margins = tuple(a + b for a, b in zip(margins, waiting[0].margins, strict=True))
        before = waiting[0].before
    top, bottom, left, right = margins
    return _Padded(node, before, (top, bottom, left, right))


def _merge(node: Node, padded: _Padded, steps: Mapping[str, Step]) -> Step:
    """Return a convolution or pool with the rows and columns of the zero padding before it."""
    shape = steps[padded.before].shape
    top, bottom, left, right = padded.margins
    if len(node.inputs) != 1 or len(shape) != 3:
        raise ImportRefused(f"{padded.node.place}: a zero padding must be followed by a convolution or a pool")
    larger = (shape[0] + top + bottom, shape[1] + left + right, shape[2])
    layer = _choose(node, larger)
    if not isinstance(layer, Windowed) or isinstance(layer, layers.AveragePool2D):
        raise ImportRefused(
            f"{padded.node.place}: a zero padding must be followed by a convolution or a max pool, not by {node.place}"
        )
    if isinstance(layer, layers.MaxPool2D) and not _is_positive(padded.before, steps):
        raise ImportRefused(
            f"{padded.node.place}: zeros before a max pool are larger than negative values; put a ReLU before it"
        )
    (above, below), (before, after) = layer.margins(larger)
    merged = replace(layer, padding=(top + above, bottom + below, left + before, right + after))
    return _fitted(node, merged, (padded.before,), shape)


def _is_positive(name: str, steps: Mapping[str, Step]) -> bool:
    """Return True if no value of this step's output is below 0."""
    layer = steps[name].layer
    if isinstance(layer, POSITIVE):
        return True
    return isinstance(layer, SIGN_KEEPING) and all(_is_positive(each, steps) for each in steps[name].inputs)
