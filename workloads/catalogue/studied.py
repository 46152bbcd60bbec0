"""The networks of the studies, and a tiny one."""

from __future__ import annotations

from typing import NamedTuple

from workloads import layers
from workloads.spec import Workload

TINY = Workload(
    name="tiny",
    summary="one small convolution: a trial of seconds that tries the installation, and measures nothing of interest",
    input_shape=(8, 8, 1),
    layers=(
        layers.Conv2D("conv1", filters=4, kernel=(3, 3)),
        layers.Relu("relu1"),
        layers.MaxPool2D("pool1", size=2),
        layers.Flatten("flatten"),
        layers.Dense("dense1", units=10),
    ),
)

LENET_5 = Workload(
    name="lenet-5",
    summary="LeNet-5 (LeCun et al. 1998) as commonly built: tanh, average pooling, every map sees all maps before it",
    input_shape=(32, 32, 1),
    layers=(
        layers.Conv2D("conv1", filters=6, kernel=(5, 5)),
        layers.Tanh("tanh1"),
        layers.AveragePool2D("pool1", size=2),
        layers.Conv2D("conv2", filters=16, kernel=(5, 5)),
        layers.Tanh("tanh2"),
        layers.AveragePool2D("pool2", size=2),
        layers.Flatten("flatten"),
        layers.Dense("dense1", units=120),
        layers.Tanh("tanh3"),
        layers.Dense("dense2", units=84),
        layers.Tanh("tanh4"),
        layers.Dense("dense3", units=10),
    ),
)

OSU_CNN = Workload(
    name="osu-cnn",
    summary="the TensorFlow CIFAR-10 tutorial CNN, the likeliest network of the OSU 2020 thesis",
    input_shape=(32, 32, 3),
    layers=(
        layers.Conv2D("conv1", filters=32, kernel=(3, 3)),
        layers.Relu("relu1"),
        layers.MaxPool2D("pool1", size=2),
        layers.Conv2D("conv2", filters=64, kernel=(3, 3)),
        layers.Relu("relu2"),
        layers.MaxPool2D("pool2", size=2),
        layers.Conv2D("conv3", filters=64, kernel=(3, 3)),
        layers.Relu("relu3"),
        layers.Flatten("flatten"),
        layers.Dense("dense1", units=64),
        layers.Relu("relu4"),
        layers.Dense("dense2", units=10),
    ),
)

_CATS_DOGS = (
    layers.Conv2D("conv1", filters=32, kernel=(3, 3), padding="same", initializer="he-uniform"),
    layers.Relu("relu1"),
    layers.MaxPool2D("pool1", size=2),
    layers.Flatten("flatten"),
    layers.Dense("dense1", units=128, initializer="he-uniform"),
    layers.Relu("relu2"),
    layers.Dense("dense2", units=1),
)
CATS_DOGS_CNN = Workload(
    name="cats-dogs-cnn",
    summary="the cats-and-dogs CNN of Lheureux 2022: one wide convolution, a sigmoid output",
    input_shape=(200, 200, 3),
    layers=_CATS_DOGS,
    loss="binary-cross-entropy",
)

CATS_DOGS_CNN_32 = Workload(
    name="cats-dogs-cnn-32",
    summary="the layers of cats-dogs-cnn on images of 32 x 32, for cifar10-cats-dogs",
    input_shape=(32, 32, 3),
    layers=_CATS_DOGS,
    loss="binary-cross-entropy",
)


def _vgg_11() -> tuple[layers.Layer, ...]:
    chain: tuple[layers.Layer, ...] = ()
    for stage, widths in enumerate(((64,), (128,), (256, 256), (512, 512), (512, 512)), start=1):
        for number, width in enumerate(widths, start=1):
            name = f"conv{stage}_{number}"
            chain += (
                layers.Conv2D(name, width, (3, 3), padding="same", bias=False, initializer="he-normal"),
                layers.BatchNorm(f"{name}_norm", momentum=0.9, epsilon=1e-5),
                layers.Relu(f"{name}_relu"),
            )
        chain += (layers.MaxPool2D(f"pool{stage}", size=2),)
    return (*chain, layers.Flatten("flatten"), layers.Dense("dense", units=10))


VGG_11 = Workload(
    name="vgg-11",
    summary="VGG-11 (Simonyan & Zisserman 2015, column A) for 32 x 32, with BatchNorm and one dense layer",
    input_shape=(32, 32, 3),
    layers=_vgg_11(),
    differs="convolutions have no bias, the paper's have one",
)


def _padded_alike(name: str, width: int, kernel: int, stride: int) -> tuple[layers.Layer, ...]:
    """Return a convolution with the same margins on every side, and its norm, as in ResNet's and torchvision's code."""
    padding, side = (kernel // 2,) * 4, (kernel, kernel)
    convolution = layers.Conv2D(name, width, side, stride, padding, bias=False, initializer="he-normal")
    return convolution, layers.BatchNorm(f"{name}_norm", momentum=0.9, epsilon=1e-5)


def _basic_block(name: str, entering: int, width: int, stride: int) -> tuple[layers.Layer, ...]:
    """Return two 3 x 3 convolutions and a shortcut, projected if the shape changes (He et al. 2016, option B)."""
    first, second = _padded_alike(f"{name}_conv1", width, 3, stride), _padded_alike(f"{name}_conv2", width, 3, 1)
    shortcut = _padded_alike(f"{name}_shortcut", width, 1, stride) if stride > 1 or entering != width else ()
    chain = (*first, layers.Relu(f"{name}_relu1"), *second)
    return layers.residual(f"{name}_add", chain, shortcut), layers.Relu(f"{name}_relu2")


def _resnet_18(stem: tuple[layers.Layer, ...], classes: int) -> tuple[layers.Layer, ...]:
    chain, entering = stem, 64
    for stage, width in enumerate((64, 128, 256, 512), start=1):
        for number in (1, 2):
            stride = 2 if stage > 1 and number == 1 else 1
            chain += _basic_block(f"stage{stage}_block{number}", entering, width, stride)
            entering = width
    return (*chain, layers.GlobalAveragePool2D("pool"), layers.Dense("dense", classes))


_WIDE_STEM = (
    *_padded_alike("stem", 64, 7, 2),
    layers.Relu("stem_relu"),
    layers.MaxPool2D("stem_pool", size=3, stride=2, padding=(1, 1, 1, 1)),
)
RESNET_18 = Workload(
    name="resnet-18",
    summary="ResNet-18 (He et al. 2016) layer by layer as in torchvision, with a head for ten classes",
    input_shape=(224, 224, 3),
    layers=_resnet_18(_WIDE_STEM, classes=10),
)

RESNET_18_SMALL = Workload(
    name="resnet-18-small",
    summary="resnet-18 for 32 x 32: a stem of one 3 x 3 convolution and no pool, as in the paper's section 4.2",
    input_shape=(32, 32, 3),
    layers=_resnet_18((*_padded_alike("stem", 64, 3, 1), layers.Relu("stem_relu")), classes=10),
)


def _encoder_block(name: str, width: int, heads: int) -> tuple[layers.Layer, ...]:
    """Return attention and a perceptron, each after a norm and with a shortcut (Dosovitskiy et al. 2021, figure 1)."""
    attention = (layers.LayerNorm(f"{name}_norm1", epsilon=1e-6), layers.MultiHeadAttention(f"{name}_attention", heads))
    perceptron = (
        layers.LayerNorm(f"{name}_norm2", epsilon=1e-6),
        layers.Dense(f"{name}_dense1", 4 * width),
        layers.Gelu(f"{name}_gelu"),
        layers.Dense(f"{name}_dense2", width),
    )
    return layers.residual(f"{name}_add1", attention), layers.residual(f"{name}_add2", perceptron)


VIT_TINY = Workload(
    name="vit-tiny",
    summary="a vision transformer for 32 x 32: patches of 4 x 4, six blocks as wide as DeiT-Tiny's, the tokens' mean",
    input_shape=(32, 32, 3),
    layers=(
        layers.Conv2D("patches", filters=192, kernel=(4, 4), stride=4),
        layers.Tokens("tokens"),
        layers.PositionEmbedding("positions"),
        *(layer for number in range(1, 7) for layer in _encoder_block(f"block{number}", width=192, heads=3)),
        layers.LayerNorm("norm", epsilon=1e-6),
        layers.TokenMean("mean"),
        layers.Dense("dense", units=10),
    ),
)


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
