"""Computations of a framework for the gate, and the few numbers that represent an array."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from probed import DROPPING, IMAGES, LABELS, OPTIMIZER, ORDER, PLAIN, SEED, gathered, opened, through_json

from adapters.numpy.adapter import Adapter
from adapters.worker import first_probe
from workloads import weights
from workloads.records.evidence import (
    BATCHES,
    EVALUATED_STEPS,
    LARGE_PROBES,
    PROBE_BATCH,
    PROBE_STEPS,
    PROBES,
    PROJECTIONS,
    Evidence,
    Fingerprint,
    fingerprint,
)
from workloads.spec import OptimizerSpec, Workload

PERIOD = 4093
NOISE = np.random.Generator(np.random.PCG64(2020)).standard_normal((PROJECTIONS, PERIOD))


def drawn(size: int) -> np.ndarray:
    return np.random.Generator(np.random.PCG64(size)).standard_normal(size, np.float32)


def test_a_fingerprint_is_the_norm_and_the_projections_on_the_noises() -> None:
    norm, *projections = fingerprint(np.array([[3.0], [-4.0]], np.float32))
    assert norm == 5.0
    assert projections == pytest.approx(3 * NOISE[:, 0] - 4 * NOISE[:, 1], rel=1e-9)
    assert fingerprint(np.zeros((2, 3))) == (0.0,) * (1 + PROJECTIONS)


@pytest.mark.parametrize("size", [1, 17, PERIOD - 1, PERIOD, PERIOD + 1, 2 * PERIOD, 5 * PERIOD + 1234, 10_000_000])
def test_a_fingerprint_of_any_size_is_that_of_float64_to_a_millionth(size: int) -> None:
    values = drawn(size)
    exact = values.astype(np.float64)
    norm, *projections = fingerprint(values)
    assert norm == pytest.approx(np.linalg.norm(exact), rel=1e-6)
    for noise, projection in zip(NOISE, projections, strict=True):
        assert abs(projection - exact @ np.resize(noise, size)) < 1e-6 * norm


@pytest.mark.parametrize("position", [0, 1, PERIOD - 1, PERIOD, 500_000, 999_999])
def test_one_changed_value_in_a_million_moves_the_projection_by_itself_times_the_noise(position: int) -> None:
    values = drawn(1_000_000)
    changed = values.copy()
    changed[position] += 8
    told = fingerprint(changed)[1] - fingerprint(values)[1]
    assert told == pytest.approx(8 * float(NOISE[0, position % PERIOD]), abs=1e-5)
    assert abs(told) > 0.1


@pytest.mark.parametrize("size", [16, PERIOD, 100_000])
def test_two_values_that_changed_places_leave_the_norm_and_move_the_projection(size: int) -> None:
    values = drawn(size)
    values[[3, size - 5]] = 1, 5
    swapped = values.copy()
    swapped[[3, size - 5]] = 5, 1
    assert fingerprint(swapped)[0] == pytest.approx(fingerprint(values)[0], rel=1e-9)
    told = 4 * float(NOISE[0, 3] - NOISE[0, (size - 5) % PERIOD])
    assert fingerprint(swapped)[1] - fingerprint(values)[1] == pytest.approx(told, abs=1e-5) and abs(told) > 0.1


def test_another_layout_of_the_same_image_has_another_fingerprint() -> None:
    image = drawn(4 * 30 * 30 * 32).reshape(4, 30, 30, 32)
    norm, projection, *_ = fingerprint(image)
    turned_norm, turned, *_ = fingerprint(image.transpose(0, 3, 1, 2))
    assert turned_norm == pytest.approx(norm, rel=1e-6)
    assert abs(turned - projection) > 0.1 * norm


def test_evidence_is_in_the_order_of_the_layers_and_of_the_first_batch_of_the_order() -> None:
    evidence = gathered(opened())
    assert list(evidence.outputs) == [layer.name for layer in PLAIN.layers]
    assert list(evidence.gradients) == list(PLAIN.parameter_shapes())
    adapter = opened()
    adapter.build(PLAIN, OPTIMIZER, weights.draw(PLAIN, SEED), SEED)
    first = ORDER[:PROBE_BATCH]
    probe = adapter.probe(IMAGES[first], LABELS[first])
    assert evidence.loss == probe.loss
    assert evidence.outputs["conv2"] == fingerprint(probe.outputs["conv2"])
    assert evidence.gradients["conv1/kernel"] == fingerprint(probe.gradients["conv1/kernel"])
    assert evidence.untrained_evaluation == fingerprint(adapter.predict(IMAGES[first]))
    losses = [float(adapter.train(batch[None])[0]) for batch in (ORDER[:4], ORDER[4:7])]
    assert evidence.losses[:EVALUATED_STEPS] == losses
    assert evidence.evaluation == fingerprint(adapter.predict(IMAGES[first]))


def test_the_gradient_norm_is_that_of_all_gradients_together() -> None:
    evidence = gathered(opened())
    assert evidence.gradient_norm == pytest.approx(math.hypot(*(norm for norm, *_ in evidence.gradients.values())))


def test_a_large_workload_is_trained_no_further_than_it_is_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = gathered(opened())
    monkeypatch.setattr(first_probe, "LARGE", PLAIN.multiply_adds)
    assert gathered(opened()) == whole
    monkeypatch.setattr(first_probe, "LARGE", PLAIN.multiply_adds - 1)
    assert len(whole.losses) == PROBE_STEPS

    def shorter(probe: Evidence) -> Evidence:
        return replace(probe, losses=probe.losses[:EVALUATED_STEPS], updates=early(probe))

    large = gathered(opened())
    assert large == replace(shorter(whole), again=[shorter(probe) for probe in whole.again[: LARGE_PROBES - 1]])


def early(probe: Evidence) -> dict[str, dict[str, Fingerprint]]:
    return {steps: change for steps, change in probe.updates.items() if int(steps) <= EVALUATED_STEPS}


def test_every_probe_starts_from_the_given_weights_and_has_images_of_its_own() -> None:
    evidence = gathered(opened())
    assert len(evidence.probes) == PROBES and len({probe.loss for probe in evidence.probes}) == PROBES
    for number, probe in enumerate(evidence.probes):
        order = np.resize(ORDER, (PROBES, sum(BATCHES)))[number]
        assert replace(probe, again=[]) == replace(gathered(opened(), order=order), again=[])


class Halved(Adapter):
    """The referee with half of the learning rate after `build`; it is built once."""

    builds = 0

    def build(self, workload: Workload, optimizer: OptimizerSpec, initial: weights.Weights, seed: int) -> None:
        self.builds += 1
        super().build(workload, replace(optimizer, learning_rate=optimizer.learning_rate / 2), initial, seed)

    def snapshot(self) -> Callable[[], None] | None:
        kept = copy.deepcopy(vars(self))
        return lambda: vars(self).update(copy.deepcopy(kept))


class Inherited(Halved):
    """The same with state of its own, perhaps, so that it is built anew."""


@pytest.mark.parametrize(("workload", "builds"), [(PLAIN, 1), (DROPPING, 2)])
def test_a_mistake_of_build_is_in_every_draw_of_a_model_that_is_built_once(workload: Workload, builds: int) -> None:
    once, anew = opened(Halved()), opened(Inherited())
    found = gathered(once, workload)
    assert found == gathered(anew, workload)
    assert (once.builds, anew.builds) == (builds, builds + PROBES - 1)
    for wrong, right in zip(found.probes, gathered(opened(), workload).probes, strict=True):
        assert wrong.updates["1"]["dense2/kernel"][0] == pytest.approx(
            right.updates["1"]["dense2/kernel"][0] / 2, rel=1e-4
        )


def test_updates_are_what_the_first_the_evaluated_and_the_last_step_changed_since_the_given_weights() -> None:
    evidence, given, adapter = gathered(opened()), weights.draw(PLAIN, SEED), opened()
    adapter.build(PLAIN, OPTIMIZER, given, SEED)
    start, changes = 0, {}
    for step, size in enumerate(BATCHES, start=1):
        adapter.train(ORDER[None, start : start + size])
        start += size
        changes[str(step)] = {key: fingerprint(array - given[key]) for key, array in adapter.weights().items()}
    assert evidence.updates == {steps: changes[steps] for steps in ("1", str(EVALUATED_STEPS), str(PROBE_STEPS))}
    assert evidence.sizes == {key: fingerprint(array)[0] for key, array in given.items()}


def test_a_batch_that_is_not_full_is_among_the_steps_of_every_workload() -> None:
    assert min(BATCHES[:EVALUATED_STEPS]) < PROBE_BATCH == BATCHES[0]


def test_a_split_smaller_than_the_probe_is_gone_round_again() -> None:
    few = ORDER[:6]
    assert gathered(opened(), order=few) == gathered(opened(), order=np.concatenate([few] * 10))


def test_dropout_changes_nothing_in_what_must_agree_between_frameworks() -> None:
    without, dropping = gathered(opened(), DROPPING.without_dropout()), gathered(opened(), DROPPING)
    assert DROPPING.draws
    assert dropping == without


class Watched(Adapter):
    """The referee; notes what it is asked to do, and on which workload."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[str, Workload]] = []

    def build(self, workload: Workload, *arguments: Any) -> None:
        super().build(workload, *arguments)
        self.asked.append(("build", workload))

    def predict(self, images: Any) -> Any:
        self.asked.append(("predict", self.workload))
        return super().predict(images)

    def probe(self, images: Any, labels: Any) -> Any:
        self.asked.append(("probe", self.workload))
        return super().probe(images, labels)

    def train(self, order: Any, rates: Any = None, part: Any = None) -> Any:
        self.asked.append(("train", self.workload))
        return super().train(order, rates)


AFTERWARDS = ("probe", *("train",) * EVALUATED_STEPS, "predict", "train")


def test_the_workload_itself_is_evaluated_untrained_and_a_twin_without_dropout_probed_and_trained() -> None:
    watched, twin = opened(Watched()), DROPPING.without_dropout()
    gathered(watched, DROPPING)
    assert twin != DROPPING
    untrained = [("build", DROPPING), *PROBES * [("predict", DROPPING)]]
    assert watched.asked == untrained + PROBES * [(asked, twin) for asked in ("build", *AFTERWARDS)]


def test_a_workload_that_draws_no_masks_is_built_once_a_probe() -> None:
    watched = opened(Watched())
    gathered(watched)
    further = (PROBES - 1) * ["build", *AFTERWARDS]
    assert watched.asked == [(asked, PLAIN) for asked in ("build", *PROBES * ["predict"], *AFTERWARDS, *further)]


@pytest.mark.parametrize("workload", [PLAIN, DROPPING], ids=lambda workload: workload.name)
def test_what_an_adapter_was_trained_to_before_changes_nothing_and_the_given_weights_are_left_alone(
    workload: Workload,
) -> None:
    adapter, given = opened(), weights.draw(workload, SEED)
    before = {key: array.copy() for key, array in given.items()}
    arguments = ((workload, OPTIMIZER, given, SEED), IMAGES, LABELS, ORDER)
    first = first_probe.gather(adapter, *arguments)
    assert first_probe.gather(adapter, *arguments) == first
    assert all((given[key] == array).all() for key, array in before.items())


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_evidence_of_a_run_that_overflows_survives_json_with_none_for_what_is_no_number() -> None:
    evidence = through_json(gathered(opened(), optimizer=OptimizerSpec("sgd", 1e30)))
    assert evidence.loss > 0 and evidence.losses[0] > 0
    assert None in evidence.losses[1:]
    assert list(evidence.evaluation) == [None] * (1 + PROJECTIONS)
