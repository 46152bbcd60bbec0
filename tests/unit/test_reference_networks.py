"""The catalogue's networks that are torchvision's, compared with what torchvision and their papers say of them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from each import for_each

from workloads.activations import activation_bytes
from workloads.catalogue import CONVNEXT_TINY, DENSENET_121, EFFICIENTNET_B0, RESNET_50
from workloads.catalogue.convnext_tiny import build_layers as convnext_layers
from workloads.catalogue.densenet_121 import build_layers as densenet_layers
from workloads.catalogue.efficientnet_b0 import build_layers as efficientnet_layers
from workloads.catalogue.resnet_50 import build_layers as resnet_layers
from workloads.layers import (
    Add,
    AveragePool2D,
    BatchNorm,
    ChannelScale,
    Concatenate,
    Conv2D,
    Dense,
    DepthwiseConv2D,
    Dropout,
    Gelu,
    Layer,
    LayerNorm,
    MaxPool2D,
    Multiply,
    Shape,
    Sigmoid,
    Silu,
    StochasticDepth,
)
from workloads.spec import Workload

# With 1,000 classes at 224 x 224, of torchvision's `meta`: parameters, and thousand millions of multiply-adds.
PUBLISHED = [
    (RESNET_50, resnet_layers, 25_557_032, 4.089),
    (DENSENET_121, densenet_layers, 7_978_856, 2.834),
    (EFFICIENTNET_B0, efficientnet_layers, 5_288_548, 0.386),
    (CONVNEXT_TINY, convnext_layers, 28_589_128, 4.456),
]


@for_each("workload, build_layers, parameters, work", PUBLISHED)
def test_a_network_has_the_published_parameters_and_work_and_for_ten_classes_differs_in_its_head_alone(
    workload: Workload, build_layers: object, parameters: int, work: float
) -> None:
    assert callable(build_layers)
    published = replace(workload, input_shape=(224, 224, 3), layers=build_layers(1000))
    assert published.parameter_count == parameters
    assert round(published.multiply_adds / 1e9, 3) == work
    assert (workload.input_shape, workload.classes) == ((64, 64, 3), 10)
    assert workload.layers[:-1] == published.layers[:-1]
    assert (workload.layers[-1], published.layers[-1]) == (Dense("dense", 10), Dense("dense", 1000))


def entering(workload: Workload, kind: type[Layer]) -> list[tuple[Layer, Shape]]:
    """Return the layers of this kind, each with the shape that enters it."""
    return [(layer, shape) for layer, shape in workload.walk() if isinstance(layer, kind)]


def named(workload: Workload) -> dict[str, Layer]:
    return {layer.name: layer for layer, _ in workload.walk()}


@for_each("workload", [RESNET_50, DENSENET_121, EFFICIENTNET_B0, CONVNEXT_TINY])
def test_convolutions_and_pools_pad_alike_on_each_side(workload: Workload) -> None:
    for layer, shape in workload.walk():
        if isinstance(layer, Conv2D | DepthwiseConv2D | MaxPool2D | AveragePool2D):
            ((top, bottom), (left, right)) = layer.margins(shape)
            assert top == bottom == left == right, layer
            if isinstance(layer, Conv2D | DepthwiseConv2D) and layer.kernel[0] % 2:
                assert top == layer.kernel[0] // 2, layer


def test_resnet_50_strides_in_the_3_x_3_convolution_of_a_stages_first_block() -> None:
    layers = named(RESNET_50)
    assert len(entering(RESNET_50, Conv2D)) == 1 + 16 * 3 + 4
    assert layers["stem"] == Conv2D("stem", 64, (7, 7), 2, (3, 3, 3, 3), False, "he-normal")
    assert layers["stem_pool"] == MaxPool2D("stem_pool", 3, 2, (1, 1, 1, 1))
    strided = {layer.name for layer, _ in entering(RESNET_50, Conv2D) if isinstance(layer, Conv2D) and layer.stride > 1}
    stages = [f"stage{stage}_block1_{part}" for stage in (2, 3, 4) for part in ("conv2", "shortcut")]
    assert strided == {"stem", *stages}
    assert [layer.output_shape(shape) for layer, shape in entering(RESNET_50, Add)] == [
        *[(16, 16, 256)] * 3, *[(8, 8, 512)] * 4, *[(4, 4, 1024)] * 6, *[(2, 2, 2048)] * 3
    ]  # fmt: skip
    assert {(layer.momentum, layer.epsilon) for layer in layers.values() if isinstance(layer, BatchNorm)} == {
        (0.9, 1e-5)
    }


def test_densenet_121_concatenates_what_entered_and_32_channels_more_58_times() -> None:
    channels = [(shape[2], layer.output_shape(shape)) for layer, shape in entering(DENSENET_121, Concatenate)]
    expected, width = [], 64
    for side, depth in ((16, 6), (8, 12), (4, 24), (2, 16)):
        for _ in range(depth):
            expected.append((width, (side, side, width + 32)))
            width += 32
        width //= 2
    assert channels == expected and len(channels) == 58
    assert [layer for layer, _ in entering(DENSENET_121, AveragePool2D)] == [
        AveragePool2D(f"transition{number}_pool", 2) for number in (1, 2, 3)
    ]
    first = DENSENET_121.layers[4]
    assert isinstance(first, Concatenate) and first.branches[0] == ()
    names = [type(layer).__name__ for layer in first.branches[1]]
    assert names == ["BatchNorm", "Relu", "Conv2D", "BatchNorm", "Relu", "Conv2D"]


def test_efficientnet_b0_squeezes_a_quarter_of_what_enters_and_drops_nine_blocks_ever_more_often() -> None:
    layers = named(EFFICIENTNET_B0)
    reduced = [layer.units for name, layer in layers.items() if name.endswith("_reduce") and isinstance(layer, Dense)]
    assert reduced == [8, 4, 6, 6, 10, 10, 20, 20, 20, 28, 28, 28, 48, 48, 48, 48]
    rates = [layer.rate for layer in layers.values() if isinstance(layer, StochasticDepth)]
    assert rates == pytest.approx([0.2 * block / 16 for block in (2, 4, 6, 7, 9, 10, 12, 13, 14)])
    assert len(entering(EFFICIENTNET_B0, Add)) == 9
    kernels = [
        (layer.kernel[0], layer.stride)
        for layer in layers.values() if isinstance(layer, DepthwiseConv2D)
    ]  # fmt: skip
    assert kernels == [
        (3, 1), (3, 2), (3, 1), (5, 2), (5, 1), (3, 2), (3, 1), (3, 1), (5, 1), (5, 1), (5, 1), (5, 2),
        *[(5, 1)] * 3, (3, 1),
    ]  # fmt: skip
    gates = [layer for layer in layers.values() if isinstance(layer, Multiply)]
    assert all(isinstance(gate.branches[1][-1], Sigmoid) for gate in gates) and len(gates) == 16
    assert len(entering(EFFICIENTNET_B0, Silu)) == 1 + 15 + 16 + 16 + 1
    assert [layer.rate for layer in layers.values() if isinstance(layer, Dropout)] == [0.2]


def test_convnext_tiny_scales_and_drops_each_of_18_blocks_the_first_never() -> None:
    layers = named(CONVNEXT_TINY)
    rates = [layer.rate for layer in layers.values() if isinstance(layer, StochasticDepth)]
    assert rates == pytest.approx([0.1 * block / 17 for block in range(18)])
    assert {layer.initial for layer in layers.values() if isinstance(layer, ChannelScale)} == {1e-6}
    assert {layer.epsilon for layer in layers.values() if isinstance(layer, LayerNorm)} == {1e-6}
    leaving = [layer.output_shape(shape) for layer, shape in entering(CONVNEXT_TINY, Add)]
    assert leaving == [
        *[(16, 16, 96)] * 3, *[(8, 8, 192)] * 3, *[(4, 4, 384)] * 9, *[(2, 2, 768)] * 3
    ]  # fmt: skip
    block = CONVNEXT_TINY.layers[2]
    assert isinstance(block, Add) and block.branches[1] == ()
    kinds = [DepthwiseConv2D, LayerNorm, Conv2D, Gelu, Conv2D, ChannelScale, StochasticDepth]
    assert [type(layer) for layer in block.branches[0]] == kinds
    assert block.branches[0][0] == DepthwiseConv2D("stage1_block1_depthwise", (7, 7), padding=(3, 3, 3, 3))


def test_what_a_step_keeps_of_stochastic_depth_is_a_byte_per_image_and_block() -> None:
    drawn, twin = (activation_bytes(each, 1) for each in (CONVNEXT_TINY, CONVNEXT_TINY.without_dropout()))
    assert drawn - twin == 17  # the first block's rate is 0
    scales = sum(math.prod(shape) for layer, shape in entering(CONVNEXT_TINY, ChannelScale))
    assert twin > 4 * scales
