"""Updates of several batches: their counts, and the checks that see a wrong one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import make_spec, varied
from each import for_each
from probed import IMAGES, LABELS, ORDER, PLAIN, SEED, opened

from adapters.base import Floats, Order, parts
from adapters.numpy.adapter import Adapter
from adapters.worker import first_probe, steps, trial
from adapters.worker.event_log import EventLog
from adapters.worker.prepare import Prepared
from runner.gate.tolerances import Truth, find_difference
from runner.request import inputs
from workloads import weights
from workloads.datasets import Split, batch_order
from workloads.records.checks import check_figures
from workloads.records.evidence import ACCUMULATED, EVALUATED_STEPS, PROBE_BATCH, Evidence
from workloads.records.figures import Figure
from workloads.records.job import Job, Kind
from workloads.records.result import Epoch
from workloads.records.stored_events import read_events
from workloads.schedules import divide_batch
from workloads.spec import OptimizerSpec
from workloads.study import Study, StudyError

RULE = OptimizerSpec.named("momentum")
BATCH, K, EPOCHS = 4, 3, 2  # with 30 images: updates of 12, 12 and 6 images, the last in parts of 4 and 2


@for_each("largest", [1, 2, 7, 16, 300, 1024, 5000])
@for_each("global_batch", [1, 2, 13, 1000, 1024, 1009])
def test_a_global_batch_goes_through_in_the_fewest_parts_that_fit(global_batch: int, largest: int) -> None:
    count, size = divide_batch(global_batch, largest)
    assert size <= largest and (count - 1) * largest < global_batch
    cut = parts(np.arange(global_batch, dtype=np.int32), size)
    assert sum(map(len, cut)) == global_batch and len(cut) <= count and count * size - global_batch < count


def test_parts_of_what_is_not_there_are_refused() -> None:
    assert divide_batch(1024, 300) == (4, 256)
    for asked in ((0, 4), (4, 0)):
        with pytest.raises(ValueError, match="both must be 1 or more"):
            divide_batch(*asked)


def test_trials_that_accumulate_have_ids_of_their_own() -> None:
    spec = make_spec()
    several = [varied(spec, accumulate=count) for count in (1, 2, 3)]
    assert len({each.id for each in several}) == len({each.memory_id for each in several}) == 3
    assert [each.probe_id == several[1].probe_id for each in several] == [False, True, True]
    assert [(each.part, each.global_batch) for each in several] == [(None, 32), (32, 64), (32, 96)]


def test_a_study_of_no_batch_an_update_is_refused() -> None:
    with pytest.raises(StudyError, match="accumulate"):
        Study("s", accumulate=0)


class Recording(Adapter):
    """The referee, which notes what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[tuple[int, int | None]] = []

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> Floats:
        self.given += [(len(batch), part) for batch in order]
        return super().train(order, rates, part)


def test_epochs_and_window_are_made_of_updates_of_all_their_parts(tmp_path: Path) -> None:
    adapter, split = Recording(), Split(IMAGES, LABELS)
    order, task = batch_order(30, EPOCHS, 0), (PLAIN, RULE, weights.draw(PLAIN, 0), 0)
    adapter.load(IMAGES, LABELS)
    spec = make_spec(optimizer=RULE, batch_size=BATCH, accumulate=K, epochs=EPOCHS, window_s=0.02)
    prepared = Prepared(split, split.images, order, task)
    window = trial.measure(adapter, spec, prepared, EventLog(tmp_path / "events.jsonl"), tmp_path)
    assert adapter.given[:6] == [(12, 4), (12, 4), (6, 4)] * EPOCHS
    assert set(adapter.given[6:]) == {(12, 4)} and len(adapter.given) == len(window.trainer.losses)
    trained = [event for event in read_events(tmp_path / "events.jsonl") if event["event"] == "epoch_trained"]
    assert [(event["steps"], event["images"]) for event in trained] == [(3, 30)] * EPOCHS


def test_the_steps_of_a_search_are_updates_of_all_their_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    adapter, split = Recording(), Split(IMAGES, LABELS)
    adapter.load(IMAGES, LABELS)
    prepared = Prepared(split, split.images, batch_order(30, EPOCHS, 0), (PLAIN, RULE, weights.draw(PLAIN, 0), 0))
    monkeypatch.setattr(steps, "prepare", lambda *_: prepared)
    spec = make_spec(optimizer=RULE, batch_size=BATCH, accumulate=K, window_s=0.02)
    steps.run(adapter, Job(Kind.STEPS, spec), tmp_path, EventLog(tmp_path / "events.jsonl"))
    assert set(adapter.given) == {(12, 4)}


def test_a_schedule_has_a_rate_for_each_update() -> None:
    study = Study("s", batch_sizes=(4, 8), epochs=2, schedule="cosine", accumulate=3)
    counts = {name: len(rates) for name, rates in inputs.compute_rates(study, 30).items()}
    assert counts == {"rates/4": 2 * 3, "rates/8": 2 * 2}


def test_a_step_is_an_update_in_every_check_of_a_trial() -> None:
    spec = make_spec(batch_size=BATCH, accumulate=K)
    figures = {"images_per_s": Figure(1200.0, "w"), "step_time_s": Figure(0.01, "w")}
    made = check_figures(spec, None, figures, [Epoch(1.0, 3, 30, 0.5, 0.1, 0.5, 0.9)])
    assert all(check.passed for check in made) and len(made) == 1
    unsplit = check_figures(varied(spec, accumulate=1), None, figures, [Epoch(1.0, 3, 30, 0.5, 0.1, 0.5, 0.9)])
    assert [check.passed for check in unsplit] == [False, False]


def probed(adapter: Adapter) -> Evidence:
    task = PLAIN, RULE, weights.draw(PLAIN, SEED), SEED
    return first_probe.gather(adapter, task, IMAGES, LABELS, ORDER, first_probe.ProbeUpdates(PROBE_BATCH))


class PartsCounted(Adapter):
    """Takes the mean of the parts' means."""

    def accumulate(self, images: Any, labels: Any, part: int | None) -> Any:
        count = len(parts(labels, part))
        pieces = [
            super(PartsCounted, self).accumulate(images[p], labels[p], None)
            for p in parts(np.arange(len(labels), dtype=np.int32), part)
        ]
        return (
            sum(loss for loss, _ in pieces) / count,
            {key: sum(gradients[key] for _, gradients in pieces) / count for key in pieces[0][1]},
        )


class WholeAtOnce(Adapter):
    """Does not cut parts: BatchNorm sees the whole update."""

    def accumulate(self, images: Any, labels: Any, part: int | None) -> Any:
        return super().accumulate(images, labels, None)


@pytest.mark.parametrize("wrong", [PartsCounted, WholeAtOnce])
def test_the_gates_first_probe_sees_a_wrong_accumulation(wrong: type[Adapter]) -> None:
    exact, rounded = probed(opened(precision="float64")), probed(opened())
    truth = Truth(exact, rounded)
    assert find_difference(rounded, truth) is None
    suspect = wrong()
    suspect.open("cpu", 1, "default", "float32", "host", "on-demand")
    suspect.load(IMAGES, LABELS)
    assert find_difference(probed(suspect), truth)


def test_the_probes_updates_have_a_smaller_last_part_and_none_of_one_image() -> None:
    last = [size % PROBE_BATCH for size in ACCUMULATED]
    assert max(last) < PROBE_BATCH and 1 not in last and 0 in last[:EVALUATED_STEPS] and max(last[:EVALUATED_STEPS]) > 1


def test_the_referee_in_one_part_is_the_referee() -> None:
    one, other = opened(), opened()
    for adapter, part in ((one, None), (other, 12)):
        adapter.build(PLAIN, replace(RULE), weights.draw(PLAIN, 1), 0)
        adapter.train(ORDER[:24].reshape(2, 12), None, part)
    for key, array in one.weights().items():
        np.testing.assert_array_equal(array, other.weights()[key])
