"""The numpy referee's gradients compared with finite differences: each layer alone, and whole networks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from differences import (
    BLOCK,
    CLASS_TOKEN,
    EVERYTHING,
    GATE,
    TRANSFORMER,
    Array,
    a_pass,
    assert_close,
    central_difference,
)
from each import for_each

from adapters.base import Probe
from adapters.numpy.adapter import LOSSES, Adapter
from adapters.numpy.layers import FORWARD, sequence
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
    Shape,
    Sigmoid,
    Silu,
    Softmax,
    StochasticDepth,
    Tanh,
    TokenMean,
    Tokens,
    residual,
    squeeze_excite,
    walk,
)
from workloads.spec import OptimizerSpec, Workload
from workloads.weights import draw

WINDOWS: tuple[tuple[int, int, Padding, tuple[int, int, int]], ...] = (
    (3, 2, "valid", (6, 5, 2)),
    (2, 3, "valid", (6, 5, 2)),
    (3, 2, "same", (6, 5, 2)),
    (4, 1, "same", (3, 2, 2)),
    (3, 2, (1, 1, 1, 1), (6, 5, 2)),
    (4, 3, (0, 3, 2, 1), (5, 4, 2)),
)
IMAGES = 3  # so that a batch's statistics count
IMAGE_LAYERS = [
    (Conv2D("c", 3, (2, 3)), (4, 6, 2)),
    (Conv2D("c", 2, (1, 1)), (3, 2, 2)),
    (Conv2D("c", 3, (2, 3), 2), (5, 8, 2)),
    (Conv2D("c", 3, (3, 2), 2, "same"), (6, 5, 2)),
    (Conv2D("c", 2, (1, 1), 3, "same", bias=False), (7, 6, 2)),
    (Conv2D("c", 2, (4, 5), 1, "same", bias=False), (3, 2, 2)),
    (Conv2D("c", 6, (2, 3), 2, groups=2), (5, 8, 4)),
    (Conv2D("c", 3, (2, 2), 1, "same", groups=3), (3, 4, 3)),
    (Conv2D("c", 3, (3, 2), dilation=2), (6, 5, 2)),
    (Conv2D("c", 4, (2, 3), 2, "same", bias=False, groups=2, dilation=3), (5, 4, 2)),
    (Conv2D("c", 3, (3, 3), 2, (1, 1, 1, 1)), (6, 5, 2)),
    (Conv2D("c", 4, (2, 5), 3, (3, 0, 1, 4), bias=False, groups=2), (4, 3, 2)),
    (DepthwiseConv2D("c", (4, 3), 2, (2, 1, 0, 3)), (5, 4, 2)),
    (DepthwiseConv2D("c", (2, 3)), (4, 6, 2)),
    (DepthwiseConv2D("c", (2, 3), 2), (5, 8, 3)),
    (DepthwiseConv2D("c", (3, 2), 2, "same"), (6, 5, 2)),
    (DepthwiseConv2D("c", (5, 4), 1, "same", bias=False), (3, 2, 2)),
    (MaxPool2D("p", 2), (5, 7, 2)),
    (MaxPool2D("p", 3), (7, 3, 1)),
    (AveragePool2D("p", 2), (5, 7, 2)),
    (AveragePool2D("p", 3), (7, 3, 1)),
    *(
        (kind("p", size, stride, padding), shape)
        for kind in (MaxPool2D, AveragePool2D)
        for size, stride, padding, shape in WINDOWS
    ),
    (GlobalAveragePool2D("p"), (3, 4, 2)),
    (Tokens("t"), (3, 4, 2)),
    (Normalise("p", (0.5, -1.0), (2.0, -0.25)), (3, 4, 2)),
    (Add("b", ((Conv2D("c", 3, (3, 3), 2, "same"), Relu("r")), (Conv2D("s", 3, (1, 1), 2),))), (3, 5, 2)),
    (Concatenate("b", ((Conv2D("c", 3, (1, 1)),), (), (MaxPool2D("p", 3, 1, "same"),))), (3, 4, 2)),
    (Multiply("b", ((Conv2D("c", 2, (1, 1)),), (GlobalAveragePool2D("p"),), ())), (3, 4, 2)),
    (Multiply("b", ((GlobalAveragePool2D("p"),), (GlobalAveragePool2D("q"), Dense("d", 2)), ())), (3, 4, 2)),
    (Flatten("f"), (3, 4, 2)),
    (residual("b", (Conv2D("c", 2, (3, 3), padding="same"), HardSwish("s"), BatchNorm("n"))), (3, 4, 2)),
    (squeeze_excite("b", (GlobalAveragePool2D("p"), Dense("d", 2), HardSigmoid("s"))), (3, 4, 2)),
    (GATE, (3, 2, 4)),
    (BLOCK, (3, 4, 4)),
]
ELEMENTWISE = [Relu("r"), Relu6("r"), HardSigmoid("s"), HardSwish("s"), BatchNorm("n"), Dropout("d", 0.4)]
SMOOTH = [
    ChannelScale("s"),
    StochasticDepth("d", 0.4),
    Gelu("s"),
    Silu("s"),
    Sigmoid("s"),
    Tanh("s"),
    Softmax("s"),
    LayerNorm("n"),
]
TOKEN_LAYERS = [
    (Dense("d", 3), (4, 6)),
    (Flatten("f"), (4, 6)),
    (PositionEmbedding("e"), (4, 6)),
    (TokenMean("m"), (4, 6)),
    (ClassToken("t"), (4, 6)),
    (FirstToken("t"), (4, 6)),
    (residual("b", (LayerNorm("n"), Dense("d", 6))), (4, 6)),
]
VECTOR_LAYERS = [(Dense("d", 3), (5,)), (residual("b", (Dense("c", 2), HardSwish("s"), Dense("d", 5))), (5,))]


FAMILIES: dict[str, Sequence[tuple[Layer, Shape]]] = {
    "convolutions": [case for case in IMAGE_LAYERS if case[0].name == "c"],
    "pools": [case for case in IMAGE_LAYERS if case[0].name not in ("b", "c")],
    "branches of an image": [case for case in IMAGE_LAYERS if case[0].name == "b"],
    "vector": VECTOR_LAYERS,
    "token": TOKEN_LAYERS,
    "elementwise": [(layer, shape) for layer in ELEMENTWISE for shape in ((3, 4, 2), (6,))],
    "smooth": [(layer, shape) for layer in SMOOTH for shape in ((3, 4, 3), (4, 6), (6,))],
}


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_layers_gradients_are_its_finite_differences(family: str, training: bool) -> None:
    for_each("layer, shape", FAMILIES[family])(assert_gradients_are_finite_differences)(training=training)


def assert_gradients_are_finite_differences(layer: Layer, shape: Shape, training: bool) -> None:
    generator = np.random.Generator(np.random.PCG64(11))
    x = generator.normal(scale=4, size=(IMAGES, *shape))  # wide enough for every bend
    trained: dict[str, Array] = {}
    statistics: dict[str, Array] = {}
    for part, entering in walk((layer,), shape):
        for role, size in part.parameter_shapes(entering).items():
            trained[f"{part.name}/{role}"] = generator.normal(size=size)
        for role, size in part.statistic_shapes(entering).items():
            statistics[f"{part.name}/{role}"] = generator.uniform(0.5, 2, size)
    weight = generator.normal(size=(IMAGES, *layer.output_shape(shape)))

    def weighted_sum() -> float:
        y, _ = FORWARD[type(layer)](layer, x, a_pass(trained | statistics, training))
        return float((y * weight).sum())

    run = a_pass(trained | statistics, training)
    _, backward = FORWARD[type(layer)](layer, x, run)
    assert_close(backward(weight), central_difference(weighted_sum, x))
    assert run.gradients.keys() == trained.keys()
    for key, array in trained.items():
        assert_close(run.gradients[key], central_difference(weighted_sum, array))


def test_a_bias_before_a_batch_norm_has_no_gradient_in_training() -> None:
    generator = np.random.Generator(np.random.PCG64(5))
    weights = {"d/kernel": generator.normal(size=(3, 4)), "d/bias": generator.normal(size=4)}
    weights |= {f"n/{role}": np.ones(4) for role in ("gamma", "beta", "running_mean", "running_variance")}
    run = a_pass(weights)
    _, backward = sequence((Dense("d", 4), BatchNorm("n")), generator.normal(size=(6, 3)), run)
    backward(generator.normal(size=(6, 4)))
    assert np.abs(run.gradients["d/bias"]).max() < 1e-13 < np.abs(run.gradients["d/kernel"]).max()


@pytest.mark.parametrize("heads", [1, 2, 6])
def test_attentions_gradients_are_its_finite_differences_and_its_keys_bias_has_none(heads: int) -> None:
    """A key's bias adds the same to a query's scores for all keys: the softmax does not change."""
    generator = np.random.Generator(np.random.PCG64(13))
    layer, x = MultiHeadAttention("a", heads), generator.normal(size=(3, 5, 6))
    trained = {f"a/{role}": generator.normal(size=size) for role, size in layer.parameter_shapes((5, 6)).items()}
    weight = generator.normal(size=x.shape)

    def weighted_sum() -> float:
        return float((FORWARD[MultiHeadAttention](layer, x, a_pass(trained))[0] * weight).sum())

    run = a_pass(trained)
    _, backward = FORWARD[MultiHeadAttention](layer, x, run)
    assert_close(backward(weight), central_difference(weighted_sum, x))
    assert run.gradients.keys() == trained.keys()
    assert np.abs(run.gradients.pop("a/key_bias")).max() < 1e-12
    for key, gradient in run.gradients.items():
        assert_close(gradient, central_difference(weighted_sum, trained[key]))


@pytest.mark.parametrize(("loss", "logits"), [("softmax-cross-entropy", 4), ("binary-cross-entropy", 1)])
def test_a_losses_gradient_is_its_finite_difference(loss: str, logits: int) -> None:
    generator = np.random.Generator(np.random.PCG64(3))
    z, labels = generator.normal(scale=3, size=(6, logits)), np.array([0, 1, 1, 0, 0, 1], np.int32)
    assert_close(LOSSES[loss](z, labels)[1], central_difference(lambda: LOSSES[loss](z, labels)[0], z))


BINARY = Workload(
    "binary",
    "",
    (5, 6, 2),
    (
        Conv2D("c1", 3, (2, 2), padding="same", bias=False),
        BatchNorm("n1", epsilon=0.1),
        Relu6("r1"),
        residual("b1", (Conv2D("c2", 3, (3, 3), padding="same"), HardSwish("s1"))),
        GlobalAveragePool2D("p"),
        Dense("d1", 5),
        HardSwish("s2"),
        BatchNorm("n2"),
        Dense("d2", 1),
    ),
    loss="binary-cross-entropy",
)
NETWORKS = [
    Workload("linear", "", (2, 3, 2), (Flatten("f"), Dense("d", 4))),
    Workload("deep", "", (5,), (Dense("d1", 6), Relu("r1"), Dense("d2", 5), Relu("r2"), Dense("d3", 3))),
    Workload(
        "oblong-with-remainders",
        "",
        (10, 8, 3),
        (
            Conv2D("c1", 4, (2, 3)),
            Relu("r1"),
            MaxPool2D("p1", 2),  # (9, 6) -> (4, 3)
            Conv2D("c2", 3, (2, 1)),
            Relu("r2"),
            MaxPool2D("p2", 2),  # (3, 3) -> (1, 1)
            Flatten("f"),
            Dense("d1", 6),
            Relu("r3"),
            Dense("d2", 4),
        ),
    ),
    Workload(
        "wide", "", (3, 9, 1), (Conv2D("c", 3, (3, 2)), Relu("r"), MaxPool2D("p", 1), Flatten("f"), Dense("d", 3))
    ),
    Workload("logistic", "", (2, 3, 2), (Flatten("f"), Dense("d", 1)), loss="binary-cross-entropy"),
    BINARY,
    EVERYTHING,
    TRANSFORMER,
    CLASS_TOKEN,
    Workload(
        "bare",
        "",
        (2, 3, 2),
        (
            BatchNorm("unscaled", scale=False),
            Gelu("g1", approximate=True),
            BatchNorm("uncentred", center=False),
            Flatten("f"),
            Dense("d1", 5, bias=False),
            BatchNorm("plain", scale=False, center=False),
            Gelu("g2", approximate=True),
            Dense("d2", 3, bias=False),
        ),
    ),
]


def built(workload: Workload) -> tuple[Adapter, Array, Array]:
    """A float64 referee with nothing left at zero or one, and a batch; nothing lies near a kink."""
    generator = np.random.Generator(np.random.PCG64(7))
    adapter = Adapter("float64")
    adapter.build(workload, OptimizerSpec("sgd"), draw(workload, 7), seed=1)
    for array in adapter.state.values():
        array += generator.normal(scale=0.1, size=array.shape)
    images = generator.integers(0, 256, (6, *workload.input_shape), dtype=np.uint8)
    return adapter, images, generator.integers(0, workload.classes, 6).astype(np.int32)


@pytest.mark.slow
@pytest.mark.parametrize("workload", NETWORKS, ids=lambda workload: workload.name)
def test_a_networks_gradients_are_its_finite_differences(workload: Workload) -> None:
    adapter, images, labels = built(workload)
    assert len(set(labels)) > 1

    def probe() -> Probe:
        adapter.generator = np.random.Generator(np.random.PCG64(1))  # the same masks each time
        return adapter.probe(images, labels)

    gradients = probe().gradients
    assert gradients.keys() == workload.parameter_shapes().keys()
    for key in workload.parameter_shapes():
        if key.endswith("key_bias"):
            continue  # it has no gradient
        assert_close(gradients[key], central_difference(lambda: probe().loss, adapter.state[key]))
