"""Calls that change the shape of a value, or the order of its axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .network import Network
from .values import LAYOUTS, Call, Refused, Tensor, Value


def reshape(network: Network, call: Call) -> Any:
    """Return the value in its new shape: as it is, flattened, or as tokens. Raises Refused for any other."""
    if isinstance(first := call.args[0], Tensor):
        return reshape_parameter(first, call.shape)
    value, shape = call.value, call.shape
    if shape == value.shape:
        return value
    if shape[:1] != value.shape[:1]:
        raise _odd(value, shape)
    if value.is_vector:
        return _reshape_vector(value, shape)
    inside = value.shape[1:]
    if shape[1:] == (math.prod(inside),):
        if value.layout in ("nhwc", "nct"):
            raise Refused("flattens after its axes were permuted: flatten the images (n, c, h, w) themselves")
        return network.emit(call, "Flatten", [value], "nc")
    if value.layout == "nchw" and shape[1:] == (inside[0], inside[1] * inside[2]):
        return network.emit(call, "Tokens", [value], "nct")
    if value.layout == "nhwc" and shape[1:] == (inside[0] * inside[1], inside[2]):
        return network.emit(call, "Tokens", [value], "ntc")
    raise _odd(value, shape)


def _reshape_vector(value: Value, shape: tuple[int, ...]) -> Value:
    """Return the vector with other axes of size 1."""
    channels = value.channels
    layouts = {(channels,): "nc", (channels, 1, 1): "ncyx", (1, 1, channels): "nyxc"}
    if shape[1:] not in layouts:
        raise _odd(value, shape)
    return Value(value.node, layouts[shape[1:]], shape)


def _odd(value: Value, shape: tuple[int, ...]) -> Refused:
    before, after = (" x ".join(map(str, each)) for each in (value.shape, shape))
    return Refused(f"changes {before} to {after}: images can become tokens or be flattened, and nothing else")


def reshape_parameter(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return the parameter in another shape, or once per image. Raises Refused if its order is lost."""
    kept = tuple(size for size in tensor.shape if size != 1)
    if tuple(size for size in shape if size != 1) in (kept, (shape[0], *kept)):
        return Tensor(tensor.name, shape)
    raise Refused(f"changes the shape of parameter {tensor.name} from {tensor.shape} to {shape}")


def permute(network: Network, call: Call) -> Any:
    """Return the value with its axes in another order."""
    _, *given = call.args
    order = given[0] if given and isinstance(given[0], tuple | list) else given
    return _in_order(call, order or call.kwargs.get("dims", ()))


def transpose(network: Network, call: Call) -> Any:
    """Return the value with two of its axes exchanged."""
    _, first, second = call.arguments("input", "dim0", "dim1")
    order = list(range(len(call.shape)))
    order[first], order[second] = order[second], order[first]
    return _in_order(call, order)


def _in_order(call: Call, order: Sequence[int]) -> Value:
    value = call.value
    layout = "".join(value.layout[axis] for axis in order)
    if layout not in LAYOUTS:
        raise Refused(
            f"changes the axes ({', '.join(value.layout)}) to ({', '.join(layout)}): no layer record has those"
        )
    return Value(value.node, layout, call.shape)


def expand(network: Network, call: Call) -> Any:
    """Return a parameter once per image."""
    if isinstance(first := call.args[0], Tensor):
        return reshape_parameter(first, call.shape)
    if call.shape == call.value.shape:
        return call.value
    raise Refused("repeats a value: no layer record does")


def take(network: Network, call: Call) -> Any:
    """Return an item of a tuple, or the first token."""
    value, index = call.args
    if isinstance(value, tuple | list):
        return value[index]
    if isinstance(value, Value) and value.layout == "ntc" and _is_first(index):
        return network.emit(call, "FirstToken", [value], "nc")
    if isinstance(value, Value) and call.shape == value.shape and _keeps_order(index):
        return value
    raise Refused("takes a part of a tensor; only the first of its tokens, x[:, 0], is a layer record")


def _keeps_order(index: Any) -> bool:
    """True if the index is made of slices: a list or a tensor of numbers may exchange what it takes."""
    items = index if isinstance(index, tuple) else (index,)
    return all(isinstance(each, slice) or each is Ellipsis for each in items)


def _is_first(index: Any) -> bool:
    whole = slice(None)
    return isinstance(index, tuple) and index[:2] == (whole, 0) and all(each == whole for each in index[2:])
