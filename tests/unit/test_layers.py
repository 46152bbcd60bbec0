from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from each import for_each

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
    Margins,
    MaxPool2D,
    MultiHeadAttention,
    Multiply,
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
    same_margins,
    squeeze_excite,
    walk,
)

SMOOTH = (Gelu("e"), Silu("e"), Sigmoid("e"), Tanh("e"), Softmax("e"))
PARTS = ("query", "key", "value", "output")
ATTENTION = {f"{part}_{role}": size for part in PARTS for role, size in (("kernel", (6, 6)), ("bias", (6,)))}


@for_each(
    "layer, entering, leaving, parameters, multiply_adds",
    [
        (Conv2D("c", 4, (3, 2)), (7, 9, 5), (5, 8, 4), {"kernel": (3, 2, 5, 4), "bias": (4,)}, 5 * 8 * 4 * 3 * 2 * 5),
        (Conv2D("c", 1, (7, 9)), (7, 9, 1), (1, 1, 1), {"kernel": (7, 9, 1, 1), "bias": (1,)}, 63),
        (Conv2D("c", 4, (3, 2), 2), (8, 9, 5), (3, 4, 4), {"kernel": (3, 2, 5, 4), "bias": (4,)}, 3 * 4 * 4 * 30),
        (Conv2D("c", 2, (3, 3), 3), (3, 8, 1), (1, 2, 2), {"kernel": (3, 3, 1, 2), "bias": (2,)}, 36),
        (Conv2D("c", 4, (3, 2), padding="same"), (7, 9, 5), (7, 9, 4), {"kernel": (3, 2, 5, 4), "bias": (4,)}, 7560),
        (Conv2D("c", 4, (3, 4), 2, "same"), (7, 8, 5), (4, 4, 4), {"kernel": (3, 4, 5, 4), "bias": (4,)}, 3840),
        (Conv2D("c", 2, (1, 1), 3, "same"), (7, 6, 1), (3, 2, 2), {"kernel": (1, 1, 1, 2), "bias": (2,)}, 12),
        (Conv2D("c", 1, (5, 5), padding="same"), (2, 1, 1), (2, 1, 1), {"kernel": (5, 5, 1, 1), "bias": (1,)}, 50),
        (Conv2D("c", 4, (1, 1), bias=False), (2, 3, 5), (2, 3, 4), {"kernel": (1, 1, 5, 4)}, 120),
        (Conv2D("c", 6, (3, 2), groups=2), (7, 9, 4), (5, 8, 6), {"kernel": (3, 2, 2, 6), "bias": (6,)}, 240 * 12),
        (Conv2D("c", 4, (1, 1), bias=False, groups=4), (2, 3, 4), (2, 3, 4), {"kernel": (1, 1, 1, 4)}, 24),
        (Conv2D("c", 4, (3, 2), dilation=3), (7, 9, 5), (1, 6, 4), {"kernel": (3, 2, 5, 4), "bias": (4,)}, 24 * 30),
        (Conv2D("c", 2, (3, 2), 2, "same", False, dilation=4), (3, 2, 1), (2, 1, 2), {"kernel": (3, 2, 1, 2)}, 24),
        (DepthwiseConv2D("c", (3, 2)), (7, 9, 5), (5, 8, 5), {"kernel": (3, 2, 1, 5), "bias": (5,)}, 5 * 8 * 5 * 6),
        (DepthwiseConv2D("c", (3, 2), 2), (8, 9, 5), (3, 4, 5), {"kernel": (3, 2, 1, 5), "bias": (5,)}, 3 * 4 * 5 * 6),
        (DepthwiseConv2D("c", (5, 4), 2, "same"), (7, 8, 3), (4, 4, 3), {"kernel": (5, 4, 1, 3), "bias": (3,)}, 960),
        (DepthwiseConv2D("c", (3, 3), 1, "same", bias=False), (2, 1, 4), (2, 1, 4), {"kernel": (3, 3, 1, 4)}, 72),
        (MaxPool2D("p", 2), (7, 8, 3), (3, 4, 3), {}, 0),
        (MaxPool2D("p", 3), (3, 5, 1), (1, 1, 1), {}, 0),
        (AveragePool2D("p", 2), (7, 8, 3), (3, 4, 3), {}, 0),
        (AveragePool2D("p", 3), (3, 5, 1), (1, 1, 1), {}, 0),
        (MaxPool2D("p", 3, 2), (7, 8, 3), (3, 3, 3), {}, 0),
        (MaxPool2D("p", 2, 3), (7, 8, 3), (2, 3, 3), {}, 0),
        (AveragePool2D("p", 3, 2, "same"), (7, 8, 3), (4, 4, 3), {}, 0),
        (AveragePool2D("p", 3, padding="same"), (7, 1, 3), (3, 1, 3), {}, 0),
        (MaxPool2D("p", 5, 1, "same"), (2, 1, 3), (2, 1, 3), {}, 0),
        (GlobalAveragePool2D("p"), (7, 8, 3), (3,), {}, 0),
        (Resize("r", 9, 8), (7, 8, 3), (9, 8, 3), {}, 0),
        (BatchNorm("n"), (7, 8, 3), (7, 8, 3), {"gamma": (3,), "beta": (3,)}, 0),
        (BatchNorm("n"), (5,), (5,), {"gamma": (5,), "beta": (5,)}, 0),
        (LayerNorm("n"), (7, 8, 3), (7, 8, 3), {"gamma": (3,), "beta": (3,)}, 0),
        (LayerNorm("n"), (7, 8), (7, 8), {"gamma": (8,), "beta": (8,)}, 0),
        (LayerNorm("n"), (5,), (5,), {"gamma": (5,), "beta": (5,)}, 0),
        (Dropout("d", 0.5), (7, 8, 3), (7, 8, 3), {}, 0),
        (Dropout("d", 0.5), (5,), (5,), {}, 0),
        *((StochasticDepth("d", 0.5), shape, shape, {}, 0) for shape in ((7, 8, 3), (7, 8), (5,))),
        *((ChannelScale("s"), shape, shape, {"scale": shape[-1:]}, 0) for shape in ((7, 8, 3), (7, 8), (5,))),
        (Normalise("n", (0.5, 1, -2), (2, 0.1, -1)), (7, 8, 3), (7, 8, 3), {}, 0),
        (Relu("r"), (7, 8, 3), (7, 8, 3), {}, 0),
        (Relu("r"), (5,), (5,), {}, 0),
        (Relu6("r"), (7, 8, 3), (7, 8, 3), {}, 0),
        (HardSigmoid("s"), (5,), (5,), {}, 0),
        (HardSwish("s"), (7, 8, 3), (7, 8, 3), {}, 0),
        *((layer, shape, shape, {}, 0) for layer in SMOOTH for shape in ((7, 8, 3), (7, 8), (5,))),
        (Flatten("f"), (2, 3, 5), (30,), {}, 0),
        (Flatten("f"), (6, 5), (30,), {}, 0),
        (Flatten("f"), (30,), (30,), {}, 0),
        (Dense("d", 7), (30,), (7,), {"kernel": (30, 7), "bias": (7,)}, 210),
        (Dense("d", 7), (4, 30), (4, 7), {"kernel": (30, 7), "bias": (7,)}, 840),
        (Tokens("t"), (7, 8, 3), (56, 3), {}, 0),
        (PositionEmbedding("e"), (56, 3), (56, 3), {"embedding": (56, 3)}, 0),
        (MultiHeadAttention("a", 2), (5, 6), (5, 6), ATTENTION, 4 * 5 * 36 + 2 * 25 * 6),
        (TokenMean("m"), (56, 3), (3,), {}, 0),
        (ClassToken("t"), (56, 3), (57, 3), {"token": (3,)}, 0),
        (FirstToken("t"), (56, 3), (3,), {}, 0),
        (Add("b", ((Conv2D("c", 4, (1, 1), 2),), (Conv2D("d", 4, (2, 2), 2),))), (6, 8, 3), (3, 4, 4), {}, 0),
        (Add("b", ((), (Relu("r"),), (Tanh("t"),))), (7, 8), (7, 8), {}, 0),
        (Concatenate("b", ((), (Conv2D("c", 4, (1, 1)),), ())), (7, 8, 3), (7, 8, 10), {}, 0),
        (Concatenate("b", ((Dense("d", 2),), ())), (7, 8), (7, 10), {}, 0),
        (Concatenate("b", ((Flatten("f"),), (GlobalAveragePool2D("p"),))), (7, 8, 3), (171,), {}, 0),
        (Multiply("b", ((GlobalAveragePool2D("p"),), (), (Relu("r"),))), (7, 8, 3), (7, 8, 3), {}, 0),
        (Multiply("b", ((Sigmoid("s"),), ())), (7, 8), (7, 8), {}, 0),
        (residual("b", (Conv2D("c", 3, (3, 3), padding="same"),)), (7, 8, 3), (7, 8, 3), {}, 0),
        (residual("b", (Dense("c", 2), Dense("d", 5))), (5,), (5,), {}, 0),
        (squeeze_excite("b", (GlobalAveragePool2D("p"), Dense("d", 3))), (7, 8, 3), (7, 8, 3), {}, 0),
    ],
)
def test_a_layer_states_its_shapes_and_work(
    layer: Layer, entering: Shape, leaving: Shape, parameters: dict[str, Shape], multiply_adds: int
) -> None:
    assert layer.output_shape(entering) == leaving
    assert layer.parameter_shapes(entering) == parameters
    assert layer.multiply_adds(entering) == multiply_adds


@pytest.mark.parametrize(("entering", "channels"), [((7, 8, 3), 3), ((5,), 5)])
def test_batch_norm_keeps_a_mean_and_a_variance_a_channel_and_no_other_layer_keeps_any(
    entering: Shape, channels: int
) -> None:
    assert BatchNorm("n").statistic_shapes(entering) == {"running_mean": (channels,), "running_variance": (channels,)}
    scaled = (ChannelScale("s"), StochasticDepth("d", 0.5), Normalise("n", (0.0,), (1.0,)))
    for layer in (Relu("r"), Dropout("d", 0.5), LayerNorm("n"), residual("b", (BatchNorm("n"),)), *scaled):
        assert layer.statistic_shapes(entering) == {}


def test_what_a_layer_does_unless_told_otherwise() -> None:
    assert Conv2D("c", 4, (3, 3)) == Conv2D("c", 4, (3, 3), 1, "valid", True, "glorot-uniform")
    assert DepthwiseConv2D("c", (3, 3)) == DepthwiseConv2D("c", (3, 3), 1, "valid", True, "glorot-uniform")
    assert Dense("d", 4) == Dense("d", 4, "glorot-uniform")
    assert BatchNorm("n") == BatchNorm("n", 0.9, 1e-3)
    assert LayerNorm("n") == LayerNorm("n", 1e-5)
    assert ChannelScale("s") == ChannelScale("s", 1e-6)
    assert (Conv2D("c", 4, (3, 3)).groups, Conv2D("c", 4, (3, 3)).dilation) == (1, 1)
    assert MaxPool2D("p", 3) == MaxPool2D("p", 3, None, "valid")
    assert [MaxPool2D("p", 3).step, MaxPool2D("p", 3, 2).step] == [3, 2]
    assert residual("b", (Relu("r"),)) == Add("b", ((Relu("r"),), ()))
    assert residual("b", (Relu("r"),), (Tanh("t"),)) == Add("b", ((Relu("r"),), (Tanh("t"),)))
    assert squeeze_excite("b", (Relu("r"),)) == Multiply("b", ((), (Relu("r"),)))


@for_each(
    "size, window, stride, before, after",
    [
        (5, 3, 1, 1, 1),
        (6, 3, 1, 1, 1),
        (5, 2, 1, 0, 1),
        (6, 4, 1, 1, 2),
        (1, 5, 1, 2, 2),
        (5, 3, 2, 1, 1),
        (6, 3, 2, 0, 1),
        (5, 5, 2, 2, 2),
        (6, 5, 2, 1, 2),
        (5, 2, 2, 0, 1),
        (6, 2, 2, 0, 0),
        (6, 1, 2, 0, 0),
        (7, 2, 3, 0, 1),
        (7, 4, 3, 1, 2),
        (8, 4, 3, 1, 1),
    ],
)
def test_the_odd_row_or_column_of_same_padding_goes_below_and_right(
    size: int, window: int, stride: int, before: int, after: int
) -> None:
    assert same_margins((size, 100, 7), (window, 1), stride) == ((before, after), (0, 0))
    assert same_margins((100, size, 7), (1, window), stride) == ((0, 0), (before, after))


@pytest.mark.parametrize("stride", [1, 2, 3, 4])
def test_same_padding_is_tensorflows_for_every_size_and_kernel(stride: int) -> None:
    for size in range(1, 14):
        for window in range(1, 8):
            # TensorFlow's page on convolution padding has it so: by whether the stride divides the size.
            total = max(window - (stride if size % stride == 0 else size % stride), 0)
            expected = (total // 2, total - total // 2)
            assert same_margins((size, size, 1), (window, window), stride) == (expected, expected)
            for layer in (Conv2D("c", 1, (window, window), stride, "same"), MaxPool2D("c", window, stride, "same")):
                assert layer.margins((size, size, 1)) == (expected, expected)
                assert layer.output_shape((size, size, 1)) == (-(-size // stride), -(-size // stride), 1)


def both(kernel: tuple[int, int], stride: int, padding: Padding) -> list[Conv2D | DepthwiseConv2D]:
    return [Conv2D("c", 2, kernel, stride, padding), DepthwiseConv2D("c", kernel, stride, padding)]


def windows(size: int, stride: int, padding: Padding) -> list[Conv2D | DepthwiseConv2D | MaxPool2D | AveragePool2D]:
    return [
        *both((size, size), stride, padding),
        *(kind("c", size, stride, padding) for kind in (MaxPool2D, AveragePool2D)),
    ]


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_given_margins_are_added_on_their_sides_for_every_size_and_window(stride: int) -> None:
    for height, size in product((7, 8, 12, 13), range(2, 8)):
        for top, bottom in ((0, 0), (size // 2, size // 2), (0, size - 1), (size - 1, 1), (1, 0)):
            fitting = [start for start in range(0, 99, stride) if start + size <= top + height + bottom]
            for layer in windows(size, stride, (top, bottom, 1, 0)):
                assert layer.margins((height, 9, 2)) == ((top, bottom), (1, 0))
                assert layer.output_shape((height, 9, 2)) == (len(fitting), (10 - size) // stride + 1, 2)
            for layer in windows(size, stride, (0, 1, top, bottom)):
                assert layer.margins((9, height, 2)) == ((0, 1), (top, bottom))
                assert layer.output_shape((9, height, 2)) == ((10 - size) // stride + 1, len(fitting), 2)


@for_each(
    "padding", ["SAME", "", 1, None, (1, 1), (1, 1, 1, 1, 1), (1, 1, 1, -1), (1, 1, 1, True), (0, 0, 0, 1.0), [0] * 4]
)
def test_what_is_no_padding_is_refused_by_the_layers_name(padding: Any) -> None:
    for layer in windows(3, 1, padding):
        with pytest.raises(
            ValueError, match=r'^layer c: padding is .*; must be "valid", "same" or \(top, bottom, left'
        ):
            layer.output_shape((4, 4, 2))


@for_each("padding", [(3, 0, 0, 0), (0, 3, 0, 0), (0, 0, 4, 0), (0, 0, 0, 3)])
def test_a_pool_whose_margins_hide_a_whole_window_is_refused_and_a_convolution_is_not(padding: Padding) -> None:
    for layer in windows(3, 1, padding):
        if isinstance(layer, MaxPool2D | AveragePool2D):
            with pytest.raises(ValueError, match=r"^layer c: padding .* leaves windows without a pixel"):
                layer.output_shape((4, 4, 2))
        else:
            assert len(layer.output_shape((4, 4, 2))) == 3


def test_each_axis_has_margins_of_its_own_and_valid_has_none() -> None:
    margins: Margins = ((0, 1), (1, 2))
    for layer in both((2, 5), 2, "same"):
        assert layer.margins((5, 6, 1)) == margins
    for layer in both((2, 5), 2, "valid"):
        assert layer.margins((5, 6, 1)) == ((0, 0), (0, 0))


@for_each(
    "layer",
    [
        *(layer for kernel in ((5, 3), (3, 5)) for layer in both(kernel, 1, "valid")),
        MaxPool2D("c", 5),
        AveragePool2D("c", 5),
        MaxPool2D("c", 5, 1),
        Conv2D("c", 1, (3, 2), dilation=2),
        Conv2D("c", 4, (1, 1), groups=2),
        Conv2D("c", 1, (1, 1), groups=2),
        Dense("c", 10),
        PositionEmbedding("c"),
        MultiHeadAttention("c", 1),
        TokenMean("c"),
        ClassToken("c"),
        FirstToken("c"),
        Normalise("c", (0.0, 0.0), (1.0, 1.0)),
        Add("c", ((), (Relu("inner"),), (Conv2D("inner2", 2, (1, 1)),))),
        Concatenate("c", ((), (MaxPool2D("inner", 2),))),
        Concatenate("c", ((), (Tokens("inner"),))),
        Multiply("c", ((GlobalAveragePool2D("inner"), Dense("inner2", 2)), ())),
        residual("c", (Conv2D("inner", 1, (3, 3)),)),
        residual("c", (Conv2D("inner", 2, (1, 1)),)),
        residual("c", (Flatten("inner"),)),
        squeeze_excite("c", (Flatten("inner"),)),
        squeeze_excite("c", (Tokens("inner"),)),
        squeeze_excite("c", (GlobalAveragePool2D("inner"), Dense("inner2", 2))),
    ],
)
def test_a_layer_that_does_not_fit_is_named_with_what_enters_it(layer: Layer) -> None:
    with pytest.raises(ValueError, match=r"^layer c: .*\(4, 4, 1\)"):
        layer.output_shape((4, 4, 1))


def test_a_kernel_that_exceeds_one_axis_of_a_narrow_image_is_refused() -> None:
    for layer in (*both((3, 1), 1, "valid"), MaxPool2D("c", 3), AveragePool2D("c", 3)):
        with pytest.raises(ValueError, match=r"^layer c: "):
            layer.output_shape((2, 9, 1))
    for layer in (*both((1, 3), 1, "valid"), MaxPool2D("c", 3), AveragePool2D("c", 3)):
        with pytest.raises(ValueError, match=r"^layer c: "):
            layer.output_shape((9, 2, 1))


@for_each(
    "layer",
    [
        *both((1, 1), 1, "same"),
        MaxPool2D("c", 1),
        AveragePool2D("c", 1),
        GlobalAveragePool2D("c"),
        AveragePool2D("c", 1, 1, "same"),
        Resize("c", 20, 20),
        Tokens("c"),
        PositionEmbedding("c"),
        MultiHeadAttention("c", 1),
        TokenMean("c"),
    ],
)
def test_an_image_layer_is_named_where_a_vector_enters_it(layer: Layer) -> None:
    with pytest.raises(ValueError, match=r"^layer c: .*\(16,\)"):
        layer.output_shape((16,))


@pytest.mark.parametrize(
    "layer", [BatchNorm("c"), Tokens("c"), MaxPool2D("c", 1), MultiHeadAttention("c", 3)], ids=repr
)
def test_a_layer_that_tokens_do_not_fit_is_named(layer: Layer) -> None:
    with pytest.raises(ValueError, match=r"^layer c: .*\(8, 16\)"):
        layer.output_shape((8, 16))


def test_a_resize_that_shrinks_is_refused() -> None:
    for height, width in ((6, 9), (7, 7)):
        with pytest.raises(ValueError, match=r"^layer c: only enlarges"):
            Resize("c", height, width).output_shape((7, 8, 3))


def test_a_dense_layer_on_an_image_asks_for_a_flatten() -> None:
    with pytest.raises(ValueError, match="put a Flatten before it"):
        Dense("c", 1).output_shape((4, 4, 1))


@pytest.mark.parametrize("join", [Add, Concatenate, Multiply])
@pytest.mark.parametrize("branches", [(), ((Relu("inner"),),)])
def test_a_join_of_less_than_two_branches_is_refused(join: type[Join], branches: tuple[tuple[Layer, ...], ...]) -> None:
    with pytest.raises(ValueError, match=r"^layer c: .*two or more"):
        join("c", branches)


def test_a_misfit_inside_a_branch_is_named_itself() -> None:
    for branch in (residual("outer", (Dense("culprit", 1),)), squeeze_excite("outer", (Dense("culprit", 1),))):
        with pytest.raises(ValueError, match=r"^layer culprit: .*\(4, 4, 1\)"):
            branch.output_shape((4, 4, 1))


def test_a_join_says_what_each_of_its_branches_makes() -> None:
    with pytest.raises(ValueError, match=r"make \(4, 4, 2\) and \(4, 4, 1\) of \(4, 4, 1\).*added"):
        residual("c", (Conv2D("inner", 2, (1, 1)),)).output_shape((4, 4, 1))
    with pytest.raises(ValueError, match=r"make \(4, 4, 1\) and \(2,\) of \(4, 4, 1\).*multiplied"):
        squeeze_excite("c", (GlobalAveragePool2D("inner"), Dense("inner2", 2))).output_shape((4, 4, 1))


def test_walk_takes_branches_in_their_order_and_each_starts_with_what_enters_the_join() -> None:
    layers = (Concatenate("join", ((Conv2D("a", 2, (1, 1)), Relu("b")), (), (Tanh("c"),))), Relu("d"))
    expected = [("a", (4, 4, 1)), ("b", (4, 4, 2)), ("c", (4, 4, 1)), ("join", (4, 4, 1)), ("d", (4, 4, 4))]
    assert [(layer.name, shape) for layer, shape in walk(layers, (4, 4, 1))] == expected


def test_walk_comes_to_a_branch_after_its_own_layers_and_starts_them_with_what_enters_it() -> None:
    squeeze = squeeze_excite("gate", (GlobalAveragePool2D("squeeze"), Dense("excite", 6)))
    block = residual(
        "block", (Conv2D("expand", 6, (1, 1)), squeeze, residual("inner", (BatchNorm("norm"),)), Conv2D("p", 3, (1, 1)))
    )
    layers = (Conv2D("stem", 3, (3, 3), 2), block, GlobalAveragePool2D("pool"), Dense("head", 2))
    assert [(layer.name, shape) for layer, shape in walk(layers, (9, 7, 1))] == [
        ("stem", (9, 7, 1)),
        ("expand", (4, 3, 3)),
        ("squeeze", (4, 3, 6)),
        ("excite", (6,)),
        ("gate", (4, 3, 6)),
        ("norm", (4, 3, 6)),
        ("inner", (4, 3, 6)),
        ("p", (4, 3, 6)),
        ("block", (4, 3, 3)),
        ("pool", (4, 3, 3)),
        ("head", (3,)),
    ]


@for_each("kind", [Dropout, StochasticDepth])
def test_a_rate_that_drops_everything_or_is_none_is_refused_by_the_layers_name(kind: type[Layer]) -> None:
    for rate in (1, 1.5, -0.1, float("nan")):
        with pytest.raises(ValueError, match=r"^layer d: rate .*; needs 0 <= rate < 1$"):
            kind("d", rate)  # type: ignore[call-arg]


@for_each(
    "mean, std, said",
    [
        ((0.0,), (1.0, 1.0), "has 1 means and 2 stds"),
        ((0.0, 0.0), (1.0, 0.0), "a std is 0"),
        ((0.0, float("inf")), (1.0, 1.0), "is not finite"),
        ((0.0, 0.0), (1.0, float("nan")), "is not finite"),
    ],
)
def test_constants_that_cannot_normalise_are_refused(
    mean: tuple[float, ...], std: tuple[float, ...], said: str
) -> None:
    with pytest.raises(ValueError, match=rf"^layer n: .*{said}"):
        Normalise("n", mean, std)


@for_each("shape", [(4, 3), (3,)])
def test_constants_per_channel_need_an_image(shape: Shape) -> None:
    """The features of a flattened image have another order in each framework."""
    with pytest.raises(ValueError, match=r"^layer n: needs an image"):
        Normalise("n", (0.0,) * 3, (1.0,) * 3).output_shape(shape)
