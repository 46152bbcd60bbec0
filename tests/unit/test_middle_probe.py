"""Updates followed in a trial's middle: correct adapters agree with the referee; those that are wrong only there do
not."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import make_spec
from probed import IMAGES, LABELS, PLAIN
from test_end_gate import RIGHT, failed
from test_end_gate import trial as make_trial

from adapters.base import Floats, Order, Probe
from adapters.numpy import end_referee
from adapters.numpy.adapter import Adapter
from adapters.worker import end_probe, trial
from adapters.worker.event_log import EventLog
from adapters.worker.middle_probe import MiddleProbe
from adapters.worker.prepare import Prepared
from runner.gate.trial_end import FEWEST_UPDATES, check_end
from workloads import schedules, weights
from workloads.augmentation import draw
from workloads.catalogue import OSU_CNN
from workloads.datasets import Images, Labels, Split, batch_order
from workloads.layers import Conv2D, Dense, Dropout, Flatten, Masked, StochasticDepth, residual
from workloads.networks import WORKLOADS
from workloads.records import end_evidence, network
from workloads.records.check_name import CheckName
from workloads.records.end_evidence import (
    MIDDLE_STEPS,
    Difference,
    DropoutMasks,
    LastEvaluation,
    TrialEnd,
    TrialMiddle,
    middle_steps,
)
from workloads.records.files import JOB_FILE, write_json
from workloads.records.job import AUGMENTATION, RATES, InputFile, Job, Kind
from workloads.records.result import Check
from workloads.spec import OPTIMIZER_NAMES, OptimizerName, OptimizerSpec, Workload

BATCH, EPOCHS, STEPS = 4, 4, 8  # a step of two images is the last of an epoch's eight
EPOCH = 2  # the one that is drawn
SGD = OptimizerSpec.named("sgd")


@pytest.fixture(autouse=True)
def drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Always draw EPOCH, and none of the epochs before it."""
    monkeypatch.setitem(WORKLOADS, "plain", PLAIN)
    monkeypatch.setattr(secrets, "randbelow", lambda most: int(most > EPOCHS - EPOCH))


def middle(folder: Path, adapter: Adapter, rule: OptimizerSpec = SGD, augment: bool = False) -> TrialMiddle:
    """Return the referee's account of the middle of a trial."""
    given: dict[str, Any] = {"train_images": IMAGES, "train_labels": LABELS, "test_images": IMAGES}
    if rule.schedule != "constant":
        given[RATES] = schedules.compute_rates(rule, EPOCHS * STEPS)
    if augment:
        given[AUGMENTATION] = draw(EPOCHS + 1, len(IMAGES), PLAIN.input_shape, 0)
    for name, array in given.items():
        np.save(folder / f"{name}.npy", array)
    (folder / "network.json").write_text(network.to_text(PLAIN))
    inputs = {name: InputFile(f"{name}.npy", "-") for name in given} | {"network": InputFile("network.json", "-")}
    spec = make_spec(workload="plain", optimizer=rule, batch_size=BATCH, epochs=EPOCHS, window_s=0.01, inputs=inputs)
    trial_folder = folder / "trials" / "one"
    trial_folder.mkdir(parents=True)
    write_json(trial_folder / JOB_FILE, Job(Kind.TRIAL, spec).to_json())
    split, order = Split(IMAGES, LABELS), batch_order(len(IMAGES), EPOCHS, 0)
    task = PLAIN, rule, weights.draw(PLAIN, 0), 0
    prepared = Prepared(split, split.images, order, task, given.get(RATES), given.get(AUGMENTATION))
    adapter.load(prepared.images(0), LABELS)
    log = EventLog(trial_folder / "events.jsonl")
    trial.measure(adapter, spec, prepared, log, trial_folder, MiddleProbe(spec, PLAIN, prepared, trial_folder))
    answer = end_referee.judge_middle(trial_folder)
    assert answer is not None
    found = TrialEnd.from_json(TrialEnd(None).to_json() | {"middle": answer}).middle
    assert found is not None
    return found


def last_evaluation(folder: Path, adapter: Adapter) -> LastEvaluation:
    """Return the referee's account of a trial's last evaluation."""
    middle(folder, adapter)
    answer = end_referee.judge_last_evaluation(folder / "trials" / "one")
    found = TrialEnd.from_json(TrialEnd(None).to_json() | {"last_evaluation": answer}).last_evaluation
    assert found is not None and found.images == len(IMAGES)
    return found


def judged(found: TrialMiddle, rule: OptimizerSpec = SGD) -> dict[str, str]:
    return failed(make_trial(replace(RIGHT, middle=found), optimizer=rule))


@pytest.mark.parametrize("scheduled", [False, True], ids=["one rate", "falling rates"])
@pytest.mark.parametrize("rule", OPTIMIZER_NAMES)
def test_a_right_adapter_agrees_in_its_middle_whatever_its_optimizer_remembers(
    rule: OptimizerName, scheduled: bool, tmp_path: Path
) -> None:
    spec = OptimizerSpec.named(rule)
    spec = replace(spec, schedule="cosine") if scheduled else spec
    found = middle(tmp_path, Adapter(), spec, augment=scheduled)
    assert (found.epoch, found.updates, found.images) == (EPOCH, EPOCH * STEPS, 30)
    assert (len(found.steps), found.asked_steps, found.idle_steps) == (MIDDLE_STEPS, MIDDLE_STEPS, 0)
    for difference in (found.evaluation, *(step.loss for step in found.steps)):
        assert difference is not None and difference.apart is not None and difference.apart < 1e-5
    updates = [step.update for step in found.steps if step.update]
    assert len(updates) == MIDDLE_STEPS - (rule not in ("sgd", "rmsprop"))
    allowed = 0.1 if rule in ("adam", "adamw") else 1e-3
    assert all(each.apart is not None and each.apart - each.resolution < allowed for each in updates)
    assert judged(found, spec) == {}
    assert CheckName.MIDDLE in [check.name for check in check_end(make_trial(replace(RIGHT, middle=found)), OSU_CNN)]


class WrongOnlyThere(Adapter):
    """The referee, which trains well in its first and its last epoch, and with its mistake in between."""

    def __init__(self, mistake: str) -> None:
        super().__init__()
        self.mistake, self.done = mistake, 0

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> Floats:
        return np.concatenate([self._one(batch[None], rates, part) for batch in order])

    def _one(self, batch: Order, rates: Floats | None, part: int | None) -> Floats:
        self.done += 1
        there, before = STEPS < self.done <= (EPOCHS - 1) * STEPS, dict(self.state)
        if there and self.mistake == "half batches":
            batch = batch[:, : batch.shape[1] // 2]
        losses = super().train(batch, rates, part)
        if there and self.mistake == "skipped":
            self.state = before
        if there and self.mistake == "smaller":
            after = self.state
            self.state = {key: before[key] + np.float32(0.7) * (after[key] - before[key]) for key in after}
        if there and self.mistake == "momentum forgotten":
            self.optimizer.first = {key: np.zeros_like(array) for key, array in self.optimizer.first.items()}
        return losses

    def predict(self, images: Images) -> Floats:
        logits = super().predict(images)
        if self.mistake == "momentum forgotten by evaluation" and STEPS < self.done < (EPOCHS - 1) * STEPS:
            self.optimizer.first = {key: np.zeros_like(array) for key, array in self.optimizer.first.items()}
        return logits * np.float32(1.01) if self.mistake == "evaluation" and self.done <= 3 * STEPS else logits


@pytest.mark.parametrize(
    ("mistake", "rule", "words"),
    [
        ("skipped", "adam", "3 of 3 steps changed no weight"),
        ("half batches", "momentum", "the loss of a step of 4 images differs by "),
        ("smaller", "sgd", "the update of "),
        ("momentum forgotten", "momentum", "the update of "),
        ("momentum forgotten by evaluation", "momentum", "the update of "),
        ("evaluation", "sgd", "the logits of 30 test images in evaluation mode differ by "),
    ],
)
def test_an_adapter_that_is_wrong_between_its_first_and_last_epoch_alone_is_unverified(
    mistake: str, rule: OptimizerName, words: str, tmp_path: Path
) -> None:
    spec = OptimizerSpec.named(rule)
    detail = judged(middle(tmp_path, WrongOnlyThere(mistake), spec), spec)
    assert detail.keys() == {CheckName.MIDDLE}
    assert detail[CheckName.MIDDLE].startswith(f"after {EPOCH * STEPS} updates, in epoch {EPOCH + 1}, {words}")


def test_a_framework_that_does_not_answer_in_the_middle_trains_on_and_is_not_accused(tmp_path: Path) -> None:
    class Silent(Adapter):
        def weights(self) -> dict[str, Any]:
            raise RuntimeError("no copy")

    found = middle(tmp_path, Silent())
    assert found == TrialMiddle(EPOCH, EPOCH * STEPS, "RuntimeError: no copy") and judged(found) == {}


def test_a_trial_stored_before_its_middle_was_asked_has_no_verdict_on_it() -> None:
    stored = {key: value for key, value in RIGHT.to_json().items() if key not in ("middle", "masks")}
    assert TrialEnd.from_json(stored) == RIGHT
    names = {check.name for check in check_end(make_trial(RIGHT), OSU_CNN)}
    assert not names & {CheckName.MIDDLE, CheckName.MASKS}


def test_what_correct_frameworks_may_turn_is_not_held_against_them_and_small_batches_are_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turned = replace(RIGHT.steps[1], update=Difference(0.5))
    found = TrialMiddle(0, FEWEST_UPDATES - 1, steps=(turned, turned), asked_steps=2)
    adam = OptimizerSpec.named("adam")
    assert judged(found, adam) == {}
    assert judged(replace(found, updates=FEWEST_UPDATES), adam).keys() == {CheckName.MIDDLE}
    sgd_in_16_bits = make_trial(replace(RIGHT, middle=found), precision="bfloat16")
    assert failed(sgd_in_16_bits) == {} and judged(found).keys() == {CheckName.MIDDLE}
    sizes = (32, 64, 128, 256, 512, 1024)
    assert [middle_steps(OSU_CNN, "momentum", size) for size in sizes] == [3, 3, 2, 2, 1, 0]
    assert [middle_steps(OSU_CNN, "sgd", size) for size in sizes] == [3, 2, 1, 2, 1, 0]
    monkeypatch.setattr(end_evidence, "MIDDLE_MULTIPLY_ADDS", 0)
    assert middle_steps(OSU_CNN, "sgd", 1) == 0


def judge_masks(adapter: Adapter, workload: Workload) -> Check:
    """Return the check of the adapter's masks at a trial's end."""
    generator = np.random.default_rng(1)
    images = generator.integers(0, 256, (32, *workload.input_shape)).astype(np.uint8)
    labels = generator.integers(0, 4, 32).astype(np.int32)
    adapter.load(images, labels)
    adapter.build(workload, SGD, weights.draw(workload, 0), 0)
    masks = end_probe.masks_of(adapter, workload, images, labels)["masks"]
    end = TrialEnd.from_json(replace(RIGHT, steps=()).to_json() | {"masks": masks})
    drawing = [layer.name for layer, _ in workload.walk() if isinstance(layer, Masked)]
    assert [asdict(mask)["layer"] for mask in end.masks] == drawing
    return {check.name: check for check in check_end(make_trial(end), workload)}[CheckName.MASKS]


RATE = 0.5
MASKED = Workload(
    "masked", "", (8, 8, 3), (Flatten("flatten"), Dense("dense1", 64), Dropout("dropout", RATE), Dense("dense2", 4))
)


class Masking(Adapter):
    """The referee, with masks at another rate, or unscaled."""

    def __init__(self, rate: float = RATE, scaled: bool = True) -> None:
        super().__init__()
        self.rate, self.scaled = rate, scaled

    def build(self, workload: Workload, *others: Any) -> None:
        layers = (replace(each, rate=self.rate) if isinstance(each, Dropout) else each for each in workload.layers)
        super().build(replace(workload, layers=tuple(layers)), *others)

    def probe(self, images: Images, labels: Labels) -> Probe:
        found = super().probe(images, labels)
        if not self.scaled:
            found.outputs["dropout"] *= np.float32(1 - self.rate)
        return found


@pytest.mark.parametrize(
    ("adapter", "words"),
    [
        (Masking(), ""),
        (Masking(rate=0.4), "the zeros of dropout are "),
        (Masking(scaled=False), "the values that dropout keeps are scaled by 1.0000, 2.0000 expected"),
    ],
    ids=["right", "wrong share", "unscaled"],
)
def test_masks_of_another_share_or_scale_than_their_rates_are_unverified(adapter: Masking, words: str) -> None:
    found = judge_masks(adapter, MASKED)
    assert found.passed == (words == "") and words in found.detail


DEEP = Workload(
    "deep",
    "",
    (4, 4, 3),
    (
        Conv2D("conv", 4, (1, 1)),
        residual("add1", (Conv2D("conv1", 4, (1, 1)), StochasticDepth("never", 0.0))),
        residual("add2", (Conv2D("conv2", 4, (1, 1)), StochasticDepth("rarely", 0.01))),
        residual("add3", (Conv2D("conv3", 4, (1, 1)), StochasticDepth("often", 0.25))),
        Flatten("flatten"),
        Dense("dense", 4),
    ),
)


class Dropping(Adapter):
    """The referee, with what it kept in a StochasticDepth changed."""

    def __init__(self, change: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.change = change

    def probe(self, images: Images, labels: Labels) -> Probe:
        found = super().probe(images, labels)
        found.outputs["often"] = self.change(found.outputs["conv3"], found.outputs["often"])
        return found


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda entering, leaving: leaving, ""),
        (lambda entering, leaving: leaving * np.float32(0.75), "often keeps are scaled by 1.0000, 1.3333 expected"),
        (lambda entering, leaving: entering, "often keeps are scaled by 1.0000, 1.3333 expected"),
        (lambda entering, leaving: entering * (np.arange(entering.size).reshape(entering.shape) % 4 > 0) / 0.75,
         "the zeros of often are 0.7500 off"),
    ],
    ids=["right", "unscaled", "lost", "single values"],
)  # fmt: skip
def test_a_stochastic_depth_that_is_lost_unscaled_or_drops_single_values_is_unverified(
    change: Callable[[Any, Any], Any], words: str
) -> None:
    found = judge_masks(Dropping(change), DEEP)
    assert found.passed == (words == "") and words in found.detail


@pytest.mark.parametrize("images", [2, 8, 32])
def test_chance_accuses_no_stochastic_depth_at_few_images_and_a_small_rate(images: int) -> None:
    rate = 0.0125  # of the second block of efficientnet-b0
    terms = [math.comb(images, n) * rate**n * (1 - rate) ** (images - n) for n in range(images)]
    most = next(n for n in range(images, 0, -1) if 1 - math.fsum(terms[:n]) > 1e-7)  # comes once in ten million times
    mask = DropoutMasks("depth", images, most / images, 1 / (1 - rate))
    workload = Workload("w", "", (3,), (Dense("dense", 2), StochasticDepth("depth", rate), Dense("head", 2)))
    end = replace(RIGHT, steps=(), masks=(mask,))
    assert {check.name: check.passed for check in check_end(make_trial(end), workload)}[CheckName.MASKS]


def test_a_probe_of_masks_that_fails_leaves_what_was_answered_before() -> None:
    class Silent(Masking):
        def probe(self, images: Images, labels: Labels) -> Probe:
            raise RuntimeError("no probe")

    assert end_probe.masks_of(Silent(), MASKED, IMAGES, LABELS) == {}


class WrongWhenWhole(Adapter):
    """The referee, which answers any single call well, and the eighth in a row with the answers to the first."""

    calls: int = 0
    first: Floats

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> Floats:
        self.calls = 0
        return super().train(order, rates, part)

    def predict(self, images: Images) -> Floats:
        self.calls += 1
        logits = super().predict(images)
        self.first = logits if self.calls == 1 else self.first
        return self.first[: len(images)] if self.calls == -(-len(IMAGES) // BATCH) else logits


def test_an_evaluation_is_compared_as_it_was_made_and_not_as_it_is_asked_for_again(tmp_path: Path) -> None:
    for adapter, wrong in ((Adapter(), False), (WrongWhenWhole(), True)):
        folder = tmp_path / type(adapter).__name__
        folder.mkdir()
        found = last_evaluation(folder, adapter)
        end = make_trial(replace(RIGHT, last_evaluation=found), optimizer=SGD)
        assert found.difference.apart is not None and (found.difference.apart > 1e-2) == wrong
        assert list(failed(end)) == [CheckName.LAST_EVALUATION] * wrong
        assert CheckName.LAST_EVALUATION in [check.name for check in check_end(end, OSU_CNN)]
