"""The numpy referee as a whole: its losses, and its promises as an adapter."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from differences import CLASS_TOKEN, EVERYTHING, TRANSFORMER, Array

from adapters.numpy.adapter import LOSSES, Adapter, binary_cross_entropy, softmax_cross_entropy
from adapters.numpy.layers import FORWARD
from adapters.numpy.passes import rounding_to
from workloads.layers import BatchNorm, Dense, Dropout, Relu
from workloads.spec import OptimizerName, OptimizerSpec, Workload
from workloads.weights import Weights, draw


def test_images_are_scaled_before_the_first_layer() -> None:
    adapter = Adapter("float64")
    adapter.build(Workload("w", "", (2,), (Relu("r"),), scale=0.5), OptimizerSpec("sgd"), {}, seed=0)
    assert adapter.predict(np.array([[3, 255]], np.uint8)).tolist() == [[1.5, 127.5]]


def test_softmax_cross_entropy_is_the_mean_over_the_batch_with_its_gradient_whatever_the_logits() -> None:
    loss, gradient = softmax_cross_entropy(np.array([[0.0, 0.0], [math.log(3), 0.0]]), np.array([0, 1], np.int32))
    assert loss == pytest.approx((math.log(2) + math.log(4)) / 2, rel=1e-14)
    np.testing.assert_allclose(gradient, [[-0.25, 0.25], [0.375, -0.375]], rtol=1e-14)
    loss, gradient = softmax_cross_entropy(np.array([[1e4, 0.0, -1e4]]), np.array([1], np.int32))
    assert loss == 1e4
    assert gradient.tolist() == [[1, -1, 0]]


def test_binary_cross_entropy_is_the_mean_over_the_batch_with_its_gradient() -> None:
    loss, gradient = binary_cross_entropy(np.array([[math.log(4)], [math.log(3)]]), np.array([1, 0], np.int32))
    assert loss == pytest.approx((math.log(5 / 4) + math.log(4)) / 2, rel=1e-14)
    np.testing.assert_allclose(gradient, [[-0.1], [0.375]], rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_binary_cross_entropy_stands_huge_logits_of_either_sign(dtype: type) -> None:
    for logit, label, expected, slope in ((1e4, 0, 1e4, 1), (1e4, 1, 0, 0), (-1e4, 0, 0, 0), (-1e4, 1, 1e4, -1)):
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            loss, gradient = binary_cross_entropy(np.array([[logit]], dtype), np.array([label], np.int32))
        assert (loss, gradient.tolist()) == (expected, [[slope]])


@pytest.mark.parametrize(("loss", "logits"), [("softmax-cross-entropy", 3), ("binary-cross-entropy", 1)])
def test_a_loss_keeps_the_logits_precision(loss: str, logits: int) -> None:
    for dtype in (np.float32, np.float64):
        assert LOSSES[loss](np.ones((2, logits), dtype), np.array([0, 1], np.int32))[1].dtype == dtype


def test_the_loss_is_the_workloads() -> None:
    images, labels = np.array([[1], [3]], np.uint8), np.array([0, 1], np.int32)
    weights = {"d/kernel": np.array([[2.0]], np.float32), "d/bias": np.array([-4.0], np.float32)}
    adapter = Adapter("float64")
    workload = Workload("w", "", (1,), (Dense("d", 1),), scale=1.0, loss="binary-cross-entropy")
    adapter.build(workload, OptimizerSpec("sgd"), weights, seed=0)
    assert adapter.predict(images).tolist() == [[-2], [2]]
    assert adapter.probe(images, labels).loss == pytest.approx(math.log1p(math.exp(-2)), rel=1e-14)


GENERATOR = np.random.Generator(np.random.PCG64(8))
IMAGES = GENERATOR.integers(0, 256, (8, *EVERYTHING.input_shape), dtype=np.uint8)
LABELS = np.array([0, 1, 2, 2, 1, 0, 0, 1], np.int32)
NUMBERS = np.random.default_rng(8).standard_normal(1000).astype(np.float32)
ORDER = np.array([[0, 1, 2], [3, 4, 5], [6, 7, 4]], np.int32)


def ready(
    workload: Workload = EVERYTHING, rule: OptimizerName = "nesterov", seed: int = 5, precision: str = "float32"
) -> Adapter:
    adapter = Adapter(precision)
    adapter.load(IMAGES, LABELS)
    adapter.build(workload, OptimizerSpec(rule), draw(workload, 1), seed)
    return adapter


def same(a: Weights, b: Weights) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[key], b[key]) for key in a)


def test_several_steps_in_one_call_equal_one_step_a_call() -> None:
    def run(calls: list[Array]) -> tuple[list[float], Weights]:
        adapter = ready()
        return [float(loss) for call in calls for loss in adapter.train(call)], adapter.weights()

    (together, a), (apart, b) = run([ORDER]), run([ORDER[:1], ORDER[1:2], ORDER[2:]])
    assert together == apart
    assert same(a, b)


def test_the_networks_with_every_layer_have_every_layer() -> None:
    assert {type(layer) for network in (EVERYTHING, TRANSFORMER, CLASS_TOKEN) for layer, _ in network.walk()} == set(
        FORWARD
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "workload",
    [EVERYTHING, *(replace(each, input_shape=EVERYTHING.input_shape) for each in (TRANSFORMER, CLASS_TOKEN))],
)
def test_no_layer_leaves_the_trials_precision(workload: Workload, dtype: type) -> None:
    adapter = ready(workload, rule="adam", precision=np.dtype(dtype).name)
    for _ in range(2):
        probe = adapter.probe(IMAGES, LABELS)
        for computed in (probe.outputs, probe.gradients, adapter.weights()):
            assert {key: array.dtype for key, array in computed.items() if array.dtype != dtype} == {}
        assert adapter.predict(IMAGES).dtype == dtype
        adapter.train(ORDER)


def test_precision_float64_computes_in_float64_and_no_other_does() -> None:
    for precision, dtype in (("float64", np.float64), ("float32", np.float32), ("bfloat16", np.float32)):
        adapter = Adapter()
        assert adapter.open("cpu", 1, "default", precision, "host", "on-demand")["precision"] == precision
        adapter.load(IMAGES, LABELS)
        adapter.build(EVERYTHING, OptimizerSpec("momentum"), draw(EVERYTHING, 1), seed=5)
        adapter.train(ORDER)
        assert adapter.predict(IMAGES).dtype == dtype
        assert {array.dtype for array in adapter.probe(IMAGES, LABELS).outputs.values()} == {np.dtype(dtype)}


@pytest.mark.parametrize(("precision", "digits"), [("bfloat16", 8), ("float16", 11), ("tf32", 11)])
def test_a_precision_rounds_each_number_to_its_digits_and_halfway_to_the_even_one(precision: str, digits: int) -> None:
    rounded, last = rounding_to(precision), 2.0 ** (1 - digits)  # the value of the last digit of a number from 1 to 2
    numbers = np.array([1, 1 + last / 2, 1 + last * 0.51, 1 + last * 1.5, -3 - last, 2 - last / 4, 0], np.float32)
    expected = np.array([1, 1, 1 + last, 1 + 2 * last, -3, 2, 0], np.float32)
    assert np.array_equal(rounded(numbers), expected)
    assert np.array_equal(rounded(rounded(NUMBERS)), rounded(NUMBERS))
    assert np.max(np.abs(rounded(NUMBERS) / NUMBERS - 1)) <= 2.0**-digits
    assert np.array_equal(rounded(np.array([np.inf, -np.inf], np.float32)), [np.inf, -np.inf])
    assert np.isnan(rounded(np.array([np.nan], np.float32))[0])


def test_bfloat16_and_float16_round_as_their_own_types_do() -> None:
    assert np.array_equal(rounding_to("float16")(NUMBERS), NUMBERS.astype(np.float16))
    upper = NUMBERS.view(np.uint32) >> 16 << 16  # bfloat16 by cutting: the next one down
    apart = np.abs(rounding_to("bfloat16")(NUMBERS)) - np.abs(upper.view(np.float32))
    assert apart.min() >= 0 and (apart > 0).mean() == pytest.approx(0.5, abs=0.05)


def test_a_precision_of_fewer_digits_rounds_what_leaves_each_layer_forward_and_backward() -> None:
    probes = {name: ready(precision=name).probe(IMAGES, LABELS) for name in ("float32", "float16", "bfloat16")}
    rounded = rounding_to("bfloat16")
    for computed in (probes["bfloat16"].outputs, probes["bfloat16"].gradients):
        assert all(np.array_equal(array, rounded(array)) for array in computed.values())

    def apart(name: str) -> float:
        exact, found = probes["float32"].outputs, probes[name].outputs
        return max(float(np.linalg.norm(found[key] - exact[key]) / np.linalg.norm(exact[key])) for key in exact)

    assert 1e-4 < apart("float16") < apart("bfloat16") < 0.1


def test_float32_is_the_rounding_of_float64() -> None:
    single, double = ready().probe(IMAGES, LABELS), ready(precision="float64").probe(IMAGES, LABELS)
    assert single.loss == pytest.approx(double.loss, rel=1e-5)
    for key, gradient in double.gradients.items():
        assert np.linalg.norm(single.gradients[key] - gradient) <= 1e-4 * np.linalg.norm(gradient), key
    # Not to the last digit: it is a separate precision.
    assert any(not np.array_equal(single.outputs[name], output) for name, output in double.outputs.items())


def test_a_probe_tells_every_layers_output_in_the_order_of_computation_and_its_loss_is_theirs() -> None:
    probe = ready(precision="float64").probe(IMAGES, LABELS)
    expected = [(layer.name, (len(IMAGES), *layer.output_shape(shape))) for layer, shape in EVERYTHING.walk()]
    assert [(name, output.shape) for name, output in probe.outputs.items()] == expected
    assert probe.loss == softmax_cross_entropy(probe.outputs["head"], LABELS)[0]
    assert {key: array.shape for key, array in probe.gradients.items()} == EVERYTHING.parameter_shapes()


def test_a_probe_is_of_training_mode_a_prediction_of_evaluation_and_neither_changes_anything() -> None:
    plain = EVERYTHING.without_dropout()
    adapter = ready(plain)
    outputs = adapter.probe(IMAGES, LABELS).outputs
    assert np.abs(outputs["norm"].mean(axis=0)).max() < 1e-5  # the batch's own statistics
    assert not np.allclose(adapter.predict(IMAGES), outputs["head"])
    assert not np.array_equal(ready().probe(IMAGES, LABELS).outputs["dropout"], outputs["dropout"])
    probed, untouched = ready(EVERYTHING.without_dropout()), ready(EVERYTHING.without_dropout())
    for _ in range(2):
        before = probed.weights()
        probed.probe(IMAGES[:5], LABELS[:5])
        assert same(probed.weights(), before)
        assert probed.train(ORDER).tolist() == untouched.train(ORDER).tolist()
        assert same(probed.weights(), untouched.weights())
    adapter, untouched = ready(), ready()
    logits = adapter.predict(IMAGES)
    assert np.array_equal(logits, adapter.predict(IMAGES))
    assert np.array_equal(logits, ready(EVERYTHING.without_dropout()).predict(IMAGES))
    assert adapter.train(ORDER).tolist() == untouched.train(ORDER).tolist()


def test_a_step_reports_the_loss_and_takes_the_gradient_that_a_probe_tells() -> None:
    adapter = ready(EVERYTHING.without_dropout(), "sgd", precision="float64")
    probe, before = adapter.probe(IMAGES[ORDER[0]], LABELS[ORDER[0]]), adapter.weights()
    assert adapter.train(ORDER[:1]).tolist() == [np.float32(probe.loss)]
    for key, gradient in probe.gradients.items():
        np.testing.assert_allclose(adapter.weights()[key], before[key] - 0.01 * gradient, rtol=1e-12, atol=1e-15)


def test_the_same_seed_gives_the_same_dropout_masks_and_another_seed_others() -> None:
    def losses(seed: int) -> list[float]:
        told: list[float] = ready(seed=seed).train(ORDER).tolist()
        return told

    assert losses(5) == losses(5)
    assert losses(5) != losses(6)


def test_every_step_draws_masks_of_its_own() -> None:
    workload = Workload("w", "", (12,), (Dropout("drop", 0.5), Dense("d", 2)), scale=1.0)
    adapter = Adapter()
    adapter.load(np.ones((2, 12), np.uint8), np.array([0, 1], np.int32))
    adapter.build(workload, OptimizerSpec("sgd", 0.0), draw(workload, 1), seed=5)  # its weights stay
    assert len(set(adapter.train(np.array([[0, 1]] * 4, np.int32)).tolist())) == 4


NORMED = Workload("normed", "", (2,), (BatchNorm("n", momentum=0.75, epsilon=1.0), Dense("d", 2)), scale=0.5)


def normed(steps: int) -> Adapter:
    """Return a referee after that many steps over two batches of feature means (4, 10), (6, 1) and biased variances (4,
    0), (1, 1)."""
    adapter = Adapter("float64")
    adapter.load(np.array([[4, 20], [12, 20], [10, 0], [14, 4]], np.uint8), np.array([0, 1, 0, 1], np.int32))
    adapter.build(NORMED, OptimizerSpec("sgd"), draw(NORMED, 1), seed=0)
    adapter.train(np.array([[0, 1], [2, 3]], np.int32)[:steps])
    return adapter


def test_a_step_moves_the_running_statistics_by_the_contracts_momentum() -> None:
    once, twice = normed(1).weights(), normed(2).weights()
    np.testing.assert_allclose(once["n/running_mean"], [1, 2.5], rtol=1e-14)
    np.testing.assert_allclose(once["n/running_variance"], [0.75 + 1, 0.75], rtol=1e-14)
    np.testing.assert_allclose(twice["n/running_mean"], [0.75 * 1 + 1.5, 0.75 * 2.5 + 0.25], rtol=1e-14)
    np.testing.assert_allclose(twice["n/running_variance"], [0.75 * 1.75 + 0.25, 0.75 * 0.75 + 0.25], rtol=1e-14)


def test_a_prediction_normalises_by_the_running_statistics_and_leaves_them() -> None:
    adapter = normed(1)
    weights = adapter.weights()
    x = np.array([[7.0, 3.0]])
    normal = (x - [1, 2.5]) / np.sqrt(np.array([1.75, 0.75]) + 1)
    logits = (normal * weights["n/gamma"] + weights["n/beta"]) @ weights["d/kernel"] + weights["d/bias"]
    np.testing.assert_allclose(adapter.predict(np.array([[14, 6]], np.uint8)), logits, rtol=1e-13)
    assert same(adapter.weights(), weights)


def test_weights_are_all_of_the_model_and_memory_counts_what_is_trained() -> None:
    adapter = ready(rule="adam")
    weights = adapter.weights()
    assert {key: array.shape for key, array in weights.items()} == EVERYTHING.weight_shapes()
    memory, size = adapter.memory(), 4 * EVERYTHING.parameter_count
    assert (memory["parameters"], memory["gradients"], memory["optimizer"]) == (size, size, 2 * size)
