"""A worker's times, compared with when the runner saw what it wrote."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import make_spec

from runner.ask import Ended
from runner.attendance import EventTimes
from runner.launch import WorkerOutcome
from runner.rebuild import Attempt, read_attempt
from runner.results.assemble import Records, decide_status
from runner.results.times import TIMES_APART_S, check_times
from workloads.records.check_name import COUNTS, CheckName
from workloads.records.columns import COLUMNS
from workloads.records.events import Event
from workloads.records.figures import FOREIGN_CPU, Figure
from workloads.records.files import EVENTS_FILE
from workloads.records.job import TrialSpec
from workloads.records.result import Check
from workloads.records.samples import Samples
from workloads.records.status import Status

SECOND = 10**9
EMPTY = {column: np.empty(0) for column in COLUMNS}


class Worker:
    """Writes events with the times of a clock that may be slow. The runner looks at them each second."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, slowness: float = 1.0, late_s: float = 0.0
    ) -> None:
        self.path, self.slowness, self.late_s = folder / EVENTS_FILE, slowness, late_s
        self.now_ns = self.began_ns = 100 * SECOND
        self.used_s, self.sampled = 0.0, list[tuple[int, float]]()
        monkeypatch.setattr(time, "monotonic_ns", lambda: self.now_ns)
        self.times = EventTimes(self.path)

    def write(self, *rest: str) -> None:
        t_ns = self.began_ns + round((self.now_ns - self.began_ns) / self.slowness + self.late_s * SECOND)
        with self.path.open("a") as file:
            file.write("".join([json.dumps({"event": "-", "t_ns": t_ns}) + "\n", *rest]))

    def work(self, seconds: float) -> None:
        """Write an event each 0.7 s."""
        for tenth in range(round(10 * seconds)):
            self.now_ns += SECOND // 10
            if tenth % 10 == 9:
                self.times.look()
            if tenth % 7 == 6:
                self.write()

    def pass_s(self, seconds: float, cores: float = 1.0, look_each_s: float = 0.05) -> None:
        """Let time pass in which so many cores are used; the sampler reads each 0.1 s."""
        for tick in range(1, round(100 * seconds) + 1):
            self.now_ns += SECOND // 100
            self.used_s += cores / 100
            if tick % 10 == 5:
                self.sampled.append((self.now_ns, round(self.used_s, 2)))
            if tick % round(100 * look_each_s) == 0:
                self.times.look()

    def write_at(self, event: Event, t_ns: int, **data: Any) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps({"event": event, "t_ns": t_ns, **data}) + "\n")

    def verdict(self, spec: TrialSpec | None = None) -> Check:
        """Return the check of its times, as the runner makes it from what it saw."""
        self.times.look()
        outcome = WorkerOutcome(
            0, False, 1.0, times_apart_s=self.times.apart_s(), doubtful_events=self.times.doubtful()
        )
        times, sums = np.array(self.sampled, float).reshape(-1, 2).T
        samples: Samples = {column: np.full(len(times), np.nan) for column in COLUMNS}
        samples |= {"t_ns": times, "cpu_s": sums}
        (check,) = check_times(spec or make_spec(), Ended([], outcome, Status.OK, None), samples)
        return check

    def apart_s(self) -> float | None:
        self.times.look()
        return self.times.apart_s()


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Worker:
    return Worker(tmp_path, monkeypatch)


def test_a_true_clock_is_nowhere_off_however_seldom_it_was_looked(worker: Worker) -> None:
    assert worker.apart_s() is None, "nothing was written"
    worker.work(30)
    worker.now_ns += 60 * SECOND  # nobody looked, as if the runner had stopped for a while
    worker.write()
    assert worker.apart_s() == 0.0


def test_a_slow_clock_a_fast_one_and_one_of_another_time_are_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for number, (slowness, late_s) in enumerate(((3.0, 0.0), (1.2, 0.0), (0.5, 0.0), (1.0, -40.0))):
        (tmp_path / str(number)).mkdir()
        worker = Worker(tmp_path / str(number), monkeypatch, slowness, late_s)
        worker.work(30)
        found.append(worker.apart_s() or 0.0)
    slow, a_little, fast, other = found
    assert slow < -18 and -6 < a_little < -TIMES_APART_S and fast > 25 and other < -39


def test_what_another_worker_wrote_before_and_lines_that_are_no_events_count_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / EVENTS_FILE).write_text('{"event": "started", "t_ns": 3}\n')
    worker = Worker(tmp_path, monkeypatch)
    worker.write("nonsense\n", '{"t_ns": "late"}\n', "[" * 100_000 + "\n", '{"event": "cut", "t_ns": 4')
    assert worker.apart_s() == 0.0


def window_of(worker: Worker, claimed_s: float, cores: float = 1.0, look_each_s: float = 0.05) -> int:
    """Run a window of 5 s that claims to have lasted `claimed_s`; return the claimed time of its end."""
    began_ns = worker.now_ns
    worker.write_at(Event.WINDOW_STARTED, began_ns)
    worker.pass_s(5.0, cores, look_each_s)
    return began_ns + round(claimed_s * SECOND)


@pytest.mark.parametrize("cores", [1.0, 2.0])
def test_a_clock_a_tenth_slow_in_a_window_of_five_seconds_is_seen(cores: float, worker: Worker) -> None:
    worker.write_at(Event.WINDOW_ENDED, window_of(worker, 4.5, cores))
    check = worker.verdict()
    assert not check.passed and check.name in COUNTS
    assert "0.50 s or more after its time, and the worker did not wait: it used" in check.detail


def test_a_segment_that_is_reported_short_is_seen_where_the_event_itself_has_its_true_time(worker: Worker) -> None:
    began_ns, claimed_ns = worker.now_ns, window_of(worker, 4.5)
    worker.write_at(Event.WINDOW_ENDED, worker.now_ns, segments=[[began_ns, claimed_ns]])
    assert not worker.verdict().passed


def test_a_segment_of_an_epoch_ends_long_before_the_window_does(worker: Worker) -> None:
    began_ns, ended_ns = worker.now_ns, window_of(worker, 5.0)
    worker.pass_s(3.0)
    worker.write_at(Event.EPOCH_TRAINED, worker.now_ns)
    worker.write_at(Event.WINDOW_ENDED, worker.now_ns, segments=[[began_ns, ended_ns]])
    assert worker.verdict().passed


def test_a_fast_clock_is_seen_for_no_event_is_seen_before_its_time(worker: Worker) -> None:
    worker.write_at(Event.WINDOW_ENDED, window_of(worker, 5.5))
    worker.pass_s(1.0)
    check = worker.verdict()
    assert not check.passed and "s late (0.1 s allowed)" in check.detail


@pytest.mark.parametrize("spun_s", [0.0, 0.2])
def test_a_worker_that_a_busy_disk_holds_up_is_not_accused(spun_s: float, worker: Worker) -> None:
    """Its idle threads may spin for a moment."""
    stamped_ns = window_of(worker, 5.0, cores=2.0)
    worker.pass_s(spun_s, cores=2.0)
    worker.pass_s(2.0, cores=0.0)
    worker.write_at(Event.WINDOW_ENDED, stamped_ns)
    worker.pass_s(1.0)
    check = worker.verdict()
    assert check.passed and "s early (3.0 s allowed)" in check.detail


def test_a_worker_that_was_seldom_looked_at_or_sampled_is_not_accused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, look_each_s in enumerate((2.5, 0.05)):
        (tmp_path / str(number)).mkdir()
        worker = Worker(tmp_path / str(number), monkeypatch)
        worker.times.look()
        ended_ns = window_of(worker, 5.0, look_each_s=look_each_s)
        if number == 0:  # it goes on, and the runner does not look
            worker.write_at(Event.WINDOW_ENDED, ended_ns)
            worker.pass_s(2.0, look_each_s=5.0)
        else:  # it is held up, and the sampler pauses, so that nobody knows what it used
            worker.now_ns += 2 * SECOND
            worker.times.look()
            worker.used_s += 1.0
            worker.write_at(Event.WINDOW_ENDED, ended_ns)
        worker.pass_s(0.3)
        assert worker.verdict().passed


@pytest.mark.parametrize("placed", [{"memory_limit_bytes": 2**30}, {"devices": 2, "threads": 2}])
def test_processor_time_of_other_processes_or_of_the_kernel_accuses_nobody(
    placed: dict[str, Any], worker: Worker
) -> None:
    spec = make_spec()
    worker.write_at(Event.WINDOW_ENDED, window_of(worker, 4.0))
    assert not worker.verdict().passed
    assert worker.verdict(replace(spec, placement=replace(spec.placement, **placed))).passed


def checked(apart_s: float | None = 0.0, **ended: Any) -> dict[str, Check]:
    """{name: check} of a window of 2 s in two segments."""
    window = {"event": Event.WINDOW_ENDED, "t_ns": 5, "segments": [[0, SECOND], [2 * SECOND, 3 * SECOND]], **ended}
    events = [{"event": Event.WINDOW_STARTED, "t_ns": 0}, window]
    seen = Ended(events, WorkerOutcome(0, False, 1.0, times_apart_s=apart_s), Status.OK, None)
    return {check.name: check for check in check_times(make_spec(), seen, EMPTY)}


@pytest.mark.parametrize(("apart_s", "passed"), [(0.0, True), (-2.9, True), (-3.1, False), (0.2, False)])
def test_times_that_the_runner_cannot_have_seen_leave_no_number(apart_s: float, passed: bool) -> None:
    check = checked(apart_s)[CheckName.TIMES]
    assert check.passed is passed and CheckName.TIMES in COUNTS
    assert f"up to {abs(apart_s):.2f} s {'late (0.1' if apart_s > 0 else 'early (3.0'} s allowed)" in check.detail


def test_what_is_doubtful_is_judged_again_from_the_stored_attempt(tmp_path: Path, worker: Worker) -> None:
    worker.write_at(Event.WINDOW_ENDED, window_of(worker, 4.5))
    worker.times.look()
    doubtful = worker.times.doubtful()
    outcome = WorkerOutcome(0, False, 1.0, times_apart_s=worker.times.apart_s(), doubtful_events=doubtful)
    ended = Ended([], outcome, Status.OK, None)
    Attempt("2026-11-26T09:00:00+00:00", {}, None).ended(ended, {}).store(tmp_path)
    again = read_attempt(tmp_path).with_events([])
    assert again is not None and again.outcome == outcome and len(doubtful) == 1


def test_a_window_begins_with_its_first_segment() -> None:
    check = checked(segments=[[SECOND // 2, SECOND]])[CheckName.TIMES]
    assert not check.passed and check.detail == "the first segment begins 0.50 s after the window that it begins"


def test_of_a_worker_that_nobody_looked_at_nothing_is_said() -> None:
    assert checked(None) == {}
    unseen = Ended([], None, Status.OK, None)
    assert list(check_times(make_spec(), unseen, EMPTY)) == []
    assert list(check_times(make_spec(), replace(unseen, outcome=WorkerOutcome(0, False, 1.0)), EMPTY)) == []


@pytest.mark.parametrize(
    ("calls_s", "passed"),
    [([0.1] * 20, True), ([0.1] * 17, True), ([0.1] * 15, False), ([0.1] * 25, False), ([0.5, 0.5, 0.5], True)],
)
def test_calls_add_up_to_their_window_but_for_a_last_update_of_each_segment(calls_s: list[float], passed: bool) -> None:
    check = checked(calls_s=calls_s)[CheckName.CALLS_ADD_UP]
    assert check.passed is passed and CheckName.CALLS_ADD_UP in COUNTS


@pytest.mark.parametrize(
    ("name", "disturbed"), [(CheckName.TIMES, True), (CheckName.CALLS_ADD_UP, True), (CheckName.CORES, False)]
)
def test_a_disturbed_trial_is_tried_again_before_its_times_accuse_it(name: CheckName, disturbed: bool) -> None:
    records = Records(make_spec(), None, Ended([], None, Status.OK, None), EMPTY, EMPTY, {})
    failed = [Check(name, False, "off")]
    calm, busy = ({FOREIGN_CPU.name: Figure(percent, "sampler")} for percent in (1.0, 60.0))
    assert decide_status(records, calm, failed) == (Status.UNVERIFIED, f"{name}: off")
    assert (decide_status(records, busy, failed)[0] is Status.CONTENDED) is disturbed
