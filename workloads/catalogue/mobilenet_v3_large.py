"""mobilenet-v3-large: data, with only the logic that its publication repeats."""

from __future__ import annotations

from typing import NamedTuple

from workloads import layers
from workloads.spec import Workload


def _divisible_by_8(channels: float) -> int:
    """Return the nearest multiple of 8, one higher if that would be more than a tenth less (Sandler et al. 2018)."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded if rounded >= 0.9 * channels else rounded + 8


def _normalised(
    convolution: layers.Conv2D | layers.DepthwiseConv2D, name: str, activation: type[layers.Layer] | None
) -> tuple[layers.Layer, ...]:
    chain: tuple[layers.Layer, ...] = (convolution, layers.BatchNorm(f"{name}_norm", momentum=0.99, epsilon=1e-3))
    return chain if activation is None else (*chain, activation(f"{name}_activation"))


class _Block(NamedTuple):
    """A row of Howard et al. 2019, table 1; channels after the expansion, and after the projection."""

    kernel: int
    expanded: int
    leaving: int
    squeeze: bool
    activation: type[layers.Layer]
    stride: int


def _bottleneck(name: str, entering: int, block: _Block) -> tuple[layers.Layer, ...]:
    """Expand, filter each channel, squeeze and excite, project: the block of Howard et al. 2019, figure 4."""
    kernel, expanded, leaving, squeeze, activation, stride = block
    chain: tuple[layers.Layer, ...] = ()
    if expanded != entering:
        expand = layers.Conv2D(f"{name}_expand", expanded, (1, 1), bias=False, initializer="he-normal")
        chain += _normalised(expand, f"{name}_expand", activation)
    depthwise = layers.DepthwiseConv2D(
        f"{name}_depthwise", (kernel, kernel), stride, "same", bias=False, initializer="he-normal"
    )
    chain += _normalised(depthwise, f"{name}_depthwise", activation)
    if squeeze:
        gate = (
            layers.GlobalAveragePool2D(f"{name}_squeeze"),
            layers.Dense(f"{name}_reduce", _divisible_by_8(expanded // 4), "he-normal"),
            layers.Relu(f"{name}_reduce_activation"),
            layers.Dense(f"{name}_excite", expanded, "he-normal"),
            layers.HardSigmoid(f"{name}_excite_activation"),
        )
        chain += (layers.squeeze_excite(f"{name}_scale", gate),)
    project = layers.Conv2D(f"{name}_project", leaving, (1, 1), bias=False, initializer="he-normal")
    chain += _normalised(project, f"{name}_project", None)
    return (layers.residual(f"{name}_add", chain),) if stride == 1 and entering == leaving else chain


_BLOCKS = (
    _Block(3, 16, 16, False, layers.Relu, 1),
    _Block(3, 64, 24, False, layers.Relu, 2),
    _Block(3, 72, 24, False, layers.Relu, 1),
    _Block(5, 72, 40, True, layers.Relu, 2),
    _Block(5, 120, 40, True, layers.Relu, 1),
    _Block(5, 120, 40, True, layers.Relu, 1),
    _Block(3, 240, 80, False, layers.HardSwish, 2),
    _Block(3, 200, 80, False, layers.HardSwish, 1),
    _Block(3, 184, 80, False, layers.HardSwish, 1),
    _Block(3, 184, 80, False, layers.HardSwish, 1),
    _Block(3, 480, 112, True, layers.HardSwish, 1),
    _Block(3, 672, 112, True, layers.HardSwish, 1),
    _Block(5, 672, 160, True, layers.HardSwish, 2),
    _Block(5, 960, 160, True, layers.HardSwish, 1),
    _Block(5, 960, 160, True, layers.HardSwish, 1),
)


def _mobilenet_v3_large(classes: int) -> tuple[layers.Layer, ...]:
    """Build the layers like torchvision: its dropout, its BatchNorm settings, biases only in the classifier and in
    the squeeze. The exception is "same" padding, as in this suite and in the paper's code.
    """
    stem = layers.Conv2D("stem", 16, (3, 3), 2, "same", bias=False, initializer="he-normal")
    chain, channels = _normalised(stem, "stem", layers.HardSwish), 16
    for number, block in enumerate(_BLOCKS, start=1):
        chain += _bottleneck(f"block{number}", channels, block)
        channels = block.leaving
    last = layers.Conv2D("last", 6 * channels, (1, 1), bias=False, initializer="he-normal")
    return (
        *chain,
        *_normalised(last, "last", layers.HardSwish),
        layers.GlobalAveragePool2D("pool"),
        layers.Dense("dense1", 1280, "he-normal"),
        layers.HardSwish("dense1_activation"),
        layers.Dropout("dropout", 0.2),
        layers.Dense("dense2", classes),
    )


MOBILENET_V3_LARGE = Workload(
    name="mobilenet-v3-large",
    summary="MobileNetV3-Large (Howard et al. 2019) with a head for ten classes, as in Raschka's batch-size benchmark",
    input_shape=(224, 224, 3),
    layers=_mobilenet_v3_large(classes=10),
    differs="strided convolutions pad like TensorFlow's \"same\", below and on the right, as the paper's own code; "
    "torchvision pads alike on each side. PyTorch and MXNet copy the images to pad them so, at a cost in speed",
)
