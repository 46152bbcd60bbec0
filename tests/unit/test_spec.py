from __future__ import annotations

from dataclasses import replace

import pytest
from each import for_each

from workloads.layers import (
    BatchNorm,
    Conv2D,
    Dense,
    DepthwiseConv2D,
    Dropout,
    Flatten,
    GlobalAveragePool2D,
    HardSigmoid,
    Layer,
    MaxPool2D,
    Relu,
    Sigmoid,
    Softmax,
    StochasticDepth,
    residual,
    squeeze_excite,
)
from workloads.spec import OptimizerName, OptimizerSpec, Workload


def branched(inner_rate: float, outer_rate: float) -> Workload:
    """A network with every kind of parameter and statistic, a branch in a branch, and a dropout in the innermost and
    one outside."""
    gate = (
        GlobalAveragePool2D("squeeze"),
        Dense("excite", 4),
        Dropout("inner_dropout", inner_rate),
        HardSigmoid("sigmoid"),
    )
    block = (
        DepthwiseConv2D("filter", (3, 3), padding="same"),
        BatchNorm("filter_norm", 0.99),
        squeeze_excite("gate", gate),
        Conv2D("project", 4, (1, 1), bias=False),
    )
    return Workload(
        "branched",
        "what it is",
        (6, 5, 2),
        (
            Conv2D("stem", 4, (2, 2), 2),
            residual("block", block),
            Flatten("flatten"),
            BatchNorm("norm"),
            Dropout("outer_dropout", outer_rate),
            Dense("head", 3),
        ),
        scale=0.5,
    )


BRANCHED = branched(0.25, 0.5)
PARAMETERS = {
    "stem/kernel": (2, 2, 2, 4),
    "stem/bias": (4,),
    "filter/kernel": (3, 3, 1, 4),
    "filter/bias": (4,),
    "filter_norm/gamma": (4,),
    "filter_norm/beta": (4,),
    "excite/kernel": (4, 4),
    "excite/bias": (4,),
    "project/kernel": (1, 1, 4, 4),
    "norm/gamma": (24,),
    "norm/beta": (24,),
    "head/kernel": (24, 3),
    "head/bias": (3,),
}
STATISTICS = {
    "filter_norm/running_mean": (4,),
    "filter_norm/running_variance": (4,),
    "norm/running_mean": (24,),
    "norm/running_variance": (24,),
}


def test_a_workload_lists_and_counts_parameters_statistics_and_work_in_the_order_of_computation() -> None:
    # a workload lists its parameters and then its statistics in the order of computation
    assert list(BRANCHED.parameter_shapes().items()) == list(PARAMETERS.items())
    assert list(BRANCHED.statistic_shapes().items()) == list(STATISTICS.items())
    assert list(BRANCHED.weight_shapes().items()) == list((PARAMETERS | STATISTICS).items())
    # a workload counts what is trained and not the statistics
    by_hand = (32 + 4) + (36 + 4) + (4 + 4) + (16 + 4) + 16 + (24 + 24) + (72 + 3)
    assert BRANCHED.parameter_count == by_hand
    # a workloads multiply adds count each layer of a branch once
    assert BRANCHED.multiply_adds == 3 * 2 * 4 * 8 + 3 * 2 * 4 * 9 + 4 * 4 + 3 * 2 * 4 * 4 + 24 * 3
    # a workload that ends in a branch has that branchs shape
    gate = squeeze_excite("gate", (GlobalAveragePool2D("squeeze"), Dense("excite", 4)))
    assert replace(BRANCHED, layers=(Conv2D("stem", 4, (2, 2), 2), gate)).output_shape == (3, 2, 4)


def test_a_softmax_has_a_class_a_logit_and_a_sigmoid_two() -> None:
    three = Workload("w", "", (4,), (Dense("d", 3),))
    assert three.loss == "softmax-cross-entropy"
    assert (three.output_shape, three.classes) == ((3,), 3)
    one = Workload("w", "", (4,), (Dense("d", 1),), loss="binary-cross-entropy")
    assert (one.output_shape, one.classes) == ((1,), 2)


@pytest.mark.parametrize(
    ("inner", "outer", "draws"), [(0.0, 0.0, False), (0.0, 0.5, True), (0.25, 0.0, True), (0.25, 0.5, True)]
)
def test_a_workload_draws_where_any_dropout_has_a_rate_even_in_a_branch(
    inner: float, outer: float, draws: bool
) -> None:
    assert branched(inner, outer).draws is draws


def test_without_dropout_only_the_rates_change_in_branches_too() -> None:
    assert BRANCHED.without_dropout() == branched(0.0, 0.0)
    assert branched(0.25, 0.5) == BRANCHED, "the original was changed"


def test_a_workload_draws_where_a_stochastic_depth_has_a_rate_and_its_twin_without_dropout_does_not() -> None:
    def deep(rate: float) -> Workload:
        return Workload("w", "", (4,), (residual("b", (Dense("d", 4), StochasticDepth("s", rate))),))

    assert (deep(0.25).draws, deep(0.0).draws) == (True, False)
    assert deep(0.25).without_dropout() == deep(0.0)


def test_without_dropout_leaves_a_workload_that_has_none_as_it_is() -> None:
    plain = Workload("w", "", (4,), (residual("b", (Dense("d", 4), Relu("r"))),))
    assert plain.without_dropout() == plain
    assert not plain.draws


@for_each(
    "layer",
    [
        Conv2D("culprit", 2, (5, 3)),
        Conv2D("culprit", 2, (3, 5)),
        DepthwiseConv2D("culprit", (5, 3)),
        MaxPool2D("culprit", 5),
        Dense("culprit", 10),
        residual("culprit", (Conv2D("inner", 2, (1, 1)),)),
        squeeze_excite("culprit", (GlobalAveragePool2D("inner"), Dense("inner2", 2))),
        residual("branch", (Dense("culprit", 10),)),
    ],
)
@for_each("asked", ["output_shape", "parameter_count", "multiply_adds", "classes"])
def test_a_layer_that_does_not_fit_is_named(layer: Layer, asked: str) -> None:
    workload = Workload("w", "", (4, 4, 1), (Relu("innocent"), layer))
    with pytest.raises(ValueError, match=r"culprit.*\(4, 4, 1\)"):
        getattr(workload, asked)


@pytest.mark.parametrize("layer", [Conv2D("culprit", 2, (1, 1)), MaxPool2D("culprit", 1)])
def test_an_image_layer_behind_a_flatten_is_named(layer: Layer) -> None:
    with pytest.raises(ValueError, match="culprit"):
        list(Workload("w", "", (4, 4, 1), (Flatten("f"), layer)).walk())


@pytest.mark.parametrize("tail", [(Softmax("s"),), (Sigmoid("s"),), (Softmax("s"), Dropout("d", 0.5))])
def test_a_network_that_ends_in_what_its_loss_does_is_refused(tail: tuple[Layer, ...]) -> None:
    with pytest.raises(ValueError, match=r"workload w: ends in layer s, .*leave it out"):
        Workload("w", "", (4,), (Dense("d1", 3), *tail))
    assert Workload("w", "", (4,), (*tail, Dense("d1", 3))).output_shape == (3,)


def test_walk_stops_at_the_layer_that_does_not_fit() -> None:
    walk = Workload("w", "", (4, 4, 1), (Relu("r"), Dense("culprit", 2), Relu("never"))).walk()
    assert [next(walk)[0].name, next(walk)[0].name] == ["r", "culprit"]
    with pytest.raises(ValueError, match="culprit"):
        next(walk)


@pytest.mark.parametrize(
    "layers",
    [
        (Dense("same", 4), Relu("r"), Dense("same", 2)),
        (Dense("same", 4), residual("branch", (Dense("same", 4),))),
        (residual("one", (Relu("same"),)), residual("two", (Relu("same"),))),
        (residual("same", (Relu("same"),)),),
        (residual("one", (residual("two", (Relu("same"),)),)), Relu("same")),
    ],
)
def test_repeated_layer_names_are_refused_across_branches_too(layers: tuple[Layer, ...]) -> None:
    with pytest.raises(ValueError, match=r"workload twice.*same"):
        Workload("twice", "", (4,), layers)


@pytest.mark.parametrize(("name", "rate"), [("sgd", 0.01), ("momentum", 0.01), ("nesterov", 0.01), ("adam", 0.001)])
def test_an_optimizer_brings_its_customary_learning_rate_unless_one_is_given(name: OptimizerName, rate: float) -> None:
    assert OptimizerSpec.named(name) == OptimizerSpec(name, rate, 0.9, 0.9, 0.999, 1e-7)
    assert OptimizerSpec.named(name, 0.5).learning_rate == 0.5
