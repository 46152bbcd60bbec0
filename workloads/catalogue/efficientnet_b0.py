"""EfficientNet-B0 (Tan & Le 2019), as torchvision defines it."""

from __future__ import annotations

from typing import NamedTuple

from workloads import layers
from workloads.spec import Workload

STEM, LAST = 32, 1280  # channels
DEPTH_RATE = 0.2  # that the rate of the stochastic depth rises to, block by block
SQUEEZE = 4  # entering channels per channel of the squeeze


class _Stage(NamedTuple):
    """A row of Tan & Le 2019, table 1; the stride is that of its first block."""

    expansion: int
    kernel: int
    stride: int
    leaving: int
    blocks: int


STAGES = (
    _Stage(1, 3, 1, 16, 1),
    _Stage(6, 3, 2, 24, 2),
    _Stage(6, 5, 2, 40, 2),
    _Stage(6, 3, 2, 80, 3),
    _Stage(6, 5, 1, 112, 3),
    _Stage(6, 5, 2, 192, 4),
    _Stage(6, 3, 1, 320, 1),
)


def _normalised(
    convolution: layers.Conv2D | layers.DepthwiseConv2D, activated: bool = True
) -> tuple[layers.Layer, ...]:
    name = convolution.name
    chain: tuple[layers.Layer, ...] = (convolution, layers.BatchNorm(f"{name}_norm", momentum=0.9, epsilon=1e-5))
    return (*chain, layers.Silu(f"{name}_silu")) if activated else chain


def _pointwise(name: str, filters: int) -> layers.Conv2D:
    return layers.Conv2D(name, filters, (1, 1), bias=False, initializer="he-normal")


def _gate(name: str, entering: int, expanded: int) -> layers.Multiply:
    """Return squeeze and excite, whose squeeze is measured by the channels that enter the block."""
    gate = (
        layers.GlobalAveragePool2D(f"{name}_squeeze"),
        layers.Dense(f"{name}_reduce", entering // SQUEEZE, "he-normal"),
        layers.Silu(f"{name}_reduce_silu"),
        layers.Dense(f"{name}_excite", expanded, "he-normal"),
        layers.Sigmoid(f"{name}_excite_sigmoid"),
    )
    return layers.squeeze_excite(f"{name}_scale", gate)


def _block(name: str, entering: int, stage: _Stage, stride: int, rate: float) -> tuple[layers.Layer, ...]:
    """Expand, filter each channel, squeeze and excite, project; `rate` is that at which a residual one is dropped."""
    expanded, margin = stage.expansion * entering, stage.kernel // 2
    padding = (margin, margin, margin, margin)
    depthwise = layers.DepthwiseConv2D(
        f"{name}_depthwise", (stage.kernel, stage.kernel), stride, padding, bias=False, initializer="he-normal"
    )
    chain = (
        *(_normalised(_pointwise(f"{name}_expand", expanded)) if expanded != entering else ()),
        *_normalised(depthwise),
        _gate(name, entering, expanded),
        *_normalised(_pointwise(f"{name}_project", stage.leaving), activated=False),
    )
    if stride > 1 or entering != stage.leaving:
        return chain
    return (layers.residual(f"{name}_add", (*chain, layers.StochasticDepth(f"{name}_depth", rate))),)


def build_layers(classes: int) -> tuple[layers.Layer, ...]:
    """Return the layers, with a head for so many classes."""
    stem = layers.Conv2D("stem", STEM, (3, 3), 2, (1, 1, 1, 1), bias=False, initializer="he-normal")
    chain, entering, before = _normalised(stem), STEM, 0
    total = sum(stage.blocks for stage in STAGES)
    for number, stage in enumerate(STAGES, start=1):
        for block in range(1, stage.blocks + 1):
            stride = stage.stride if block == 1 else 1
            chain += _block(f"stage{number}_block{block}", entering, stage, stride, DEPTH_RATE * before / total)
            entering, before = stage.leaving, before + 1
    return (
        *chain,
        *_normalised(_pointwise("last", LAST)),
        layers.GlobalAveragePool2D("pool"),
        layers.Dropout("dropout", 0.2),
        layers.Dense("dense", classes),
    )


EFFICIENTNET_B0 = Workload(
    name="efficientnet-b0",
    summary="EfficientNet-B0 (Tan & Le 2019) as in torchvision, for ten classes at 64 x 64",
    input_shape=(64, 64, 3),
    layers=build_layers(classes=10),
    differs="torchvision pads alike on each side, the paper's own code like TensorFlow's \"same\"",
)
