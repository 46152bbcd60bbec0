"""A worker's word about time, compared with the runner's own looks at what it wrote."""

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
from runner.event_times import EventTimes
from runner.launch import Outcome
from runner.results.assemble import TIMES_APART_S, Records, ending, times_checks
from workloads.records.check_name import COUNTS, CheckName
from workloads.records.events import Event
from workloads.records.figures import FOREIGN_CPU, Figure
from workloads.records.files import EVENTS_FILE
from workloads.records.result import Check
from workloads.records.samples import COLUMNS
from workloads.records.status import Status

SECOND = 10**9


class Worker:
    """Writes events whose times are those of a clock that may be slow, and is looked at each second."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, slowness: float = 1.0, late_s: float = 0.0
    ) -> None:
        self.path, self.slowness, self.late_s = folder / EVENTS_FILE, slowness, late_s
        self.now_ns = self.began_ns = 100 * SECOND
        monkeypatch.setattr(time, "monotonic_ns", lambda: self.now_ns)
        self.times = EventTimes(self.path)

    def write(self, *rest: str) -> None:
        t_ns = self.began_ns + round((self.now_ns - self.began_ns) / self.slowness + self.late_s * SECOND)
        with self.path.open("a") as file:
            file.write("".join([json.dumps({"event": "-", "t_ns": t_ns}) + "\n", *rest]))

    def work(self, seconds: float) -> None:
        """An event each 0.7 s."""
        for tenth in range(round(10 * seconds)):
            self.now_ns += SECOND // 10
            if tenth % 10 == 9:
                self.times.look()
            if tenth % 7 == 6:
                self.write()

    def apart_s(self) -> float | None:
        self.times.look()
        return self.times.apart_s()


def test_a_true_clock_is_nowhere_off_however_seldom_it_was_looked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Worker(tmp_path, monkeypatch)
    assert worker.apart_s() is None, "nothing was written"
    worker.work(30)
    worker.now_ns += 60 * SECOND  # nobody looked, as where the runner stood still
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


def checked(apart_s: float | None = 0.0, **ended: Any) -> dict[str, Check]:
    """By name, of a window of 2 s in two segments."""
    window = {"event": Event.WINDOW_ENDED, "t_ns": 5, "segments": [[0, SECOND], [2 * SECOND, 3 * SECOND]], **ended}
    events = [{"event": Event.WINDOW_STARTED, "t_ns": 0}, window]
    seen = Ended(events, Outcome(0, False, 1.0, times_apart_s=apart_s), Status.OK, None)
    return {check.name: check for check in times_checks(seen)}


@pytest.mark.parametrize(("apart_s", "passed"), [(0.0, True), (-2.9, True), (-3.1, False), (3.1, False)])
def test_times_that_the_runner_cannot_have_seen_leave_no_number(apart_s: float, passed: bool) -> None:
    check = checked(apart_s)[CheckName.TIMES]
    assert check.passed is passed and CheckName.TIMES in COUNTS
    assert f"up to {abs(apart_s):.2f} s {'early' if apart_s < 0 else 'late'} (3 s allowed)" in check.detail


def test_of_a_worker_that_nobody_looked_at_nothing_is_said() -> None:
    assert checked(None) == {}
    unseen = Ended([], None, Status.OK, None)
    assert list(times_checks(unseen)) == [] == list(times_checks(replace(unseen, outcome=Outcome(0, False, 1.0))))


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
    empty = {column: np.empty(0) for column in COLUMNS}
    records = Records(make_spec(), None, Ended([], None, Status.OK, None), empty, empty, {})
    failed = [Check(name, False, "off")]
    calm, busy = ({FOREIGN_CPU.name: Figure(percent, "sampler")} for percent in (1.0, 60.0))
    assert ending(records, calm, failed) == (Status.UNVERIFIED, f"{name}: off")
    assert (ending(records, busy, failed)[0] is Status.CONTENDED) is disturbed
