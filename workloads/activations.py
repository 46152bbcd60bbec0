"""How many bytes the mathematics of a network keeps between forward and backward, counted from its layer records.

The rule: a value is kept where the derivative of some layer cannot be had without it, once, however many layers need
it. Nothing is computed a second time to save memory, nothing is kept that could be had from what is kept.

    Conv2D, DepthwiseConv2D, Dense   the input: the kernel's gradient is input x gradient of the output
    Relu, Relu6, HardSigmoid         the output: it alone tells where the derivative is not 0
    HardSwish                        the input: two inputs have one output
    MaxPool2D                        the input: it tells again which element of a window was the largest
    AveragePool2D, GlobalAveragePool2D, Flatten, Residual   nothing: their derivative is a constant
    BatchNorm                        the input, and once a batch the mean and the deviation of each channel
    Dropout                          which values it dropped, a byte each
    SqueezeExcite                    both factors: the input and the output of its branch
    loss                             the logits

So a ReLU's output that a convolution takes in is one tensor, a Flatten's output is its input, and a BatchNorm's output
under a ReLU is not kept. The images are counted as the first layer takes them in: rescaled, float32. A framework may
keep more: the places of a pool's maxima, labels of another type, both the logits and their softmax.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .layers import (
    AveragePool2D,
    BatchNorm,
    Branch,
    Conv2D,
    Dense,
    DepthwiseConv2D,
    Dropout,
    Flatten,
    GlobalAveragePool2D,
    HardSigmoid,
    HardSwish,
    Layer,
    MaxPool2D,
    Relu,
    Relu6,
    Residual,
    Shape,
    SqueezeExcite,
)
from .spec import Workload

FLOAT32_BYTES, MASK_BYTES = 4, 1


@dataclass(frozen=True)
class Needs:
    """What the derivative of a layer is made of."""

    input: bool = False
    output: bool = False
    mask: bool = False  # a byte for each value of the input
    moments: bool = False  # two floats a channel, whatever the batch size


NEEDS: dict[type[Layer], Needs] = {
    Conv2D: Needs(input=True),
    DepthwiseConv2D: Needs(input=True),
    Dense: Needs(input=True),
    Relu: Needs(output=True),
    Relu6: Needs(output=True),
    HardSigmoid: Needs(output=True),
    HardSwish: Needs(input=True),
    MaxPool2D: Needs(input=True),
    AveragePool2D: Needs(),
    GlobalAveragePool2D: Needs(),
    Flatten: Needs(),
    Residual: Needs(),
    BatchNorm: Needs(input=True, moments=True),
    Dropout: Needs(mask=True),
    SqueezeExcite: Needs(input=True),  # and the output of its branch, see `_walk`
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


def _walk(layers: tuple[Layer, ...], tensor: str, shape: Shape, count: Count) -> tuple[str, Shape]:
    """Counts what the layers keep; (tensor that leaves them, its shape)."""
    for layer in layers:
        needs = NEEDS[type(layer)]
        if needs.input:
            count.kept[tensor] = math.prod(shape)
        if isinstance(layer, Branch):
            inner, inner_shape = _walk(layer.layers, tensor, shape, count)
            if isinstance(layer, SqueezeExcite):
                count.kept[inner] = math.prod(inner_shape)
        leaving = layer.output_shape(shape)
        if not _same_tensor(layer):
            tensor = layer.name
        if needs.output:
            count.kept[tensor] = math.prod(leaving)
        if needs.mask and not _same_tensor(layer):
            count.masks += math.prod(shape)
        if needs.moments:
            count.moments += 2 * shape[-1]
        shape = leaving
    return tensor, shape


def _same_tensor(layer: Layer) -> bool:
    """Whether what leaves the layer is what entered it, seen in another shape or not at all changed."""
    return isinstance(layer, Flatten) or (isinstance(layer, Dropout) and layer.rate == 0)


def pooled_values(workload: Workload) -> int:
    """Outputs of all max-pools, an image: a framework that keeps the places of the maxima keeps so many."""
    return sum(math.prod(layer.output_shape(shape)) for layer, shape in workload.walk() if isinstance(layer, MaxPool2D))
