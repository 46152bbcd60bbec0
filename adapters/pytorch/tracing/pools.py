"""Pools of PyTorch as layer records of ours."""

from __future__ import annotations

from typing import Any

from workloads.source.layouts import pad_last_windows

from .network import Network
from .settings import image_of, one_of
from .values import Call, Refused, Value, as_pair


def max_pool(network: Network, call: Call) -> Value:
    """Return the output of a max pool."""
    module: Any = call.module
    if module.return_indices:
        raise Refused("return_indices=True: the layer record returns the maxima alone")
    return pool(network, call, "MaxPool2D", module)


def average_pool(network: Network, call: Call) -> Value:
    """Return the output of an average pool."""
    module: Any = call.module
    return average(network, call, module)


def average(network: Network, call: Call, module: Any) -> Value:
    """Return the output of an average pool with the settings of `module`."""
    image, window = image_of(call), as_pair(module.kernel_size)
    padded = any(as_pair(module.padding))
    if padded and module.count_include_pad:
        raise Refused("counts the padding as pixels; the layer record does not: use count_include_pad=False")
    if module.divisor_override not in (None, window[0] * window[1]):
        raise Refused("divides by its own number (divisor_override)")
    if not padded and window == (image.size("h"), image.size("w")):
        return network.emit(call, "GlobalAveragePool2D", [image], "ncyx")
    return pool(network, call, "AveragePool2D", module)


def pool(network: Network, call: Call, operator: str, module: Any) -> Value:
    """Return the output of a pool with the settings of `module`."""
    image, size = image_of(call), one_of(module.kernel_size, "window")
    stride = size if module.stride in (None, (), []) else one_of(module.stride, "stride")
    if one_of(getattr(module, "dilation", 1), "dilation") != 1:
        raise Refused("dilation: the layer record of a pool has none")
    rows, columns = as_pair(module.padding)
    padding = pad_last_windows(image.shape[2:], call.shape[2:], size, stride, (rows, rows, columns, columns))
    margins = padding if any(padding) else "valid"
    return network.emit(call, operator, [image], "nchw", {"size": size, "stride": stride, "padding": margins})


def adaptive_average_pool(network: Network, call: Call) -> Value:
    """Return the mean of each channel, or of windows of one size."""
    value = call.value
    if value.layout == "ncyx":
        return value
    image = image_of(call)
    entering, leaving = image.shape[2:], call.shape[2:]
    if leaving == (1, 1):
        return network.emit(call, "GlobalAveragePool2D", [image], "ncyx")
    if entering == leaving:
        return image
    rows, columns = (size // parts if size % parts == 0 else 0 for size, parts in zip(entering, leaving, strict=True))
    if rows != columns or not rows:
        raise Refused(f"{entering} to {leaving}: its windows differ in size; take images whose size fits")
    return network.emit(call, "AveragePool2D", [image], "nchw", {"size": rows, "stride": rows, "padding": "valid"})
