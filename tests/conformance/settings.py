"""The conformance suite's cases, and how far a framework may differ from the referee: one file, every size with its
reason. The referee computes in float64, the frameworks in float32."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from adapters.numpy.layers import sequence
from adapters.numpy.passes import Pass
from workloads import weights
from workloads.layers import (
    Add,
    AveragePool2D,
    BatchNorm,
    ChannelScale,
    ClassToken,
    Concatenate,
    Conv2D,
    Dense,
    DepthwiseConv2D,
    Dropout,
    FirstToken,
    Flatten,
    Gelu,
    GlobalAveragePool2D,
    HardSigmoid,
    HardSwish,
    Join,
    Layer,
    LayerNorm,
    MaxPool2D,
    MultiHeadAttention,
    Multiply,
    Normalise,
    Padding,
    PositionEmbedding,
    Relu,
    Relu6,
    Resize,
    Sigmoid,
    Silu,
    Softmax,
    StochasticDepth,
    Tanh,
    TokenMean,
    Tokens,
    changed,
    residual,
    squeeze_excite,
)
from workloads.networks import WORKLOADS
from workloads.records.build import COMPILED, DEFAULT, FIT, FLOAT64, TUNED
from workloads.spec import OptimizerSpec, Workload

Arrays = dict[str, np.ndarray]

# The device of `probe.py`'s adapter; the CPU without it. A GPU's is set by measure_on_gpu.py.
DEVICE_VARIABLE = "BATCHWISE_CONFORMANCE_DEVICE"

THREADS = 2
# Threads of the suite's cases. More of them than cores wait for their turn in every step: with two on the one core of a
# worker of pytest-xdist, a small case of PyTorch took 2.5 s, ten times the referee's. tests/smoke always has THREADS.
AT_ONCE = min(THREADS, len(os.sched_getaffinity(0)))
TRUTH = FLOAT64  # the referee's precision that every framework, and the referee in float32, is compared with

# Relative to the largest logit (or 1). float32 keeps 6e-8; sums of some thousand terms in another order lose more.
# Seen: 4e-7, 4e-6 after the 320,000 inputs that cats-dogs-cnn had at its own size.
# resnet-50: seen 2e-5, the referee itself in float32 1.5e-5.
FORWARD, DEEP_FORWARD = 1e-5, 1e-4
# The same for every layer's output in training mode. Seen: 3e-6. mobilenet-v3-large normalises small batches 46 times:
# seen 1e-5, the referee itself in float32 5e-5, with two images of its own size. Smaller ones are no farther apart.
OUTPUTS, DEEP_OUTPUTS = 1e-5, 2e-4
# Relative to the largest gradient of any parameter. Seen: 4e-6, 7e-6 for cats-dogs-cnn. mobilenet-v3-large: seen 6e-3,
# the referee itself in float32 1.4e-2: a value close to a kink falls on its other side. resnet-50: seen 2e-2.
GRADIENTS, DEEP_GRADIENTS = 1e-5, 5e-2
# Relative, each of the first ten losses. Seen: 3e-6, 3e-5 for cats-dogs-cnn.
LOSSES = 1e-4
# Relative to the norm of each parameter's own gradient, or to a hundredth of the whole gradient's: the gradient of a
# bias in front of BatchNorm is rounding only. Seen: 8e-5 there, else 1e-5; mobilenet-v3-large 2e-2.
OWN_GRADIENTS, DEEP_OWN_GRADIENTS = 1e-4, 1e-1
# Relative to the norm of what the first step changes in each parameter, or to a hundredth of the whole change. Weights
# of size 1 that move by 1e-3 show their own rounding, 1e-4 of that. Seen: 5e-4; mobilenet-v3-large 1e-2.
UPDATES, DEEP_UPDATES = 1e-3, 5e-2
# Absolute; weights are of size 0.1 to 1. Seen: 1e-6 after ten steps, where weight decay of 5e-4 makes 1e-4.
# mobilenet-v3-large: seen 1.4e-5, the referee in float32 4e-5; resnet-50: 8e-5 of a running variance of 13.
WEIGHTS, DEEP_WEIGHTS = 1e-5, 3e-4
# Relative to the largest logit (or 1) after ten steps, in evaluation mode. Seen: 1e-5; the unbiased variance makes 1e-3
# at batch size 32. mobilenet-v3-large: seen 2e-4, the referee in float32 5e-4.
EVALUATION, DEEP_EVALUATION = 1e-4, 2e-3
# Standard deviations of a binomial count by which the share of dropped values, or images, may be off: once in 16,000
# tries.
DROPOUT_SIGMAS = 4

# Betas that float32 holds exactly, and an epsilon large enough to matter: with 1e-7 a rule that has it on the wrong
# side of the bias correction would pass. Rates are small: where training diverges, so does rounding.
OPTIMIZERS = {
    "sgd": OptimizerSpec("sgd", 0.01),
    "momentum": OptimizerSpec("momentum", 0.01),
    "nesterov": OptimizerSpec("nesterov", 0.01),
    "adam": OptimizerSpec("adam", 0.001, beta1=0.875, beta2=1 - 2**-10, epsilon=2**-10),
    "adamw": OptimizerSpec("adamw", 0.001, beta1=0.875, beta2=1 - 2**-10, epsilon=2**-10, weight_decay=0.75),
    "rmsprop": OptimizerSpec("rmsprop", 0.001, epsilon=2**-10, rho=0.875),
    "sgd-decay": OptimizerSpec("sgd", 0.01, weight_decay=0.05),
    "momentum-decay": OptimizerSpec("momentum", 0.01, weight_decay=0.05),
    "nesterov-decay": OptimizerSpec("nesterov", 0.01, weight_decay=0.5),  # MXNet's `wd` differs slightly
}
# Factors of the learning rate, step by step. No schedule has them, so that each step has another rate, up and down.
PARTS = (1.0, 0.5, 2.0, 0.25, 1.0, 1.5, 0.125, 1.0, 0.75, 2.0)
CHANGING = ("sgd", "momentum", "nesterov", "adam", "adamw", "rmsprop", "momentum-decay", "nesterov-decay")

# Inputs are neither square nor of a size that strides and windows divide: 11 x 7.
PLAIN = Workload(
    "plain",
    "",
    (11, 7, 3),
    (
        Conv2D("conv1", 5, (2, 3)),  # (10, 5)
        Relu("relu1"),
        MaxPool2D("pool1", 2),  # (5, 2), a column is left over
        Conv2D("conv2", 6, (2, 1)),  # (4, 2)
        Relu("relu2"),
        Flatten("flatten"),
        Dense("dense1", 9),
        Relu("relu3"),
        Dense("dense2", 4),
    ),
)
BATCH_NORM = Workload(
    "batchnorm",
    "",
    (11, 7, 3),
    (
        Conv2D("conv1", 5, (2, 3), bias=False),
        BatchNorm("norm1"),
        Relu("relu1"),
        MaxPool2D("pool1", 2),
        Conv2D("conv2", 6, (2, 1)),
        BatchNorm("norm2", momentum=0.75, epsilon=2**-6),
        Relu("relu2"),
        Flatten("flatten"),
        BatchNorm("norm3"),  # on features, in the order of a Flatten
        Dense("dense1", 9),
        BatchNorm("norm4"),
        Relu("relu3"),
        Dense("dense2", 4),
    ),
)
STATISTICS = Workload(  # a batch of two images: normalising vectors of two would leave nothing but a sign
    "statistics",
    "",
    (11, 7, 3),
    (
        Conv2D("conv1", 5, (2, 3)),
        BatchNorm("norm1"),
        Relu("relu1"),
        Conv2D("conv2", 6, (3, 2), stride=2),
        BatchNorm("norm2"),
        GlobalAveragePool2D("pool"),
        Dense("dense", 4),
    ),
)
NORM_OF_ONE = Workload(  # one value per channel in a batch of one image, for images and for vectors
    "norm-of-one",
    "",
    (11, 7, 3),
    (
        Conv2D("conv", 5, (11, 7)),  # (1, 1)
        BatchNorm("norm1"),
        Relu("relu"),
        Flatten("flatten"),
        Dense("dense1", 9),
        BatchNorm("norm2", momentum=0.75, epsilon=2**-6),
        Dense("dense2", 4),
    ),
)
PADDING = Workload(
    "padding",
    "",
    (23, 14, 3),
    (
        Conv2D("even_stride", 4, (3, 3), stride=2, padding="same"),  # uneven margins across, even ones down
        Conv2D("wide_stride", 5, (5, 2), stride=3, padding="same"),
        DepthwiseConv2D("even_kernel", (2, 4), padding="same"),
        DepthwiseConv2D("depthwise_stride", (3, 3), stride=2, padding="same", bias=False),
        Conv2D("pointwise_stride", 6, (1, 1), stride=2, padding="same"),
        Flatten("flatten"),
        Dense("dense", 4),
    ),
)
MOBILE = Workload(
    "mobile",
    "",
    (11, 7, 3),
    (
        Conv2D("stem", 6, (3, 3), padding="same", initializer="he-normal"),
        Relu6("relu6"),
        residual(
            "add",
            (
                DepthwiseConv2D("depthwise", (3, 3), padding="same", initializer="he-uniform"),
                HardSwish("hard_swish"),
                squeeze_excite(
                    "scale",
                    (
                        GlobalAveragePool2D("squeeze"),
                        Dense("reduce", 3),
                        Relu("reduce_relu"),
                        Dense("excite", 6),
                        HardSigmoid("hard_sigmoid"),
                    ),
                ),
                Conv2D("project", 6, (1, 1)),
            ),
        ),
        DepthwiseConv2D("valid", (2, 3), stride=2),
        HardSigmoid("hard_sigmoid2"),
        GlobalAveragePool2D("pool"),
        Dense("dense", 4),
    ),
    scale=1 / 24,  # activations on both sides of every kink: 0 and 6, -3 and 3
)
BRANCHES = Workload(
    "branches",
    "",
    (11, 7, 3),
    (
        Conv2D("stem", 4, (3, 3), padding="same"),
        Add(
            "projected",
            (
                (Conv2D("conv1", 5, (3, 3), 2, "same"), Relu("relu1"), Conv2D("conv2", 5, (1, 1))),
                (Conv2D("shortcut", 5, (1, 1), 2, "same"),),
            ),
        ),
        Concatenate(  # (6, 4), 5 + 3 + 2 channels
            "inception",
            (
                (),
                (Conv2D("conv3", 3, (1, 1)), Relu("relu3")),
                (MaxPool2D("pool", 3, 1, "same"), Conv2D("conv4", 2, (1, 1))),
            ),
        ),
        Multiply(
            "gated",
            (
                (Conv2D("conv5", 10, (1, 1)),),
                (),
                (GlobalAveragePool2D("squeeze"), Dense("excite", 10), HardSigmoid("hard_sigmoid")),
            ),
        ),
        Concatenate("features", ((GlobalAveragePool2D("means"),), (Flatten("flatten"),))),
        BatchNorm("norm"),
        Dense("dense", 4),
    ),
)


def with_margins(name: str, kind: Callable[[str, int, int, Padding], Layer]) -> Workload:
    """Return a network of one kind of layer in parallel: strides 1 to 3, windows 2 to 7, margins even and uneven.

    Rows are odd and columns even. Each pixel has weights of its own in the last layer, so that no place is lost.
    """
    branches = []
    for number, (stride, size) in enumerate(product((1, 2, 3), range(2, 8))):
        half, rest = size // 2, number % size
        even: Padding = (half, half, size - 1, size - 1) if number % 2 else (half, half, half, half)
        uneven: Padding = ((rest, half, 0, size - 1), (size - 1, 0, half, rest), (0, 0, rest, 1))[number % 3]
        for margins, padding in (("even", even), ("uneven", uneven)):
            part = f"window{size}_stride{stride}_{margins}"
            branches.append((kind(part, size, stride, padding), Flatten(f"{part}_flatten")))
    stem = Conv2D("stem", 2, (1, 1))  # with values below 0, which a margin of zeros would hide
    return Workload(name, "", (13, 10, 3), (stem, Concatenate("all", tuple(branches)), Dense("dense", 4)))


MARGINS = (
    with_margins("margins-convolution", lambda name, size, *rest: Conv2D(name, 2, (size, 9 - size), *rest)),
    with_margins("margins-depthwise", lambda name, size, *rest: DepthwiseConv2D(name, (size, 9 - size), *rest)),
    with_margins("margins-max", MaxPool2D),
    with_margins("margins-average", AveragePool2D),
)
POOLING = Workload(
    "pooling",
    "",
    (23, 14, 3),
    (
        Conv2D("conv1", 5, (1, 1)),  # with values below 0, which a margin of zeros would hide
        MaxPool2D("max_uneven", 3, 2, "same"),  # (12, 7)
        AveragePool2D("average_uneven", 3, 2, "same"),  # (6, 4)
        Conv2D("conv2", 6, (1, 1)),
        AveragePool2D("average_even", 3, 1, "same"),
        MaxPool2D("max_even", 3, 1, "same"),
        AveragePool2D("average_overlapping", 3, 1),  # (4, 2)
        MaxPool2D("max_overlapping", 2, 1),  # (3, 1)
        AveragePool2D("average_apart", 1, 2),  # (2, 1)
        Flatten("flatten"),
        Dense("dense", 4),
    ),
)
RESIZE = Workload(  # in front, as the runner puts it; and after a convolution, where it passes gradients on
    "resize",
    "",
    (5, 4, 3),
    (
        Resize("resize1", 11, 7),
        Conv2D("conv1", 5, (2, 3)),  # (10, 5)
        Relu("relu1"),
        Resize("resize2", 10, 12),  # one axis alone
        Conv2D("conv2", 4, (3, 2), 2),  # (4, 6)
        Tanh("tanh"),
        Flatten("flatten"),
        Dense("dense1", 4),
    ),
)
GROUPED = Workload(
    "grouped",
    "",
    (11, 7, 3),
    (
        Conv2D("stem", 6, (1, 1)),
        Conv2D("groups", 4, (3, 2), groups=2),  # (9, 6)
        Conv2D("dilated", 6, (3, 2), padding="same", dilation=2),
        Conv2D("dilated_groups", 9, (2, 2), bias=False, groups=3, dilation=3),  # (6, 3)
        Conv2D("strided_groups", 6, (3, 3), stride=2, padding="same", groups=3),  # (3, 2)
        Flatten("flatten"),
        Dense("dense", 4),
    ),
)
TRANSFORMER = Workload(
    "transformer",
    "",
    (11, 7, 3),
    (
        Conv2D("patches", 6, (2, 2), stride=2),  # (5, 3)
        Tokens("tokens"),
        PositionEmbedding("positions"),
        residual("add1", (LayerNorm("norm1"), MultiHeadAttention("attention", heads=2))),
        residual("add2", (LayerNorm("norm2", epsilon=2**-6), Dense("dense1", 9), Gelu("gelu1"), Dense("dense2", 6))),
        residual("add3", (LayerNorm("norm3"), Gelu("gelu2"))),  # on values of size 2, where its approximations show
        LayerNorm("norm4"),
        TokenMean("mean"),
        Dense("dense3", 4),
    ),
)
CLASS_TOKEN = Workload(  # scales of images, tokens, vectors, and features in the order of a Flatten
    "class-token",
    "",
    (11, 7, 3),
    (
        Normalise("normalise1", (0.4, 0.5, 0.3), (0.25, 0.2, -0.3)),
        Conv2D("patches", 6, (2, 2), stride=2),  # (5, 3)
        residual(
            "add1",
            (
                DepthwiseConv2D("depthwise", (3, 3), padding="same"),
                LayerNorm("norm1", epsilon=1e-6),
                Conv2D("expand", 9, (1, 1)),
                Gelu("gelu"),
                Conv2D("project", 6, (1, 1)),
                ChannelScale("scale1"),
                StochasticDepth("depth", 0.0),
            ),
        ),
        Normalise("normalise2", (0.0, 0.1, 0.2, 0.3, 0.4, 0.5), (0.5, 0.6, 0.7, 0.8, 0.9, 2.0)),  # passes gradients
        Concatenate(
            "both",
            (
                (
                    Tokens("tokens"),
                    ClassToken("class"),  # (16, 6)
                    PositionEmbedding("positions"),
                    residual("add2", (LayerNorm("norm2"), MultiHeadAttention("attention", 2), ChannelScale("scale2"))),
                    FirstToken("first"),
                    ChannelScale("scale3", initial=2.0),
                ),
                (Flatten("flatten"), ChannelScale("scale4", initial=0.5)),
            ),
        ),
        Dense("dense", 4),
    ),
)
SMOOTH = Workload(
    "smooth",
    "",
    (11, 7, 3),
    (
        Conv2D("conv1", 5, (2, 3)),  # (10, 5)
        LayerNorm("norm"),
        Silu("silu"),
        residual("add", (Softmax("softmax1"),)),  # alone they leave so little gradient that updates are rounding
        Conv2D("conv2", 6, (3, 2), stride=2),  # (4, 2)
        Sigmoid("sigmoid"),
        Tokens("tokens"),
        Dense("dense1", 5),
        Tanh("tanh"),
        Multiply("multiply", ((Softmax("softmax2"),), ())),
        Flatten("flatten"),
        Dense("dense2", 4),
    ),
)
BARE = Workload(  # layers without some of their weights, and the other GELU on values of size 2, where they differ
    "bare",
    "",
    (11, 7, 3),
    (
        Conv2D("conv", 6, (3, 3), bias=False),
        BatchNorm("unscaled", scale=False),
        Gelu("gelu1", approximate=True),
        DepthwiseConv2D("depthwise", (3, 3), bias=False),
        BatchNorm("uncentred", center=False, epsilon=2**-6),
        Gelu("gelu2", approximate=True),
        GlobalAveragePool2D("pool"),
        Dense("dense1", 9, bias=False),
        BatchNorm("plain", momentum=0.75, scale=False, center=False),
        Gelu("gelu3", approximate=True),
        Dense("dense2", 4, bias=False),
    ),
)
FLATTENED = Workload(  # what may come between a Flatten and its Dense; names that some framework uses itself
    "flattened",
    "",
    (6, 4, 3),
    (
        Conv2D("train", 4, (2, 2)),  # (5, 3)
        Multiply("gate", ((), (Conv2D("type", 4, (5, 3)), Flatten("float"), Sigmoid("forward")))),  # one pixel
        Add("sum", ((Flatten("0"),), (Tanh("tanh"), Flatten("flatten")))),
        LayerNorm("norm"),
        Concatenate("both", ((Silu("silu"),), (Dense("gate_broadcast1", 5),), ())),
        Multiply("parameters", ((Sigmoid("sigmoid"),), ())),
        BatchNorm("half"),
        Softmax("softmax"),
        Dense("input_layer", 4),
        Flatten("end"),
    ),
)
BINARY = Workload(
    "binary",
    "",
    (11, 7, 3),
    (
        Conv2D("conv", 4, (3, 3)),
        AveragePool2D("pool", 2),
        Flatten("flatten"),
        Dropout("dropout", 0.0),
        Dense("dense1", 5),
        Relu("relu"),
        Dense("dense2", 1),
    ),
    loss="binary-cross-entropy",
)
DROPOUT = Workload(
    "dropout",
    "",
    (16, 12, 3),
    (Flatten("flatten"), Dropout("dropout1", 0.3), Dropout("dropout2", 0.5), Dense("dense", 4)),
)
STOCHASTIC_DEPTH = Workload(
    "stochastic-depth",
    "",
    (11, 7, 3),
    (
        Conv2D("conv1", 4, (2, 3)),
        residual("add1", (Conv2D("conv2", 4, (1, 1)), StochasticDepth("depth1", 0.25))),
        Tokens("tokens"),
        residual("add2", (LayerNorm("norm"), StochasticDepth("depth2", 0.5))),
        Flatten("flatten"),
        Dense("dense1", 9),
        StochasticDepth("depth3", 0.4),
        Dropout("dropout", 0.3),
        Dense("dense2", 4),
    ),
)
# Images for less work than the catalogue's: the same layers, with a row and a column left over.
SMALLER = {
    "cats-dogs-cnn": (101, 99, 3), "mobilenet-v3-large": (97, 95, 3), "resnet-18": (97, 95, 3),
    "resnet-18-small": (17, 15, 3), "vit-tiny": (17, 15, 3), "convnext-tiny": (37, 34, 3),
    "efficientnet-b0": (65, 63, 3),
}  # fmt: skip
# With a quarter of their channels: the same layers for less work.
NARROWER = (
    "vgg-11", "resnet-18", "resnet-18-small", "vit-tiny", "efficientnet-b0", "convnext-tiny",
)  # fmt: skip
# Blocks of one form that a network keeps: more of them, equal but for their names, are the same layers for more work.
# Two, so that one follows its like, as in the whole network.
ALIKE = 2
# VGG's last stage is 2 x 2: with 8 images BatchNorm sees 32 values of a channel. With 8 values it leaves little but
# rounding (seen: 3e-5 of a gradient, 6e-5 by the referee in float32). That of the small mobilenet-v3-large is 4 x 3.
BATCH_SIZES = {"vgg-11": 8, "mobilenet-v3-large": 4, "efficientnet-b0": 4}
# A norm's weights are 1 and get little gradient in transformers: at 0.001 an update is only rounding (seen: 1.1e-3).
RATES = {"vit-tiny": 0.01, "convnext-tiny": 0.003}
# What profile tuned does not repeat. A rule computes the same in every network: PLAIN has every rule in it, too. The
# deepest networks have no kind of layer that the small ones lack, and are traced for as long as 30 others.
DEEPEST = ("mobilenet-v3-large", "resnet-18", "efficientnet-b0", "convnext-tiny")
# Not run here: their layers are those of resnet-18 and of the small networks, and TensorFlow traces them for minutes.
# As torchvision's they are compared by tests/conformance/test_torchvision_imports.py.
LEFT_OUT = ("resnet-50", "densenet-121")
# Compiling takes minutes on two cores: one network with an optimizer's state, running statistics, batches of two sizes.
WITH_A_COMPILER = ("batchnorm-momentum",)
ONCE = {f"batchnorm-{rule}" for rule in OPTIMIZERS if rule not in ("momentum", "adam")}
ONCE |= {*DEEPEST, *(network.name for network in MARGINS)}
# What Keras' fit repeats: its own batches, rates, running statistics, and masks. Its step is the default's.
FITTED = ("plain-momentum-changing", "statistics-32", "plain-partial", "stochastic-depth")
# Networks of a few layers each, which together have every layer of the vocabulary.
SMALL = (
    PADDING, MOBILE, BINARY, BRANCHES, POOLING, RESIZE, GROUPED, TRANSFORMER, CLASS_TOKEN, SMOOTH, BARE, FLATTENED,
    *MARGINS,
)  # fmt: skip
PARTIAL, PARTIAL_SIZES = "partial", (32, 32, 13, 7, 1)  # an epoch's last batch is smaller than the others
ONES = (16, 1, 13, 1, 1, 16)  # batches of one image between others, to see what they leave


@dataclass(frozen=True)
class Case:
    """One model trained once: `marks` are the steps after which its weights are kept."""

    name: str
    workload: Workload
    optimizer: OptimizerSpec
    batch_size: int = 16
    marks: tuple[int, ...] = (1, 10)
    profile: str = "default"
    sizes: tuple[int, ...] = ()  # each step's batch size, where they are not all `batch_size`
    blank: bool = False  # half of every image is black and biases start at 0, so that kinks are hit exactly

    @property
    def twin(self) -> str:
        """The name of the same case in profile default, which has the same inputs and the same truth."""
        return self.name.removesuffix(f"-{self.profile}")

    @property
    def rates(self) -> np.ndarray | None:
        """(steps,) learning rates of a rule that changes them; else None."""
        if not self.optimizer.changes_rate:
            return None
        return (self.optimizer.learning_rate * np.resize(PARTS, max(self.marks))).astype(np.float32)

    @property
    def large(self) -> bool:
        """True for a network of the catalogue: few images, evaluated one by one."""
        return self.workload.name in WORKLOADS

    @property
    def deep(self) -> bool:
        """True for a network so deep that some gradients are only rounding: the DEEP_ tolerances apply.

        resnet-18 is the smallest: the referee itself in float32 is 6e-6 to 1.3e-5 of an output off.
        """
        return sum(isinstance(layer, BatchNorm | MaxPool2D) for layer, _ in self.workload.walk()) > 20


def narrow(layer: Layer) -> Layer:
    """Return a convolution or a dense layer with a quarter of its outputs; other layers unchanged."""
    if isinstance(layer, Conv2D):
        return replace(layer, filters=layer.filters // 4)
    return replace(layer, units=layer.units // 4) if isinstance(layer, Dense) else layer


def unnamed(layer: Layer) -> Layer:
    """Return the layer without its name, and those of its branches without theirs: equal for blocks of one form."""
    if isinstance(layer, Join):
        layer = replace(layer, branches=tuple(tuple(map(unnamed, branch)) for branch in layer.branches))
    return replace(layer, name="")


def shallow(layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """Return the layers with the first ALIKE residual blocks of each form that keep their input's shape."""
    kept, seen = list[Layer](), Counter[Layer]()
    for layer in layers:
        form = unnamed(layer)
        seen[form] += 1
        if not isinstance(layer, Add) or () not in layer.branches or seen[form] <= ALIKE:
            kept.append(layer)
    return tuple(kept)


def changing(rule: str) -> OptimizerSpec:
    """Return the optimizer with another learning rate in each step: `Case.rates`."""
    return replace(OPTIMIZERS[rule], schedule="cosine")


def _cases() -> list[Case]:
    cases = []
    for profile in (DEFAULT, TUNED):  # the others are those of cuDNN
        tag = "" if profile == "default" else f"-{profile}"
        for network in (PLAIN, BATCH_NORM):
            for rule, optimizer in OPTIMIZERS.items():
                cases.append(Case(f"{network.name}-{rule}{tag}", network, optimizer, 16, (1, 10, 100), profile))
        cases += [Case(f"plain-{rule}-changing{tag}", PLAIN, changing(rule), profile=profile) for rule in CHANGING]
        for network in (*SMALL, DROPOUT, STOCHASTIC_DEPTH):
            chosen = OPTIMIZERS["sgd" if network.draws else "momentum"]
            cases.append(Case(f"{network.name}{tag}", network, chosen, profile=profile))
        for batch_size in (2, 32):
            name = f"{STATISTICS.name}-{batch_size}{tag}"
            cases.append(Case(name, STATISTICS, OPTIMIZERS["sgd"], batch_size, profile=profile))
        for network, rule in ((PLAIN, "momentum"), (STATISTICS, "sgd")):
            name, sizes = f"{network.name}-{PARTIAL}{tag}", PARTIAL_SIZES
            cases.append(Case(name, network, OPTIMIZERS[rule], sizes[0], (1, len(sizes)), profile, sizes))
        ones = Case(f"{NORM_OF_ONE.name}{tag}", NORM_OF_ONE, OPTIMIZERS["sgd"], ONES[0], (1, 4, 6), profile, ONES)
        cases.append(ones)
        for name, workload in ((name, each) for name, each in WORKLOADS.items() if name not in LEFT_OUT):
            gentle = OptimizerSpec("momentum", RATES.get(name, 0.001))
            network = replace(workload.without_dropout(), input_shape=SMALLER.get(name, workload.input_shape))
            network = replace(network, layers=shallow(network.layers))
            if name in NARROWER:
                network = replace(network, layers=(*changed(network.layers[:-1], narrow), network.layers[-1]))
            cases.append(Case(f"{name}{tag}", network, gentle, BATCH_SIZES.get(name, 2), (1, 3), profile))
        for network in (PLAIN, MOBILE):
            cases.append(
                Case(f"{network.name}-blank{tag}", network, OPTIMIZERS["momentum"], profile=profile, blank=True)
            )
    fitted = [replace(case, name=f"{case.name}-{FIT}", profile=FIT) for case in cases if case.name in FITTED]
    cases = [case for case in cases if case.profile == DEFAULT or case.twin not in ONCE]
    compiled = (case for case in cases if case.name in WITH_A_COMPILER)
    compiled = (replace(case, name=f"{case.name}-{COMPILED}", profile=COMPILED) for case in compiled)
    return [*cases, *fitted, *compiled]


CASES = {case.name: case for case in _cases()}


def prepare(case: Case) -> Arrays:
    """Make the inputs that every framework gets: images (n, h, w, c), labels (n,), order (steps, batch), initial/KEY.

    Images are noise. Unless `blank`, biases and statistics differ from the 0 and 1 at which mistakes hide. A deep
    network gets the statistics of its own images: with others its activations grow until only rounding is left.
    """
    generator = np.random.Generator(np.random.PCG64(7))
    count = max(case.batch_size, 4) if case.large else 64
    images = generator.integers(0, 256, (count, *case.workload.input_shape), dtype=np.uint8)
    labels = generator.integers(0, case.workload.classes, count).astype(np.int32)
    order = generator.integers(0, count, (max(case.marks), case.batch_size)).astype(np.int32)
    initial = weights.draw(case.workload, seed=3)
    if case.blank:
        images[:, : images.shape[1] // 2] = 0
    else:
        for key, array in initial.items():
            if array.ndim == 1:
                initial[key] = (array + generator.uniform(0, 0.25, array.shape)).astype(np.float32)
    if case.deep:
        initial |= batch_statistics(case.workload, initial, images)
    drawn: Arrays = {"images": images, "labels": labels, "order": order}
    return drawn | {f"initial/{k}": a for k, a in initial.items()}


def batch_statistics(workload: Workload, initial: weights.Weights, images: np.ndarray) -> weights.Weights:
    """Compute BatchNorm's running statistics as if these images were the only ones."""

    def forgetful(layer: Layer) -> Layer:
        return replace(layer, momentum=0.0) if isinstance(layer, BatchNorm) else layer

    run = Pass({key: array.astype(np.float64) for key, array in initial.items()}, True, np.random.default_rng(0))
    sequence(changed(workload.layers, forgetful), images * workload.scale, run)
    return {key: array.astype(np.float32) for key, array in run.statistics.items()}
