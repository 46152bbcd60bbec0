"""Each layer of the numpy referee compared with hand-computed cases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from differences import Array, a_pass
from each import for_each

from adapters.numpy.layers import FORWARD, sequence
from adapters.numpy.passes import Forward, Pass
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
    Normalise,
    Padding,
    PositionEmbedding,
    Relu,
    Relu6,
    Resize,
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
)


def applied(layer: Layer, x: Array, training: bool = True, **roles: Any) -> tuple[Forward, Pass]:
    run = a_pass({f"{layer.name}/{role}": array for role, array in roles.items()}, training)
    return FORWARD[type(layer)](layer, x, run), run


def forward(layer: Layer, x: Array, training: bool = True, **roles: Any) -> Array:
    return applied(layer, x, training, **roles)[0][0]


def kinds(layer: type[Layer]) -> Iterator[type[Layer]]:
    """Yield the kinds of layers that a workload may have."""
    for kind in layer.__subclasses__():
        yield from kinds(kind)
    if not layer.__subclasses__():
        yield layer


def test_the_referee_computes_every_layer_of_the_vocabulary() -> None:
    assert set(kinds(Layer)) == set(FORWARD)


PLACES = np.array([[1, 10], [100, 1000]]).reshape(2, 2, 1, 1)
OBLONG = np.arange(20).reshape(1, 4, 5, 1)
TWO_IMAGES = np.array([[[[1, 2], [3, 4], [5, 6]]], [[[7, 8], [9, 10], [11, 12]]]])  # of 1 x 3 x 2
REMAINDER = np.array([[1, 9, -3, -4, 99], [2, 3, -2, -1, 99], [99, 99, 99, 99, 99]])
DENSE = {"kernel": np.array([[1, 2, 3], [4, 5, 6]]), "bias": np.array([10, 20, 30])}
# What is computed: layer, its input, its weights, its output without axes of size 1.
BY_HAND: dict[str, tuple[Layer, Any, dict[str, Any], list[Any]]] = {
    "convolution correlates without flipping the kernel": (
        Conv2D("c", 1, (2, 2)),
        np.arange(1, 10).reshape(1, 3, 3, 1),
        {"kernel": np.array([[1, 2], [3, 4]]).reshape(2, 2, 1, 1), "bias": np.array([10])},
        [[47, 57], [77, 87]],
    ),
    "convolution sums over channels and keeps filters and images apart": (
        Conv2D("c", 2, (1, 2)),
        TWO_IMAGES,
        {"kernel": np.array([[[[1, 0], [0, 1]], [[1, 10], [1, -1]]]]), "bias": np.array([0, 100])},
        [[[8, 128], [14, 148]], [[26, 188], [32, 208]]],
    ),
    "a strided convolution leaves out the remainder": (
        Conv2D("c", 1, (2, 2), 2, bias=False), OBLONG, {"kernel": PLACES}, [[6510, 8732], [17620, 19842]]
    ),
    "a stride greater than the kernel skips pixels": (
        Conv2D("c", 1, (1, 1), 3, bias=False), OBLONG, {"kernel": np.ones((1, 1, 1, 1))}, [[0, 3], [15, 18]]
    ),
    "groups of channels make groups of filters": (
        Conv2D("c", 4, (1, 1), bias=False, groups=2),
        np.array([1, 2, 10, 20]).reshape(1, 1, 1, 4),
        {"kernel": np.array([[10, 30, 50, 70], [1, 2, 3, 4]]).reshape(1, 1, 2, 4)},
        [12, 34, 560, 780],
    ),
    "a dilated kernel sees every so many pixels": (
        Conv2D("c", 1, (2, 2), bias=False, dilation=3),
        OBLONG,
        {"kernel": PLACES},
        [0 + 30 + 1500 + 18000, 1 + 40 + 1600 + 19000],
    ),
    "margins are rows and columns of zeros on the sides that are given": (
        Conv2D("c", 1, (2, 2), 1, (1, 0, 0, 1), bias=False),
        np.array([[1, 2], [3, 4]]).reshape(1, 2, 2, 1),
        {"kernel": PLACES},
        [[2100, 200], [4321, 402]],
    ),
    "margins of a strided depthwise convolution": (
        DepthwiseConv2D("c", (2, 2), 2, (0, 2, 1, 0), bias=False),
        np.array([[1, 2], [3, 4]]).reshape(1, 2, 2, 1),
        {"kernel": PLACES},
        [3010, 0],
    ),
    "a dilated kernel with margins (1, 1) and (0, 1)": (
        Conv2D("c", 1, (2, 2), 3, "same", False, dilation=2), OBLONG, {"kernel": PLACES}, [[7500, 800], [130, 13]]
    ),
    "depthwise convolution keeps channels apart and does not flip": (
        DepthwiseConv2D("c", (1, 2)),
        TWO_IMAGES,
        {"kernel": np.array([[[[1, 100]], [[10, 1000]]]]), "bias": np.array([0, 7])},
        [[[31, 4207], [53, 6407]], [[97, 10807], [119, 13007]]],
    ),
    "a strided depthwise convolution leaves out the remainder": (
        DepthwiseConv2D("c", (2, 2), 2, bias=False), OBLONG, {"kernel": PLACES}, [[6510, 8732], [17620, 19842]]
    ),
    "max pooling takes each window's maximum and drops the remainder": (
        MaxPool2D("p", 2), np.stack([REMAINDER, -REMAINDER], axis=-1)[None], {}, [[9, -1], [-1, 4]]
    ),
    "tokens are an image's pixels row by row": (
        Tokens("t"), np.arange(12).reshape(1, 2, 3, 2), {}, [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11]]
    ),
    "a position embedding is added to every image's tokens": (
        PositionEmbedding("e"),
        np.array([[[1, 2], [3, 4]], [[5, 6], [7, 8]]]),
        {"embedding": np.array([[10, 20], [30, 40]])},
        [[[11, 22], [33, 44]], [[15, 26], [37, 48]]],
    ),
    "a class token is put before every image's tokens": (
        ClassToken("t"),
        np.array([[[1, 2]], [[5, 6]]]),
        {"token": np.array([10, 20])},
        [[[10, 20], [1, 2]], [[10, 20], [5, 6]]],
    ),
    "the first token is each image's": (FirstToken("t"), np.array([[[1, 10], [3, 40]], [[5, 6], [7, 8]]]), {},
                                        [[1, 10], [5, 6]]),
    "a scale is each channel's": (
        ChannelScale("s"), TWO_IMAGES, {"scale": np.array([10, -1])},
        [[[10, -2], [30, -4], [50, -6]], [[70, -8], [90, -10], [110, -12]]],
    ),
    "each channel is normalised by constants": (
        Normalise("n", (1.0, 2.0), (2.0, -4.0)), TWO_IMAGES[:1].astype(float), {}, [[0, 0], [1, -0.5], [2, -1]]
    ),
    "a token mean is each feature's": (TokenMean("m"), np.array([[[1, 10], [3, 40]]]), {}, [2, 25]),
    "dense multiplies by in-out kernel and adds the bias": (
        Dense("d", 3), np.array([[1, 1], [2, -1]]), DENSE, [[15, 27, 39], [8, 19, 30]]
    ),
    "dense takes each token by itself": (
        Dense("d", 3), np.array([[[1, 1], [2, -1]]]), DENSE, [[15, 27, 39], [8, 19, 30]]
    ),
    "flatten lets the channel vary fastest": (
        Flatten("f"), np.arange(1, 13).reshape(1, 3, 2, 2), {}, list(range(1, 13))
    ),
    "global average pooling leaves one mean a channel and image": (
        GlobalAveragePool2D("p"),
        np.array([[[[1, 10], [2, 20], [6, 30]]], [[[4, 0], [5, 0], [9, 6]]]]),
        {},
        [[3, 20], [6, 2]],
    ),
    "resizing interpolates between the centres of pixels": (
        Resize("r", 2, 4), np.array([[0.0, 8], [16, 24]])[None, ..., None], {}, [[0, 2, 6, 8], [16, 18, 22, 24]]
    ),
    "resizing enlarges one axis alone": (
        Resize("r", 3, 2), np.array([[0.0, 8], [16, 24]])[None, ..., None], {}, [[0, 8], [8, 16], [16, 24]]
    ),
    "resizing to the same size is nothing": (
        Resize("r", 2, 2), np.array([[0.0, 8], [16, 24]])[None, ..., None], {}, [[0, 8], [16, 24]]
    ),
}  # fmt: skip


@for_each("case", BY_HAND)
def test_a_layer_computes_what_was_computed_by_hand(case: str) -> None:
    layer, x, weights, expected = BY_HAND[case]
    y = forward(layer, x, **weights)
    assert y.shape == (len(x), *layer.output_shape(x.shape[1:])) and y.squeeze().tolist() == expected


def test_same_padding_of_an_even_kernel_adds_zeros_below_and_on_the_right() -> None:
    x = np.array([[1, 2], [3, 4]]).reshape(1, 2, 2, 1)
    for layer in (Conv2D("c", 1, (2, 2), padding="same"), DepthwiseConv2D("c", (2, 2), padding="same")):
        y = forward(layer, x, kernel=PLACES, bias=np.array([0.5]))
        assert y[0, ..., 0].tolist() == [[4321.5, 402.5], [43.5, 4.5]]


@pytest.mark.parametrize(
    ("height", "width", "seen"),
    [
        (4, 4, [[5, 7], [13, 15]]),  # the odd one is below and right: windows start at 0 and 2
        (5, 5, [[0, 2, 4], [10, 12, 14], [20, 22, 24]]),  # one on either side
        (3, 4, [[1, 3], [9, 11]]),
    ],
)
def test_the_windows_of_same_padding_with_a_stride_are_centred_where_tensorflow_has_them(
    height: int, width: int, seen: list[list[int]]
) -> None:
    x = np.arange(height * width).reshape(1, height, width, 1)
    centre = np.zeros((3, 3, 1, 1), int)
    centre[1, 1] = 1
    for layer in (Conv2D("c", 1, (3, 3), 2, "same", False), DepthwiseConv2D("c", (3, 3), 2, "same", False)):
        assert forward(layer, x, kernel=centre)[0, ..., 0].tolist() == seen


def test_average_pooling_takes_each_windows_mean_and_drops_the_remainder() -> None:
    x = np.stack([REMAINDER, -2 * REMAINDER], axis=-1)[None]
    (y, backward), _ = applied(AveragePool2D("p", 2), x.astype(float))
    assert y.tolist() == [[[[3.75, -7.5], [-2.5, 5]]]]
    spread = backward(np.array([[[[4.0, 0.0], [8.0, 0.0]]]]))
    assert spread[0, ..., 0].tolist() == [[1, 1, 2, 2, 0], [1, 1, 2, 2, 0], [0, 0, 0, 0, 0]]


def test_overlapping_pools_take_each_window_and_sum_its_gradients() -> None:
    x = np.array([[1.0, 5, 2, 4], [3, 0, 6, 7], [9, 8, 0, 1]])[None, ..., None]
    (y, backward), _ = applied(MaxPool2D("p", 2, 1), x)
    assert y[0, ..., 0].tolist() == [[5, 6, 7], [9, 8, 7]]
    dx = backward(np.arange(1.0, 7).reshape(1, 2, 3, 1))
    assert dx[0, ..., 0].tolist() == [[0, 1, 0, 0], [0, 0, 2, 3 + 6], [4, 5, 0, 0]]
    (y, backward), _ = applied(AveragePool2D("p", 2, 1), x)
    assert y[0, ..., 0].tolist() == [[2.25, 3.25, 4.75], [5, 3.5, 3.5]]
    dx = backward(np.full((1, 2, 3, 1), 4.0))
    assert dx[0, ..., 0].tolist() == [[1, 2, 2, 1], [2, 4, 4, 2], [1, 2, 2, 1]]


@pytest.mark.parametrize("padding", ["same", (1, 1, 0, 1)])
def test_a_pools_margins_are_no_pixels(padding: Padding) -> None:
    x = -np.array([[1.0, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]])[None, ..., None]
    (y, backward), _ = applied(MaxPool2D("p", 3, 2, padding), x)  # a row on either side, a column on the right
    assert y[0, ..., 0].tolist() == [[-1, -3], [-5, -7]]
    assert backward(np.ones((1, 2, 2, 1)))[0, ..., 0].tolist() == [[1, 0, 1, 0], [1, 0, 1, 0], [0, 0, 0, 0]]
    (y, backward), _ = applied(AveragePool2D("p", 3, 2, padding), x)
    assert y[0, ..., 0].tolist() == [[-4, -5.5], [-8, -9.5]]  # means of six and of four pixels
    dx = backward(np.array([[6.0, 4], [60, 40]]).reshape(1, 2, 2, 1))
    assert dx[0, ..., 0].tolist() == [[1, 1, 2, 1], [11, 11, 22, 11], [10, 10, 20, 10]]


def test_layer_norm_normalises_the_last_axis_by_its_biased_variance() -> None:
    x = np.array([[[1.0, 5], [2, -4]]])  # means 3 and -1, deviations 2 and 3
    y = forward(LayerNorm("n", epsilon=0.0), x, gamma=np.array([10.0, 100]), beta=np.array([1.0, 2]))
    np.testing.assert_allclose(y, [[[-9, 102], [11, -98]]], rtol=1e-14)
    y = forward(LayerNorm("n", epsilon=5.0), x, gamma=np.ones(2), beta=np.zeros(2))
    np.testing.assert_allclose(y[0, 0], [-2 / 3, 2 / 3], rtol=1e-14)


def test_softmax_sums_to_one_over_the_last_axis_whatever_its_size() -> None:
    x = np.log(np.array([[[1.0, 3], [2, 2]]])) + np.array([[[900.0], [-900.0]]])
    np.testing.assert_allclose(forward(Softmax("s"), x), [[[0.25, 0.75], [0.5, 0.5]]], rtol=1e-12)


def test_attention_weighs_values_by_the_softmax_of_scaled_products_of_each_head() -> None:
    """Two heads of two features. The first attends by log 2 and log 3 over sqrt(2); the second by nothing."""
    x = np.array([[[1.0, 0, 5, 7], [0, 1, 9, 1]]])
    one, zero = np.eye(4), np.zeros((4, 4))
    scores = np.sqrt(2) * np.log([[1, 3], [2, 1]])
    query, key = zero.copy(), zero.copy()
    query[:2, :2], key[:2, :2] = scores, np.eye(2)  # of token i and token j: scores[i, j]
    roles = {"query_kernel": query, "key_kernel": key, "value_kernel": one, "output_kernel": 2 * one}
    biases = {f"{part}_bias": np.zeros(4) for part in ("query", "key", "value", "output")}
    biases["value_bias"], biases["output_bias"] = np.array([0.0, 0, 0, 1]), np.array([0.0, 0, 0, 100])
    y = forward(MultiHeadAttention("a", 2), x, **roles, **biases)  # type: ignore[arg-type]  # all are weights
    np.testing.assert_allclose(y, [[[0.5, 1.5, 14, 110], [4 / 3, 2 / 3, 14, 110]]], rtol=1e-13)


def test_resizing_keeps_images_and_channels_apart() -> None:
    x = np.random.default_rng(0).normal(size=(3, 4, 5, 2))
    y = forward(Resize("r", 9, 11), x)
    for image, channel in np.ndindex(3, 2):
        alone = forward(Resize("r", 9, 11), x[image : image + 1, :, :, channel : channel + 1])
        assert np.allclose(y[image, :, :, channel], alone[0, :, :, 0])


NORM = BatchNorm("n", momentum=0.75, epsilon=9)
STATE: dict[str, Any] = {
    "gamma": np.array([10.0, 70.0]),
    "beta": np.array([1.0, 2.0]),
    "running_mean": np.array([8.0, -4.0]),
    "running_variance": np.array([7.0, 27.0]),
}
# Two images of 2 x 1 x 2; by channel: mean 4, variance 16, deviation 5; mean 10, variance 40, deviation 7.
BATCH = np.array([[[[0.0, 2.0]], [[0.0, 6.0]]], [[[8.0, 14.0]], [[8.0, 18.0]]]])
NORMALISED = [[-7, -78], [-7, -38], [9, 42], [9, 82]]


@pytest.mark.parametrize("shape", [(2, 2, 1, 2), (4, 2)], ids=["images", "vectors"])
def test_batch_norm_in_training_takes_the_batchs_mean_and_biased_variance_and_moves_the_running_ones(
    shape: Shape,
) -> None:
    x = BATCH.reshape(shape)
    for running in (STATE, STATE | {"running_mean": np.array([1e6, 1e6]), "running_variance": np.zeros(2)}):
        np.testing.assert_allclose(forward(NORM, x, **running).reshape(-1, 2), NORMALISED, rtol=1e-14)
    _, run = applied(NORM, BATCH.reshape(shape), **STATE)
    assert run.statistics.keys() == {"n/running_mean", "n/running_variance"}
    assert run.statistics["n/running_mean"].tolist() == [0.75 * 8 + 0.25 * 4, 0.75 * -4 + 0.25 * 10]
    assert run.statistics["n/running_variance"].tolist() == [0.75 * 7 + 0.25 * 16, 0.75 * 27 + 0.25 * 40]
    assert (run.weights["n/running_mean"].tolist(), run.weights["n/running_variance"].tolist()) == ([8, -4], [7, 27])


def test_batch_norm_in_evaluation_takes_the_running_statistics_and_leaves_them() -> None:
    x = np.array([[[[8.0, 2.0]], [[16.0, -4.0]]]])
    (y, _), run = applied(NORM, x, training=False, **STATE)
    np.testing.assert_allclose(y, [[[[1, 72]], [[21, 2]]]], rtol=1e-14)  # deviations 4 and 6
    assert run.statistics == {}


def test_dropout_does_nothing_in_evaluation_or_at_rate_zero() -> None:
    x = np.random.Generator(np.random.PCG64(1)).normal(size=(50, 20))
    for rate, training in ((0.5, False), (0.0, True)):
        for layer in (Dropout("d", rate), StochasticDepth("d", rate)):
            (y, backward), _ = applied(layer, x, training)
            assert np.array_equal(y, x)
            assert np.array_equal(backward(x), x)


@pytest.mark.parametrize("rate", [0.2, 0.75])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dropout_drops_at_its_rate_and_scales_what_it_keeps(rate: float, dtype: type) -> None:
    x: Array = np.full((100, 400), 3, dtype)
    (y, backward), _ = applied(Dropout("d", rate), x)
    dropped = y == 0
    assert dropped.mean() == pytest.approx(rate, abs=4 * np.sqrt(rate * (1 - rate) / x.size))
    assert max(dropped.mean(axis=0).std(), dropped.mean(axis=1).std()) < 0.1, "a row or column shares its mask"
    np.testing.assert_allclose(y[~dropped], 3 / (1 - rate), rtol=1e-6)
    dx = backward(np.full_like(x, 3))
    assert np.array_equal(dx, y), "the gradient goes another way than the value"
    assert (y.dtype, dx.dtype) == (np.dtype(dtype), np.dtype(dtype))


@pytest.mark.parametrize("shape", [(2000,), (6, 5), (3, 2, 4)])
def test_stochastic_depth_drops_whole_images_at_its_rate_and_scales_the_others(shape: Shape) -> None:
    x: Array = np.full((2000, *shape), 3, np.float32)
    (y, backward), _ = applied(StochasticDepth("d", 0.25), x)
    images = y.reshape(2000, -1)
    assert (images == images[:, :1]).all(), "an image is dropped in part"
    dropped = images[:, 0] == 0
    assert dropped.mean() == pytest.approx(0.25, abs=4 * np.sqrt(0.25 * 0.75 / 2000))
    np.testing.assert_allclose(images[~dropped], 4, rtol=1e-6)
    assert np.array_equal(backward(x), y) and y.dtype == np.float32


def test_dropout_draws_a_fresh_mask_each_time_and_the_same_ones_from_the_same_seed() -> None:
    x = np.ones((20, 20))
    layers = (Dropout("d1", 0.5), Dropout("d2", 0.5))

    def masks(run: Pass) -> list[Array]:
        return [FORWARD[Dropout](layer, x, run)[0] for layer in layers]

    first, second = masks(a_pass({}, seed=3))
    assert not np.array_equal(first, second)
    assert all(np.array_equal(a, b) for a, b in zip(masks(a_pass({}, seed=3)), (first, second), strict=True))
    assert not np.array_equal(masks(a_pass({}, seed=4))[0], first)


@for_each(
    "layer, x, y, slopes",
    [
        (Relu("r"), [-2, 0, 3], [0, 0, 3], [0, 0, 1]),
        (Relu6("r"), [-1, 0, 3, 5.75, 6.5], [0, 0, 3, 5.75, 6], [0, 0, 1, 1, 0]),
        (HardSigmoid("s"), [-4, -3, -1.5, 0, 1.5, 3, 4], [0, 0, 0.25, 0.5, 0.75, 1, 1], None),
        (HardSigmoid("s"), [-4, -2, 0, 2, 4], [0, 1 / 6, 0.5, 5 / 6, 1], [0, 1 / 6, 1 / 6, 1 / 6, 0]),
        (HardSwish("s"), [-4, -3, -1.5, 0, 1.5, 3, 4], [0, 0, -0.375, 0, 1.125, 3, 4], None),
        (HardSwish("s"), [-4, -1.5, 0, 1, 4], [0, -0.375, 0, 2 / 3, 4], [0, 0, 0.5, 5 / 6, 1]),
        (Gelu("s"), [-1, 0, 1], [-0.15865525393145707, 0, 0.8413447460685429], None),
        (Silu("s"), [-np.log(3), 0, np.log(3)], [-np.log(3) / 4, 0, 0.75 * np.log(3)], None),
        (Sigmoid("s"), [-1000, -np.log(3), 0, np.log(3), 1000], [0, 0.25, 0.5, 0.75, 1], [0, 3 / 16, 0.25, 3 / 16, 0]),
        (Tanh("s"), [-1000, 0, np.log(3)], [-1, 0, 0.8], [0, 1, 0.36]),
    ],
)
def test_an_elementwise_layer_bends_where_its_formula_does(
    layer: Layer, x: list[float], y: list[float], slopes: list[float] | None
) -> None:
    values = np.array([x], np.float64)
    (found, backward), _ = applied(layer, values)
    np.testing.assert_allclose(found, [y], rtol=1e-15, atol=0)
    if slopes is not None:
        np.testing.assert_allclose(backward(np.full_like(values, 2)), [[2 * slope for slope in slopes]], rtol=1e-15)


def test_a_residual_branch_adds_what_enters_it_and_tells_its_own_outputs_before_the_sum() -> None:
    weights = {"d/kernel": np.array([[0, 1], [10, 0]]), "d/bias": np.array([-25, 100])}
    run = a_pass(weights)
    y, _ = sequence((residual("b", (Dense("d", 2), Relu("r"))),), np.array([[1, 2], [3, 4]]), run)
    assert y.tolist() == [[1 + 0, 2 + 101], [3 + 15, 4 + 103]]
    assert [(name, output.tolist()) for name, output in run.outputs.items()] == [
        ("d", [[-5, 101], [15, 103]]),
        ("r", [[0, 101], [15, 103]]),
        ("b", [[1, 103], [18, 107]]),
    ]


def test_branches_are_concatenated_along_the_last_axis_in_their_order() -> None:
    x = np.array([[[1, -2], [3, -4]]])
    y, backward = FORWARD[Concatenate](Concatenate("b", ((Relu("r"),), ())), x, a_pass({}))
    assert y.tolist() == [[[1, 0, 1, -2], [3, 0, 3, -4]]]
    assert backward(np.arange(8).reshape(1, 2, 4)).tolist() == [[[0 + 2, 3], [4 + 6, 7]]]


def test_a_projected_shortcut_is_added_in_the_inputs_place() -> None:
    weights = {"p/kernel": np.array([[10, 0], [0, 100]]), "p/bias": np.zeros(2, int)}
    y, _ = sequence((Add("b", ((Relu("r"),), (Dense("p", 2),))),), np.array([[1, -2]]), a_pass(weights))
    assert y.tolist() == [[11, -200]]


def test_squeeze_and_excite_multiplies_each_images_channels_by_factors_of_its_own() -> None:
    x = np.array([[[[1, 10], [3, 30]]], [[[2, 0], [4, 40]]]])  # means (2, 20) and (3, 20)
    weights = {"d/kernel": np.array([[1, 0], [0, 1]]), "d/bias": np.array([0, -18])}
    run = a_pass(weights)
    y, _ = sequence((squeeze_excite("b", (GlobalAveragePool2D("p"), Dense("d", 2))),), x, run)
    assert y.tolist() == [[[[2, 20], [6, 60]]], [[[6, 0], [12, 80]]]]
    assert list(run.outputs) == ["p", "d", "b"]
    assert run.outputs["d"].tolist() == [[2, 2], [3, 2]]
