from __future__ import annotations

import math
from dataclasses import replace

import pytest
from each import for_each

from workloads.catalogue import (
    CATS_DOGS_CNN,
    CATS_DOGS_CNN_32,
    LENET_5,
    MOBILENET_V3_LARGE,
    OSU_CNN,
    RESNET_18,
    RESNET_18_SMALL,
    TINY,
    VGG_11,
    VIT_TINY,
)
from workloads.layers import (
    Add,
    AveragePool2D,
    BatchNorm,
    Conv2D,
    Dense,
    DepthwiseConv2D,
    Dropout,
    Flatten,
    Gelu,
    GlobalAveragePool2D,
    HardSwish,
    Layer,
    LayerNorm,
    MaxPool2D,
    MultiHeadAttention,
    Multiply,
    PositionEmbedding,
    Relu,
    Shape,
    Tanh,
    TokenMean,
    Tokens,
)
from workloads.networks import WORKLOADS
from workloads.spec import Workload

OSU_SHAPES = [
    ("conv1", (32, 32, 3), (30, 30, 32)),
    ("relu1", (30, 30, 32), (30, 30, 32)),
    ("pool1", (30, 30, 32), (15, 15, 32)),
    ("conv2", (15, 15, 32), (13, 13, 64)),
    ("relu2", (13, 13, 64), (13, 13, 64)),
    ("pool2", (13, 13, 64), (6, 6, 64)),
    ("conv3", (6, 6, 64), (4, 4, 64)),
    ("relu3", (4, 4, 64), (4, 4, 64)),
    ("flatten", (4, 4, 64), (1024,)),
    ("dense1", (1024,), (64,)),
    ("relu4", (64,), (64,)),
    ("dense2", (64,), (10,)),
]


def steps(workload: Workload) -> list[tuple[str, Shape, Shape]]:
    return [(layer.name, shape, layer.output_shape(shape)) for layer, shape in workload.walk()]


def test_the_catalogue_lists_each_workload_under_its_own_name_and_all_end_in_classes() -> None:
    named = {"osu-cnn", "cats-dogs-cnn", "mobilenet-v3-large", "lenet-5", "vgg-11", "resnet-18", "vit-tiny", "tiny"}
    assert named <= set(WORKLOADS)
    for name, workload in WORKLOADS.items():
        assert workload.name == name
        assert workload.output_shape == (1 if workload.loss == "binary-cross-entropy" else workload.classes,)


def test_osu_cnn_has_the_tutorials_shapes_122_570_parameters_and_the_hand_counted_work() -> None:
    assert steps(OSU_CNN) == OSU_SHAPES
    assert OSU_CNN.output_shape == (10,)
    assert OSU_CNN.classes == 10
    assert OSU_CNN.parameter_count == 122_570
    assert list(OSU_CNN.weight_shapes().items()) == [
        ("conv1/kernel", (3, 3, 3, 32)),
        ("conv1/bias", (32,)),
        ("conv2/kernel", (3, 3, 32, 64)),
        ("conv2/bias", (64,)),
        ("conv3/kernel", (3, 3, 64, 64)),
        ("conv3/bias", (64,)),
        ("dense1/kernel", (1024, 64)),
        ("dense1/bias", (64,)),
        ("dense2/kernel", (64, 10)),
        ("dense2/bias", (10,)),
    ]
    convolutions = 30 * 30 * 32 * 27 + 13 * 13 * 64 * 288 + 4 * 4 * 64 * 576
    assert OSU_CNN.multiply_adds == convolutions + 1024 * 64 + 64 * 10 == 4_548_608


def test_tiny_takes_the_digits_as_they_are_and_has_410_parameters() -> None:
    assert TINY.input_shape == (8, 8, 1)
    assert TINY.parameter_count == 4 * (3 * 3 + 1) + (3 * 3 * 4 + 1) * 10 == 410
    assert TINY.multiply_adds == 6 * 6 * 4 * 9 + 36 * 10


def test_cats_dogs_cnn_keeps_its_image_tells_two_classes_by_one_logit_and_has_the_hand_counted_work() -> None:
    assert steps(CATS_DOGS_CNN) == [
        ("conv1", (200, 200, 3), (200, 200, 32)),
        ("relu1", (200, 200, 32), (200, 200, 32)),
        ("pool1", (200, 200, 32), (100, 100, 32)),
        ("flatten", (100, 100, 32), (320_000,)),
        ("dense1", (320_000,), (128,)),
        ("relu2", (128,), (128,)),
        ("dense2", (128,), (1,)),
    ]
    assert (CATS_DOGS_CNN.loss, CATS_DOGS_CNN.classes) == ("binary-cross-entropy", 2)
    assert CATS_DOGS_CNN_32.layers == CATS_DOGS_CNN.layers and CATS_DOGS_CNN_32.loss == CATS_DOGS_CNN.loss
    assert CATS_DOGS_CNN_32.input_shape == (32, 32, 3)
    assert CATS_DOGS_CNN_32.parameter_count == (27 + 1) * 32 + (16 * 16 * 32 + 1) * 128 + 129 == 1_049_729
    assert CATS_DOGS_CNN.parameter_count == (27 * 32 + 32) + (320_000 * 128 + 128) + (128 + 1) == 40_961_153
    assert CATS_DOGS_CNN.multiply_adds == 200 * 200 * 32 * 27 + 320_000 * 128 + 128 == 75_520_128


# Howard et al. 2019, table 1, with its consequences written out: pixels per side entering and leaving, channels
# entering, expanded and leaving, kernel, width of the squeeze (0: none), activation, whether the input is added.
BLOCKS = [
    (112, 112, 16, 16, 16, 3, 0, Relu, True),
    (112, 56, 16, 64, 24, 3, 0, Relu, False),
    (56, 56, 24, 72, 24, 3, 0, Relu, True),
    (56, 28, 24, 72, 40, 5, 24, Relu, False),
    (28, 28, 40, 120, 40, 5, 32, Relu, True),
    (28, 28, 40, 120, 40, 5, 32, Relu, True),
    (28, 14, 40, 240, 80, 3, 0, HardSwish, False),
    (14, 14, 80, 200, 80, 3, 0, HardSwish, True),
    (14, 14, 80, 184, 80, 3, 0, HardSwish, True),
    (14, 14, 80, 184, 80, 3, 0, HardSwish, True),
    (14, 14, 80, 480, 112, 3, 120, HardSwish, False),
    (14, 14, 112, 672, 112, 3, 168, HardSwish, True),
    (14, 7, 112, 672, 160, 5, 168, HardSwish, False),
    (7, 7, 160, 960, 160, 5, 240, HardSwish, True),
    (7, 7, 160, 960, 160, 5, 240, HardSwish, True),
]


def parts(block: int) -> dict[str, tuple[Layer, Shape]]:
    """{name after "blockN_": (layer, the shape that enters it)} in the order of computation."""
    prefix = f"block{block}_"
    walk = MOBILENET_V3_LARGE.walk()
    return {layer.name.removeprefix(prefix): (layer, shape) for layer, shape in walk if layer.name.startswith(prefix)}


@for_each("block", range(1, 16))
def test_a_mobilenet_block_has_the_papers_shapes_and_layers(block: int) -> None:
    side, smaller, entering, expanded, leaving, kernel, squeeze, activation, added = BLOCKS[block - 1]
    found = parts(block)
    order = ["expand", "expand_norm", "expand_activation"] if expanded != entering else []
    order += ["depthwise", "depthwise_norm", "depthwise_activation"]
    if squeeze:
        order += ["squeeze", "reduce", "reduce_activation", "excite", "excite_activation", "scale"]
    order += ["project", "project_norm"]
    assert list(found) == order + ["add"] * added

    shapes = {part: (shape, layer.output_shape(shape)) for part, (layer, shape) in found.items()}
    wide = (smaller, smaller, expanded)
    assert shapes[order[0]][0] == (side, side, entering)
    assert shapes["depthwise"] == ((side, side, expanded), wide)
    assert shapes["project"] == (wide, (smaller, smaller, leaving))
    depthwise = DepthwiseConv2D(
        f"block{block}_depthwise", (kernel, kernel), side // smaller, "same", False, "he-normal"
    )
    assert found["depthwise"][0] == depthwise
    assert {type(found[part][0]) for part in order if part in ("expand_activation", "depthwise_activation")} == {
        activation
    }
    if squeeze:
        assert isinstance(found["scale"][0], Multiply)
        assert (shapes["scale"][0], shapes["reduce"], shapes["excite"]) == (
            wide,
            ((expanded,), (squeeze,)),
            ((squeeze,), (expanded,)),
        )
    if added:
        assert isinstance(found["add"][0], Add)
        assert shapes["add"] == ((side, side, entering),) * 2


def test_mobilenet_normalises_every_convolution_as_torchvision_does_and_biases_none() -> None:
    layers = [layer for layer, _ in MOBILENET_V3_LARGE.walk()]
    convolutions = [layer for layer in layers if isinstance(layer, Conv2D | DepthwiseConv2D)]
    assert len(convolutions) == 1 + 14 + 15 + 15 + 1  # stem, expand except in block 1, depthwise, project, last
    assert {(layer.bias, layer.initializer) for layer in convolutions} == {(False, "he-normal")}
    for convolution in convolutions:
        behind = layers[layers.index(convolution) + 1]
        assert behind == BatchNorm(f"{convolution.name}_norm", momentum=0.99, epsilon=1e-3)
    assert MOBILENET_V3_LARGE.draws
    assert [layer.rate for layer in layers if isinstance(layer, Dropout)] == [0.2]


def test_mobilenet_ends_in_a_pooled_classifier_of_1280_features() -> None:
    assert steps(MOBILENET_V3_LARGE)[:3] == [
        ("stem", (224, 224, 3), (112, 112, 16)),
        ("stem_norm", (112, 112, 16), (112, 112, 16)),
        ("stem_activation", (112, 112, 16), (112, 112, 16)),
    ]
    assert steps(MOBILENET_V3_LARGE)[-8:] == [
        ("last", (7, 7, 160), (7, 7, 960)),
        ("last_norm", (7, 7, 960), (7, 7, 960)),
        ("last_activation", (7, 7, 960), (7, 7, 960)),
        ("pool", (7, 7, 960), (960,)),
        ("dense1", (960,), (1280,)),
        ("dense1_activation", (1280,), (1280,)),
        ("dropout", (1280,), (1280,)),
        ("dense2", (1280,), (10,)),
    ]
    activations = {layer.name: type(layer) for layer, _ in MOBILENET_V3_LARGE.walk()}
    assert {activations[f"{name}_activation"] for name in ("stem", "last", "dense1")} == {HardSwish}


def test_mobilenet_has_the_published_parameters_but_for_its_head_and_the_published_work() -> None:
    published = 5_483_032  # torchvision, MobileNet_V3_Large_Weights.meta["num_params"]: 1,000 classes
    assert MOBILENET_V3_LARGE.parameter_count == published - (1280 * 1000 + 1000) + (1280 * 10 + 10) == 4_214_842
    normalised = 16 + 960 + sum((2 if expanded != c else 1) * expanded + out for _, _, c, expanded, out, *_ in BLOCKS)
    assert sum(math.prod(shape) for shape in MOBILENET_V3_LARGE.statistic_shapes().values()) == 2 * normalised
    by_hand = 112 * 112 * 16 * 27 + 7 * 7 * 160 * 960 + 960 * 1280 + 1280 * 10
    for side, smaller, entering, expanded, leaving, kernel, squeeze, *_ in BLOCKS:
        by_hand += side**2 * entering * expanded if expanded != entering else 0
        by_hand += smaller**2 * expanded * (kernel**2 + leaving) + 2 * expanded * squeeze
    assert MOBILENET_V3_LARGE.multiply_adds == by_hand
    thousand_classes = by_hand + 1280 * 990
    assert round(thousand_classes / 1e9, 3) == 0.217  # torchvision, MobileNet_V3_Large_Weights.meta["_ops"]
    assert thousand_classes == pytest.approx(219e6, rel=0.02)  # Howard et al. 2019, table 3
    layers = {layer.name: layer for layer, _ in MOBILENET_V3_LARGE.walk()}
    assert layers["dense1"] == Dense("dense1", 1280, "he-normal")
    assert layers["dense2"] == Dense("dense2", 10, "glorot-uniform")


def test_lenet_5_walks_through_the_papers_shapes_and_has_61_706_parameters() -> None:
    assert [(kind, shape) for kind, (_, _, shape) in zip(kinds(LENET_5), steps(LENET_5), strict=True)] == [
        (Conv2D, (28, 28, 6)),
        (Tanh, (28, 28, 6)),
        (AveragePool2D, (14, 14, 6)),
        (Conv2D, (10, 10, 16)),
        (Tanh, (10, 10, 16)),
        (AveragePool2D, (5, 5, 16)),
        (Flatten, (400,)),
        (Dense, (120,)),
        (Tanh, (120,)),
        (Dense, (84,)),
        (Tanh, (84,)),
        (Dense, (10,)),
    ]
    assert LENET_5.input_shape == (32, 32, 1)
    by_hand = (25 + 1) * 6 + (25 * 6 + 1) * 16 + (400 + 1) * 120 + (120 + 1) * 84 + (84 + 1) * 10
    assert LENET_5.parameter_count == by_hand == 61_706
    assert LENET_5.multiply_adds == 28 * 28 * 6 * 25 + 10 * 10 * 16 * 150 + 400 * 120 + 120 * 84 + 84 * 10


def kinds(workload: Workload) -> list[type[Layer]]:
    return [type(layer) for layer, _ in workload.walk()]


def test_vgg_11_has_column_as_convolutions_and_the_published_parameters_but_for_its_classifier() -> None:
    convolutions = [(layer.filters, shape[0]) for layer, shape in VGG_11.walk() if isinstance(layer, Conv2D)]
    assert convolutions == [*((64, 32), (128, 16), (256, 8), (256, 8)), *((512, 4), (512, 4), (512, 2), (512, 2))]
    behind = kinds(VGG_11)
    for place, kind in enumerate(behind):
        if kind is Conv2D:
            assert behind[place + 1 : place + 3] == [BatchNorm, Relu]
    assert behind.count(MaxPool2D) == 5
    assert behind[-2:] == [Flatten, Dense]
    published = 132_868_840  # torchvision, VGG11_BN_Weights.meta["num_params"]
    classifier = (25_088 * 4096 + 4096) + (4096 * 4096 + 4096) + (4096 * 1000 + 1000)
    biases = 64 + 128 + 2 * 256 + 4 * 512
    assert VGG_11.parameter_count == published - classifier - biases + (512 * 10 + 10) == 9_228_362
    by_hand = 9 * (32**2 * 3 * 64 + 16**2 * 64 * 128 + 8**2 * (128 + 256) * 256 + 4**2 * (256 + 512) * 512)
    assert VGG_11.multiply_adds == by_hand + 9 * 2**2 * 2 * 512 * 512 + 512 * 10


def assert_blocks_of_resnet_18(workload: Workload, side: int) -> None:
    """Check the eight blocks, of which the first sees `side` rows and columns, and the end."""
    adds = [(layer, shape) for layer, shape in workload.walk() if isinstance(layer, Add)]
    sides, widths = [side // 2**stage for stage in range(4)], (64, 128, 256, 512)
    leaving = [(sides[stage], sides[stage], widths[stage]) for stage in (0, 0, 1, 1, 2, 2, 3, 3)]
    assert [layer.output_shape(shape) for layer, shape in adds] == leaving
    assert [shape for _, shape in adds] == [leaving[0], *leaving[:-1]]
    block = [Conv2D, BatchNorm, Relu, Conv2D, BatchNorm]
    for number, (add, _) in enumerate(adds):
        layers, shortcut = add.branches
        assert [type(layer) for layer in layers] == block
        projected = number in (2, 4, 6)
        assert [type(layer) for layer in shortcut] == [Conv2D, BatchNorm] * projected
        strides = [layer.stride for layer in (*layers, *shortcut) if isinstance(layer, Conv2D)]
        assert strides == ([2, 1, 2] if projected else [1, 1])
    assert kinds(workload)[-3:] == [Relu, GlobalAveragePool2D, Dense]


def test_resnet_18_pads_alike_on_each_side_and_has_torchvisions_parameters() -> None:
    assert_blocks_of_resnet_18(RESNET_18, 56)
    assert kinds(RESNET_18)[:4] == [Conv2D, BatchNorm, Relu, MaxPool2D]
    for network in (RESNET_18, RESNET_18_SMALL):
        for layer, shape in network.walk():
            if isinstance(layer, Conv2D | MaxPool2D):
                half = layer.window[0] // 2  # 3, 1 or 0
                assert layer.margins(shape) == ((half, half), (half, half))
    assert steps(RESNET_18)[0] == ("stem", (224, 224, 3), (112, 112, 64))
    assert steps(RESNET_18)[3] == ("stem_pool", (112, 112, 64), (56, 56, 64))
    head = replace(RESNET_18, layers=(*RESNET_18.layers[:-1], Dense("dense", 1000)))
    assert head.parameter_count == 11_689_512  # torchvision, ResNet18_Weights.meta["num_params"]
    assert round(head.multiply_adds / 1e9, 3) == 1.814  # torchvision, ResNet18_Weights.meta["_ops"]


def test_resnet_18_small_is_resnet_18_with_a_stem_of_one_small_convolution() -> None:
    assert_blocks_of_resnet_18(RESNET_18_SMALL, 32)
    assert kinds(RESNET_18_SMALL)[:3] == [Conv2D, BatchNorm, Relu]
    assert RESNET_18_SMALL.layers[3:] == RESNET_18.layers[4:]
    assert RESNET_18.parameter_count - RESNET_18_SMALL.parameter_count == (7 * 7 - 3 * 3) * 3 * 64
    assert RESNET_18_SMALL.parameter_count == 11_173_962
    by_hand = 32**2 * (27 * 64 + 4 * 9 * 64 * 64) + 512 * 10
    for side, width in ((16, 128), (8, 256), (4, 512)):
        by_hand += side**2 * (9 * width * width // 2 + 3 * 9 * width * width + width * width // 2)
    assert RESNET_18_SMALL.multiply_adds == by_hand


def test_vit_tiny_is_six_blocks_with_the_published_parameters_of_deit_tiny() -> None:
    block = [LayerNorm, MultiHeadAttention, Add, LayerNorm, Dense, Gelu, Dense, Add]
    expected = [Conv2D, Tokens, PositionEmbedding, *block * 6, LayerNorm, TokenMean, Dense]
    assert kinds(VIT_TINY) == expected
    assert steps(VIT_TINY)[:3] == [
        ("patches", (32, 32, 3), (8, 8, 192)),
        ("tokens", (8, 8, 192), (64, 192)),
        ("positions", (64, 192), (64, 192)),
    ]
    attentions = [layer for layer, _ in VIT_TINY.walk() if isinstance(layer, MultiHeadAttention)]
    assert {layer.heads for layer in attentions} == {3}
    assert {layer.epsilon for layer, _ in VIT_TINY.walk() if isinstance(layer, LayerNorm)} == {1e-6}
    of_a_block = 2 * 2 * 192 + 4 * (192 * 192 + 192) + (192 * 768 + 768) + (768 * 192 + 192)
    around = (16 * 16 * 3 * 192 + 192) + 192 + 197 * 192 + 2 * 192 + (192 * 1000 + 1000)
    assert 12 * of_a_block + around == 5_717_416  # Touvron et al. 2021, as timm and Facebook's own code count deit-tiny
    own = (4 * 4 * 3 * 192 + 192) + 64 * 192 + 2 * 192 + (192 * 10 + 10)
    assert VIT_TINY.parameter_count == 6 * of_a_block + own == 2_693_194
    attention = 4 * 64 * 192 * 192 + 2 * 64 * 64 * 192
    assert VIT_TINY.multiply_adds == 64 * 48 * 192 + 6 * (attention + 2 * 64 * 192 * 768) + 192 * 10
