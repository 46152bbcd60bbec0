"""Operators of ONNX as operators of a graph; every setting is read or refused."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .layouts import IMAGES, VECTORS, Value, pad_last_windows, permute_layout, reshape_layout
from .onnx_graph import RANDOM, Array, Call, OnnxReader
from .onnx_weighted import (
    batch_norm,
    convolution,
    dense,
    dropout,
    gemm,
    layer_norm,
    need_one,
    read_padding,
    round_setting,
)
from .vocabulary import INPUT, SCALE, SHIFT

Handler = Callable[[OnnxReader, Call], Value]
FLOAT = 1  # float32 among the types of onnx.TensorProto
ADVICE = {
    **dict.fromkeys(RANDOM, "draws random numbers; only Dropout is known: give the code of the PyTorch model instead"),
    "Pow": "there is no layer record for it; GELU by tanh and LayerNormalization are whole in opset 20",
    "Einsum": "there is no layer record for it; attention in pieces is not known: give the code of the PyTorch model",
    "Split": "there is no layer record for it; attention in pieces is not known: give the code of the PyTorch model",
}


def translate(reader: OnnxReader, call: Call) -> Value:
    """Return the output of a node. Raises ImportRefused."""
    handler = OPERATORS.get(call.operator)
    if handler is None:
        raise call.refuse(ADVICE.get(call.operator, "there is no layer record for it"))
    return handler(reader, call)


def _plain(operator: str) -> Handler:
    return lambda reader, call: reader.emit(call, operator, call.value().layout)


def _keep(reader: OnnxReader, call: Call) -> Value:
    return call.value()


def _cast(reader: OnnxReader, call: Call) -> Value:
    """Return its input, which is float32, as it must stay."""
    likes = [each for each in call.inputs[1:] if not isinstance(each, Value)]
    if call.settings.get("to", FLOAT) != FLOAT or any(np.asarray(each).dtype != np.float32 for each in likes):
        raise call.refuse("casts to another type than float32; export the model in float32")
    return call.value()


def _swish(reader: OnnxReader, call: Call) -> Value:
    if call.settings.get("alpha", 1.0) != 1:
        raise call.refuse(f"alpha={call.settings['alpha']:g}: the layer record has 1")
    return reader.emit(call, "silu", call.value().layout)


def _pool(operator: str) -> Handler:
    def read(reader: OnnxReader, call: Call) -> Value:
        image, padding = call.image(), read_padding(call)
        if operator == "averagepool2d" and padding != "valid" and call.settings.get("count_include_pad", 0):
            raise call.refuse("counts the padding as pixels; the layer record does not: use count_include_pad=False")
        if need_one(call, "dilations") != 1 or call.outputs > 1:
            raise call.refuse("has a dilation, or gives indices: the layer record of a pool has neither")
        whole = padding == "valid" and tuple(call.settings["kernel_shape"]) == image.shape[2:]
        if operator == "averagepool2d" and whole:
            return reader.emit(call, "globalaveragepool2d", "ncyx")
        size, stride = need_one(call, "kernel_shape"), need_one(call, "strides")
        if padding != "same" and call.settings.get("ceil_mode", 0):
            margins = (0, 0, 0, 0) if padding == "valid" else padding
            padding = pad_last_windows(image.shape[2:], call.shape[2:], size, stride, margins)
        return reader.emit(call, operator, "nchw", {"size": size, "stride": stride, "padding": padding})

    return read


def _global_pool(reader: OnnxReader, call: Call) -> Value:
    call.image()
    return reader.emit(call, "globalaveragepool2d", "ncyx")


def _mean(reader: OnnxReader, call: Call) -> Value:
    value, keeps = call.value(), bool(call.settings.get("keepdims", 1))
    axes = {value.layout[axis] for axis in call.numbers("axes", 1, ()) or ()}
    if axes == {"h", "w"}:
        layout = ("ncyx" if value.layout == "nchw" else "nyxc") if keeps else "nc"
        return reader.emit(call, "globalaveragepool2d", layout)
    if axes == {"t"} and not keeps:
        return reader.emit(call, "tokenmean", "nc")
    raise call.refuse(f"is a mean over axes other than rows and columns, or tokens, of {value.describe()}")


def _reshape(reader: OnnxReader, call: Call) -> Value:
    try:
        operator, layout = reshape_layout(call.value(), call.shape)
    except ValueError as error:
        raise call.refuse(str(error)) from error
    return reader.emit(call, operator, layout) if operator else Value(call.value().node, layout, call.shape)


def _transpose(reader: OnnxReader, call: Call) -> Value:
    value = call.value()
    order = call.settings.get("perm", [*reversed(range(len(value.shape)))])
    try:
        return Value(value.node, permute_layout(value, order), call.shape)
    except ValueError as error:
        raise call.refuse(str(error)) from error


def _softmax(reader: OnnxReader, call: Call) -> Value:
    value = call.value()
    if value.layout[call.settings.get("axis", -1)] != "c":
        raise call.refuse("is not over the channels")
    return reader.emit(call, "softmax", value.layout)


def _hard_sigmoid(reader: OnnxReader, call: Call) -> Value:
    alpha, beta = call.settings.get("alpha", 0.2), call.settings.get("beta", 0.5)
    if not (math.isclose(alpha, 1 / 6, rel_tol=1e-6) and beta == 0.5):
        raise call.refuse(f"alpha={alpha:g}, beta={beta:g}: the layer record has 1/6 and 1/2")
    return reader.emit(call, "hardsigmoid", call.value().layout)


def _clip(reader: OnnxReader, call: Call) -> Value:
    bounds = [call.settings.get(name, call.constant(number)) for name, number in (("min", 1), ("max", 2))]
    low, high = (None if bound is None else float(bound) for bound in bounds)
    if low != 0 or high not in (None, 6.0):
        raise call.refuse(f"between {low} and {high}: only 0 and 6, or 0 alone, are a layer record")
    return reader.emit(call, "relu" if high is None else "relu6", call.value().layout)


def _gelu(reader: OnnxReader, call: Call) -> Value:
    approximate = call.settings.get("approximate", "none") == "tanh"
    return reader.emit(call, "gelu", call.value().layout, {"approximate": approximate})


def _pad(reader: OnnxReader, call: Call) -> Value:
    pads, fill = call.numbers("pads", 1) or [], call.constant(2)
    filled = call.settings.get("value", 0) if fill is None else float(fill)
    image = call.image()
    if call.settings.get("mode", "constant") != "constant" or filled or call.constant(3) is not None or len(pads) != 8:
        raise call.refuse("only zeros around rows and columns are a layer record")
    if any(pads[:2] + pads[4:6]) or min(pads) < 0:
        raise call.refuse(f"pads {pads}: only zeros around rows and columns are a layer record")
    settings = {"padding": (pads[2], pads[6], pads[3], pads[7])}
    return reader.emit(call, "zeropadding", image.layout, settings)


def _concatenate(reader: OnnxReader, call: Call) -> Value:
    values = [call.value(number) for number in range(len(call.inputs))]
    layout = values[0].layout
    if {each.layout for each in values} != {layout} or layout[call.settings["axis"]] != "c":
        raise call.refuse("does not concatenate values of layers along the channels")
    return reader.emit(call, "concatenate", layout, inputs=values)


def _join(reader: OnnxReader, call: Call, operator: str) -> Value:
    """Return the sum or product of what two layers give."""
    first, second = call.value(0), call.value(1)
    larger, smaller = (first, second) if not first.is_vector else (second, first)
    same = first.layout == second.layout and first.shape == second.shape
    factor = operator == "multiply" and larger.layout in IMAGES and smaller.layout in VECTORS[1:]
    if not same and not (factor and larger.channels == smaller.channels and larger.layout[1] == smaller.layout[1]):
        raise call.refuse(
            f"joins {first.describe()} and {second.describe()}; a join needs equal shapes, or a factor per channel"
        )
    return reader.emit(call, operator, larger.layout, inputs=(first, second))


def _with_constant(call: Call) -> tuple[Value, str, Array, bool]:
    """Return the value, the constant's name, the constant, and True if the value is the first of the two."""
    first = isinstance(call.inputs[0], Value)
    value, number = (call.value(0), 1) if first else (call.value(1), 0)
    return value, call.names[number], np.asarray(call.constant(number)), first


def _advise(constant: Array) -> str:
    """Return what to do where a tensor of the file is refused, because it may be a parameter."""
    return "; if it does not train, write the number into the model's code" if constant.size == 1 else ""


def _enters(reader: OnnxReader, value: Value) -> bool:
    """True if it is the images, or they after constant shifts and scales, which norm them."""
    nodes = {node.name: node for node in reader.nodes}
    node = nodes[value.node]
    while node.operator in (SHIFT, SCALE, "normalise"):
        node = nodes[node.inputs[0]]
    return node.operator == INPUT


def _add(reader: OnnxReader, call: Call) -> Value:
    if all(isinstance(each, Value) for each in call.inputs):
        return _join(reader, call, "add")
    value, name, constant, _ = _with_constant(call)
    if constant.size == 1 and not reader.origins.get(name):
        return reader.emit(call, "shift", value.layout, {"value": float(constant.reshape(()))}, inputs=(value,))
    if absorbed := reader.absorb_bias(call, value, name, constant):
        return Value(absorbed.node, value.layout, call.shape)
    if value.layout == "ntc" and constant.shape in (value.shape[1:], (1, *value.shape[1:])):
        weights = {"embedding": (name, constant.reshape(value.shape[1:]), ())}
        return reader.emit(call, "positionembedding", "ntc", {}, weights, (value,))
    raise call.refuse(
        f"adds {name} of {constant.shape} to {value.describe()}: no layer record supports that{_advise(constant)}"
    )


def _multiply(reader: OnnxReader, call: Call) -> Value:
    if all(isinstance(each, Value) for each in call.inputs):
        return _join(reader, call, "multiply")
    value, name, constant, _ = _with_constant(call)
    if constant.size == 1 and not reader.origins.get(name):
        return reader.emit(call, "scale", value.layout, {"value": float(constant.reshape(()))}, inputs=(value,))
    if name not in reader.tensors or not value.is_per_channel(constant.shape):
        said = f"multiplies {value.describe()} by {name} of {constant.shape}: no layer record supports that"
        raise call.refuse(said + _advise(constant))
    first = round_setting(float(constant.reshape(-1)[0]))
    settings = {"initial": first} if np.all(constant == constant.reshape(-1)[0]) else {}
    weights = {"scale": (name, constant.reshape(-1), ())}
    return reader.emit(call, "channelscale", value.layout, settings, weights, (value,))


def _less_or_divided(operator: str) -> Handler:
    """Return the handler of x - constant or x / constant, for one constant or one per channel."""

    def read(reader: OnnxReader, call: Call) -> Value:
        value, name, constant, first = _with_constant(call)
        less = operator == "shift"
        if not first or not np.all(np.isfinite(constant)) or (not less and np.any(constant == 0)):
            raise call.refuse(f"computes {name} with {value.describe()} in a way that no layer record supports")
        if reader.origins.get(name) and not _enters(reader, value):
            said = f"computes {name} with {value.describe()}: it may train, and no layer record supports that"
            raise call.refuse(said + _advise(constant))
        numbers = tuple(float(each) for each in constant.reshape(-1))
        if len(numbers) == 1:
            change = -numbers[0] if less else 1 / numbers[0]
            return reader.emit(call, operator, value.layout, {"value": change}, inputs=(value,))
        if not value.is_per_channel(constant.shape):
            raise call.refuse(
                f"computes {name} of {constant.shape} with {value.describe()}: no layer record supports that"
            )
        others = (1.0 if less else 0.0,) * len(numbers)
        settings = {"mean": numbers, "std": others} if less else {"mean": others, "std": numbers}
        return reader.emit(call, "normalise", value.layout, settings, inputs=(value,))

    return read


OPERATORS: dict[str, Handler] = {
    "Conv": convolution,
    "Gemm": gemm,
    "MatMul": lambda reader, call: dense(reader, call, False),
    "BatchNormalization": batch_norm,
    "LayerNormalization": layer_norm,
    "Dropout": dropout,
    "MaxPool": _pool("maxpool2d"),
    "AveragePool": _pool("averagepool2d"),
    "GlobalAveragePool": _global_pool,
    "ReduceMean": _mean,
    **dict.fromkeys(("Flatten", "Reshape", "Squeeze", "Unsqueeze"), _reshape),
    "Transpose": _transpose,
    "Identity": _keep,
    **dict.fromkeys(("Cast", "CastLike"), _cast),
    "Relu": _plain("relu"),
    "Sigmoid": _plain("sigmoid"),
    "Tanh": _plain("tanh"),
    "Erf": _plain("erf"),
    "HardSwish": _plain("hardswish"),
    "Swish": _swish,
    "HardSigmoid": _hard_sigmoid,
    "Clip": _clip,
    "Gelu": _gelu,
    "Softmax": _softmax,
    "Pad": _pad,
    "Concat": _concatenate,
    "Add": _add,
    "Mul": _multiply,
    "Sub": _less_or_divided("shift"),
    "Div": _less_or_divided("scale"),
}
