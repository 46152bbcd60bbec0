"""Graphs of operators become trees of layers that compute the same, or one line that says why not."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from each import for_each

from workloads.layers import (
    Add,
    AveragePool2D,
    BatchNorm,
    Concatenate,
    Conv2D,
    Dense,
    DepthwiseConv2D,
    Flatten,
    Gelu,
    HardSigmoid,
    HardSwish,
    Layer,
    MaxPool2D,
    Multiply,
    Normalise,
    Silu,
    StochasticDepth,
    Tokens,
)
from workloads.source.graph import ImportRefused, Network, Node, build_network, build_workload
from workloads.source.names import make_names

IMAGE = (8, 8, 3)
HEAD = (("pool", "global-average-pool-2d", "x"), ("head", "dense", "pool", {"units": 4}))
CONV = {"filters": 6, "kernel": [3, 3], "padding": "same"}


def nodes(*given: tuple[Any, ...]) -> list[Node]:
    """The input `x0` and nodes of (name, operator, names of inputs with blanks between them, settings)."""
    made = [Node("x0", "input", place="images")]
    for name, operator, inputs, *settings in given:
        made.append(Node(name, operator, tuple(inputs.split()), settings[0] if settings else {}, f"net.{name} (Kind)"))
    return made


def build(*given: tuple[Any, ...]) -> Network:
    return build_network(nodes(*given), IMAGE, "net")


def layers_of(*given: tuple[Any, ...]) -> tuple[Layer, ...]:
    return build(*given).workload.layers


def test_a_chain_is_a_chain_whatever_the_order_of_its_nodes() -> None:
    given = nodes(
        ("x", "conv2d", "x0", CONV),
        ("r", "relu", "x"),
        ("pool", "globalaveragepool2d", "r"),
        ("head", "Dense", "pool", {"units": 4}),
    )
    workload = build_workload(reversed(given), IMAGE, "net")
    assert [layer.name for layer in workload.layers] == ["x", "r", "pool", "head"]
    assert workload.layers[0] == Conv2D("x", 6, (3, 3), padding="same")
    assert workload.loss == "softmax-cross-entropy"


def test_residuals_projections_and_nested_branches_are_joins_of_branches() -> None:
    """A block of a residual net in a branch of another one, with a projection."""
    outer, *_ = layers_of(
        ("a", "conv2d", "x0", CONV),
        ("b", "conv2d", "a", CONV),
        ("inner", "add", "a b"),
        ("c", "relu", "inner"),
        ("short", "conv2d", "x0", CONV),
        ("x", "add", "c short"),
        *HEAD,
    )
    assert isinstance(outer, Add)
    assert [[layer.name for layer in branch] for branch in outer.branches] == [["a", "inner", "c"], ["short"]]
    inner = outer.branches[0][1]
    assert isinstance(inner, Add)
    assert [[layer.name for layer in branch] for branch in inner.branches] == [[], ["b"]]


def test_lists_of_features_that_grow_are_nested_concatenations() -> None:
    """torchvision's DenseNet concatenates all features before each layer."""
    chain = layers_of(
        ("f1", "conv2d", "x0", CONV),
        ("c1", "concatenate", "x0 f1"),
        ("f2", "conv2d", "c1", CONV),
        ("c2", "concatenate", "x0 f1 f2"),
        ("f3", "conv2d", "c2", CONV),
        ("x", "concatenate", "x0 f1 f2 f3"),
        *HEAD,
    )
    joins = chain[:3]
    assert all(isinstance(layer, Concatenate) for layer in joins)
    assert [
        [[each.name for each in branch] for branch in join.branches] for join in joins if isinstance(join, Concatenate)
    ] == [
        [[], ["f1"]],
        [[], ["f2"]],
        [[], ["f3"]],
    ]


def test_squeeze_and_excite_of_convolutions_is_one_of_dense_layers() -> None:
    (scaled, *_) = layers_of(
        ("s", "globalaveragepool2d", "x0"),
        ("r", "reshape", "s", {"shape": [1, 1, 3]}),
        ("d", "conv2d", "r", {"filters": 2, "kernel": (1, 1)}),
        ("a", "relu", "d"),
        ("e", "conv2d", "a", {"filters": 3, "kernel": (1, 1), "initializer": "he-normal"}),
        ("g", "sigmoid", "e"),
        ("x", "multiply", "x0 g"),
        *HEAD,
    )
    assert isinstance(scaled, Multiply)
    gate = scaled.branches[1]
    assert [type(layer).__name__ for layer in gate] == ["GlobalAveragePool2D", "Dense", "Relu", "Dense", "Sigmoid"]
    assert gate[3] == Dense("e", 3, "he-normal")


@for_each(
    "given, expected",
    [
        ([("x", "dense", "x0", {"units": 5, "bias": False})], Conv2D("x", 5, (1, 1), bias=False)),
        ([("x", "gelu", "x0", {"approximate": True})], Gelu("x", approximate=True)),
        ([("x", "batchnorm", "x0", {"scale": False})], BatchNorm("x", scale=False)),
        ([("x", "conv2d", "x0", CONV | {"filters": 3, "groups": 3})], DepthwiseConv2D("x", (3, 3), padding="same")),
        (
            [("a", "shift", "x0", {"value": 3.0}), ("b", "relu6", "a"), ("x", "scale", "b", {"value": 1 / 6})],
            HardSigmoid("x"),
        ),
        (
            [
                ("a", "shift", "x0", {"value": 3}),
                ("b", "relu6", "a"),
                ("c", "scale", "b", {"value": 1 / 6}),
                ("x", "multiply", "x0 c"),
            ],
            HardSwish("x"),
        ),
        (
            [
                ("a", "shift", "x0", {"value": 3}),
                ("b", "relu6", "a"),
                ("c", "multiply", "b x0"),
                ("x", "scale", "c", {"value": 1 / 6}),
            ],
            HardSwish("x"),
        ),
        ([("a", "hard-sigmoid", "x0"), ("x", "multiply", "a x0")], HardSwish("x")),
        ([("a", "sigmoid", "x0"), ("x", "multiply", "x0 a")], Silu("x")),
        ([("x", "scale", "x0", {"value": 2.0})], Normalise("x", (0.0,) * 3, (0.5,) * 3)),
        (
            [("p", "zero-padding", "x0", {"padding": [1, 2, 3, 4]}), ("x", "conv2d", "p", CONV | {"padding": "valid"})],
            Conv2D("x", 6, (3, 3), padding=(1, 2, 3, 4)),
        ),
        (
            [("p", "zero-padding", "x0", {"padding": [0, 1, 0, 1]}), ("x", "conv2d", "p", CONV)],
            Conv2D("x", 6, (3, 3), padding=(1, 2, 1, 2)),
        ),
        ([("i", "identity", "x0"), ("x", "stochastic-depth", "i", {"rate": 0.1})], StochasticDepth("x", 0.1)),
    ],
)
def test_what_a_source_writes_otherwise_is_one_layer(given: list[tuple[Any, ...]], expected: Layer) -> None:
    assert layers_of(*given, *HEAD)[0] == expected


def test_a_swish_of_another_value_stays_a_product() -> None:
    first = layers_of(("r", "relu", "x0"), ("a", "sigmoid", "r"), ("x", "multiply", "x0 a"), *HEAD)[0]
    assert isinstance(first, Multiply)


def test_reshapes_are_tokens_a_flatten_or_nothing() -> None:
    chain = layers_of(
        ("a", "reshape", "x0", {"shape": [64, 3]}),
        ("b", "reshape", "a", {"shape": [-1, 3]}),
        ("c", "reshape", "b", {"shape": [-1]}),
        ("d", "flatten", "c"),
        ("e", "dense", "d", {"units": 2}),
    )
    assert chain == (Tokens("a"), Flatten("c"), Dense("e", 2))


def test_zeros_before_a_max_pool_are_margins_only_where_no_value_is_negative() -> None:
    padded = (
        ("p", "zero-padding", "r", {"padding": (1, 1, 1, 1)}),
        ("x", "max-pool-2d", "p", {"size": 3, "stride": 2}),
    )
    chain = layers_of(("r", "relu", "x0"), *padded, *HEAD)
    assert chain[1] == MaxPool2D("x", 3, 2, (1, 1, 1, 1))
    with pytest.raises(
        ImportRefused, match=r"net\.p \(Kind\): zeros before a max pool are larger than negative values"
    ):
        layers_of(("r", "tanh", "x0"), *padded, *HEAD)
    with pytest.raises(ImportRefused, match=r"net\.p \(Kind\): .* not by net\.x \(Kind\)"):
        layers_of(("r", "relu", "x0"), padded[0], ("x", "average-pool-2d", "p", {"size": 3}), *HEAD)
    assert layers_of(("x", "average-pool-2d", "x0", {"size": 2, "padding": "same"}), *HEAD)[0] == AveragePool2D(
        "x", 2, padding="same"
    )


def test_a_softmax_or_sigmoid_at_the_end_belongs_to_the_loss() -> None:
    assert (
        build(("x", "relu", "x0"), *HEAD, ("out", "softmax", "head")).workload
        == build(("x", "relu", "x0"), *HEAD).workload
    )
    binary = (("pool", "globalaveragepool2d", "x0"), ("head", "dense", "pool", {"units": 1}))
    for end in ((), (("out", "sigmoid", "head"),)):
        assert build(*binary, *end).workload.loss == "binary-cross-entropy"


NO_TREE = (
    ("a", "relu", "x0"),
    ("b", "tanh", "x0"),
    ("c", "sigmoid", "a"),
    ("d", "add", "a b"),
    ("x", "add", "c d"),
)


@for_each(
    "given, said",
    [
        ((*NO_TREE, *HEAD), r"net\.a \(Kind\): its output goes into branches that join in different places"),
        (
            (("x", "relu", "x0"), ("pool", "tanh", "x")[:3], ("y", "relu", "x0")),
            r"one output, this ends in 2: net\.pool",
        ),
        ((("x1", "input", ""), ("x", "add", "x0 x1"), *HEAD), r"one input, this has 2: images, net\.x1"),
        ((("x", "add", "x0 a"), ("a", "relu", "x"), *HEAD), r"has a cycle"),
        ((("x", "relu", "y"), *HEAD), r"node y is used and not defined"),
        (
            (("x", "conv2d", "x0", {"filters": 2, "kernel": (9, 9)}), *HEAD),
            r"net\.x \(Kind\): window \(9, 9\) is larger",
        ),
        (
            (("x", "conv2d", "x0", CONV | {"stride": "2"}), *HEAD),
            r"net\.x \(Kind\): cannot be a Conv2D: Conv2D\.stride",
        ),
        ((("x", "conv2d", "x0", CONV | {"bells": 2}), *HEAD), r"net\.x \(Kind\): cannot be a Conv2D: .*bells"),
        (
            (("a", "relu", "x0"), ("b", "conv2d", "x0", CONV), ("x", "add", "a b"), *HEAD),
            r"net\.x \(Kind\): there is no Add of \(8, 8, 3\) and \(8, 8, 6\)",
        ),
        (
            (("x", "reshape", "x0", {"shape": (3, 8, 8)}), *HEAD),
            r"there is no layer that turns \(8, 8, 3\) into \(3, 8, 8\)",
        ),
        (
            (
                ("t", "tokens", "x0"),
                ("x", "multi-head-attention", "t", {"heads": 3, "dropout": 0.1}),
                ("m", "token-mean", "x"),
                ("head", "dense", "m", {"units": 2}),
            ),
            r"net\.x \(Kind\): its attention has a dropout",
        ),
        (
            (
                ("t", "tokens", "x0"),
                ("x", "multi-head-attention", "t", {"heads": 3, "width": 2}),
                ("m", "token-mean", "x"),
            ),
            r"net\.x \(Kind\): 3 heads of 2 features are not the 3 of its input",
        ),
        (
            (("x", "relu", "x0"), *HEAD, ("out", "sigmoid", "head")),
            r"net\.out \(Kind\): a sigmoid of \(4,\) is for several labels",
        ),
    ],
)
def test_what_is_no_tree_of_known_layers_is_refused_in_one_line_with_its_place(
    given: tuple[Any, ...], said: str
) -> None:
    with pytest.raises(ImportRefused) as refused:
        build(*given)
    assert re.search(said, str(refused.value))
    assert "\n" not in str(refused.value)


def test_an_unknown_operator_is_refused_with_its_place() -> None:
    with pytest.raises(ImportRefused, match=r"^net\.up \(ConvTranspose2d\): there is no layer for convtranspose2d$"):
        Node("up", "conv-transpose2d", ("x0",), place="net.up (ConvTranspose2d)")


def test_a_module_with_weights_is_used_once_and_one_without_as_often_as_it_is() -> None:
    def two(operator: str, settings: dict[str, Any]) -> Network:
        given = nodes(("a", operator, "x0", settings), ("b", operator, "a", settings))
        named = [Node(each.name, each.operator, each.inputs, each.settings, "net.shared (Kind)") for each in given[1:]]
        return build_network([given[0], *named], IMAGE, "net")

    assert [layer.name for layer in two("relu", {}).workload.layers] == ["a", "b"]
    with pytest.raises(ImportRefused, match=r"net\.shared \(Kind\): is used 2 times; shared weights"):
        two("conv2d", CONV | {"filters": 3})


def test_names_of_layers_are_valid_and_unique() -> None:
    given = ["layer1.0.conv1", "layer1_0_conv1", "Layer1.0.conv1", "_", "é", "x" * 100, "x" * 90]
    names = list(make_names([Node(name, "relu") for name in given]).values())
    assert names == [
        "layer1_0_conv1",
        "layer1_0_conv1_2",
        "Layer1_0_conv1_3",
        "layer",
        "layer_2",
        "x" * 80,
        f"{'x' * 74}_2",
    ]


def test_places_say_where_each_layer_comes_from() -> None:
    made = build(("x.1", "conv2d", "x0", CONV), ("x", "relu", "x.1"), *HEAD)
    assert made.places["x_1"] == "net.x.1 (Kind)"
    assert set(made.places) == {layer.name for layer, _ in made.workload.walk()}
    assert made.layer_of["x.1"] == "x_1"


def test_weights_take_the_shapes_of_the_layers_that_nodes_became() -> None:
    made = build(("s", "globalaveragepool2d", "x0"), ("head.0", "conv2d", "s", {"filters": 4, "kernel": (1, 1)}))
    given = {
        "head.0/kernel": np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4),
        "head.0/bias": np.zeros(4, np.float32),
    }
    placed = made.place_weights(given)
    assert placed["head_0/kernel"].tolist() == np.arange(12).reshape(3, 4).tolist()
    for wrong, said in (
        ({"head.0/kernel": given["head.0/kernel"]}, r"no weight for head_0/bias"),
        (given | {"head.0/bias": np.zeros(5, np.float32)}, r"its weight bias is \(5,\), the network's is \(4,\)"),
        (given | {"other/bias": np.zeros(5, np.float32)}, r"other: its weight bias \(5,\) belongs to no layer"),
    ):
        with pytest.raises(ImportRefused, match=said):
            made.place_weights(wrong)
