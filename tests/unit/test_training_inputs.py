"""Schedules and augmentation on their way from the study to a step."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import make_spec
from probed import IMAGES, LABELS, PLAIN

from adapters.base import Floats, Order
from adapters.numpy.adapter import Adapter
from adapters.worker import trial
from adapters.worker.event_log import EventLog
from adapters.worker.prepare import Prepared
from runner.gate import rivals
from runner.gate.rounding import compute_loss_growth
from runner.request import inputs
from runner.request.parser import BadInput
from runner.results.assemble import read_augmentation
from workloads import schedules, weights
from workloads.augmentation import augmented, draw
from workloads.datasets import Split, batch_order
from workloads.records.evidence import probe_rates
from workloads.records.figures import AUGMENT
from workloads.records.job import AUGMENTATION, RATES, InputFile
from workloads.records.result import Epoch
from workloads.records.stored_events import read_events
from workloads.setting_words import describe_optimizer
from workloads.spec import OptimizerSpec, ScaleName, ScheduleName
from workloads.study import Study

BATCH, EPOCHS = 7, 3  # with 30 images: five steps per epoch, the last of two images
STEPS = 15
RULE = replace(OptimizerSpec.named("nesterov"), schedule="cosine", warm_up=4.0)


class Recording(Adapter):
    """The referee, which notes every step's rate and images."""

    def __init__(self) -> None:
        super().__init__()
        self.rates: list[float] = []
        self.seen: list[np.ndarray] = []

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> Floats:
        self.rates.extend([] if rates is None else rates.tolist())
        self.seen.extend(np.array(self.images[batch]) for batch in order)
        return super().train(order, rates)


def measured(folder: Path, feed_whole: bool) -> tuple[Recording, Prepared, list[dict[str, Any]]]:
    """Train with both. A whole epoch's images are asked for at once, as with feed "device", or batch by batch."""

    class Whole(Recording):
        def load(self, images: Any, labels: Any) -> None:
            super().load(np.asarray(images), labels)

    adapter = Whole() if feed_whole else Recording()
    draws, order = draw(EPOCHS + 1, 30, PLAIN.input_shape, 0), batch_order(30, EPOCHS, 0)
    task = PLAIN, RULE, weights.draw(PLAIN, 0), 0
    split = Split(IMAGES, LABELS)
    prepared = Prepared(split, split.images, order, task, schedules.compute_rates(RULE, STEPS), draws)
    adapter.load(prepared.images(0), LABELS)
    spec = make_spec(optimizer=RULE, batch_size=BATCH, epochs=EPOCHS, window_s=0.02)
    trial.measure(adapter, spec, prepared, EventLog(folder / "events.jsonl"), folder)
    return adapter, prepared, read_events(folder / "events.jsonl")


@pytest.mark.parametrize("feed_whole", [False, True])
def test_every_step_has_the_rate_and_the_images_that_were_drawn_for_it(feed_whole: bool, tmp_path: Path) -> None:
    adapter, prepared, events = measured(tmp_path, feed_whole)
    rates, draws = prepared.rates, prepared.draws
    assert rates is not None and draws is not None and len(adapter.rates) == len(adapter.seen) > STEPS
    assert adapter.rates == [*rates.tolist(), *[float(rates[-1])] * (len(adapter.rates) - STEPS)]
    for step, seen in enumerate(adapter.seen[:STEPS]):
        epoch, number = divmod(step, 5)
        chosen = prepared.order[epoch, number * BATCH : (number + 1) * BATCH]
        assert np.array_equal(seen, augmented(IMAGES[chosen], draws[epoch, chosen])), step
    of_the_window = {image.tobytes() for image in augmented(IMAGES, draws[-1])}
    assert {image.tobytes() for seen in adapter.seen[STEPS:] for image in seen} <= of_the_window
    costs = [event["augment_s"] for event in events if event["event"] == "epoch_augmented"]
    assert len(costs) == EPOCHS and min(costs) > 0
    figure = read_augmentation(events)[AUGMENT.name]
    assert figure.value == pytest.approx(sum(costs) / EPOCHS) and figure.samples == EPOCHS


def test_each_batch_size_has_rates_of_its_own_and_without_a_schedule_there_are_none() -> None:
    study = Study("s", batch_sizes=(4, 32), epochs=2, schedule="step")
    assert {name: len(rates) for name, rates in inputs.compute_rates(study, 30).items()} == {
        "rates/4": 16,
        "rates/32": 2,
    }
    files = {name: InputFile(f"{name}.npy", "00") for name in ("order", "rates/4", "rates/32")}
    assert inputs.select_inputs(files, 32) == {"order": files["order"], RATES: files["rates/32"]}
    assert inputs.compute_rates(study.changed(schedule="constant"), 30) == {}
    assert inputs.select_inputs({"order": files["order"]}, 32) == {"order": files["order"]}


@pytest.mark.parametrize(
    ("scale", "factors"), [("linear", (0.125, 1.0, 4.0)), ("sqrt", (math.sqrt(0.125), 1.0, 2.0)), ("none", (1, 1, 1))]
)
@pytest.mark.parametrize("schedule", ["one-cycle", "constant"])
def test_a_scaled_rate_is_the_given_one_at_the_base_batch_size(
    scale: ScaleName, factors: tuple[float, ...], schedule: ScheduleName
) -> None:
    study = Study("s", batch_sizes=(8, 64, 256), learning_rate=0.5, schedule=schedule, scale_learning_rate=scale)
    scaled = inputs.compute_rates(study, 2560)
    if scale == "none" and schedule == "constant":
        assert scaled == {}, "as it always was"
        return
    for size, factor in zip(study.batch_sizes, factors, strict=True):
        steps = schedules.count_steps(2560, size, "keep") * study.epochs
        unscaled = schedules.compute_rates(replace(study.optimizer_spec, scale="none"), steps)
        np.testing.assert_allclose(scaled[f"rates/{size}"], factor * unscaled, rtol=1e-6)
        assert scaled[f"rates/{size}"].max() == pytest.approx(0.5 * factor)


def test_a_scaled_rate_is_the_given_one_at_its_base_batch_size_and_by_the_images_of_an_update() -> None:
    study = Study("s", batch_sizes=(16, 32), scale_learning_rate="linear", base_batch_size=16, learning_rate=0.1)
    scaled = inputs.compute_rates(study, 320)
    assert {name: set(rates.tolist()) for name, rates in scaled.items()} == {
        "rates/16": {float(np.float32(0.1))},
        "rates/32": {float(np.float32(0.2))},
    }
    study = Study("s", batch_sizes=(16,), accumulate=4, scale_learning_rate="linear", learning_rate=0.1)
    whole = study.changed(batch_sizes=(64,), accumulate=1)
    in_parts, of_whole = inputs.compute_rates(study, 320)["rates/16"], inputs.compute_rates(whole, 320)["rates/64"]
    assert in_parts.tolist() == of_whole.tolist() == [float(np.float32(0.1))] * 50
    rule = study.optimizer_spec
    assert make_spec(optimizer=rule, batch_size=16, accumulate=4).rule.learning_rate == 0.1
    assert describe_optimizer(rule, 4).endswith("learning rate 0.1 x 4 x batch size / 64")


def test_batch_sizes_of_a_scaled_study_are_one_table_and_share_the_probe() -> None:
    rule = Study("s", scale_learning_rate="sqrt", base_batch_size=32).optimizer_spec
    small, large = (make_spec(optimizer=rule, batch_size=size) for size in (32, 128))
    assert small.task == large.task and small.probe_id == large.probe_id
    assert (small.rule.learning_rate, large.rule.learning_rate) == (0.01, 0.02)
    assert small.probe_id != make_spec().probe_id, "of the probe of a scaled rule every step sets its rate"
    assert rivals.find_group(small) == rivals.find_group(large) != rivals.find_group(make_spec())
    assert probe_rates(rule, 2) is not None and probe_rates(make_spec().task.optimizer, 2) is None
    assert describe_optimizer(rule) == "SGD with momentum 0.9, learning rate 0.01 x sqrt(batch size / 32)"


def test_rounding_may_grow_by_each_updates_own_rate_and_a_scaled_one() -> None:
    rule = Study("s", scale_learning_rate="linear").optimizer_spec
    of_sizes = [compute_loss_growth([], make_spec(optimizer=rule, batch_size=b).rule, 5, 10)[-1] for b in (16, 64, 256)]
    assert of_sizes[0] < of_sizes[1] < of_sizes[2]
    assert of_sizes[1] == compute_loss_growth([], OptimizerSpec.named("momentum"), 5, 10)[-1]
    epoch = Epoch(1.0, 24, 24, 1.0, 0.1, 1.0, 0.5)
    plain = compute_loss_growth([epoch], replace(RULE, schedule="constant", warm_up=0.0), 5, 24)
    falling = compute_loss_growth([epoch], RULE, 5, 24)
    assert falling[-1] < 0.5 * plain[-1] and falling == sorted(falling)


def test_a_warm_up_as_long_as_the_training_of_one_batch_size_is_bad_input() -> None:
    study = Study("s", batch_sizes=(4, 32), epochs=2, warm_up=2)
    with pytest.raises(BadInput, match="--warm-up 2: at batch size 32 a warm-up of 2 steps leaves none of the 2 steps"):
        inputs.compute_rates(study, 30)


def test_draws_are_of_every_epoch_and_of_the_window() -> None:
    order = batch_order(30, 2, 0)
    study = Study("s", augment="flip-crop")
    ((name, draws),) = inputs.draw_augmentation(study, order, (32, 32, 3), seed=1).items()
    assert name == AUGMENTATION and draws.shape == (3, 30, 3)
    assert inputs.draw_augmentation(Study("s"), order, (32, 32, 3), seed=1) == {}
