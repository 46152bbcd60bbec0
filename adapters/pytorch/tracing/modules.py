"""Modules of torch.nn as layer records of ours."""

from __future__ import annotations

from typing import Any

from torch import nn

from workloads.source.vocabulary import BOTH_TRAIN

from .depth import stochastic_depth
from .network import Network
from .pools import adaptive_average_pool, average_pool, max_pool
from .reshaping import reshape
from .settings import NO_RECORD, Handler, image_of, margins_of, one_of, weights_of
from .values import DEPTH_RATES, TIMM_ATTENTION, Call, Refused, Value, as_pair


def call_module(network: Network, call: Call) -> Any:
    """Return the output of a module. Raises Refused for one without a layer record."""
    module = call.module
    assert module is not None
    if hooks := [name for name in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks") if vars(module)[name]]:
        raise Refused(f"it has {hooks[0].strip('_').replace('_', ' ')}, which change what it computes: remove them")
    if "forward" in vars(module):
        raise Refused("its forward is replaced, so its class does not say what it computes: write a class of its own")
    kind = type(module)
    handler = MODULES.get(kind) or BY_NAME.get(kind.__name__)
    if (kind.__module__, kind.__name__) == TIMM_ATTENTION:
        handler = timm_attention
    if handler is None:
        raise Refused(NO_RECORD)
    return handler(network, call)


def elementwise(operator: str) -> Handler:
    """Return the handler of an activation without settings."""
    return lambda network, call: network.emit(call, operator, [call.value], call.value.layout)


def keep(network: Network, call: Call) -> Value:
    """Return the input of a call that changes nothing."""
    return call.value


def convolution(network: Network, call: Call) -> Value:
    """Return the output of a convolution; of one vector per image, it is a dense layer."""
    module: Any = call.module
    if module.padding_mode != "zeros" and any(as_pair(module.padding)):
        raise Refused(f"padding_mode {module.padding_mode}: a layer record pads with zeros")
    weights = weights_of(call, kernel="weight", bias="bias")
    if call.value.layout == "ncyx":
        return _convolve_vector(network, call, weights)
    image, dilation = image_of(call), one_of(module.dilation, "dilation")
    settings = {
        "kernel": as_pair(module.kernel_size),
        "stride": one_of(module.stride, "stride"),
        "padding": margins_of(module.padding),
        "bias": module.bias is not None,
    }
    if module.groups == module.in_channels == module.out_channels and module.groups > 1:
        if dilation != 1:
            raise Refused(f"dilation {dilation} by channel: the layer record of depthwise convolutions has none")
        return network.emit(call, "DepthwiseConv2D", [image], "nchw", settings, weights)
    settings |= {"filters": module.out_channels}
    settings |= {"groups": module.groups} if module.groups > 1 else {}
    settings |= {"dilation": dilation} if dilation > 1 else {}
    return network.emit(call, "Conv2D", [image], "nchw", settings, weights)


def _convolve_vector(network: Network, call: Call, weights: dict[str, Any]) -> Value:
    """Return the output of a 1 x 1 convolution of a vector, which is a dense layer."""
    module: Any = call.module
    if as_pair(module.kernel_size) != (1, 1) or module.groups != 1 or call.shape[2:] != (1, 1):
        raise Refused("only a 1 x 1 convolution without groups and padding can follow a global pool")
    settings = {"filters": module.out_channels, "kernel": (1, 1), "bias": module.bias is not None}
    return network.emit(call, "Conv2D", [call.value], "ncyx", settings, weights)


def linear(network: Network, call: Call) -> Value:
    """Return the output of a linear layer."""
    module: Any = call.module
    weights = weights_of(call, kernel="weight", bias="bias")
    if not call.value.layout.endswith("c"):
        raise Refused(f"is along the last axis, but gets {call.value.describe()}")
    settings = {"units": module.out_features, "bias": module.bias is not None}
    return network.emit(call, "Dense", [call.value], call.value.layout, settings, weights)


def batch_norm(network: Network, call: Call) -> Value:
    """Return the output of a BatchNorm: our momentum is the share of the old statistics, PyTorch's of the new."""
    module: Any = call.module
    if not module.track_running_stats or module.momentum is None:
        reason = "momentum=None" if module.track_running_stats else "track_running_stats=False"
        raise Refused(f"{reason}: the layer record has running statistics with a momentum")
    if call.value.layout not in ("nchw", "nc", "ncyx"):
        raise Refused(f"needs images (n, c, h, w) or vectors, but gets {call.value.describe()}")
    settings = {"momentum": round(1 - module.momentum, 12), "epsilon": module.eps}
    settings |= {"scale": module.weight is not None, "center": module.bias is not None}
    roles = {"gamma": "weight", "beta": "bias", "running_mean": "running_mean", "running_variance": "running_var"}
    return network.emit(call, "BatchNorm", [call.value], call.value.layout, settings, weights_of(call, **roles))


def layer_norm(network: Network, call: Call) -> Value:
    """Return the output of a LayerNorm over the last axis."""
    module: Any = call.module
    gamma, beta = (None if getattr(module, name) is None else f"{call.place}.{name}" for name in ("weight", "bias"))
    return normalise_last_axis(network, call, tuple(module.normalized_shape), gamma, beta, module.eps)


def normalise_last_axis(
    network: Network, call: Call, axes: tuple[int, ...], gamma: str | None, beta: str | None, epsilon: float
) -> Value:
    """Return the output of a LayerNorm, whose axes must be the channels alone."""
    value = call.value
    if axes != (value.channels,) or not value.layout.endswith("c"):
        raise Refused(
            f"is over axes of {axes}, but gets {value.describe()}; the layer record is over the channels alone"
        )
    if gamma is None or beta is None:
        raise Refused(f"has no scale or no shift of its own: {BOTH_TRAIN}")
    return network.emit(call, "LayerNorm", [value], value.layout, {"epsilon": epsilon}, {"gamma": gamma, "beta": beta})


def gelu(network: Network, call: Call) -> Value:
    """Return the output of a GELU, exact or by tanh."""
    approximate = getattr(call.module, "approximate", call.kwargs.get("approximate", "none"))
    settings = {"approximate": True} if approximate == "tanh" else {}
    return network.emit(call, "Gelu", [call.value], call.value.layout, settings)


def hard_tanh(network: Network, call: Call) -> Value:
    """Return the output of a clamp between 0 and 6."""
    module: Any = call.module
    if (module.min_val, module.max_val) != (0, 6):
        raise Refused(f"between {module.min_val:g} and {module.max_val:g}: {NO_RECORD}")
    return network.emit(call, "Relu6", [call.value], call.value.layout)


def softmax(network: Network, call: Call) -> Value:
    """Return the softmax over the channels."""
    value = call.value
    dim = call.module.dim if call.module is not None else call.arguments("input", "dim")[1]
    if dim is None or value.layout[dim] != "c":
        raise Refused("is not over the channels")
    return network.emit(call, "Softmax", [value], value.layout)


def dropout(network: Network, call: Call) -> Value:
    """Return the output of dropout; with a rate of 0 it is its input."""
    rate = float(call.module.p)  # type: ignore[union-attr]
    return network.emit(call, "Dropout", [call.value], call.value.layout, {"rate": rate}) if rate else call.value


def attention(network: Network, call: Call) -> tuple[Value, None]:
    """Return (the output of self-attention, None)."""
    module: Any = call.module
    query, key, value, mask, _, attended = call.arguments(
        "query", "key", "value", "key_padding_mask", "need_weights", "attn_mask"
    )
    if not (isinstance(query, Value) and query == key == value):
        raise Refused("its query, key and value differ; the layer record is self-attention")
    wrong = {
        "batch_first=False": not module.batch_first,
        f"dropout={module.dropout:g}": module.dropout != 0,
        "bias=False": module.in_proj_bias is None,
        "add_bias_kv=True": module.bias_k is not None,
        "add_zero_attn=True": module.add_zero_attn,
        "kdim or vdim": module.in_proj_weight is None,
        "a mask": mask is not None or attended is not None or call.kwargs.get("is_causal", False),
    }
    if reason := next((name for name, holds in wrong.items() if holds), ""):
        raise Refused(f"{reason}: the layer record has batch first, biases, no dropout and no mask")
    return _attend(network, call, query, ("in_proj_weight", "in_proj_bias", "out_proj")), None


def _attend(network: Network, call: Call, value: Value, names: tuple[str, str, str]) -> Value:
    """Return the output of self-attention; `names` are those of its kernels, its biases and its last layer."""
    kernel, bias, last = (f"{call.place}.{name}" for name in names)
    tensors: dict[str, Any] = {}
    for number, part in enumerate(("query", "key", "value")):
        tensors |= {f"{part}_kernel": (kernel, number, 3), f"{part}_bias": (bias, number, 3)}
    tensors |= {"output_kernel": f"{last}.weight", "output_bias": f"{last}.bias"}
    settings = {"heads": call.module.num_heads}  # type: ignore[union-attr]
    return network.emit(call, "MultiHeadAttention", [value], value.layout, settings, tensors)


def timm_attention(network: Network, call: Call) -> Value:
    """Return the output of timm's self-attention, if it is the plain one."""
    module: Any = call.module
    wrong = {
        "a mask": any(each is not None and each is not False for each in (*call.args[1:], *call.kwargs.values())),
        "another width of its heads": module.num_heads * module.head_dim != module.qkv.in_features,
        "another scale": module.scale != module.head_dim**-0.5,
        "no bias": module.qkv.bias is None or module.proj.bias is None,
        "a gate": getattr(module, "gate", None) is not None,
        "a norm inside": any(type(each) is not nn.Identity for each in (module.q_norm, module.k_norm, module.norm)),
        "dropout inside": bool(module.attn_drop.p or module.proj_drop.p),
    }
    wrong[f"an input {call.value.describe()}"] = call.value.layout != "ntc"
    if reason := next((name for name, holds in wrong.items() if holds), ""):
        raise Refused(f"it has {reason}; the layer record of self-attention has biases and none of that")
    return _attend(network, call, call.value, ("qkv.weight", "qkv.bias", "proj"))


def zero_padding(network: Network, call: Call) -> Value:
    """Return images with rows and columns of zeros around them."""
    left, right, top, bottom = call.module.padding  # type: ignore[union-attr]
    if min(left, right, top, bottom) < 0:
        raise Refused("its padding is negative, which cuts rows or columns off: there is no layer record for that")
    return network.emit(call, "zero-padding", [image_of(call)], "nchw", {"padding": (top, bottom, left, right)})


def no_rate(network: Network, call: Call) -> Value:
    """Return the input of a dropout of whole channels, whose rate must be 0."""
    if call.module.p:  # type: ignore[union-attr]
        raise Refused(f"drops whole channels: {NO_RECORD}")
    return call.value


MODULES: dict[type[nn.Module], Handler] = {
    nn.Conv2d: convolution,
    nn.Linear: linear,
    nn.BatchNorm2d: batch_norm,
    nn.BatchNorm1d: batch_norm,
    nn.LayerNorm: layer_norm,
    nn.MultiheadAttention: attention,
    nn.ReLU: elementwise("Relu"),
    nn.ReLU6: elementwise("Relu6"),
    nn.SiLU: elementwise("Silu"),
    nn.GELU: gelu,
    nn.Hardswish: elementwise("HardSwish"),
    nn.Hardsigmoid: elementwise("HardSigmoid"),
    nn.Hardtanh: hard_tanh,
    nn.Sigmoid: elementwise("Sigmoid"),
    nn.Tanh: elementwise("Tanh"),
    nn.Softmax: softmax,
    nn.MaxPool2d: max_pool,
    nn.AvgPool2d: average_pool,
    nn.AdaptiveAvgPool2d: adaptive_average_pool,
    nn.Flatten: reshape,
    nn.ZeroPad2d: zero_padding,
    nn.Dropout: dropout,
    nn.Dropout2d: no_rate,
    nn.Identity: keep,
}
BY_NAME: dict[str, Handler] = dict.fromkeys(DEPTH_RATES, stochastic_depth)
