"""DenseNet-121 (Huang et al. 2017), as torchvision defines it."""

from __future__ import annotations

from workloads import layers
from workloads.spec import Workload

GROWTH = 32  # channels that each layer adds
BOTTLENECK = 4  # times GROWTH are the channels between a layer's two convolutions
BLOCKS = (6, 12, 24, 16)  # layers


def _activated(name: str) -> tuple[layers.Layer, ...]:
    return layers.BatchNorm(f"{name}_norm", momentum=0.9, epsilon=1e-5), layers.Relu(f"{name}_relu")


def _convolution(name: str, filters: int, kernel: int, stride: int = 1) -> layers.Conv2D:
    """Return a convolution whose margins keep an image's size at stride 1."""
    margin = kernel // 2
    padding = (margin, margin, margin, margin)
    return layers.Conv2D(name, filters, (kernel, kernel), stride, padding, bias=False, initializer="he-normal")


def _dense_layer(name: str) -> layers.Concatenate:
    """Return the input, followed by GROWTH channels computed from it."""
    made = (
        *_activated(f"{name}_conv1"),
        _convolution(f"{name}_conv1", BOTTLENECK * GROWTH, 1),
        *_activated(f"{name}_conv2"),
        _convolution(f"{name}_conv2", GROWTH, 3),
    )
    return layers.Concatenate(name, ((), made))


def _transition(name: str, channels: int) -> tuple[layers.Layer, ...]:
    return *_activated(name), _convolution(name, channels, 1), layers.AveragePool2D(f"{name}_pool", 2)


def build_layers(classes: int) -> tuple[layers.Layer, ...]:
    """Return the layers, with a head for so many classes."""
    channels = 2 * GROWTH
    chain: tuple[layers.Layer, ...] = (
        _convolution("stem", channels, 7, 2),
        *_activated("stem"),
        layers.MaxPool2D("stem_pool", 3, 2, (1, 1, 1, 1)),
    )
    for block, depth in enumerate(BLOCKS, start=1):
        if block > 1:
            channels //= 2
            chain += _transition(f"transition{block - 1}", channels)
        chain += tuple(_dense_layer(f"block{block}_layer{number}") for number in range(1, depth + 1))
        channels += depth * GROWTH
    return (*chain, *_activated("last"), layers.GlobalAveragePool2D("pool"), layers.Dense("dense", classes))


DENSENET_121 = Workload(
    name="densenet-121",
    summary="DenseNet-121 (Huang et al. 2017) as in torchvision, for ten classes at 64 x 64",
    input_shape=(64, 64, 3),
    layers=build_layers(classes=10),
)
