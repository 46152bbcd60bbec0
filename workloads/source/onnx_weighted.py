"""Operators of ONNX that have weights, or act otherwise in training, as operators of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..weights import CHANNELS_FIRST
from .layouts import Value
from .onnx_graph import EXPORT, Array, Call, OnnxReader
from .vocabulary import BOTH_TRAIN

Weight = tuple[str, Array, Sequence[int]]  # its tensor's name, its values, and their axes in our order
OURS = {axes: [int(axis) for axis in np.argsort(order)] for axes, order in CHANNELS_FIRST.items()}


def round_setting(number: float) -> float:
    """Return the number that a float32 setting was written for."""
    return float(f"{number:.7g}")


def need_weight(call: Call, number: int) -> Array:
    """Return an input that is a weight of the layer. Raises ImportRefused."""
    array = call.constant(number)
    if array is None:
        raise call.refuse(f"has no input {number}, which is a weight of its layer")
    return array


def need_one(call: Call, name: str, usual: int = 1) -> int:
    """Return the number that both axes have. Raises ImportRefused."""
    values = list(call.settings.get(name, [usual, usual]))
    if len(values) != 2 or values[0] != values[1]:
        raise call.refuse(f"{name} {values}: a layer record has one for both axes of an image")
    return int(values[0])


def read_padding(call: Call) -> Any:
    """Return "same", "valid" or (top, bottom, left, right)."""
    auto = call.settings.get("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "VALID"):
        return "same" if auto == "SAME_UPPER" else "valid"
    if auto != "NOTSET":
        raise call.refuse(f"auto_pad {auto}: a layer record puts the odd row below: pad explicitly")
    top, left, bottom, right = call.settings.get("pads", [0] * 4)
    return (top, bottom, left, right) if any((top, left, bottom, right)) else "valid"


def convolution(reader: OnnxReader, call: Call) -> Value:
    """Return the output of a convolution; of one vector per image, it is a dense layer."""
    kernel = need_weight(call, 1)
    bias = call.constant(2)
    if kernel.ndim != 4:
        raise call.refuse(f"its kernel has {kernel.ndim} axes; only convolutions of images are layer records")
    if bias is not None and call.names[2] == f"{call.names[1]}_bias":
        raise call.refuse(f"its bias {call.names[2]} was made at export, from a norm that was folded into it: {EXPORT}")
    settings = {"filters": kernel.shape[0], "kernel": kernel.shape[2:], "bias": bias is not None}
    if call.value().layout == "ncyx":
        if kernel.shape[2:] != (1, 1) or call.settings.get("group", 1) != 1 or read_padding(call) != "valid":
            raise call.refuse("only a 1 x 1 convolution without groups and padding can follow a global pool")
        layout = "ncyx"
    else:
        call.image()
        layout, group, dilation = "nchw", call.settings.get("group", 1), need_one(call, "dilations")
        settings |= {"stride": need_one(call, "strides"), "padding": read_padding(call)}
        settings |= {"groups": group} if group > 1 else {}
        settings |= {"dilation": dilation} if dilation > 1 else {}
    weights: dict[str, Weight] = {"kernel": (call.names[1], kernel, OURS[4])}
    weights |= {"bias": (call.names[2], bias, ())} if bias is not None else {}
    return reader.emit(call, "conv2d", layout, settings, weights)


def gemm(reader: OnnxReader, call: Call) -> Value:
    """Return the output of a dense layer of vectors."""
    wanted = {"transA": 0, "alpha": 1.0, "beta": 1.0}
    if other := next((name for name, usual in wanted.items() if call.settings.get(name, usual) != usual), ""):
        raise call.refuse(f"{other}={call.settings[other]}: a dense layer has {other}={wanted[other]}")
    return dense(reader, call, bool(call.settings.get("transB", 0)))


def dense(reader: OnnxReader, call: Call, turned: bool) -> Value:
    """Return the output of a dense layer; its kernel is (out, in) if `turned`, else (in, out)."""
    value, kernel, bias = call.value(), need_weight(call, 1), call.constant(2)
    if kernel.ndim != 2 or not value.layout.endswith("c"):
        raise call.refuse(f"is not a dense layer along the features: it gets {value.describe()}")
    kernel = kernel if turned else kernel.T
    weights: dict[str, Weight] = {"kernel": (call.names[1], kernel, OURS[2])}
    weights |= {"bias": (call.names[2], bias.reshape(-1), ())} if bias is not None else {}
    return reader.emit(call, "dense", value.layout, {"units": kernel.shape[0], "bias": bias is not None}, weights)


def batch_norm(reader: OnnxReader, call: Call) -> Value:
    """Return the output of a BatchNorm in training mode; its momentum is ours."""
    if call.settings.get("training_mode", 0) != 1:
        raise call.refuse(f"is in evaluation mode, so it has no momentum for training: {EXPORT}")
    if call.value().layout not in ("nchw", "nc", "ncyx"):
        raise call.refuse(f"needs images (n, c, h, w) or vectors, but gets {call.value().describe()}")
    settings: dict[str, Any] = {
        "momentum": round_setting(call.settings.get("momentum", 0.9)),
        "epsilon": round_setting(call.settings.get("epsilon", 1e-5)),
    }
    roles = ("gamma", "beta", "running_mean", "running_variance")
    weights = {role: (call.names[number], need_weight(call, number), ()) for number, role in enumerate(roles, 1)}
    for role, setting, usual in (("gamma", "scale", 1), ("beta", "center", 0)):
        name, array, _ = weights[role]
        if not reader.origins.get(name) and np.all(array == usual):  # an export of affine=False
            settings[setting] = False
            del weights[role]
    return reader.emit(call, "batchnorm", call.value().layout, settings, weights)


def layer_norm(reader: OnnxReader, call: Call) -> Value:
    """Return the output of a LayerNorm over the last axis."""
    value, gamma = call.value(), need_weight(call, 1)
    if call.settings.get("axis", -1) not in (-1, len(value.shape) - 1) or not value.layout.endswith("c"):
        raise call.refuse(f"is over axes other than the channels of {value.describe()}")
    settings = {"epsilon": round_setting(call.settings.get("epsilon", 1e-5))}
    beta = call.constant(2)
    if beta is None or not all(reader.origins.get(name) for name in call.names[1:3]):
        raise call.refuse(f"has no scale or no shift that trains: {BOTH_TRAIN}, and export the model again")
    weights: dict[str, Weight] = {"gamma": (call.names[1], gamma, ()), "beta": (call.names[2], beta, ())}
    return reader.emit(call, "layernorm", value.layout, settings, weights)


def dropout(reader: OnnxReader, call: Call) -> Value:
    """Return the output of a dropout that trains."""
    training = call.constant(2)
    if training is None or not bool(training):
        raise call.refuse(f"is in evaluation mode, where it drops nothing: {EXPORT}")
    ratio = call.constant(1)
    rate = 0.5 if ratio is None else round_setting(float(ratio))
    return reader.emit(call, "dropout", call.value().layout, {"rate": rate})
