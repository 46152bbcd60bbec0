"""ResNet-50 (He et al. 2016), as torchvision defines it."""

from __future__ import annotations

from workloads import layers
from workloads.spec import Workload

EXPANSION = 4  # times the width of a bottleneck are the channels that leave it
STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))  # width, blocks


def _normalised(name: str, filters: int, kernel: int, stride: int = 1) -> tuple[layers.Layer, ...]:
    """Return a convolution whose margins keep an image's size at stride 1, and its BatchNorm."""
    margin = kernel // 2
    padding = (margin, margin, margin, margin)
    convolution = layers.Conv2D(name, filters, (kernel, kernel), stride, padding, bias=False, initializer="he-normal")
    return convolution, layers.BatchNorm(f"{name}_norm", momentum=0.9, epsilon=1e-5)


def _bottleneck(name: str, width: int, stride: int, projected: bool) -> tuple[layers.Layer, ...]:
    """Return three convolutions and a shortcut; the stride is that of the 3 x 3 convolution."""
    chain = (
        *_normalised(f"{name}_conv1", width, 1),
        layers.Relu(f"{name}_relu1"),
        *_normalised(f"{name}_conv2", width, 3, stride),
        layers.Relu(f"{name}_relu2"),
        *_normalised(f"{name}_conv3", EXPANSION * width, 1),
    )
    shortcut = _normalised(f"{name}_shortcut", EXPANSION * width, 1, stride) if projected else ()
    return layers.residual(f"{name}_add", chain, shortcut), layers.Relu(f"{name}_relu3")


def build_layers(classes: int) -> tuple[layers.Layer, ...]:
    """Return the layers, with a head for so many classes."""
    chain: tuple[layers.Layer, ...] = (
        *_normalised("stem", 64, 7, 2),
        layers.Relu("stem_relu"),
        layers.MaxPool2D("stem_pool", 3, 2, (1, 1, 1, 1)),
    )
    for stage, (width, blocks) in enumerate(STAGES, start=1):
        for number in range(1, blocks + 1):
            stride = 2 if stage > 1 and number == 1 else 1
            chain += _bottleneck(f"stage{stage}_block{number}", width, stride, projected=number == 1)
    return (*chain, layers.GlobalAveragePool2D("pool"), layers.Dense("dense", classes))


RESNET_50 = Workload(
    name="resnet-50",
    summary="ResNet-50 (He et al. 2016) as in torchvision, the stride in the 3 x 3 convolution; ten classes at 64 x 64",
    input_shape=(64, 64, 3),
    layers=build_layers(classes=10),
    differs="the paper has the stride in the first 1 x 1 convolution of a block",
)
