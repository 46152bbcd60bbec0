"""How many bytes the mathematics of a network keeps between forward and backward, counted from its layer records.

The rule: a value is kept where the derivative of some layer cannot be had without it, once, however many layers need
it. Nothing is computed a second time to save memory, nothing is kept that could be had from what is kept. KEPT says
what that is for each layer; a SqueezeExcite keeps both its factors, the loss keeps the logits.

So a ReLU's output that a convolution takes in is one tensor, a Flatten's output is its input, and a BatchNorm's output
under a ReLU is not kept. The images are counted as the first layer takes them in: rescaled, float32. A framework may
keep more: the places of a pool's maxima, labels of another type, both the logits and their softmax.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from . import layers
from .spec import Workload

FLOAT32_BYTES, MASK_BYTES = 4, 1

KEPT: dict[type[layers.Layer], Literal["input", "output", "mask"] | None] = {
    # The kernel's gradient is input x gradient of the output.
    layers.Conv2D: "input",
    layers.DepthwiseConv2D: "input",
    layers.Dense: "input",
    # The output alone tells where the derivative is not 0; but two inputs of a hard swish have one output.
    layers.Relu: "output",
    layers.Relu6: "output",
    layers.HardSigmoid: "output",
    layers.HardSwish: "input",
    # It tells again which element of a window was the largest.
    layers.MaxPool2D: "input",
    # The derivative is a constant.
    layers.AveragePool2D: None,
    layers.GlobalAveragePool2D: None,
    layers.Flatten: None,
    layers.Residual: None,
    layers.BatchNorm: "input",  # and once a batch the mean and the deviation of each channel
    layers.Dropout: "mask",  # which values it dropped, a byte each
    layers.SqueezeExcite: "input",  # and the output of its branch
}


@dataclass
class Count:
    """`kept` holds {tensor: floats an image}; a tensor is called by the layer that made it, "" are the images."""

    kept: dict[str, int]
    masks: int = 0  # bytes an image
    moments: int = 0  # floats a batch


def activation_bytes(workload: Workload, batch_size: int, value_bytes: int = FLOAT32_BYTES) -> int:
    """Bytes that one step on `batch_size` images keeps from forward to backward, by the rule above.

    Parameters, running statistics and the uint8 batch are no part of it. Raises KeyError for a layer without a rule.
    """
    count = Count({})
    last, shape = _walk(workload.layers, "", workload.input_shape, count)
    count.kept[last] = math.prod(shape)
    per_image = value_bytes * sum(count.kept.values()) + MASK_BYTES * count.masks
    return batch_size * per_image + value_bytes * count.moments


def _walk(chain: tuple[layers.Layer, ...], tensor: str, shape: layers.Shape, count: Count) -> tuple[str, layers.Shape]:
    """Counts what the layers keep; (tensor that leaves them, its shape)."""
    for layer in chain:
        kept = KEPT[type(layer)]
        if kept == "input":
            count.kept[tensor] = math.prod(shape)
        if isinstance(layer, layers.BatchNorm):
            count.moments += 2 * shape[-1]
        if isinstance(layer, layers.Branch):
            inner, inner_shape = _walk(layer.layers, tensor, shape, count)
            if isinstance(layer, layers.SqueezeExcite):
                count.kept[inner] = math.prod(inner_shape)
        # What leaves is what entered, seen in another shape or not changed at all.
        if isinstance(layer, layers.Flatten) or (isinstance(layer, layers.Dropout) and layer.rate == 0):
            shape = layer.output_shape(shape)
            continue
        if kept == "mask":
            count.masks += math.prod(shape)
        tensor, shape = layer.name, layer.output_shape(shape)
        if kept == "output":
            count.kept[tensor] = math.prod(shape)
    return tensor, shape


def pooled_values(workload: Workload) -> int:
    """Outputs of all max-pools, an image: a framework that keeps the places of the maxima keeps so many."""
    return sum(
        math.prod(layer.output_shape(shape)) for layer, shape in workload.walk() if isinstance(layer, layers.MaxPool2D)
    )
