"""How many bytes the mathematics of a network keeps between forward and backward, counted from its layer records.

The rule: a value is kept where the derivative of some layer cannot be had without it, once, however many layers need
it. Nothing is computed a second time to save memory, nothing is kept that could be had from what is kept. KEPT says
what that is for each layer; the loss keeps the logits.

So a ReLU's output that a convolution takes in is one tensor, a Flatten's output is its input, a Concatenate's output is
its parts, and a BatchNorm's output under a ReLU is not kept. The images are counted as the first layer takes them in:
rescaled, float32. A framework may keep more: the places of a pool's maxima, labels of another type, both the logits and
their softmax; or less, where its attention computes the softmax again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from . import layers
from .spec import Workload

FLOAT32_BYTES, MASK_BYTES = 4, 1

KEPT: dict[type[layers.Layer], Literal["input", "output", "mask", "factors"] | None] = {
    # The kernel's gradient is input x gradient of the output.
    layers.Conv2D: "input",
    layers.DepthwiseConv2D: "input",
    layers.Dense: "input",
    # The output alone tells where the derivative is not 0; but two inputs of a hard swish have one output.
    layers.Relu: "output",
    layers.Relu6: "output",
    layers.HardSigmoid: "output",
    layers.HardSwish: "input",
    layers.Gelu: "input",
    layers.Silu: "input",
    layers.Sigmoid: "output",
    layers.Tanh: "output",
    layers.Softmax: "output",
    # It tells again which element of a window was the largest.
    layers.MaxPool2D: "input",
    # The derivative is a constant.
    layers.AveragePool2D: None,
    layers.GlobalAveragePool2D: None,
    layers.Resize: None,
    layers.Flatten: None,
    layers.Tokens: None,
    layers.TokenMean: None,
    layers.PositionEmbedding: None,
    layers.Add: None,
    layers.Concatenate: None,
    layers.Multiply: "factors",
    layers.BatchNorm: "input",  # and once a batch the mean and the deviation of each channel
    layers.LayerNorm: "input",  # and the mean and the deviation of each row
    layers.MultiHeadAttention: "input",  # and what its softmax and its products take in
    layers.Dropout: "mask",  # which values it dropped, a byte each
}
VIEWS = (layers.Flatten, layers.Tokens)  # what leaves is what entered, in another shape

Tensor = dict[str, int]  # {part: its floats an image}; a part is called by the layer that made it, "" are the images


@dataclass
class Count:
    """`kept` holds the parts of all tensors that are kept."""

    kept: Tensor
    masks: int = 0  # bytes an image
    moments: int = 0  # floats a batch


def activation_bytes(workload: Workload, batch_size: int, value_bytes: int = FLOAT32_BYTES) -> int:
    """Bytes that one step on `batch_size` images keeps from forward to backward, by the rule above.

    Parameters, running statistics and the uint8 batch are no part of it. Raises KeyError for a layer without a rule.
    """
    count = Count({})
    logits, _ = _walk(workload.layers, {"": math.prod(workload.input_shape)}, workload.input_shape, count)
    count.kept |= logits
    per_image = value_bytes * sum(count.kept.values()) + MASK_BYTES * count.masks
    return batch_size * per_image + value_bytes * count.moments


def _walk(
    chain: tuple[layers.Layer, ...], tensor: Tensor, shape: layers.Shape, count: Count
) -> tuple[Tensor, layers.Shape]:
    """Counts what the layers keep; (tensor that leaves them, its shape)."""
    for layer in chain:
        kept, leaving = KEPT[type(layer)], layer.output_shape(shape)
        made = {layer.name: math.prod(leaving)}
        if kept == "input":
            count.kept |= tensor | _beside(layer, shape)
        if isinstance(layer, layers.BatchNorm):
            count.moments += 2 * shape[-1]
        if isinstance(layer, layers.Join):
            parts = [_walk(branch, tensor, shape, count)[0] for branch in layer.branches]
            together = {name: size for part in parts for name, size in part.items()}
            if kept == "factors":
                count.kept |= together
            if isinstance(layer, layers.Concatenate):
                made = together
        if isinstance(layer, VIEWS) or (isinstance(layer, layers.Dropout) and layer.rate == 0):
            made = tensor
        elif kept == "mask":
            count.masks += math.prod(shape)
        elif kept == "output":
            count.kept |= made
        tensor, shape = made, leaving
    return tensor, shape


def _beside(layer: layers.Layer, shape: layers.Shape) -> Tensor:
    """What a layer keeps that is neither its input nor its output."""
    if isinstance(layer, layers.LayerNorm):
        return {f"{layer.name}/moments": 2 * math.prod(shape[:-1])}
    if isinstance(layer, layers.MultiHeadAttention):
        tokens, width = shape
        projected = {f"{layer.name}/{name}": tokens * width for name in ("query", "key", "value", "heads")}
        return projected | {f"{layer.name}/softmax": layer.heads * tokens**2}
    return {}


def pooled_values(workload: Workload) -> int:
    """Outputs of all max-pools, an image: a framework that keeps the places of the maxima keeps so many."""
    return sum(
        math.prod(layer.output_shape(shape)) for layer, shape in workload.walk() if isinstance(layer, layers.MaxPool2D)
    )
