"""The numpy referee against hand-computed cases, finite differences and closed forms of the numeric contract."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from adapters.base import MEMORY_KINDS
from adapters.numpy.adapter import LAYERS, Adapter, cross_entropy
from workloads.spec import Conv2D, Dense, Flatten, Layer, MaxPool2D, OptimizerSpec, Relu, Shape, Workload
from workloads.weights import draw

Array = np.ndarray[Any, Any]


def forward(layer: Layer, x: Array, **parameters: Array) -> Array:
    return LAYERS[type(layer)](layer, parameters, x)[0]


def test_convolution_correlates_without_flipping_the_kernel() -> None:
    x = np.arange(1, 10).reshape(1, 3, 3, 1)
    kernel = np.array([[1, 2], [3, 4]]).reshape(2, 2, 1, 1)
    y = forward(Conv2D("c", 1, (2, 2)), x, kernel=kernel, bias=np.array([10]))
    assert y[0, ..., 0].tolist() == [[47, 57], [77, 87]]


def test_convolution_sums_over_channels_and_keeps_filters_and_images_apart() -> None:
    x = np.array([[[[1, 2], [3, 4], [5, 6]]], [[[7, 8], [9, 10], [11, 12]]]])  # two images of 1 x 3 x 2
    kernel = np.array([[[[1, 0], [0, 1]], [[1, 10], [1, -1]]]])  # 1 x 2, two channels in, two filters
    y = forward(Conv2D("c", 2, (1, 2)), x, kernel=kernel, bias=np.array([0, 100]))
    assert y.tolist() == [[[[8, 128], [14, 148]]], [[[26, 188], [32, 208]]]]


def test_pooling_takes_each_windows_maximum_and_drops_the_remainder() -> None:
    rows = [[1, 9, -3, -4, 99], [2, 3, -2, -1, 99], [99, 99, 99, 99, 99]]
    x = np.stack([np.array(rows), -np.array(rows)], axis=-1)[None]
    assert forward(MaxPool2D("p", 2), x).tolist() == [[[[9, -1], [-1, 4]]]]


def test_relu_cuts_at_zero_and_its_derivative_there_is_zero() -> None:
    x = np.array([[-2.0, 0.0, 3.0]])
    y, backward = LAYERS[Relu](Relu("r"), {}, x)
    assert y.tolist() == [[0, 0, 3]]
    assert backward(np.ones_like(x))[0].tolist() == [[0, 0, 1]]


def test_flatten_lets_the_channel_vary_fastest() -> None:
    x = np.array([[[[1, 2], [3, 4]], [[5, 6], [7, 8]], [[9, 10], [11, 12]]]])
    assert forward(Flatten("f"), x).tolist() == [list(range(1, 13))]


def test_dense_multiplies_by_in_out_kernel_and_adds_the_bias() -> None:
    kernel, bias = np.array([[1, 2, 3], [4, 5, 6]]), np.array([10, 20, 30])
    assert forward(Dense("d", 3), np.array([[1, 1], [2, -1]]), kernel=kernel, bias=bias).tolist() == [
        [15, 27, 39],
        [8, 19, 30],
    ]


def test_images_are_scaled_before_the_first_layer() -> None:
    adapter = Adapter(np.float64)
    adapter.build(Workload("w", "", (2,), (Relu("r"),), scale=0.5), OptimizerSpec("sgd"), {})
    assert adapter.predict(np.array([[3, 255]], np.uint8)).tolist() == [[1.5, 127.5]]


def test_cross_entropy_is_the_mean_over_the_batch_with_its_gradient() -> None:
    loss, gradient = cross_entropy(np.array([[0.0, 0.0], [math.log(3), 0.0]]), np.array([0, 1], np.int32))
    assert loss == pytest.approx((math.log(2) + math.log(4)) / 2, rel=1e-14)
    np.testing.assert_allclose(gradient, [[-0.25, 0.25], [0.375, -0.375]], rtol=1e-14)


def test_cross_entropy_stands_huge_logits() -> None:
    loss, gradient = cross_entropy(np.array([[1e4, 0.0, -1e4]]), np.array([1], np.int32))
    assert loss == 1e4
    assert gradient.tolist() == [[1, -1, 0]]


def central_difference(f: Callable[[], float], x: Array, h: float = 1e-5) -> Array:
    """Gradient of `f` with respect to `x`, which is varied in place."""
    gradient = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        here = x[index]
        x[index] = here + h
        above = f()
        x[index] = here - h
        gradient[index] = (above - f()) / (2 * h)
        x[index] = here
    return gradient


def assert_close(found: Array, expected: Array) -> None:
    assert found.shape == expected.shape
    assert np.linalg.norm(expected) > 0
    assert np.linalg.norm(found - expected) <= 1e-6 * np.linalg.norm(expected)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (Conv2D("c", 3, (2, 3)), (4, 6, 2)),
        (Conv2D("c", 2, (1, 1)), (3, 2, 2)),
        (MaxPool2D("p", 2), (5, 7, 2)),
        (MaxPool2D("p", 3), (7, 3, 1)),
        (Relu("r"), (3, 4, 2)),
        (Flatten("f"), (3, 4, 2)),
        (Dense("d", 3), (5,)),
    ],
)
def test_a_layers_gradients_are_its_finite_differences(layer: Layer, shape: Shape) -> None:
    generator = np.random.Generator(np.random.PCG64(11))
    x = generator.normal(size=(2, *shape))
    parameters = {role: generator.normal(size=size) for role, size in layer.parameter_shapes(shape).items()}
    weight = generator.normal(size=(2, *layer.output_shape(shape)))

    def weighted_sum() -> float:
        return float((forward(layer, x, **parameters) * weight).sum())

    dx, gradients = LAYERS[type(layer)](layer, parameters, x)[1](weight)
    assert_close(dx, central_difference(weighted_sum, x))
    assert gradients.keys() == parameters.keys()
    for role, array in parameters.items():
        assert_close(gradients[role], central_difference(weighted_sum, array))


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
        "wide",
        "",
        (3, 9, 1),
        (Conv2D("c", 3, (3, 2)), Relu("r"), MaxPool2D("p", 1), Flatten("f"), Dense("d", 3)),
    ),
]


def built(workload: Workload) -> tuple[Adapter, Array, Array]:
    """A float64 referee with random biases too, and a batch; nothing lies near a kink."""
    generator = np.random.Generator(np.random.PCG64(7))
    adapter = Adapter(np.float64)
    adapter.build(workload, OptimizerSpec("sgd"), draw(workload, 7))
    for array in adapter.parameters.values():
        array += generator.normal(scale=0.1, size=array.shape)
    images = generator.integers(0, 256, (6, *workload.input_shape), dtype=np.uint8)
    return adapter, images, generator.integers(0, workload.classes, 6).astype(np.int32)


@pytest.mark.parametrize("workload", NETWORKS, ids=lambda workload: workload.name)
def test_a_networks_gradients_are_its_finite_differences(workload: Workload) -> None:
    adapter, images, labels = built(workload)

    def loss() -> float:
        return cross_entropy(adapter.forward(images)[0], labels)[0]

    told, gradients = adapter.gradients(images, labels)
    assert told == loss()
    assert gradients.keys() == workload.parameter_shapes().keys()
    for key, array in adapter.parameters.items():
        assert_close(gradients[key], central_difference(loss, array))


# From zero, Dense(1 -> 2) on the input 1 with label 0 keeps kernel = bias = (u, -u): the logits differ by 4u,
# so each of the four parameters is one number u whose gradient is -1 / (1 + exp(4u)).
SYMMETRIC = Workload("symmetric", "", (1,), (Dense("d", 2),), scale=1.0)


def gradient(u: float) -> float:
    return -1 / (1 + math.exp(4 * u))


def sgd(o: OptimizerSpec) -> list[float]:
    u1 = -o.learning_rate * gradient(0)
    u2 = u1 - o.learning_rate * gradient(u1)
    return [u1, u2, u2 - o.learning_rate * gradient(u2)]


def momentum(o: OptimizerSpec) -> list[float]:
    m, g1 = o.momentum, gradient(0)
    u1 = -o.learning_rate * g1
    g2 = gradient(u1)
    u2 = u1 - o.learning_rate * (m * g1 + g2)
    return [u1, u2, u2 - o.learning_rate * (m * m * g1 + m * g2 + gradient(u2))]


def nesterov(o: OptimizerSpec) -> list[float]:
    m, g1 = o.momentum, gradient(0)
    u1 = -o.learning_rate * (1 + m) * g1
    g2 = gradient(u1)
    u2 = u1 - o.learning_rate * (g2 + m * (m * g1 + g2))
    g3 = gradient(u2)
    return [u1, u2, u2 - o.learning_rate * (g3 + m * (m * m * g1 + m * g2 + g3))]


def adam(o: OptimizerSpec) -> list[float]:
    def step(*g: float) -> float:
        t = len(g)
        m1 = sum((1 - o.beta1) * o.beta1 ** (t - i) * g[i - 1] for i in range(1, t + 1))
        m2 = sum((1 - o.beta2) * o.beta2 ** (t - i) * g[i - 1] ** 2 for i in range(1, t + 1))
        corrected = o.learning_rate * math.sqrt(1 - o.beta2**t) / (1 - o.beta1**t)
        return corrected * m1 / (math.sqrt(m2) + o.epsilon)

    g1 = gradient(0)
    u1 = -step(g1)
    g2 = gradient(u1)
    u2 = u1 - step(g1, g2)
    return [u1, u2, u2 - step(g1, g2, gradient(u2))]


def trained(spec: OptimizerSpec, dtype: type, steps: int = 3) -> tuple[Adapter, list[dict[str, Array]], list[float]]:
    adapter = Adapter(dtype)
    adapter.load(np.ones((2, 1), np.uint8), np.zeros(2, np.int32))
    zeros = {key: np.zeros(shape, np.float32) for key, shape in SYMMETRIC.parameter_shapes().items()}
    adapter.build(SYMMETRIC, spec, zeros)
    weights, losses = [], []
    for _ in range(steps):
        losses.extend(float(loss) for loss in adapter.read(adapter.train(np.array([[0, 1]], np.int32))))
        weights.append(adapter.weights())
    return adapter, weights, losses


@pytest.mark.parametrize("rule", [sgd, momentum, nesterov, adam])
@pytest.mark.parametrize("epsilon", [1e-7, 0.1])
def test_the_first_three_updates_follow_the_contracts_formula(
    rule: Callable[[OptimizerSpec], list[float]], epsilon: float
) -> None:
    spec = OptimizerSpec(rule.__name__, 0.25, momentum=0.75, beta1=0.8, beta2=0.95, epsilon=epsilon)
    _, weights, losses = trained(spec, np.float64)
    expected = rule(spec)
    for u, found in zip(expected, weights, strict=True):
        np.testing.assert_allclose(found["d/kernel"], [[u, -u]], rtol=1e-13)
        np.testing.assert_allclose(found["d/bias"], [u, -u], rtol=1e-13)
    before = [0.0, *expected[:2]]
    np.testing.assert_allclose(losses, [math.log1p(math.exp(-4 * u)) for u in before], rtol=1e-6)


def test_the_closed_forms_first_update_by_hand() -> None:
    spec = OptimizerSpec("adam", 0.25, momentum=0.75, epsilon=0.0)
    assert gradient(0) == -0.5
    assert (sgd(spec)[0], momentum(spec)[0], nesterov(spec)[0]) == (0.125, 0.125, 0.21875)
    assert adam(spec)[0] == pytest.approx(0.25, rel=1e-12)


@pytest.mark.parametrize(("name", "slots"), [("sgd", 0), ("momentum", 1), ("nesterov", 1), ("adam", 2)])
def test_a_trial_stays_in_float32_and_its_memory_is_counted(name: str, slots: int) -> None:
    adapter, weights, _ = trained(OptimizerSpec(name), np.float32)
    assert {array.dtype for array in weights[-1].values()} == {np.dtype(np.float32)}
    assert adapter.predict(np.ones((1, 1), np.uint8)).dtype == np.float32
    memory = adapter.memory()
    assert set(memory) == set(MEMORY_KINDS)
    assert (memory["parameters"], memory["gradients"], memory["optimizer"]) == (16, 16, 16 * slots)


def test_several_steps_in_one_call_equal_one_step_a_call() -> None:
    workload = NETWORKS[2]
    _, images, labels = built(workload)
    order = np.array([[0, 1, 2], [3, 4, 5], [2, 0, 4]], np.int32)

    def run(calls: list[Array]) -> tuple[list[float], dict[str, Array]]:
        adapter = Adapter()
        adapter.load(images, labels)
        adapter.build(workload, OptimizerSpec("nesterov"), draw(workload, 1))
        return [float(loss) for call in calls for loss in adapter.train(call)], adapter.weights()

    (together, a), (apart, b) = run([order]), run([order[:1], order[1:2], order[2:]])
    assert together == apart
    assert all(np.array_equal(a[key], b[key]) for key in a)


def test_returned_weights_do_not_change_with_later_training() -> None:
    _, weights, _ = trained(OptimizerSpec("sgd"), np.float32)
    assert not np.array_equal(weights[0]["d/kernel"], weights[2]["d/kernel"])
