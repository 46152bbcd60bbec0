"""The steady window: cut from epochs that are long enough, else trained after them; figures of its segments alone."""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import make_spec, varied
from probed import IMAGES, LABELS, PLAIN

from adapters.base import Floats, Order
from adapters.numpy.adapter import Adapter
from adapters.worker import end_probe, host, steady, trial
from adapters.worker.event_log import EventLog
from adapters.worker.middle_probe import MiddleProbe
from adapters.worker.prepare import Prepared
from adapters.worker.trainer import Trainer
from reports.checking import recompute
from runner.results.assemble import read_epochs
from runner.results.usage import compute_usage
from runner.results.window import (
    compute_call_times,
    compute_interruptions,
    compute_speed,
    package_energy,
)
from workloads import weights
from workloads.datasets import Split, batch_order
from workloads.records.check_name import CheckName
from workloads.records.checks import check_figures
from workloads.records.columns import COLUMNS
from workloads.records.end_evidence import MIDDLE_FILE
from workloads.records.events import Evaluation, Event, Events, add_evaluations
from workloads.records.figures import FOREIGN_CPU, FOREIGN_CPU_EPOCHS, Figure
from workloads.records.job import TrialSpec
from workloads.records.outstanding import COPIES_AGAIN, Outstanding
from workloads.records.samples import Samples, SteadyWindow
from workloads.records.stored_events import read_events
from workloads.spec import OptimizerSpec
from workloads.weights import Weights

SECOND = 10**9
COUNT, STEPS, BATCH, REST = 30, 7, 4, 2  # an epoch of 30 images
STEP_S = 0.06  # one per call; six of them, after an epoch's first, are longer than the shortest segment
SPEC = make_spec(optimizer=OptimizerSpec.named("momentum"), batch_size=BATCH, epochs=6)


class Clock:
    """Time passes where it is said to, and a microsecond with each look at it."""

    def __init__(self) -> None:
        self.now_ns = 10 * SECOND

    def sleep(self, seconds: float) -> None:
        self.now_ns += round(seconds * SECOND)

    def monotonic_ns(self) -> int:
        self.now_ns += 1000
        return self.now_ns

    def monotonic(self) -> float:
        return self.monotonic_ns() / SECOND


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(time, "monotonic", made.monotonic)
    monkeypatch.setattr(time, "monotonic_ns", made.monotonic_ns)
    return made


class Slow(Adapter):
    """The referee, whose steps take a while; a copy of its weights waits until the `left_s` of a call are over."""

    def __init__(self, clock: Clock, left_s: float = 0.0, step_s: float = STEP_S) -> None:
        super().__init__()
        self.clock, self.left_s, self.step_s, self.open_s = clock, left_s, step_s, 0.0
        self.given: list[int] = []
        self.copies = 0

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> Floats:
        self.given += [len(batch) for batch in order]
        self.clock.sleep(self.step_s * len(order))
        self.open_s = self.left_s
        return super().train(order, rates, part)

    def weights(self) -> Weights:
        self.clock.sleep(self.open_s)
        self.open_s = 0.0
        self.copies += 1
        return super().weights()


def trained(folder: Path, adapter: Slow, spec: TrialSpec, count: int = COUNT, middle: bool = False) -> Events:
    images, labels = (np.resize(given, (count, *given.shape[1:])) for given in (IMAGES, LABELS))
    split, epochs = Split(images, labels), spec.passes.epochs
    order, task = batch_order(count, epochs, 0), (PLAIN, spec.task.optimizer, weights.draw(PLAIN, 0), 0)
    adapter.load(split.images, split.labels)
    folder.mkdir(exist_ok=True)
    log = EventLog(folder / "events.jsonl")
    prepared = Prepared(split, split.images, order, task)
    probe = MiddleProbe(spec, PLAIN, prepared, folder) if middle else None
    window = trial.measure(adapter, spec, prepared, log, folder, probe)
    log.write(Event.FINISHED)
    log.write_answer(Event.WINDOW_SETTLED, lambda: window.outstanding(split.images[:BATCH], on_cpu=False))
    evaluations = [Evaluation(epoch, 1.0, 0.5) for epoch in range(epochs)]
    return add_evaluations(read_events(folder / "events.jsonl"), evaluations)


def named(events: Events, name: Event) -> dict[str, Any]:
    (found,) = (event for event in events if event["event"] == name)
    return found


def test_epochs_that_are_long_enough_are_the_window_and_nothing_is_trained_behind_them(
    tmp_path: Path, clock: Clock
) -> None:
    adapter = Slow(clock)
    events = trained(tmp_path, adapter, varied(SPEC, window_s=0.5))
    ended = named(events, Event.WINDOW_ENDED)
    assert adapter.given == [*[BATCH] * STEPS, REST] * 6
    assert (ended["steps"], ended["images"]) == (2 * (STEPS - 1), 2 * (STEPS - 1) * BATCH)
    assert len(ended["segments"]) == 2, "two epochs without their first calls last as long as was asked for"
    before = [event for event in events if event["t_ns"] <= ended["segments"][0][0]]
    assert [event["event"] for event in before][-2:] == [Event.EPOCH_EVALUATED, Event.WINDOW_STARTED]
    assert sum(event["event"] == Event.EPOCH_TRAINED for event in before) == steady.FIRST_EPOCH
    assert ended["calls_s"] == pytest.approx([STEP_S] * ended["steps"], abs=1e-4)
    assert SteadyWindow(tuple(ended["segments"])).seconds == pytest.approx(STEP_S * ended["steps"], abs=1e-4)
    assert sum("copied_s" in event for event in events if event["event"] == Event.EPOCH_TRAINED) == 2


@pytest.mark.parametrize("epoch", [0, 1, 2, 5])
def test_updates_followed_in_the_middle_are_in_no_segment_and_their_copies_in_no_epochs_time(
    epoch: int, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "randbelow", lambda most: int(most > 6 - epoch))
    monkeypatch.setattr(steady, "FEWEST_CALLS", 2)
    monkeypatch.setattr(steady, "SHORTEST_S", 0.1)
    usual, asked = (
        trained(tmp_path / name, Slow(clock, left_s=0.3), varied(SPEC, window_s=0.5), middle=name == "asked")
        for name in ("usual", "asked")
    )
    with np.load(tmp_path / "asked" / MIDDLE_FILE) as saved:
        assert int(saved["epoch"]) == epoch
        first = int(saved["steps"])
    assert epoch * (STEPS + 1) <= first < epoch * (STEPS + 1) + STEPS
    times_s = [[each.train_s for each in read_epochs(events)] for events in (usual, asked)]
    assert times_s[1] == pytest.approx(times_s[0], abs=1e-3), "the pause is counted as training"
    window = named(asked, Event.WINDOW_ENDED)
    assert window["calls_s"] == pytest.approx([STEP_S] * window["steps"], abs=1e-4)
    assert SteadyWindow(tuple(window["segments"])).seconds >= 0.5 - 1e-6
    losses = [[e["train_loss"] for e in events if e["event"] == Event.EPOCH_TRAINED] for events in (usual, asked)]
    assert losses[0] == losses[1], "what was asked changed the training"


def test_what_is_missing_is_trained_behind_the_epochs(tmp_path: Path, clock: Clock) -> None:
    adapter = Slow(clock)
    events = trained(tmp_path, adapter, varied(SPEC, epochs=3, window_s=0.8))
    ended = named(events, Event.WINDOW_ENDED)
    assert len(ended["segments"]) == 2
    (first, second), evaluated = ended["segments"], events[-4]
    assert evaluated["event"] == Event.EPOCH_EVALUATED and first[1] < evaluated["t_ns"] < second[0]
    length_s = sum(end - start for start, end in ended["segments"]) / SECOND
    assert 0.8 <= length_s < 0.8 + 2 * STEP_S
    assert set(adapter.given[3 * (STEPS + 1) :]) == {BATCH}
    assert ended["steps"] == len(adapter.given) - 3 * (STEPS + 1) - 1 + STEPS - 1, "but for a call before each segment"


class Remembering(Slow):
    """A cheat that trains a batch only where it has not seen the same one before."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.seen: set[tuple[int, ...]] = set()

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> Floats:
        known = [tuple(sorted(batch.tolist())) in self.seen for batch in order]
        self.seen |= {tuple(sorted(batch.tolist())) for batch in order}
        self.clock.now_ns -= round(sum(known) * self.step_s * SECOND)
        return super().train(order, rates, part)


class Idle(Slow):
    """A cheat that trains nothing once the epochs are over."""

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> Floats:
        if len(self.given) >= SPEC.passes.epochs * STEPS:
            self.step_s = STEP_S / 80
        return super().train(order, rates, part)


def window_check(events: Events) -> bool | None:
    """Return the result of the check of the window's speed; None where it is not compared."""
    calm = {each.name: Figure(0.0, "sampler") for each in (FOREIGN_CPU, FOREIGN_CPU_EPOCHS)}
    measured = compute_speed({event["event"]: event for event in events})
    made = check_figures(SPEC, PLAIN, measured | calm, read_epochs(events))
    return next((check.passed for check in made if check.name == CheckName.WINDOW_SPEED), None)


@pytest.mark.slow
def test_a_batch_size_that_divides_the_split_gives_nothing_to_remember(tmp_path: Path, clock: Clock) -> None:
    spec = varied(SPEC, window_s=20.0)
    right, remembering = (
        named(trained(tmp_path / name, adapter, spec, STEPS * BATCH), Event.WINDOW_ENDED)
        for name, adapter in (("right", Slow(clock)), ("remembering", Remembering(clock)))
    )
    assert remembering["steps"] < 1.2 * right["steps"]


@pytest.mark.slow
@pytest.mark.parametrize(("adapter", "passed"), [(Slow, True), (Idle, False)])
def test_a_window_that_trains_nothing_behind_right_epochs_is_too_fast(
    adapter: type[Slow], passed: bool, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady, "can_be_cut", lambda *_: False)  # a window after the epochs
    assert window_check(trained(tmp_path, adapter(clock), SPEC, STEPS * BATCH)) is passed


@pytest.mark.parametrize(
    ("changes", "steps", "step_s"),
    [
        ({}, STEPS, 0.049),  # two per call: two calls after the first
        ({}, STEPS, 0.01),
        ({}, steady.FEWEST_CALLS, 1.0),
        ({"epochs": steady.FIRST_EPOCH}, STEPS, STEP_S),
        ({"device": "GPU-0"}, STEPS, STEP_S),
    ],
)
def test_epochs_are_not_cut(changes: dict[str, Any], steps: int, step_s: float) -> None:
    trainer = Trainer(Adapter())
    trainer.step_s = STEP_S
    assert steady.can_be_cut(SPEC, PLAIN, STEPS, trainer)
    trainer.step_s = step_s
    assert not steady.can_be_cut(varied(SPEC, **changes), PLAIN, steps, trainer)


def test_a_copy_of_many_parameters_is_not_made_beside_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = Trainer(Adapter())
    trainer.step_s = STEP_S
    monkeypatch.setattr(steady, "MOST_PARAMETERS", PLAIN.parameter_count - 1)
    assert not steady.can_be_cut(SPEC, PLAIN, STEPS, trainer)


def test_a_segment_is_of_calls_of_one_length_and_the_rest_of_its_epoch_is_trained_outside(
    tmp_path: Path, clock: Clock
) -> None:
    adapter = Slow(clock, step_s=0.04)  # two per call
    count = 4 * STEPS + 3  # number of batches: 31, and the last of an epoch makes no call of two
    events = trained(tmp_path, adapter, varied(SPEC, epochs=3, window_s=0.3), count * BATCH)
    ended = named(events, Event.WINDOW_ENDED)
    assert (ended["steps"], len(ended["segments"])) == (count - 3, 1)
    assert ended["calls_s"] == pytest.approx([2 * 0.04] * (ended["steps"] // 2), abs=1e-4)
    assert adapter.given == [BATCH] * count * 3


def test_short_epochs_leave_the_window_behind_them(tmp_path: Path, clock: Clock) -> None:
    events = trained(tmp_path, Slow(clock, step_s=0.02), varied(SPEC, epochs=3, window_s=0.1))
    names = [event["event"] for event in events]
    assert names[-4:] == [Event.WINDOW_STARTED, Event.WINDOW_ENDED, Event.FINISHED, Event.WINDOW_SETTLED]
    assert len(named(events, Event.WINDOW_ENDED)["segments"]) == 1


def test_work_that_is_left_behind_each_segment_is_summed(tmp_path: Path, clock: Clock) -> None:
    events = trained(tmp_path, Slow(clock, left_s=0.05), varied(SPEC, window_s=0.7))
    assert len(named(events, Event.WINDOW_ENDED)["segments"]) == 2
    settled = named(events, Event.WINDOW_SETTLED)
    assert settled["first_s"] - settled["second_s"] == pytest.approx(0.05 * 2, abs=1e-4)


class SlowCopies(Slow):
    """Copies of its weights take long, the first after a training longest, with nothing left to be done."""

    def __init__(self, clock: Clock, left_s: float = 0.0) -> None:
        super().__init__(clock, left_s)
        self.takes_s = iter([0.9, 0.5, 0.6, 0.9, 0.5, 0.8, 0.6])

    def weights(self) -> Weights:
        self.clock.sleep(next(self.takes_s))
        return super().weights()


@pytest.mark.parametrize(
    ("adapter", "left_s", "suspect"), [(SlowCopies, 0.0, False), (SlowCopies, 1.0, True), (Slow, 0.2, True)]
)
def test_copies_are_made_again_before_a_window_is_said_to_have_left_work(
    adapter: type[Slow], left_s: float, suspect: bool, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady, "can_be_cut", lambda *_: False)
    settled = named(trained(tmp_path, adapter(clock, left_s), varied(SPEC, window_s=0.5)), Event.WINDOW_SETTLED)
    copies = Outstanding(**{name: settled[name] for name in Outstanding.__dataclass_fields__})
    assert len(copies.again_s) == COPIES_AGAIN
    assert copies.seems_left(0.5, on_cpu=False) is suspect


def test_copies_count_as_no_part_of_an_epochs_training(tmp_path: Path, clock: Clock) -> None:
    epochs = read_epochs(trained(tmp_path, Slow(clock, left_s=0.3), varied(SPEC, epochs=3, window_s=0.2)))
    assert epochs[2].train_s == pytest.approx(epochs[1].train_s, abs=1e-4)


def test_a_copy_that_fails_fails_no_trial(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(adapter: Adapter) -> None:
        raise RuntimeError("no copy")

    monkeypatch.setattr(end_probe, "outstanding", refuse)
    events = trained(tmp_path, Slow(clock), varied(SPEC, window_s=0.5))
    assert named(events, Event.FINISHED) and named(events, Event.WINDOW_SETTLED)["reason"] == "RuntimeError: no copy"


# Segments from 1 to 2 s and from 3 to 5 s.
CUT: dict[str, Any] = {
    Event.WINDOW_STARTED: {"t_ns": 1 * SECOND},
    Event.WINDOW_ENDED: {
        "t_ns": 9 * SECOND,
        "steps": 30,
        "images": 120,
        "calls_s": [0.1] * 30,
        "segments": [[1 * SECOND, 2 * SECOND], [3 * SECOND, 5 * SECOND]],
        "page_faults": 60,
        "context_switches": 0,
    },
}


def polled(per_s: float, besides: float, until_s: float = 9.0) -> Samples:
    """Samples at 10 Hz from 0.03 s on, at no edge. Sums grow by `per_s` in the segments, and by `besides` at other
    times."""
    t_s = np.arange(0.03, until_s, 0.1)
    inside = np.clip(t_s - 1, 0, 1) + np.clip(t_s - 3, 0, 2)
    sums = per_s * inside + besides * (t_s - inside)
    samples = {name: np.full(len(t_s), np.nan) for name in COLUMNS}
    return samples | {"t_ns": t_s * SECOND, "cpu_s": sums, "cores_cpu_s": sums, "package_energy_uj": 1e6 * sums}


def test_what_is_recomputed_interrupted_and_used_is_that_of_the_segments() -> None:
    figures = compute_speed(CUT) | compute_usage(CUT, polled(1.5, 0.2), make_spec(threads=2)) | compute_call_times(CUT)
    value = {name: figure.value for name, figure in figures.items()}
    assert (value["window_s"], value["images_per_s"], value["step_time_s"]) == (3, 40, 0.1)
    assert value["cpu_percent"] == value["cpu_busy_percent"] == pytest.approx(75)
    assert value["foreign_cpu_percent"] == pytest.approx(0, abs=1e-9)
    figures = compute_interruptions(CUT, make_spec())
    value = {name: figure.value for name, figure in figures.items()}
    assert value == {"page_faults_per_step": 2, "context_switches_per_step": 0}
    recomputed = recompute.recompute_from_events([{"event": name, **event} for name, event in CUT.items()], 1)
    assert value.items() <= recomputed.items()
    account = {"source": "energy_uj", "reason": None, "calls": 81, "failures": 0, "first_failure": None}
    figures = package_energy(CUT, polled(20, 5), {"package_energy": account})
    assert figures["cpu_energy_j"].value == pytest.approx(60)
    assert figures["cpu_energy_per_image_j"].value == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("left_out", "devices", "reason"),
    [
        (("page_faults", "context_switches"), 1, "earlier versions"),
        ((), 2, "only the first is counted"),
        (tuple(CUT[Event.WINDOW_ENDED]), 1, "did not reach the end"),
    ],
)
def test_interruptions_that_nobody_counted_are_unknown_with_the_reason(
    left_out: tuple[str, ...], devices: int, reason: str
) -> None:
    ended = {key: value for key, value in CUT[Event.WINDOW_ENDED].items() if key not in left_out}
    figures = compute_interruptions({**CUT, Event.WINDOW_ENDED: ended} if ended else {}, make_spec(devices=devices))
    assert [(figure.value, reason in (figure.reason or "")) for figure in figures.values()] == [(None, True)] * 2


def test_only_what_happens_in_segments_is_counted(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each training step has 3 page faults and sleeps twice; each copy of weights, between segments, more."""
    adapter = Slow(clock)

    def counted() -> host.Interruptions:
        steps, copies = len(adapter.given), adapter.copies
        return host.Interruptions(3 * steps + 1000 * copies, 2 * steps + 1000 * copies)

    monkeypatch.setattr(host, "interruptions", counted)
    ended = named(trained(tmp_path, adapter, varied(SPEC, window_s=0.5)), Event.WINDOW_ENDED)
    assert adapter.copies == 2 * len(ended["segments"]) == 4
    assert (ended["page_faults"], ended["context_switches"]) == (3 * ended["steps"], 2 * ended["steps"])


def test_what_is_recomputed_from_the_files_is_that_of_the_segments() -> None:
    events = [{"event": name, **event} for name, event in CUT.items()]
    values = recompute.recompute_from_events(events, 1) | recompute.recompute_from_samples(
        polled(1.5, 0.2), recompute.list_segments(events), 2
    )
    assert (values["window_s"], values["images_per_s"]) == (3, 40)
    assert values["cpu_percent"] == pytest.approx(75)


def test_a_reading_belongs_to_the_segment_that_holds_it_and_none_to_a_trial_without_a_window() -> None:
    assert SteadyWindow.read({}) is None
    window = SteadyWindow(((1e9, 2e9), (3e9, 4e9)))
    times = np.array([0.9, 1.05, 1.1, 2.0, 2.5, 3.05, 3.1, 4.1]) * SECOND
    assert window.holds(times, 0.1).tolist() == [False, False, True, True, False, False, True, False]
    assert steady.evened([0.2, 0.1, 0.1, 0.0]) == [0.1] * 4
    assert steady.evened([0.3]) == [0.3]
    assert steady.evened([]) == []
