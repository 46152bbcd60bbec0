"""The bytes that the mathematics of a network keeps between forward and backward, counted from its layer records.

The rule: a value is kept if the derivative of some layer needs it, once, however many layers need it. Nothing is
computed a second time to save memory, and nothing is kept that can be computed from kept values. KEPT lists this for
each layer; the loss keeps the logits.

So a ReLU's output that a convolution takes in is one tensor. A Flatten's output is its input, and a Concatenate's
output is its parts. A BatchNorm's output under a ReLU is not kept. The images are counted as the first layer takes them
in: rescaled, float32. A framework may keep more: the indices of a pool's maxima, labels of another type, both the
logits and their softmax. It may keep less if its attention recomputes the softmax.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from . import layers
from .spec import Workload

FLOAT32_BYTES, MASK_BYTES = 4, 1

KEPT: dict[type[layers.Layer], Literal["input", "output", "mask", "factors"] | None] = {
    # The kernel's gradient is input x gradient of the output.
    layers.Conv2D: "input",
    layers.DepthwiseConv2D: "input",
    layers.Dense: "input",
    # The output alone shows where the derivative is not 0; but two inputs of a hard swish have one output.
    layers.Relu: "output",
    layers.Relu6: "output",
    layers.HardSigmoid: "output",
    layers.HardSwish: "input",
    layers.Gelu: "input",
    layers.Silu: "input",
    layers.Sigmoid: "output",
    layers.Tanh: "output",
    layers.Softmax: "output",
    # The input shows which element of a window was the largest.
    layers.MaxPool2D: "input",
    # The derivative is a constant.
    layers.AveragePool2D: None,
    layers.GlobalAveragePool2D: None,
    layers.Resize: None,
    layers.Flatten: None,
    layers.Tokens: None,
    layers.TokenMean: None,
    layers.PositionEmbedding: None,
    layers.ClassToken: None,
    layers.FirstToken: None,
    layers.Normalise: None,
    layers.Add: None,
    layers.Concatenate: None,
    layers.Multiply: "factors",
    layers.BatchNorm: "input",  # and once per batch the mean and the deviation of each channel
    layers.LayerNorm: "input",  # and the mean and the deviation of each row
    layers.MultiHeadAttention: "input",  # and the inputs of its softmax and its products
    layers.ChannelScale: "input",
    layers.Dropout: "mask",  # which values it dropped, one byte each
    layers.StochasticDepth: "mask",  # whether it dropped the image, one byte
}
# The output is the input in another shape, or the input and a parameter.
VIEWS = (layers.Flatten, layers.Tokens, layers.ClassToken)

Tensor = dict[str, int]  # {part: its floats per image}; a part is named by the layer that made it, "" are the images


@dataclass
class Count:
    """Counts of a network; `kept` holds the parts of all tensors that are kept, the others are by layer."""

    kept: Tensor
    masks: dict[str, int] = field(default_factory=dict)  # bytes per image
    moments: dict[str, int] = field(default_factory=dict)  # floats per batch


def activation_bytes(workload: Workload, batch_size: int, value_bytes: int = FLOAT32_BYTES) -> int:
    """Return the bytes that one step on `batch_size` images keeps from forward to backward, by the rule above.

    Parameters, running statistics and the uint8 batch are not included. Raises KeyError for a layer without a rule.
    """
    return sum(activation_bytes_by_layer(workload, batch_size, value_bytes).values())


def activation_bytes_by_layer(workload: Workload, batch_size: int, value_bytes: int = FLOAT32_BYTES) -> dict[str, int]:
    """Return {layer: bytes of `activation_bytes`}. A value belongs to the layer that made it; "" are the images.

    Layers of which nothing is kept are missing.
    """
    count = Count({})
    logits, _ = _walk(workload.layers, {"": math.prod(workload.input_shape)}, workload.input_shape, count)
    found: dict[str, int] = {}
    for counted, unit_bytes in (
        (count.kept | logits, batch_size * value_bytes),
        (count.masks, batch_size * MASK_BYTES),
        (count.moments, value_bytes),
    ):
        for name, number in counted.items():
            layer = name.partition("/")[0]
            found[layer] = found.get(layer, 0) + unit_bytes * number
    return found


def _walk(
    chain: tuple[layers.Layer, ...], tensor: Tensor, shape: layers.Shape, count: Count
) -> tuple[Tensor, layers.Shape]:
    """Count what the layers keep; return (output tensor, its shape)."""
    for layer in chain:
        kept, leaving = KEPT[type(layer)], layer.output_shape(shape)
        made = {layer.name: math.prod(leaving)}
        if kept == "input":
            count.kept |= tensor | _count_other_values(layer, shape)
        if isinstance(layer, layers.BatchNorm):
            count.moments[layer.name] = 2 * shape[-1]
        if isinstance(layer, layers.Join):
            parts = [_walk(branch, tensor, shape, count)[0] for branch in layer.branches]
            together = {name: size for part in parts for name, size in part.items()}
            if kept == "factors":
                count.kept |= together
            if isinstance(layer, layers.Concatenate):
                made = together
        if isinstance(layer, VIEWS) or (isinstance(layer, layers.Masked) and layer.rate == 0):
            made = tensor
        elif kept == "mask":
            count.masks[layer.name] = 1 if isinstance(layer, layers.StochasticDepth) else math.prod(shape)
        elif kept == "output":
            count.kept |= made
        tensor, shape = made, leaving
    return tensor, shape


def _count_other_values(layer: layers.Layer, shape: layers.Shape) -> Tensor:
    """Return what a layer keeps besides its input and its output."""
    if isinstance(layer, layers.LayerNorm):
        return {f"{layer.name}/moments": 2 * math.prod(shape[:-1])}
    if isinstance(layer, layers.MultiHeadAttention):
        tokens, width = shape
        projected = {f"{layer.name}/{name}": tokens * width for name in ("query", "key", "value", "heads")}
        return projected | {f"{layer.name}/softmax": layer.heads * tokens**2}
    return {}


def pooled_values(workload: Workload) -> int:
    """Return the outputs of all max-pools, per image: a framework that keeps the maxima's indices keeps this many."""
    return sum(
        math.prod(layer.output_shape(shape)) for layer, shape in workload.walk() if isinstance(layer, layers.MaxPool2D)
    )
