"""Wait for a worker until it ends, its timeout is over, it gives no sign of life, or the sampler stops sampling it."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from runner.event_times import EventTimes
from runner.log import CappedLog, last_lines
from workloads.lifeline import STACKS
from workloads.records.files import EVENTS_FILE, SAMPLER_LOG_FILE, SAMPLES_FILE
from workloads.records.job import Job

LOOK_S = 0.05  # the interval at which a wait with a timeout checks whether the process has ended
STOOD_STILL_S = 2.0  # between two looks: after more than that, this process was stopped as well
SILENCE_S = 1800.0  # of a worker: a first step compiles for minutes, and a call may be one step of a large network
SAMPLES_S = 20.0  # of the sampler: two hundred rows
STACKS_S = 0.5  # to write the stacks
WORDS = 500  # characters of a process's message, in a reason


class Waited(Protocol):
    """A worker that can be waited for."""

    @property
    def pid(self) -> int:
        """Process id as the machine counts it."""

    def wait(self, timeout: float) -> int:
        """Wait for the worker to end. Raises subprocess.TimeoutExpired."""


class Silence:
    """Seconds for which something has not changed, as far as it was observed. Time in which this process was stopped as
    well, as on a halted machine, is not counted.
    """

    def __init__(self, state: Callable[[], object]) -> None:
        """Start counting now."""
        self.state = state
        self.seen, self.looked_s, self.silent_s = state(), time.monotonic(), 0.0

    def seconds(self) -> float:
        """Return the seconds of silence up to now."""
        before_s, self.looked_s = self.looked_s, time.monotonic()
        self.silent_s += min(self.looked_s - before_s, STOOD_STILL_S)
        if (now := self.state()) != self.seen:
            self.seen, self.silent_s = now, 0.0
        return self.silent_s


def touched(path: Path) -> tuple[int, int] | None:
    """Return a value that changes when the file grows or is touched."""
    with suppress(OSError):
        status = path.stat()
        return status.st_size, status.st_mtime_ns
    return None


class Attendance:
    """The wait for one worker; after `wait` it says why the worker could not be waited for any longer."""

    def __init__(self, folder: Path, job: Job, sampling: subprocess.Popen[Any], log: CappedLog) -> None:
        """Start with `sampling`, the sampler, which has taken its first row."""
        self.folder, self.job, self.sampling, self.log = folder, job, sampling, log
        self.samples = Silence(partial(touched, folder / SAMPLES_FILE))
        self.times = EventTimes(folder / EVENTS_FILE)
        self.timed_out, self.over_s = False, time.monotonic()
        self.hung: str | None = None
        self._stalled: str | None = None

    def wait(self, worker: Waited) -> None:
        """Block until the wait is over; the worker's timeout and the sampler's watch start now. It may run on then."""
        self.samples = Silence(self.samples.state)
        self._follow(worker)
        self.over_s = time.monotonic()
        if self.timed_out or self.hung is not None:
            self._show_stacks(worker.pid)

    def _follow(self, worker: Waited) -> None:
        until_s = time.monotonic() + self.job.trial.timeout_s
        # No event, no step, no output.
        worker_silent = Silence(lambda: (touched(self.folder / EVENTS_FILE), self.log.total))
        while True:
            try:
                self.times.look()
                worker.wait(0.0)
            except subprocess.TimeoutExpired:
                time.sleep(max(0.0, min(LOOK_S, until_s - time.monotonic())))
            else:
                return
            if self.sampler_lost() is not None:
                return
            self.timed_out = time.monotonic() >= until_s
            if not self.timed_out and worker_silent.seconds() > SILENCE_S:
                self.hung = f"no sign of life for {SILENCE_S:g} s"
            if self.timed_out or self.hung is not None:
                return

    def sampler_lost(self) -> str | None:
        """Return why the worker is no longer sampled, before the sampler was told to end; None if it still is."""
        if self._stalled is not None:
            return self._stalled
        name = "the sampler, python -m runner.sampler,"
        if (code := self.sampling.poll()) is not None:
            self._stalled = f"{name} ended with exit code {code}: {said(self.folder / SAMPLER_LOG_FILE)}"
        elif self.samples.seconds() > SAMPLES_S:
            self._stalled = f"{name} took no sample for {SAMPLES_S:g} s"
        return self._stalled

    def _show_stacks(self, pid: int) -> None:
        """Write the worker's stacks to its log, unless it cannot be signalled or does not know the signal yet."""
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, STACKS)
            time.sleep(STACKS_S)


def said(path: Path) -> str:
    """Return the last line of a process's output, shortened."""
    with suppress(OSError):
        lines = [line.strip() for line in last_lines(path) if line.strip()]
        return lines[-1][-WORDS:] if lines else "it said nothing"
    return "it said nothing"
