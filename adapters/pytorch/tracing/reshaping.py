"""Calls that change the shape of a value, or the order of its axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workloads.source.layouts import permute_layout, reshape_layout

from .network import Network
from .values import Call, Refused, Tensor, Value


def reshape(network: Network, call: Call) -> Any:
    """Return the value in its new shape: as it is, flattened, or as tokens. Raises Refused for any other."""
    if isinstance(first := call.args[0], Tensor):
        return reshape_parameter(first, call.shape)
    value, shape = call.value, call.shape
    try:
        operator, layout = reshape_layout(value, shape)
    except ValueError as error:
        raise Refused(str(error)) from error
    return network.emit(call, operator, [value], layout) if operator else Value(value.node, layout, shape)


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
    try:
        layout = permute_layout(value, order)
    except ValueError as error:
        raise Refused(str(error)) from error
    return Value(value.node, layout, call.shape)


def expand(network: Network, call: Call) -> Any:
    """Return a parameter once per image."""
    if isinstance(first := call.args[0], Tensor):
        return reshape_parameter(first, call.shape)
    if call.shape == call.value.shape:
        return call.value
    raise Refused("repeats a value: no layer record supports that")


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
