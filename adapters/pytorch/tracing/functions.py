"""Functions and methods of PyTorch as layer records of ours."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch

from . import modules, pools
from .modules import elementwise, keep
from .network import Network
from .reshaping import expand, permute, reshape, take, transpose
from .settings import NO_RECORD, Handler, image_of
from .values import Call, Refused, Tensor, Value


def call_function(network: Network, call: Call) -> Any:
    """Return the output of a function or method. Raises Refused for one without a layer record."""
    handler = FUNCTIONS.get(call.name) or FUNCTIONS.get(call.name.rstrip("_"))
    if handler is None:
        raise Refused(NO_RECORD)
    return handler(network, call)


def add(network: Network, call: Call) -> Value:
    """Return a sum of two outputs, or of tokens and learned positions."""
    first, second = _two(call, "alpha")
    if isinstance(second, Tensor):
        first, second = second, first
    if isinstance(first, Tensor) and isinstance(second, Value):
        if second.layout == "ntc" and _padded(first, 3) == (1, *second.shape[1:]):
            return network.emit(call, "PositionEmbedding", [second], "ntc", {}, {"embedding": first.name})
        raise Refused(
            f"adds parameter {first.name} to {second.describe()}; only learned positions of tokens are a layer record"
        )
    if (number := _number(first, second)) is not None:
        value = first if isinstance(first, Value) else second
        if number == 0:  # sum([x, y]) starts with 0 + x
            return network.emit(call, "identity", [value], value.layout)
        return network.emit(call, "shift", [value], value.layout, {"value": number})
    return _join(network, call, "add", first, second)


def multiply(network: Network, call: Call) -> Value:
    """Return a product of two outputs, or of one and a learned scale per channel."""
    first, second = _two(call)
    if isinstance(second, Tensor):
        first, second = second, first
    if isinstance(first, Tensor) and isinstance(second, Value):
        if not first.per_channel(second):
            raise Refused(f"multiplies {second.describe()} by parameter {first.name} of {first.shape}; only one factor "
                          "per channel is a layer record")  # fmt: skip
        settings = _initial(network, first)
        return network.emit(call, "ChannelScale", [second], second.layout, settings, {"scale": first.name})
    if (number := _number(first, second)) is not None:
        value = first if isinstance(first, Value) else second
        return network.emit(call, "scale", [value], value.layout, {"value": number})
    return _join(network, call, "multiply", first, second)


def _number(first: Any, second: Any) -> float | None:
    """Return the number that a value, before or after it, is combined with; None if there is none."""
    value, number = (first, second) if isinstance(first, Value) else (second, first)
    return float(number) if isinstance(value, Value) and isinstance(number, int | float) else None


def _initial(network: Network, tensor: Tensor) -> dict[str, Any]:
    """Return the setting of a scale that starts as one number."""
    values = network.model.get_parameter(tensor.name).detach()
    first = float(values.reshape(-1)[0])
    return {"initial": float(f"{first:.7g}")} if bool((values == values.reshape(-1)[0]).all()) else {}


def _padded(tensor: Tensor, axes: int) -> tuple[int, ...]:
    return (1,) * (axes - len(tensor.shape)) + tensor.shape


def _two(call: Call, *ignored: str) -> tuple[Any, Any]:
    """Return the two terms of a sum or product."""
    first, second, third = call.arguments("input", "other", *(ignored or ("out",)))
    if third not in (None, 1):
        raise Refused("has a third argument: no layer record supports it")
    return first, second


def _join(network: Network, call: Call, operator: str, first: Any, second: Any) -> Value:
    """Return the sum or product of two outputs of layers."""
    if not (isinstance(first, Value) and isinstance(second, Value)):
        raise Refused("computes with a number or a constant: no layer record supports that; use a torch.nn module")
    larger, smaller = (first, second) if not first.is_vector else (second, first)
    same = first.layout == second.layout and first.shape == second.shape
    per_channel = operator == "multiply" and (larger.layout, smaller.layout) in (("nchw", "ncyx"), ("nhwc", "nyxc"))
    if not same and not (per_channel and larger.channels == smaller.channels):
        raise Refused(
            f"joins {first.describe()} and {second.describe()}; a join needs equal shapes, or a factor per channel"
        )
    return network.emit(call, operator, [first, second], larger.layout)


def concatenate(network: Network, call: Call) -> Value:
    """Return the concatenation along the channels, or tokens with a learned token before them."""
    tensors, dim = call.arguments("tensors", "dim", dim=call.kwargs.get("axis", 0))
    if not isinstance(tensors, tuple | list):
        raise Refused("concatenates something that is not a list of tensors")
    if len(tensors) == 2 and isinstance(tensors[0], Tensor) and isinstance(tensors[1], Value):
        return _class_token(network, call, tensors[0], tensors[1], dim)
    if not all(isinstance(each, Value) for each in tensors):
        raise Refused("concatenates parameters; only a class token before all tokens is a layer record")
    layouts = {each.layout for each in tensors}
    (layout, *others) = layouts
    if others or layout[dim] != "c":
        raise Refused("does not concatenate along the channels")
    if len(tensors) == 1:
        return tensors[0]
    return network.emit(call, "concatenate", tensors, layout)


def _class_token(network: Network, call: Call, token: Tensor, tokens: Value, dim: int) -> Value:
    images, _, width = tokens.shape if tokens.layout == "ntc" else (0, 0, 0)
    if dim not in (1, -2) or token.shape != (images, 1, width):
        raise Refused(f"concatenates parameter {token.name}; only a class token before all tokens is a layer record")
    return network.emit(call, "ClassToken", [tokens], "ntc", {}, {"token": token.name})


def mean(network: Network, call: Call) -> Value:
    """Return the mean over rows and columns, or over tokens."""
    _, dim, keepdim = call.arguments("input", "dim", "keepdim", keepdim=False)
    value = call.value
    if isinstance(dim, int) or dim is None:
        dim = (dim,)
    axes = {value.layout[axis] for axis in dim if axis is not None}
    if axes == {"h", "w"}:
        layout = ("ncyx" if value.layout == "nchw" else "nyxc") if keepdim else "nc"
        return network.emit(call, "GlobalAveragePool2D", [value], layout)
    if axes == {"t"} and not keepdim:
        return network.emit(call, "TokenMean", [value], "nc")
    if axes == {"y", "x"}:
        return value if keepdim else Value(value.node, "nc", call.shape)
    raise Refused("is a mean over axes other than rows and columns, or tokens")


def dropout(network: Network, call: Call) -> Value:
    """Return the output of dropout that follows the model's mode."""
    _, rate, training = call.arguments("input", "p", "training", p=0.5, training=True)
    if not call.drops or not rate:
        return call.value
    if training not in (True, False):
        raise Refused("has a training flag that is not True or False")
    return network.emit(call, "Dropout", [call.value], call.value.layout, {"rate": float(rate)})


def layer_norm(network: Network, call: Call) -> Value:
    """Return the output of a LayerNorm over the last axis."""
    _, axes, gamma, beta, epsilon = call.arguments("input", "normalized_shape", "weight", "bias", "eps", eps=1e-5)
    names = [each.name if isinstance(each, Tensor) else None for each in (gamma, beta)]
    axes = (axes,) if isinstance(axes, int) else tuple(axes)
    return modules.normalise_last_axis(network, call, axes, names[0], names[1], epsilon)


def batch_norm(network: Network, call: Call) -> Value:
    """Return the output of a BatchNorm that a module calls as a function; `checks` refuses one of a fixed mode."""
    names = ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps")
    value, mean, variance, gamma, beta, _, momentum, epsilon = call.arguments(*names, momentum=0.1, eps=1e-5)
    buffers = {id(buffer): name for name, buffer in network.model.named_buffers()}
    statistics = [buffers.get(id(each)) for each in (mean, variance)]
    parameters = [each.name if isinstance(each, Tensor) else None for each in (gamma, beta)]
    computed = any(each is not None and not isinstance(each, Tensor) for each in (gamma, beta))
    if computed or not isinstance(value, Value) or None in statistics or value.layout not in ("nchw", "nc", "ncyx"):
        raise Refused("has no running statistics of its own, computes its scale or shift, or is not over channels")
    roles = zip(("gamma", "beta", "running_mean", "running_variance"), [*parameters, *statistics], strict=True)
    tensors: dict[str, Any] = {role: name for role, name in roles if name is not None}
    settings = {"momentum": round(1 - momentum, 12), "epsilon": epsilon}
    settings |= {"scale": parameters[0] is not None, "center": parameters[1] is not None}
    return network.emit(call, "BatchNorm", [value], value.layout, settings, tensors)


def max_pool(network: Network, call: Call) -> Value:
    """Return the output of a max pool."""
    names = ("kernel_size", "stride", "padding", "dilation")
    _, *values = call.arguments("input", *names, padding=0, dilation=1)
    return pools.pool(network, call, "MaxPool2D", SimpleNamespace(**dict(zip(names, values, strict=True))))


def average_pool(network: Network, call: Call) -> Value:
    """Return the output of an average pool."""
    names = ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override")
    _, *values = call.arguments("input", *names, padding=0, count_include_pad=True)
    return pools.average(network, call, SimpleNamespace(**dict(zip(names, values, strict=True))))


def subtract(network: Network, call: Call) -> Value:
    """Return images less a constant per channel."""
    first, second = _two(call, "alpha")
    if (number := _number(first, second)) is not None and isinstance(first, Value):
        return network.emit(call, "shift", [first], first.layout, {"value": -number})
    means = _constants(first, second)
    return _normalise(network, call, means, (1.0,) * len(means))


def divide(network: Network, call: Call) -> Value:
    """Return images divided by a constant per channel: after a subtraction they are one layer."""
    first, second = call.arguments("input", "other")
    if (number := _number(first, second)) is not None and isinstance(first, Value) and number:
        return network.emit(call, "scale", [first], first.layout, {"value": 1 / number})
    deviations = _constants(first, second)
    last = next(node for node in network.nodes if node["name"] == first.node)
    if last["operator"] == "Normalise" and last is network.nodes[-1] and set(last["settings"]["std"]) == {1.0}:
        last["settings"]["std"] = deviations
        return first
    return _normalise(network, call, (0.0,) * len(deviations), deviations)


def _constants(value: Any, constant: Any) -> tuple[float, ...]:
    """Return a number for each channel of the value. Raises Refused if the constant is none."""
    if isinstance(value, Value) and isinstance(constant, torch.Tensor):
        tensor = Tensor("", tuple(constant.shape))
        if tensor.per_channel(value):
            return tuple(map(float, constant.reshape(-1).tolist()))
        if constant.numel() == 1:
            return (float(constant),) * value.channels
    raise Refused("computes with something other than a constant per channel: no layer record supports that")


def _normalise(network: Network, call: Call, means: Sequence[float], deviations: Sequence[float]) -> Value:
    settings = {"mean": tuple(means), "std": tuple(deviations)}
    return network.emit(call, "Normalise", [call.value], call.value.layout, settings)


def pad(network: Network, call: Call) -> Value:
    """Return images with rows and columns of zeros around them."""
    _, padding, mode, value = call.arguments("input", "pad", "mode", "value", mode="constant", value=0)
    if mode != "constant" or value not in (None, 0) or len(padding) != 4 or min(padding) < 0:
        raise Refused("only zeros around rows and columns are a layer record")
    left, right, top, bottom = padding
    image = image_of(call)
    return network.emit(call, "zero-padding", [image], "nchw", {"padding": (top, bottom, left, right)})


def _named(handler: Handler, *names: str) -> dict[str, Handler]:
    return dict.fromkeys(names, handler)


FUNCTIONS: dict[str, Handler] = {
    **_named(add, "add", "iadd", "__add__", "__radd__"),
    **_named(multiply, "mul", "imul", "multiply", "__mul__", "__rmul__"),
    **_named(subtract, "sub", "isub", "subtract"),
    **_named(divide, "div", "truediv", "itruediv", "divide"),
    **_named(concatenate, "cat", "concat", "concatenate"),
    **_named(reshape, "flatten", "reshape", "view", "squeeze", "unsqueeze"),
    **_named(permute, "permute"),
    **_named(transpose, "transpose", "swapaxes"),
    **_named(expand, "expand", "repeat", "expand_as"),
    **_named(take, "getitem"),
    **_named(mean, "mean"),
    **_named(keep, "contiguous", "float", "to", "type"),
    **_named(elementwise("identity"), "clone"),  # in-place calls on either leave the other as it is
    **_named(pad, "pad"),
    **_named(dropout, "dropout"),
    **_named(layer_norm, "layer_norm"),
    **_named(batch_norm, "batch_norm"),
    **_named(max_pool, "max_pool2d", "_max_pool2d"),
    **_named(average_pool, "avg_pool2d"),
    **_named(pools.adaptive_average_pool, "adaptive_avg_pool2d"),
    **_named(modules.softmax, "softmax"),
    **_named(modules.gelu, "gelu"),
    **_named(elementwise("Relu"), "relu"),
    **_named(elementwise("Relu6"), "relu6"),
    **_named(elementwise("Silu"), "silu"),
    **_named(elementwise("HardSwish"), "hardswish"),
    **_named(elementwise("HardSigmoid"), "hardsigmoid"),
    **_named(elementwise("Sigmoid"), "sigmoid"),
    **_named(elementwise("Tanh"), "tanh"),
}
