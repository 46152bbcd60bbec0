"""Watch one worker: wait until it ends, and look when it writes its events.

The wait also ends at its timeout, if it gives no sign of life, or if the sampler stops sampling it.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from runner.log import CappedLog, read_last_lines
from workloads.lifeline import STACKS
from workloads.records.files import EVENTS_FILE, SAMPLER_LOG_FILE, SAMPLES_FILE
from workloads.records.job import Job

EARLY_S = 0.3  # a time this much before the look that saw nothing yet is compared with the worker's processor time


@dataclass(frozen=True)
class Growth:
    """A look at which the file was larger than at the previous one; ns of the monotonic clock."""

    size_bytes: int
    after_ns: int  # just before the look that saw nothing of it
    by_ns: int


@dataclass(frozen=True)
class EventLooks:
    """The time that an event claims, and the two looks between which it was written; ns of the monotonic clock."""

    t_ns: int
    after_ns: int
    by_ns: int

    @property
    def apart_s(self) -> float:
        """Seconds by which the time lies outside of the looks: negative before them, 0.0 between them."""
        return (min(0, self.t_ns - self.after_ns) + max(0, self.t_ns - self.by_ns)) / 1e9


class EventTimes:
    """Looks at the size of an events file now and then: each event was written between two looks.

    A worker's clock is the kernel's, so an event with another time was given a false one.
    """

    def __init__(self, path: Path) -> None:
        """Start to watch; existing content belongs to another worker."""
        self.path, self.growths = path, list[Growth]()
        self.seen_ns = time.monotonic_ns()
        self.size_bytes = self.before_bytes = self._size()

    def _size(self) -> int:
        with suppress(OSError):
            return self.path.stat().st_size
        return 0

    def look(self) -> None:
        """Look at the file; call it at any time, as often as you like."""
        began_ns = time.monotonic_ns()
        size_bytes = self._size()
        if size_bytes != self.size_bytes:
            self.growths.append(Growth(size_bytes, self.seen_ns, time.monotonic_ns()))
            self.size_bytes = size_bytes
        self.seen_ns = began_ns

    def apart_s(self) -> float | None:
        """Return the largest deviation, in s, of an event's time from the looks around it. It is negative before
        them, 0.0 if no event deviates, None without an event.
        """
        return max((looks.apart_s for looks in self._looks()), key=abs, default=None)

    def doubtful(self) -> tuple[EventLooks, ...]:
        """Return the events with times later than the runner saw them, or earlier by more than EARLY_S."""
        return tuple(looks for looks in self._looks() if looks.apart_s > 0 or looks.apart_s < -EARLY_S)

    def _looks(self) -> Iterator[EventLooks]:
        sizes, end_bytes, before_ns = [growth.size_bytes for growth in self.growths], 0, 0
        for line in self._content().split(b"\n")[:-1]:  # text after the last line end was cut short
            end_bytes += len(line) + 1
            index, t_ns = bisect_left(sizes, end_bytes), read_time(line, before_ns)
            if end_bytes > self.before_bytes and index < len(sizes) and t_ns is not None:
                growth = self.growths[index]
                yield EventLooks(t_ns, growth.after_ns, growth.by_ns)
            before_ns = t_ns or before_ns

    def _content(self) -> bytes:
        with suppress(OSError):
            return self.path.read_bytes()
        return b""


def read_time(line: bytes, before_ns: int = 0) -> int | None:
    """Return the time that an event's line claims; None without one, which the reader of the file reports.

    The end of a window's last segment counts, if that began after the event before, at `before_ns`: the line is written
    at once after it.
    """
    with suppress(ValueError, RecursionError):
        event = json.loads(line)
        if isinstance(event, dict) and type(event.get("t_ns")) is int:
            return min([int(event["t_ns"]), *_segment_ends(event.get("segments"), before_ns)])
    return None


def _segment_ends(segments: object, before_ns: int) -> list[int]:
    match segments:
        case [*_, [int(start_ns), int(end_ns)]] if start_ns >= before_ns:
            return [end_ns]
    return []


LOOK_S = 0.05  # the interval at which a wait with a timeout checks whether the process has ended
STOOD_STILL_S = 2.0  # between two looks: after more than that, this process was stopped as well
SILENCE_S = 1800.0  # of a worker: a first step compiles for minutes, and a call may be one step of a large network
SAMPLES_S = 20.0  # of the sampler: two hundred rows
STACKS_S = 0.5  # to write the stacks
WORDS = 500  # characters of a process's message, in a reason


class Worker(Protocol):
    """A worker that runs on this machine, or waits for its go-ahead; it ends with this process."""

    @property
    def pid(self) -> int:
        """Id of the process that the sampler follows with all its children."""

    def go(self) -> None:
        """Let it begin."""

    def wait(self, timeout: float) -> int:
        """Return its exit code, negative if a signal killed it. Raises subprocess.TimeoutExpired after `timeout` s."""

    def end(self) -> int:
        """Kill what is left of it and reap it; return its exit code."""


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


def read_stamp(path: Path) -> tuple[int, int] | None:
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
        self.samples = Silence(partial(read_stamp, folder / SAMPLES_FILE))
        self.times = EventTimes(folder / EVENTS_FILE)
        self.timed_out, self.over_s = False, time.monotonic()
        self.hung: str | None = None
        self._stalled: str | None = None

    def wait(self, worker: Worker) -> None:
        """Block until the wait is over; the worker's timeout and the sampler's watch start now. It may run on then."""
        self.samples = Silence(self.samples.state)
        self._follow(worker)
        self.over_s = time.monotonic()
        if self.timed_out or self.hung is not None:
            self._show_stacks(worker.pid)

    def _follow(self, worker: Worker) -> None:
        until_s = time.monotonic() + self.job.trial.timeout_s
        # No event, no step, no output.
        worker_silent = Silence(lambda: (read_stamp(self.folder / EVENTS_FILE), self.log.total))
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
            self._stalled = f"{name} ended with exit code {code}: {read_last_line(self.folder / SAMPLER_LOG_FILE)}"
        elif self.samples.seconds() > SAMPLES_S:
            self._stalled = f"{name} took no sample for {SAMPLES_S:g} s"
        return self._stalled

    def _show_stacks(self, pid: int) -> None:
        """Write the worker's stacks to its log, unless it cannot be signalled or does not know the signal yet."""
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, STACKS)
            time.sleep(STACKS_S)


def read_last_line(path: Path) -> str:
    """Return the last line of a process's output, shortened."""
    with suppress(OSError):
        lines = [line.strip() for line in read_last_lines(path) if line.strip()]
        return lines[-1][-WORDS:] if lines else "it printed nothing"
    return "it printed nothing"
