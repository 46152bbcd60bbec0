"""How the worker of `python -m runner overhead` handles a real sampler, with an adapter that computes nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
from conftest import PROJECT, make_spec

from adapters.base import Floats, Order
from adapters.numpy.adapter import Adapter
from adapters.worker import overhead_pairs
from adapters.worker.event_log import EventLog
from adapters.worker.overhead_pairs import Sampler, measure_pairs, same_work
from adapters.worker.trainer import Trainer
from runner.launch import sampler, watch
from runner.owned import GRACE_S
from workloads.records.files import EVENTS_FILE, SAMPLES_FILE
from workloads.records.samples import read_samples
from workloads.records.segments import Segment
from workloads.records.stored_events import read_events


class Sleeper(Adapter):
    """Takes a millisecond a step; `disturb` is called before each call."""

    def __init__(self, disturb: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self.disturb = disturb

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> Floats:
        self.disturb()
        time.sleep(0.001 * len(order))
        return np.zeros(len(order), np.float32)

    def read(self, handle: Floats) -> Floats:
        return handle

    def synchronize(self) -> None:
        pass


@pytest.fixture
def sampling(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A sampler that samples a process which does nothing."""
    watched = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
    with sampler(PROJECT, tmp_path, make_spec().placement) as found:
        watch(found, watched.pid)
        yield found
        watched.communicate()


def status(sampling: subprocess.Popen[str]) -> str:
    return psutil.Process(sampling.pid).status()


def measure(
    sampling: subprocess.Popen[str], folder: Path, pairs: int = 2, disturb: Callable[[], object] = lambda: None
) -> list[Segment]:
    trainer = Trainer(Sleeper(disturb))
    trainer.step_s, trainer.losses = 0.001, [0.0]
    calls = same_work(np.arange(10, dtype=np.int32), 4, trainer)
    return measure_pairs(calls, trainer, EventLog(folder / EVENTS_FILE), Sampler(sampling.pid), pairs)


@pytest.fixture(autouse=True)
def short_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overhead_pairs, "SEGMENT_S", 0.4)
    monkeypatch.setattr(overhead_pairs, "MOST_TIMES", 1)  # a machine that others use makes no test longer


def test_the_sampler_runs_and_events_are_written_only_while_they_should(
    sampling: subprocess.Popen[str], tmp_path: Path
) -> None:
    states = []
    segments = measure(sampling, tmp_path, disturb=lambda: states.append(status(sampling)))
    assert [segment.instruments for segment in segments] == [True, False, False, True]
    assert all(segment.images == segments[0].images > 0 for segment in segments)
    for segment in segments:
        assert segment.wall_s >= 0.4
        assert (segment.sampler_cpu_s > 0) == segment.instruments
    calls = len(states) // 4
    stopped = [state == psutil.STATUS_STOPPED for state in states]
    assert stopped == [False] * calls + [True] * 2 * calls + [False] * calls
    images = sum(event["images"] for event in read_events(tmp_path / EVENTS_FILE))
    assert images == sum(segment.images for segment in segments if segment.instruments)
    times_s = read_samples(tmp_path / SAMPLES_FILE)["t_ns"] / 1e9
    assert np.diff(times_s).max() > 0.8, "samples were taken while the sampler should have stood still"


def test_no_sampler_is_left_stopped_when_training_fails(sampling: subprocess.Popen[str], tmp_path: Path) -> None:
    def fail_once_stopped() -> None:
        if status(sampling) == psutil.STATUS_STOPPED:
            raise MemoryError("made up")

    with pytest.raises(MemoryError):
        measure(sampling, tmp_path, disturb=fail_once_stopped)
    assert status(sampling) != psutil.STATUS_STOPPED


@pytest.mark.parametrize("sent", [signal.SIGSTOP, signal.SIGKILL])
def test_a_segment_with_a_sampler_that_does_not_run_is_refused(
    sent: signal.Signals, sampling: subprocess.Popen[str], tmp_path: Path
) -> None:
    with pytest.raises(RuntimeError, match=r"the sampler was told to run, its state is [TZ]"):
        measure(sampling, tmp_path, disturb=lambda: os.kill(sampling.pid, sent))


def test_no_process_but_the_sampler_can_be_stopped() -> None:
    for pid in (os.getpid(), 0, -1):
        with pytest.raises(ValueError, match="is not the sampler"):
            Sampler(pid)


def test_a_sampler_left_stopped_by_a_killed_worker_does_not_stay_so(tmp_path: Path) -> None:
    """The runner lets it go on, so that it ends by itself instead of being killed after its grace."""
    with sampler(PROJECT, tmp_path, make_spec().placement) as found:
        os.kill(found.pid, signal.SIGSTOP)
        started = time.monotonic()
    assert time.monotonic() - started < GRACE_S
    assert not psutil.pid_exists(found.pid)


@pytest.mark.parametrize("step_s", [0.001, 0.05, 2.0])
def test_a_segment_is_long_enough_and_has_enough_calls(step_s: float) -> None:
    trainer = Trainer(Sleeper())
    trainer.step_s = step_s
    work = same_work(np.arange(5, dtype=np.int32), 4, trainer)
    assert len(work) >= overhead_pairs.FEWEST_CALLS
    assert sum(len(order) for order in work) * step_s >= overhead_pairs.SEGMENT_S * 0.999
    assert np.concatenate([order.ravel() for order in work])[:8].tolist() == [0, 1, 2, 3, 4, 0, 1, 2]
