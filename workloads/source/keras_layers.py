"""Translate the configuration of each Keras layer into operators of a graph; every setting is read or refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..layers import ATTENTION_PARTS
from .keras_settings import LayerConfig, Part, Variable
from .vocabulary import BOTH_TRAIN

ACTIVATIONS = {
    "relu": "relu", "relu6": "relu6", "silu": "silu", "swish": "silu", "gelu": "gelu", "tanh": "tanh",
    "hard_silu": "hardswish", "hard_swish": "hardswish", "hard_sigmoid": "hardsigmoid", "sigmoid": "sigmoid",
    "softmax": "softmax",
}  # fmt: skip
PLAIN = ("linear", None)


def translate(kind: str, layer: LayerConfig) -> list[Part]:
    """Return the operators of a layer, one after another. Raises ImportRefused."""
    if kind not in LAYERS:
        raise layer.refuse(ADVICE.get(kind, "there is no layer for it"))
    parts = LAYERS[kind](layer)
    layer.finish(any(part.weights for part in parts))
    return parts


def _activated(layer: LayerConfig) -> list[Part]:
    """Return the operator of its activation, if it has one."""
    name = layer.take("activation")
    if isinstance(name, dict):
        name = name.get("config") if name.get("class_name") == "function" else name.get("class_name")
        name = name.get("name") if isinstance(name, dict) else name
    if name in PLAIN:
        return []
    if name not in ACTIVATIONS:
        raise layer.refuse(f"the activation {str(name)[:40]} has no layer; there are {', '.join(ACTIVATIONS)}")
    return [Part(ACTIVATIONS[name])]


def _affine_weights(bias: bool) -> dict[str, Variable]:
    return _number("kernel", *(["bias"] if bias else []))


def _number(*roles: str, first: int = 0) -> dict[str, Variable]:
    """Return the variables of these roles, in the order in which the layer makes them."""
    return {role: Variable("", number) for number, role in enumerate(roles, first)}


def _convolution(layer: LayerConfig) -> list[Part]:
    bias = layer.take("use_bias", True)
    settings = {
        "filters": layer.take("filters"),
        "kernel": tuple(layer.take("kernel_size")),
        "stride": layer.take_one("strides", 1),
        "padding": layer.need("padding", "valid", "same"),
        "bias": bias,
        "groups": layer.take("groups", 1),
        "dilation": layer.take_one("dilation_rate", 1),
        **layer.take_start("kernel_initializer"),
    }
    return [Part("conv2d", settings, _affine_weights(bias)), *_activated(layer)]


def _depthwise(layer: LayerConfig) -> list[Part]:
    bias = layer.take("use_bias", True)
    layer.need("depth_multiplier", 1)
    if layer.take_one("dilation_rate", 1) != 1:
        raise layer.refuse("there is no depthwise convolution with a dilation")
    settings = {
        "kernel": tuple(layer.take("kernel_size")),
        "stride": layer.take_one("strides", 1),
        "padding": layer.need("padding", "valid", "same"),
        "bias": bias,
        **layer.take_start("depthwise_initializer"),
    }
    return [Part("depthwiseconv2d", settings, _affine_weights(bias)), *_activated(layer)]


def _separable(layer: LayerConfig) -> list[Part]:
    bias, filters = layer.take("use_bias", True), layer.take("filters")
    pointwise = layer.take_start("pointwise_initializer")
    activated = _activated(layer)
    layer.left["use_bias"] = False
    depthwise = Part("depthwiseconv2d", _depthwise(layer)[0].settings, _number("kernel"))
    settings = {"filters": filters, "kernel": (1, 1), "bias": bias, **pointwise}
    weights = _number("kernel", *(["bias"] if bias else []), first=1)
    return [depthwise, Part("conv2d", settings, weights), *activated]


def _dense(layer: LayerConfig) -> list[Part]:
    bias = layer.take("use_bias", True)
    settings = {"units": layer.take("units"), "bias": bias, **layer.take_start("kernel_initializer")}
    return [Part("dense", settings, _affine_weights(bias)), *_activated(layer)]


def _batch_norm(layer: LayerConfig) -> list[Part]:
    layer.need_last_axis()
    layer.need("renorm", False)
    scale, center = layer.take("scale", True), layer.take("center", True)
    settings = {"momentum": layer.take("momentum", 0.99), "epsilon": layer.take("epsilon", 1e-3)}
    roles = [*(["gamma"] if scale else []), *(["beta"] if center else []), "running_mean", "running_variance"]
    return [Part("batchnorm", settings | {"scale": scale, "center": center}, _number(*roles))]


def _layer_norm(layer: LayerConfig) -> list[Part]:
    layer.need_last_axis()
    if lost := [name for name in ("center", "scale") if not layer.take(name, True)]:
        raise layer.refuse(f"{' and '.join(f'{name}=False' for name in lost)}: {BOTH_TRAIN}")
    layer.need("rms_scaling", False)
    return [Part("layernorm", {"epsilon": layer.take("epsilon", 1e-3)}, _number("gamma", "beta"))]


def _spread(layer: LayerConfig, value: Any) -> tuple[float, ...]:
    """Return one number per channel of a number, or of a list that may have axes of size 1 around it."""
    while isinstance(value, list) and len(value) == 1 and isinstance(value[0], list):
        (value,) = value
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(each, int | float) for each in values):
        raise layer.refuse(f"{str(value)[:40]} is not a number per channel")
    if len(values) == 1:
        if layer.channels is None:
            raise layer.refuse("the number of its channels is unknown")
        values = values * layer.channels
    return tuple(float(each) for each in values)


def _normalization(layer: LayerConfig) -> list[Part]:
    layer.need_last_axis()
    layer.need("invert", False)
    mean, variance = layer.take("mean"), layer.take("variance")
    if mean is None:
        if layer.variables is None:
            layer.notes.append("a Normalization has no values in the JSON: it starts with mean 0 and variance 1")
            mean, variance = 0.0, 1.0
        elif {"0", "1"} <= layer.variables.keys():
            mean, variance = (layer.variables[number].ravel().tolist() for number in ("0", "1"))
        else:
            raise layer.refuse("its mean and variance are not in the file of weights")
    stds = tuple(max(math.sqrt(each), 1e-7) for each in _spread(layer, variance))
    return [Part("normalise", {"mean": _spread(layer, mean), "std": stds})]


def _rescaling(layer: LayerConfig) -> list[Part]:
    scales, offsets = _spread(layer, layer.take("scale")), _spread(layer, layer.take("offset", 0.0))
    if 0 in scales:
        raise layer.refuse("multiplies by 0")
    means = tuple(-offset / scale for offset, scale in zip(offsets, scales, strict=True))
    return [Part("normalise", {"mean": means, "std": tuple(1 / scale for scale in scales)})]


def _relu(layer: LayerConfig) -> list[Part]:
    layer.need("negative_slope", 0.0)
    layer.need("threshold", 0.0)
    return [Part("relu6" if layer.need("max_value", None, 6.0) is not None else "relu")]


def _softmax(layer: LayerConfig) -> list[Part]:
    layer.need_last_axis()
    return [Part("softmax")]


def _pool(operator: str) -> Callable[[LayerConfig], list[Part]]:
    def read(layer: LayerConfig) -> list[Part]:
        size = layer.take_one("pool_size", 2)
        strides = layer.take("strides")
        layer.left["strides"] = [size] if strides is None else strides
        settings = {
            "size": size,
            "stride": layer.take_one("strides"),
            "padding": layer.need("padding", "valid", "same"),
        }
        return [Part(operator, settings)]

    return read


def _global_pool(operator: str) -> Callable[[LayerConfig], list[Part]]:
    def read(layer: LayerConfig) -> list[Part]:
        layer.need("keepdims", *((False, True) if operator == "globalaveragepool2d" else (False,)))
        return [Part(operator)]

    return read


def _dropout(layer: LayerConfig) -> list[Part]:
    noise, rate = layer.take("noise_shape"), float(layer.take("rate"))
    if noise is None:
        return [Part("dropout", {"rate": rate})]
    if noise[:1] != [None] or set(noise[1:]) != {1}:
        raise layer.refuse(f"noise_shape={noise} has no layer; (None, 1, 1, 1) drops whole images")
    return [Part("stochasticdepth", {"rate": rate})]


def _zero_padding(layer: LayerConfig) -> list[Part]:
    (top, bottom), (left, right) = layer.take("padding")
    return [Part("zeropadding", {"padding": (top, bottom, left, right)})]


def _attention(layer: LayerConfig) -> list[Part]:
    heads, width = layer.take("num_heads"), layer.take("key_dim")
    for name, accepted in (("value_dim", (None, width)), ("use_bias", (True,)), ("output_shape", (None,))):
        layer.need(name, *accepted)
    layer.need("attention_axes", None, [1])
    layer.need("use_gate", False)
    layer.take("flash_attention")
    settings = {"heads": heads, "width": width, "dropout": layer.take("dropout", 0.0)}
    weights = {
        f"{part}_{role}": Variable(f"{part}_dense", number)
        for part in ATTENTION_PARTS
        for number, role in enumerate(("kernel", "bias"))
    }
    layer.take_start("kernel_initializer")
    return [Part("multiheadattention", settings, weights)]


def _resizing(layer: LayerConfig) -> list[Part]:
    layer.need("interpolation", "bilinear")
    for name in ("crop_to_aspect_ratio", "pad_to_aspect_ratio", "antialias"):
        layer.need(name, False)
    for name in ("fill_mode", "fill_value"):
        layer.take(name)
    return [Part("resize", {"height": layer.take("height"), "width": layer.take("width")})]


def _layer_scale(layer: LayerConfig) -> list[Part]:
    layer.take("projection_dim")
    return [Part("channelscale", {"initial": float(layer.take("init_values"))}, _number("scale"))]


def _plain(operator: str, *axes: str) -> Callable[[LayerConfig], list[Part]]:
    def read(layer: LayerConfig) -> list[Part]:
        if axes:
            layer.need_last_axis()
        return [Part(operator)]

    return read


LAYERS: dict[str, Callable[[LayerConfig], list[Part]]] = {
    "Conv2D": _convolution,
    "DepthwiseConv2D": _depthwise,
    "SeparableConv2D": _separable,
    "Dense": _dense,
    "BatchNormalization": _batch_norm,
    "LayerNormalization": _layer_norm,
    "Normalization": _normalization,
    "Rescaling": _rescaling,
    "Activation": _activated,
    "ReLU": _relu,
    "Softmax": _softmax,
    "MaxPooling2D": _pool("maxpool2d"),
    "AveragePooling2D": _pool("averagepool2d"),
    "GlobalAveragePooling2D": _global_pool("globalaveragepool2d"),
    "GlobalAveragePooling1D": _global_pool("tokenmean"),
    "Dropout": _dropout,
    "Flatten": _plain("flatten"),
    "Reshape": lambda layer: [Part("reshape", {"shape": tuple(layer.take("target_shape"))})],
    "ZeroPadding2D": _zero_padding,
    "MultiHeadAttention": _attention,
    "Resizing": _resizing,
    "LayerScale": _layer_scale,
    "StochasticDepth": lambda layer: [Part("stochasticdepth", {"rate": float(layer.take("drop_path_rate"))})],
    "Identity": lambda layer: [],
    "Add": _plain("add"),
    "Multiply": _plain("multiply"),
    "Concatenate": _plain("concatenate", "axis"),
}
ADVICE = {
    "Lambda": "is code, which is never run; replace it with layers",
    **dict.fromkeys(
        ("RandomFlip", "RandomCrop", "RandomTranslation", "RandomRotation", "RandomZoom", "RandomContrast"),
        "changes images in training; leave it out of the model, and see --augment",
    ),
    **dict.fromkeys(
        ("LSTM", "GRU", "SimpleRNN", "Embedding"), "is for sequences; only networks of images are imported"
    ),
    "TFSMLayer": "is a program of TensorFlow, not a configuration; build the model from layers",
}


def merge_notes(notes: Sequence[str]) -> str:
    """Return each note once, with the number of layers it holds for."""
    counts = {note: notes.count(note) for note in notes}
    return "; ".join(note if count == 1 else f"{note} ({count} layers)" for note, count in counts.items())
