"""The kind `overhead`: what our own instruments cost.

Whole processes differ by more than the instruments cost, so one process does the same work over and over, in turn with
the instruments and without: the sampler stands still (SIGSTOP) and no event is written. The turns are short because a
machine's noise is mostly slow: neighbouring stretches differ by as much whether they last 50 ms or a second, so many
short pairs tell more than a few long ones.

What is found is an upper bound. A sampler that goes on makes up for a sample that it missed and looks for child
processes as often as the clock says, so in its turns it does up to twice what it does in a trial; and an event is
written after every call. Writes segments.json behind the last segment.
"""

from __future__ import annotations

import ctypes
import math
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import numpy as np

from adapters.base import Adapter, Order
from adapters.worker.event_log import EventLog
from adapters.worker.prepare import prepare
from adapters.worker.trainer import Trainer, epoch_batches
from adapters.worker.trial import warm_up
from workloads.records.events import Event
from workloads.records.files import SAMPLER_FILE, write_json
from workloads.records.job import Job
from workloads.records.samples import PERIOD_S
from workloads.records.segments import DISTURBED_PERCENT, SEGMENTS_FILE, Segment, disturbance

SEGMENT_S = 2 * PERIOD_S
FEWEST_CALLS = 2
MOST_TIMES = 2
CORES = sorted(os.sched_getaffinity(0))  # before a framework binds its threads to some of them
SWITCH_S = 5.0  # a process stops when it next returns from the kernel; a driver may hold it for a while


class Sampler:
    """The sampler's process, which is the runner's child: it runs or stands still."""

    def __init__(self, pid: int) -> None:
        """Raises ValueError for any other process: nothing else is ever stopped."""
        if pid <= 0 or b"runner.sampler" not in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
            raise ValueError(f"process {pid} is not the sampler, python -m runner.sampler")
        self.pid = pid
        clock = ctypes.c_int()
        if error := ctypes.CDLL(None).clock_getcpuclockid(pid, ctypes.byref(clock)):
            raise OSError(error, os.strerror(error))
        self.clock = clock.value

    def cpu_s(self) -> float:
        """User and system time of all its threads, to the nanosecond: clock_getcpuclockid(3)."""
        return time.clock_gettime(self.clock)

    def check(self, running: bool) -> None:
        """Raises RuntimeError where it does not do what it was told: a segment would be of the wrong kind."""
        state = self._state()
        if state in "ZX" or (state == "T") == running:
            raise RuntimeError(f"the sampler was told to {'run' if running else 'stand still'}, its state is {state}")

    def switch(self, running: bool) -> None:
        """Returns when it has happened; raises RuntimeError where it does not."""
        os.kill(self.pid, signal.SIGCONT if running else signal.SIGSTOP)
        until = time.monotonic() + SWITCH_S
        while (self._state() == "T") == running and time.monotonic() < until:
            time.sleep(0.001)
        self.check(running)

    def _state(self) -> str:
        """One letter, see proc(5); the name before it may hold blanks and brackets."""
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]


def busy_s() -> float:
    """All time, since boot, in which one of CORES was not idle; see proc(5), /proc/stat."""
    names = {f"cpu{core}" for core in CORES}
    times = [line.split() for line in Path("/proc/stat").read_text().splitlines()]
    ticks = sum(int(t[i]) for t in times if t[0] in names for i in (1, 2, 3, 6, 7, 8))  # all but idle, iowait, guests
    return ticks / os.sysconf("SC_CLK_TCK")


def same_work(order: Order, batch_size: int, trainer: Trainer) -> list[Order]:
    """Calls of full batches, round and round one permutation (n,), for a segment."""
    steps = trainer.steps_a_call()
    calls = max(FEWEST_CALLS, math.ceil(SEGMENT_S / (steps * trainer.step_s)))
    return list(np.resize(order, calls * steps * batch_size).reshape(calls, steps, batch_size))


def with_events(calls: list[Order], trainer: Trainer, events: EventLog) -> Iterator[Order]:
    """Each call, with an event behind it, as a trial writes one behind each epoch."""
    for number, order in enumerate(calls):
        yield order
        events.write(
            Event.EPOCH_TRAINED, epoch=number, steps=len(order), images=order.size, train_loss=trainer.losses[-1]
        )


def measure_segment(
    calls: list[Order], trainer: Trainer, events: EventLog, sampler: Sampler, instruments: bool
) -> Segment:
    """One, with the instruments or without. Raises RuntimeError for a sampler that does not do as it is told."""
    sampler.switch(instruments)
    images, before = trainer.images, (busy_s(), time.process_time(), sampler.cpu_s())
    started = time.monotonic()
    trainer.run(with_events(calls, trainer, events) if instruments else iter(calls))
    wall_s = time.monotonic() - started
    every_s, own_s, sampler_s = map(float.__sub__, (busy_s(), time.process_time(), sampler.cpu_s()), before)
    sampler.check(instruments)
    foreign_percent = 100 * (every_s - own_s - sampler_s) / (wall_s * len(CORES))
    return Segment(instruments, trainer.images - images, wall_s, sampler_s, foreign_percent)


def measure_pairs(
    calls: list[Order], trainer: Trainer, events: EventLog, sampler: Sampler, pairs: int
) -> list[Segment]:
    """Measure with, without, without, with, and so on: a machine that steadily slows down weighs on both alike.

    A pair that others disturbed is measured again, up to MOST_TIMES as many in all. The sampler runs on behind it, also
    behind an exception.
    """
    segments: list[Segment] = []
    undisturbed = 0
    try:
        for number in range(MOST_TIMES * pairs):
            for instruments in (True, False) if number % 2 == 0 else (False, True):
                segments.append(measure_segment(calls, trainer, events, sampler, instruments))
            undisturbed += disturbance((segments[-2], segments[-1])) <= DISTURBED_PERCENT
            if undisturbed == pairs:
                break
    finally:
        with suppress(ProcessLookupError):
            os.kill(sampler.pid, signal.SIGCONT)
    return segments


def run(adapter: Adapter, job: Job, folder: Path, events: EventLog) -> None:
    """A trial's beginning, then two segments for each pair. Raises what the adapter raises."""
    update, sampler = job.trial.global_batch, Sampler(int((folder / SAMPLER_FILE).read_text()))
    prepared = prepare(adapter, job, folder, events)
    prepared.build(adapter)
    adapter.synchronize()
    events.write(Event.BUILT)
    order, trainer = prepared.order[0], Trainer(adapter, prepared.rates, part=job.trial.part)
    warm_up(trainer, epoch_batches(order, update, "keep"), events)
    for _ in range(2):  # a step is timed over a segment's length; then calls of that length have been compiled, too
        trainer.run_timed(np.concatenate(same_work(order, update, trainer)))
    calls = same_work(order, update, trainer)
    trainer.run(iter(calls[:1]))
    segments = measure_pairs(calls, trainer, events, sampler, job.pairs)
    write_json(folder / SEGMENTS_FILE, {"segments": [asdict(segment) for segment in segments]})
    events.write(Event.FINISHED)
