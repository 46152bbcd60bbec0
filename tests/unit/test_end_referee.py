"""The probe at a trial's end and its referee, over adapters that are correct and some that are incorrect by then."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from conftest import PROJECT, ROOT, living_children, make_spec
from each import for_each
from probed import IMAGES, LABELS, OPTIMIZER, ORDER, PLAIN

from adapters.base import Floats, Order
from adapters.numpy import end_referee
from adapters.numpy.adapter import Adapter
from adapters.numpy.end_updates import ALL, Step, update_differences
from adapters.numpy.passes import Array
from adapters.worker import end_probe
from adapters.worker.prepare import Prepared
from adapters.worker.trainer import Trainer
from runner.gate.end_referee import EndReferee
from runner.gate.trial_end import CALL_LOSSES, CALL_UPDATES, GROSS, LAST_LOSS
from workloads import schedules, weights
from workloads.augmentation import draw
from workloads.datasets import Images, Labels, Split
from workloads.layers import BatchNorm
from workloads.networks import WORKLOADS
from workloads.records import end_evidence as bounds
from workloads.records import network
from workloads.records.end_evidence import (
    CALL_ROWS,
    CALL_RULES,
    DRAWN_BATCHES,
    END_FILE,
    IDLE_STEPS,
    Difference,
    TrialEnd,
    drawn_images,
)
from workloads.records.files import JOB_FILE, write_json
from workloads.records.job import AUGMENTATION, RATES, InputFile, Job, Kind
from workloads.records.validation import build_record
from workloads.spec import OPTIMIZER_NAMES, OptimizerName, OptimizerSpec

BATCH = 8  # of 30 images: the epoch's last batch has 6
TRAINED = ORDER[:24].reshape(3, BATCH)
SMOOTH = replace(PLAIN, layers=tuple(layer for layer in PLAIN.layers if not isinstance(layer, BatchNorm)))


@pytest.fixture(autouse=True)
def workloads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(WORKLOADS, "plain", SMOOTH)
    monkeypatch.setitem(WORKLOADS, "batchnorm", PLAIN)


def end_of(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    adapter: Adapter | None = None,
    rule: OptimizerSpec = OPTIMIZER,
    more: dict[str, Array] | None = None,
    **others: Any,
) -> TrialEnd:
    """Return the referee's account of an adapter's end, 3 steps after its beginning.

    `more` are inputs that not every trial has. Others: `workload`; fields of the task; `change`, which is applied to
    the adapter before the end.
    """
    more, workload, change = more or {}, others.get("workload", "plain"), others.get("change")
    folder = tmp_path / "trials" / "one"
    folder.mkdir(parents=True, exist_ok=True)
    inputs = {}
    for name, array in (("train_images", IMAGES), ("train_labels", LABELS), ("test_images", IMAGES), *more.items()):
        np.save(tmp_path / f"{name}.npy", array)
        inputs[name] = InputFile(f"{name}.npy", "-")
    network_file = tmp_path / "network.json"
    network_file.write_text(network.to_text(WORKLOADS[workload]))
    inputs["network"] = InputFile(network_file.name, "-")
    accumulate = others.get("accumulate", 1)
    precision = others.get("precision", "float32")
    task_changes = {"accumulate": accumulate, "precision": precision} | (
        {"augment": "flip"} if others.get("augment") else {}
    )
    spec = make_spec(workload=workload, optimizer=rule, batch_size=BATCH, inputs=inputs, **task_changes)
    write_json(folder / JOB_FILE, Job(Kind.TRIAL, spec).to_json())
    adapter = adapter or Adapter()
    adapter.open("cpu", 1, "default", precision, "host", "on-demand")
    adapter.load(IMAGES, LABELS)
    task = WORKLOADS[workload], rule, weights.draw(WORKLOADS[workload], 5), 5
    adapter.build(*task)
    trainer = Trainer(adapter, rates=more.get(RATES), part=spec.part)
    trainer.run(iter([TRAINED]))
    if change:
        change(adapter)
    split = Split(IMAGES, LABELS)
    prepared = Prepared(split, split.images, ORDER, task, more.get(RATES), more.get(AUGMENTATION))
    adapter.load(prepared.images(-1), LABELS)
    idle = end_probe.gather(spec, WORKLOADS[workload], prepared, trainer, folder)
    end_referee.main(folder)
    told = json.loads(capsys.readouterr().out)
    return TrialEnd.from_json(TrialEnd(None).to_json() | told | idle)


Ended = Callable[..., TrialEnd]


@pytest.fixture
def ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Ended:
    return partial(end_of, tmp_path, capsys)


@pytest.mark.parametrize("rule", OPTIMIZER_NAMES)
def test_an_end_in_bfloat16_is_off_by_what_the_referee_says_that_rounding_makes(
    rule: OptimizerName, ended: Ended
) -> None:
    spec = OptimizerSpec.named(rule)
    full, half = (ended(None, spec, precision=each) for each in ("float32", "bfloat16"))
    assert full.evaluation and half.evaluation
    assert apart(full.evaluation) < 1e-5 < 1e-3 < half.evaluation.rounding
    assert excess(half.evaluation) < 1e-4
    for step in half.steps:
        assert excess(step.loss) < 1e-4
        assert rule in ("adam", "adamw") or step.update is None or excess(step.update) < 1e-3


def excess(difference: Difference | None) -> float:
    assert difference is not None and difference.apart is not None
    return difference.apart - difference.resolution - 5 * difference.rounding


@pytest.mark.parametrize("bound", [None, 0], ids=["whole gradients", "those of the last layer"])
@pytest.mark.parametrize("workload", ["plain", "batchnorm"])
def test_an_update_in_parts_is_recomputed_in_parts_and_a_whole_one_is_seen(
    workload: str, bound: int | None, monkeypatch: pytest.MonkeyPatch, ended: Ended
) -> None:
    class Whole(Adapter):
        def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> Floats:
            return super().train(order, rates)

    if bound is not None:
        monkeypatch.setattr(bounds, "BACKWARD_MULTIPLY_ADDS", bound)
    sgd = OptimizerSpec.named("sgd")
    right, wrong = (ended(each, sgd, workload=workload, accumulate=2) for each in (Adapter(), Whole()))
    assert [(step.batch_size, step.partial) for step in right.steps] == [*[(16, False)] * 3, (14, True)]
    assert all(step.whole is (bound is None) for step in right.steps)
    assert max(apart(step.loss) for step in right.steps) < 1e-5
    assert max(excess(step.update) for step in right.steps if step.update) < 1e-4
    seen = max(apart(step.loss) for step in wrong.steps) > 1e-3
    assert seen == (workload == "batchnorm")  # without it both are the same update


def test_of_an_update_too_large_for_the_referee_as_many_parts_are_asked_as_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounds, "FORWARD_MULTIPLY_ADDS", 10 * SMOOTH.multiply_adds)
    assert bounds.step_sizes(SMOOTH, 30, 12, "keep", 3) == (9, 9, 9, 6)
    assert bounds.step_sizes(SMOOTH, 30, 12, "keep", 4) == (8, 8, 8, 6)
    assert bounds.step_sizes(SMOOTH, 30, 12, "keep", 6) == (6,)  # two parts are too much: the rest alone is not
    assert bounds.step_sizes(SMOOTH, 30, 12, "keep") == (6,)


@pytest.mark.parametrize("workload", ["plain", "batchnorm"])
@pytest.mark.parametrize("rule", OPTIMIZER_NAMES)
def test_a_right_adapter_agrees_in_logits_losses_and_updates_whatever_its_optimizer_remembers(
    rule: OptimizerName, workload: str, ended: Ended
) -> None:
    end = ended(rule=OptimizerSpec.named(rule), workload=workload)
    assert end.images == 30 and apart(end.evaluation) < 1e-5
    assert [(step.batch_size, step.partial) for step in end.steps] == [*[(8, False)] * 3, (6, True)]
    assert all(apart(step.loss) < 1e-5 for step in end.steps)
    assert [step.update is not None for step in end.steps] == [rule in ("sgd", "rmsprop"), True, True, True]
    # Adam's second moment is taken as the same in two steps, which is inaccurate after three.
    allowed = 0.03 if rule in ("adam", "adamw") else 1e-4
    assert max(excess(step.update) for step in end.steps if step.update) < allowed
    assert (end.asked_steps, end.idle_steps) == (IDLE_STEPS, 0)


def apart(difference: Difference | None) -> float:
    assert difference is not None and difference.apart is not None
    return difference.apart


@pytest.mark.parametrize(("scheduled", "workload"), [(False, "batchnorm"), (True, "plain")])
@pytest.mark.parametrize("rule", [*CALL_RULES, "adam"])
def test_a_call_of_several_steps_is_followed_where_the_optimizers_state_can_be_told(
    rule: OptimizerName, scheduled: bool, workload: str, ended: Ended
) -> None:
    spec = OptimizerSpec.named(rule, weight_decay=0.05) if rule in CALL_RULES else OptimizerSpec.named(rule)
    spec = replace(spec, schedule="cosine") if scheduled else spec
    more: dict[str, Array] = {RATES: RATES_FALLING} if scheduled else {}
    end = ended(rule=spec, workload=workload, more=more, accumulate=1 if scheduled else 2)
    assert (end.call is not None) == (rule in CALL_RULES)
    if end.call:
        assert (end.call.rows, end.call.batch_size) == (CALL_ROWS, BATCH)
        assert apart(end.call.loss) < 1e-5 and excess(end.call.update) < 1e-4 and end.call.update.resolution < 0.1


@pytest.mark.parametrize("rule", OPTIMIZER_NAMES)
@pytest.mark.parametrize("scheduled", [False, True], ids=["one rate", "falling rates"])
def test_the_loss_of_the_trials_last_update_is_found_again_by_going_back_where_momentum_lets_it(
    rule: OptimizerName, scheduled: bool, ended: Ended
) -> None:
    spec = OptimizerSpec.named(rule, weight_decay=0.05 if rule == "momentum" else 0.0)
    spec = replace(spec, schedule="cosine") if scheduled else spec
    end = ended(rule=spec, more={RATES: RATES_FALLING} if scheduled else {})
    assert (end.last is not None) == (rule == "momentum")
    if end.last:
        assert apart(end.last) < 1e-5 and end.last.resolution == 0, "no allowance was needed"


@pytest.mark.parametrize("more", [{"workload": "batchnorm"}, {"precision": "bfloat16"}, {"augment": "flip"}], ids=str)
def test_the_last_update_is_not_asked_about_where_going_back_leaves_doubt(more: dict[str, Any], ended: Ended) -> None:
    momentum = OptimizerSpec.named("momentum")
    assert ended(rule=momentum, **more).last is None


class Careful(Adapter):
    """The referee, with a mistake in the last steps before the end's probe reads the weights."""

    def __init__(self, mistake: str) -> None:
        super().__init__()
        self.mistake, self.seen = mistake, False

    def weights(self) -> dict[str, Array]:
        self.seen = True
        return super().weights()

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> Floats:
        if self.seen:
            return super().train(order, rates, part)
        if self.mistake == "other images":
            return super().train(np.repeat(order[:1], len(order), axis=0), rates, part)
        return np.resize(super().train(order, rates, part)[:1], len(order))


@pytest.mark.parametrize("mistake", ["other images", "stale losses"])
def test_a_window_that_trains_other_images_or_reports_old_losses_is_seen_by_its_last_loss_alone(
    mistake: str, ended: Ended
) -> None:
    end = ended(Careful(mistake), OptimizerSpec.named("momentum"))
    assert end.last is not None and apart(end.last) > LAST_LOSS + end.last.resolution
    assert 0 < end.last.resolution < 0.5
    assert apart(end.evaluation) < 1e-5 and max(apart(step.loss) for step in end.steps) < 1e-5
    assert end.call and apart(end.call.loss) < 1e-5


class Forgetful(Adapter):
    """The referee, whose momentum begins at zero after each evaluation."""

    def predict(self, images: Images) -> Floats:
        self.optimizer.first = {key: np.zeros_like(array) for key, array in self.optimizer.first.items()}
        return super().predict(images)


def test_momentum_that_an_evaluation_resets_is_seen_in_the_step_and_in_the_call_after_one(ended: Ended) -> None:
    right, wrong = (ended(each, OptimizerSpec.named("momentum")) for each in (Adapter(), Forgetful()))
    assert right.call and wrong.call and apart(right.call.update) < 1e-4
    assert apart(wrong.steps[1].update) > GROSS and apart(wrong.call.update) > CALL_UPDATES
    assert apart(right.steps[1].update) < 1e-3 > apart(wrong.steps[2].update)


def test_the_moments_digests_follow_from_what_was_asked_and_answered(ended: Ended) -> None:
    class Elsewhere(Adapter):
        def predict(self, images: Images) -> Floats:
            return super().predict(images[::-1])

    one, again, other = (ended(each).digests for each in (Adapter(), Adapter(), Elsewhere()))
    assert one and other and one == again
    assert (one.weights, one.images) == (other.weights, other.images) and one.answers != other.answers


class Called(Adapter):
    """The referee, with a mistake only in calls of several steps."""

    def __init__(self, mistake: str) -> None:
        super().__init__()
        self.mistake = mistake

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> Floats:
        if len(order) == 1 or self.mistake == "reversed":
            return super().train(order[::-1], rates, part)
        losses = []
        for number, batch in enumerate(order):
            before = dict(self.state)
            given = None if rates is None else rates[number : number + 1]
            losses.append(super().train(order[:1] if self.mistake == "first again" else batch[None], given, part))
            if self.mistake == "every second skipped" and number % 2:
                self.state = before
            if self.mistake == "rounded":
                # as bfloat16 keeps them
                self.state = {
                    key: (array.view(np.uint32) & 0xFFFF0000).view(np.float32) for key, array in self.state.items()
                }
        return np.concatenate(losses)


@pytest.mark.parametrize(
    ("mistake", "rule"),
    [("first again", "sgd"), ("every second skipped", "momentum"), ("reversed", "nesterov"), ("rounded", "momentum")],
)
def test_a_mistake_in_calls_of_several_steps_alone_is_unverified_at_the_end(
    mistake: str, rule: OptimizerName, ended: Ended
) -> None:
    end = ended(Called(mistake), OptimizerSpec.named(rule))
    assert max(apart(step.loss) for step in end.steps) < 1e-5, "single steps are right"
    assert end.call is not None
    loss, update = apart(end.call.loss) / CALL_LOSSES, excess(end.call.update) / CALL_UPDATES
    assert max(loss, update) > 1, (loss, update)


class Wrong(Adapter):
    """The referee, with a step that differs from the numeric contract."""

    late = False

    def __init__(self, batch: Callable[[Order], Order] = lambda batch: batch, scale: float = 1.0) -> None:
        super().__init__()
        self.cut, self.factor = batch, scale

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> Floats:
        if self.late:
            return np.concatenate([super(Wrong, self).train(self.cut(batch)[None]) for batch in order])
        return super().train(order, rates)

    def _update(self, key: str, g: Array) -> Array:
        return super()._update(key, g) * (self.factor if self.late else 1)


DECAYING_RULES = [OptimizerSpec.named(rule, weight_decay=0.2) for rule in ("sgd", "momentum", "nesterov")]


@pytest.mark.parametrize("rule", DECAYING_RULES, ids=lambda rule: rule.name)
def test_a_weight_decay_that_stops_is_seen_and_one_that_goes_on_is_not(rule: OptimizerSpec, ended: Ended) -> None:
    def stop(adapter: Adapter) -> None:
        adapter.optimizer.rule = replace(rule, weight_decay=0.0)

    right, wrong = (ended(rule=rule, change=change) for change in (None, stop))
    assert max(excess(step.update) for step in right.steps if step.update) < 1e-4
    assert max(excess(step.update) for step in wrong.steps if step.update) > 0.05


RATES_FALLING = np.array([0.02, 0.01, 0.004], np.float32)


@pytest.mark.parametrize("rule", OPTIMIZER_NAMES)
def test_at_the_end_the_last_rate_holds_and_another_is_seen(rule: OptimizerName, ended: Ended) -> None:
    class Stuck(Adapter):
        def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> Floats:
            return super().train(order, None if rates is None else np.full_like(rates, RATES_FALLING[0]))

    more: dict[str, Array] = {RATES: RATES_FALLING * (0.1 if rule in ("adam", "adamw", "rmsprop") else 1)}
    spec = replace(OptimizerSpec.named(rule), schedule="cosine")
    right, wrong = (ended(each, spec, more=more) for each in (Adapter(), Stuck()))
    allowed = 0.03 if rule in ("adam", "adamw") else 1e-4
    assert max(excess(step.update) for step in right.steps if step.update) < allowed
    if rule in ("sgd", "momentum", "nesterov"):
        assert max(excess(step.update) for step in wrong.steps if step.update) > 1


@pytest.mark.parametrize("rule", OPTIMIZER_NAMES)
def test_a_last_rate_too_small_for_float32_is_no_fault_of_the_adapter(rule: OptimizerName, ended: Ended) -> None:
    spec = replace(OptimizerSpec.named(rule), schedule="one-cycle")
    right = ended(rule=spec, more={RATES: schedules.compute_rates(spec, 10)})
    updates = [step.update for step in right.steps if step.update]
    assert updates and right.idle_steps == 0
    assert all(apart(each) <= each.resolution for each in updates if apart(each) > 0.03)
    assert (call := right.call) is None or (apart(call.loss) < 1e-5 and excess(call.update) < 1e-3)
    if rule in ("adam", "adamw", "rmsprop"):
        assert {each.resolution for each in updates} == {1.0}, "an update that nobody could see was judged"


def test_images_logits_or_a_partial_batch_that_are_wrong_at_the_end_are_seen(ended: Ended) -> None:
    class Plain(Adapter):
        def load(self, images: Images, labels: Labels) -> None:
            super().load(IMAGES, labels)

    more: dict[str, Array] = {AUGMENTATION: draw(3, len(IMAGES), PLAIN.input_shape, seed=1)}
    right, wrong = (ended(each, more=more) for each in (Adapter(), Plain()))
    assert max(apart(step.loss) for step in right.steps) < 1e-5
    assert max(apart(step.loss) for step in wrong.steps) > 1e-3

    class Skipping(Adapter):
        def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> Floats:
            if order.shape[1] == BATCH:
                return super().train(order, rates)
            state = dict(self.state)
            losses = super().train(order, rates)
            self.state = state
            return losses

    end = ended(Skipping(), OptimizerSpec.named("sgd"))
    assert [excess(step.update) > 0.5 for step in end.steps] == [False, False, False, True]

    class Elsewhere(Adapter):
        def predict(self, images: Images) -> Floats:
            return super().predict(images[::-1])

    assert apart(ended(Elsewhere()).evaluation) > 0.01


def late(adapter: Wrong) -> None:
    adapter.late = True


@pytest.mark.parametrize("rule", ["sgd", "momentum", "nesterov"])
@pytest.mark.parametrize(
    ("wrong", "least"),
    [({"scale": 0.99}, 5e-3), ({"batch": lambda batch: batch[: len(batch) // 2]}, 0.1), ({"scale": 0.0}, 0.9)],
)
def test_an_update_that_has_become_another_is_seen_in_its_size(
    rule: OptimizerName, wrong: dict[str, Any], least: float, ended: Ended
) -> None:
    end = ended(Wrong(**wrong), OptimizerSpec.named(rule), change=late)
    assert max(excess(step.update) for step in end.steps if step.update) > least


def test_adam_shows_half_batches_and_steps_that_change_nothing_but_not_its_rate(ended: Ended) -> None:
    rule = OptimizerSpec.named("adam")
    halved = ended(Wrong(lambda batch: batch[: len(batch) // 2]), rule, change=late)
    assert max(apart(step.update) for step in halved.steps if step.update) > 0.05
    frozen = ended(Wrong(scale=0.0), rule, change=late)
    assert frozen.idle_steps == IDLE_STEPS
    assert apart(frozen.steps[2].update) == 1.0
    slow = ended(Wrong(scale=0.9), rule, change=late)
    assert max(apart(step.update) for step in slow.steps if step.update) < 0.05


def test_evaluations_of_a_short_last_batch_or_of_all_but_the_first_that_are_wrong_are_seen(
    monkeypatch: pytest.MonkeyPatch, ended: Ended
) -> None:
    class Short(Adapter):
        def predict(self, images: Images) -> Floats:
            return super().predict(images if len(images) == BATCH else images[::-1])

    class Beyond(Adapter):
        def predict(self, images: Images) -> Floats:
            return super().predict(images if np.array_equal(images, IMAGES[:BATCH]) else images[::-1])

    monkeypatch.setattr(bounds, "MOST_EVALUATED", BATCH)  # that many were seen, and no others
    right, *wrong = (ended(each) for each in (Adapter(), Short(), Beyond()))
    assert right.images == BATCH and apart(right.evaluation) < 1e-5
    assert min(apart(end.evaluation) for end in wrong) > 0.01


@for_each("split", [1, 7, 30, 360, 10_000])
@for_each("batch_size", [1, 4, 7, 128, 1437])
@for_each("most", [4, 64])
def test_images_of_the_ends_evaluation_are_of_several_batches_and_always_of_the_last(
    split: int, batch_size: int, most: int
) -> None:
    drawn = drawn_images(np.random.Generator(np.random.PCG64(1)), split, batch_size, most)
    assert all(len(np.unique(batch // batch_size)) == 1 for batch in drawn)
    images = np.concatenate(drawn)
    assert len(np.unique(images)) == len(images) <= most and len(images) >= min(most // 2, split)
    batches = np.unique(images // batch_size)
    assert (
        batches[-1] == (split - 1) // batch_size == images[-1] // batch_size
        and 0 <= images.min() <= images.max() < split
    )
    assert len(batches) == len(drawn) >= min(1 + DRAWN_BATCHES, -(-split // batch_size))


def test_a_large_batch_is_followed_to_the_last_layer_and_a_larger_one_not_at_all(
    monkeypatch: pytest.MonkeyPatch, ended: Ended
) -> None:
    one_image = SMOOTH.multiply_adds
    monkeypatch.setattr(bounds, "BACKWARD_MULTIPLY_ADDS", 7 * one_image)
    end = ended()
    assert [step.whole for step in end.steps] == [False, False, False, True]
    assert (end.steps[1].parameter or "").startswith("dense2/") and excess(end.steps[1].update) < 1e-4
    halved = ended(Wrong(lambda batch: batch[: len(batch) // 2]), change=late)
    assert excess(halved.steps[1].update) > 0.1
    monkeypatch.setattr(bounds, "FORWARD_MULTIPLY_ADDS", 7 * one_image)
    assert [step.batch_size for step in ended().steps] == [6], "the partial one alone"


@pytest.mark.parametrize("rule", ["adam", "adamw", "rmsprop"])
def test_an_update_of_which_no_gradient_is_followed_tells_nothing(rule: OptimizerName) -> None:
    """In a large batch only the last layer is followed, and pooling has no parameters."""
    rules, steps = [OptimizerSpec.named(rule)] * 2, [Step(1.0, {}, {})] * 2
    weights = [{"conv/kernel": np.full(3, number, np.float32)} for number in range(3)]
    assert update_differences(rules, weights, steps, steps, number=1, taken=5) == {}


@pytest.mark.parametrize("rule", ["adam", "rmsprop"])
def test_a_layer_that_is_no_longer_trained_counts_as_changed_against_its_gradient(rule: OptimizerName) -> None:
    rules = [OptimizerSpec.named(rule)] * 2
    gradients = {"conv/kernel": np.full(3, 0.05, np.float32), "dense/kernel": np.full(3, 0.1, np.float32)}
    steps = [Step(1.0, gradients, {})] * 2

    def judged(first: float, change: float) -> Difference:
        """Return the difference of an update in which the dense layer is trained, and the convolution changes so."""
        weights = [
            {
                "conv/kernel": np.full(3, first - number * change, np.float32),
                "dense/kernel": np.full(3, 0.5 - number * 0.001, np.float32),
            }
            for number in range(3)
        ]
        return update_differences(rules, weights, steps, steps, number=1, taken=5)[ALL]

    assert judged(0.5, 0.001) == Difference(0.0)
    frozen = judged(0.5, 0.0)
    assert frozen.apart == pytest.approx(1 / 3, rel=1e-5) and frozen.resolution == 0
    assert judged(1e6, 0.0) == Difference(0.0), "float32 could not hold its change"


def test_of_many_parameters_weights_are_saved_once_and_of_masks_no_step_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: Ended
) -> None:
    monkeypatch.setattr(bounds, "LARGE_PARAMETERS", 10)
    monkeypatch.setattr(end_probe, "LARGE_PARAMETERS", 10)
    end = ended()
    with np.load(tmp_path / "trials" / "one" / END_FILE) as saved:
        assert {name.split("/")[1] for name in saved.files if name.startswith("weights/")} == {"0"}
    assert len(end.steps) == 1 and end.steps[0].update is None and end.asked_steps == 0
    monkeypatch.setattr(type(SMOOTH), "draws", True)
    assert ended().steps == ()


def test_a_run_asks_one_referee_about_all_its_trials(tmp_path: Path, ended: Ended) -> None:
    """The answer is that of a process that knows of no other trial."""
    expected = ended()
    folder, referee = tmp_path / "trials" / "one", EndReferee(PROJECT)
    with referee:
        alone = referee.ask(folder, 60)
        assert TrialEnd.from_json(TrialEnd(None).to_json() | alone).evaluation == expected.evaluation
        (first,) = processes()
        assert referee.ask(folder, 60) == alone
        assert processes() == [first]
        first.kill()
        first.wait(5)
        assert referee.ask(folder, 60) == alone, "one that died while it waited is asked"
    assert processes() == []


def lose(adapter: Adapter) -> None:
    """Give the adapter the weights of a training that diverged."""
    adapter.state = {key: np.full_like(array, np.nan) for key, array in adapter.state.items()}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_end_of_a_training_that_diverged_can_be_stored_and_read_again(tmp_path: Path, ended: Ended) -> None:
    ended(change=lose)
    with EndReferee(PROJECT) as referee:
        answer = referee.ask(tmp_path / "trials" / "one", 60)
    end, lost = build_record(TrialEnd(None).to_json() | answer, TrialEnd, "end"), Difference(None)
    assert end.evaluation == end.last == lost
    assert end.call is not None and end.call.loss == end.call.update == lost
    assert len(end.steps) == 4 and all(step.loss == lost and step.update in (None, lost) for step in end.steps)


def test_a_referee_that_failed_says_why_and_is_not_asked_again(tmp_path: Path, ended: Ended) -> None:
    ended()
    with EndReferee(PROJECT) as referee:
        with pytest.raises(ValueError, match=r"FileNotFoundError.*nowhere"):
            referee.ask(tmp_path / "nowhere", 60)
        assert processes() == []
        with pytest.raises(subprocess.TimeoutExpired):
            referee.ask(tmp_path / "trials" / "one", 0.01)
        assert processes() == []
        assert referee.ask(tmp_path / "trials" / "one", 60)["steps"]


def test_a_referee_that_waits_ends_with_a_runner_that_was_killed(tmp_path: Path, ended: Ended) -> None:
    ended()
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom runner.gate.end_referee import EndReferee\n"
        "from runner.project import Project\nwith EndReferee(Project.of_this_code()) as referee:\n"
        "    referee.ask(Path(sys.argv[1]), 60)\n    print('asked', flush=True)\n"
        "    time.sleep(600)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "trials" / "one")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as runner:
        assert runner.stdout and runner.stdout.readline() == "asked\n"
        (waiting,) = psutil.Process(runner.pid).children()
        runner.kill()
    psutil.wait_procs([waiting], timeout=5)
    assert not waiting.is_running() or waiting.status() == psutil.STATUS_ZOMBIE


def processes() -> list[psutil.Process]:
    """List the referees of this process."""
    return [each for each in living_children() if "adapters.numpy.end_referee" in each.cmdline()]
