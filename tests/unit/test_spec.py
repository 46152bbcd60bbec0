from __future__ import annotations

import pytest

from workloads.catalogue import OSU_CNN, WORKLOADS
from workloads.spec import Conv2D, Dense, Flatten, Layer, MaxPool2D, OptimizerSpec, Relu, Shape, Workload


@pytest.mark.parametrize(
    ("layer", "entering", "leaving", "parameters", "multiply_adds"),
    [
        (Conv2D("c", 4, (3, 2)), (7, 9, 5), (5, 8, 4), {"kernel": (3, 2, 5, 4), "bias": (4,)}, 5 * 8 * 4 * 3 * 2 * 5),
        (Conv2D("c", 1, (7, 9)), (7, 9, 1), (1, 1, 1), {"kernel": (7, 9, 1, 1), "bias": (1,)}, 63),
        (MaxPool2D("p", 2), (7, 8, 3), (3, 4, 3), {}, 0),
        (MaxPool2D("p", 3), (3, 5, 1), (1, 1, 1), {}, 0),
        (Relu("r"), (7, 8, 3), (7, 8, 3), {}, 0),
        (Relu("r"), (5,), (5,), {}, 0),
        (Flatten("f"), (2, 3, 5), (30,), {}, 0),
        (Flatten("f"), (30,), (30,), {}, 0),
        (Dense("d", 7), (30,), (7,), {"kernel": (30, 7), "bias": (7,)}, 210),
    ],
)
def test_a_layer_states_its_shapes_and_work(
    layer: Layer, entering: Shape, leaving: Shape, parameters: dict[str, Shape], multiply_adds: int
) -> None:
    assert layer.output_shape(entering) == leaving
    assert layer.parameter_shapes(entering) == parameters
    assert layer.multiply_adds(entering) == multiply_adds


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


def test_osu_cnn_walks_through_the_tutorials_shapes() -> None:
    assert [(layer.name, shape, layer.output_shape(shape)) for layer, shape in OSU_CNN.walk()] == OSU_SHAPES
    assert OSU_CNN.output_shape == (10,)
    assert OSU_CNN.classes == 10


def test_osu_cnn_has_122_570_parameters_in_the_order_of_its_layers() -> None:
    assert OSU_CNN.parameter_count == 122_570
    assert list(OSU_CNN.parameter_shapes().items()) == [
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


def test_osu_cnn_multiply_adds_equal_the_hand_count() -> None:
    convolutions = 30 * 30 * 32 * 27 + 13 * 13 * 64 * 288 + 4 * 4 * 64 * 576
    assert OSU_CNN.multiply_adds == convolutions + 1024 * 64 + 64 * 10 == 4_548_608


def test_the_catalogue_lists_each_workload_under_its_own_name_and_all_end_in_classes() -> None:
    assert "osu-cnn" in WORKLOADS
    for name, workload in WORKLOADS.items():
        assert workload.name == name
        assert len(workload.output_shape) == 1


@pytest.mark.parametrize(
    "layer",
    [
        Conv2D("culprit", 2, (5, 3)),
        Conv2D("culprit", 2, (3, 5)),
        MaxPool2D("culprit", 5),
        Dense("culprit", 10),
    ],
)
@pytest.mark.parametrize("asked", ["output_shape", "parameter_count", "multiply_adds"])
def test_a_layer_that_does_not_fit_is_named(layer: Layer, asked: str) -> None:
    workload = Workload("w", "", (4, 4, 1), (Relu("innocent"), layer))
    with pytest.raises(ValueError, match=r"culprit.*\(4, 4, 1\)"):
        getattr(workload, asked)


@pytest.mark.parametrize("layer", [Conv2D("culprit", 2, (1, 1)), MaxPool2D("culprit", 1)])
def test_an_image_layer_behind_a_flatten_is_named(layer: Layer) -> None:
    with pytest.raises(ValueError, match="culprit"):
        list(Workload("w", "", (4, 4, 1), (Flatten("f"), layer)).walk())


def test_walk_stops_at_the_layer_that_does_not_fit() -> None:
    walk = Workload("w", "", (4, 4, 1), (Relu("r"), Dense("culprit", 2), Relu("never"))).walk()
    assert [next(walk)[0].name, next(walk)[0].name] == ["r", "culprit"]
    with pytest.raises(ValueError, match="culprit"):
        next(walk)


def test_repeated_layer_names_are_refused() -> None:
    with pytest.raises(ValueError, match=r"workload twice.*same"):
        Workload("twice", "", (4,), (Dense("same", 3), Relu("r"), Dense("same", 2)))


@pytest.mark.parametrize(("name", "rate"), [("sgd", 0.01), ("momentum", 0.01), ("nesterov", 0.01), ("adam", 0.001)])
def test_an_optimizer_brings_its_customary_learning_rate_unless_one_is_given(name: str, rate: float) -> None:
    assert OptimizerSpec.named(name) == OptimizerSpec(name, rate, 0.9, 0.9, 0.999, 1e-7)
    assert OptimizerSpec.named(name, 0.5).learning_rate == 0.5
