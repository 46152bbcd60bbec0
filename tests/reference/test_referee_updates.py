"""The numpy referee's updates compared with the closed forms of the numeric contract."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from each import for_each

from adapters.base import MEMORY_KINDS
from adapters.numpy.adapter import Adapter
from workloads.layers import Dense
from workloads.spec import SLOTS, OptimizerName, OptimizerSpec, Workload
from workloads.weights import Weights

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


def adamw(o: OptimizerSpec) -> list[float]:
    def step(*g: float) -> float:
        t = len(g)
        m1 = sum((1 - o.beta1) * o.beta1 ** (t - i) * g[i - 1] for i in range(1, t + 1))
        m2 = sum((1 - o.beta2) * o.beta2 ** (t - i) * g[i - 1] ** 2 for i in range(1, t + 1))
        return o.learning_rate * math.sqrt(1 - o.beta2**t) / (1 - o.beta1**t) * m1 / (math.sqrt(m2) + o.epsilon)

    kept, g1 = 1 - o.learning_rate * o.weight_decay, gradient(0)
    u1 = -step(g1)
    g2 = gradient(u1)
    u2 = kept * u1 - step(g1, g2)
    return [u1, u2, kept * u2 - step(g1, g2, gradient(u2))]


def rmsprop(o: OptimizerSpec) -> list[float]:
    def step(*g: float) -> float:
        s = sum((1 - o.rho) * o.rho ** (len(g) - i) * g[i - 1] ** 2 for i in range(1, len(g) + 1))
        return o.learning_rate * g[-1] / (math.sqrt(s) + o.epsilon)

    g1 = gradient(0)
    u1 = -step(g1)
    g2 = gradient(u1)
    u2 = u1 - step(g1, g2)
    return [u1, u2, u2 - step(g1, g2, gradient(u2))]


def trained(spec: OptimizerSpec, dtype: type, steps: int = 3) -> tuple[Adapter, list[Weights], list[float]]:
    adapter = Adapter(np.dtype(dtype).name)
    adapter.load(np.ones((2, 1), np.uint8), np.zeros(2, np.int32))
    zeros = {key: np.zeros(shape, np.float32) for key, shape in SYMMETRIC.parameter_shapes().items()}
    adapter.build(SYMMETRIC, spec, zeros, seed=0)
    weights: list[Weights] = []
    losses: list[float] = []
    for _ in range(steps):
        losses.extend(float(loss) for loss in adapter.read(adapter.train(np.array([[0, 1]], np.int32))))
        weights.append(adapter.weights())
    return adapter, weights, losses


@for_each("rule", [sgd, momentum, nesterov, adam, adamw, rmsprop])
@for_each("epsilon", [1e-7, 0.1])
def test_the_first_three_updates_follow_the_contracts_formula(
    rule: Callable[[OptimizerSpec], list[float]], epsilon: float
) -> None:
    name: Any = rule.__name__
    spec = OptimizerSpec(name, 0.25, momentum=0.75, beta1=0.8, beta2=0.95, epsilon=epsilon, rho=0.7)
    if name == "adamw":
        spec = replace(spec, weight_decay=0.4)
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


@pytest.mark.parametrize("name", ["sgd", "momentum", "nesterov"])
def test_weight_decay_is_a_gradient_of_its_own_and_each_step_has_its_rate(name: OptimizerName) -> None:
    """Example in numbers: with d = 0.5 and m = 0.5, from weights w the gradient is g + w / 2."""
    spec = OptimizerSpec(name, 0.25, momentum=0.5, weight_decay=0.5)
    adapter, _, _ = trained(spec, np.float64, steps=0)
    order, rates = np.array([[0, 1], [0, 1], [0, 1]], np.int32), np.array([0.25, 0.5, 0.125], np.float32)
    adapter.train(order, rates)
    u = v = 0.0
    for rate in (0.25, 0.5, 0.125):
        g = gradient(u) + 0.5 * u
        v = 0.5 * v + g
        u -= rate * {"sgd": g, "momentum": v, "nesterov": g + 0.5 * v}[name]
    np.testing.assert_allclose(adapter.weights()["d/bias"], [u, -u], rtol=1e-13)
    adapter.train(order[:1])
    g = gradient(u) + 0.5 * u
    v = 0.5 * v + g
    u -= 0.125 * {"sgd": g, "momentum": v, "nesterov": g + 0.5 * v}[name]
    np.testing.assert_allclose(adapter.weights()["d/bias"], [u, -u], rtol=1e-13, err_msg="the last rate holds")


@pytest.mark.parametrize(("name", "slots"), SLOTS.items())
def test_a_trial_stays_in_float32_and_its_memory_is_counted(name: OptimizerName, slots: int) -> None:
    adapter, weights, _ = trained(OptimizerSpec(name), np.float32)
    assert {array.dtype for array in weights[-1].values()} == {np.dtype(np.float32)}
    assert adapter.predict(np.ones((1, 1), np.uint8)).dtype == np.float32
    memory = adapter.memory()
    assert set(memory) == set(MEMORY_KINDS)
    assert (memory["parameters"], memory["gradients"], memory["optimizer"]) == (16, 16, 16 * slots)


def test_returned_weights_do_not_change_with_later_training() -> None:
    _, weights, _ = trained(OptimizerSpec("sgd"), np.float32)
    assert not np.array_equal(weights[0]["d/kernel"], weights[2]["d/kernel"])
