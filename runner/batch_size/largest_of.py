"""Find the largest batch size of a framework that fits, by its real trials."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from runner.batch_size.largest import Attempt, Bound, largest
from runner.batch_size.memory_limit import ANSWERS, BY_WORKER, available_bytes, tried
from runner.batch_size.steps import StepTrials
from runner.launch import Launcher, Unavailable
from runner.results.memory import MemoryAccount
from runner.trial import MemoryWorker, read_accounts
from workloads.records.batch_answers import Largest, Limit, Tried
from workloads.records.events import Event
from workloads.records.files import EVENTS_FILE, SAMPLES_FILE
from workloads.records.job import Job, Kind
from workloads.records.samples import read_samples
from workloads.records.status import Status
from workloads.records.stored_events import read_events

# Sizes of the counting process, which ends where memory does. All together cost about twice the last.
COUNTED = (1, 2, 3, 4, 6, 8, 16, 32, 64, 128, 256)
GPU_COLUMNS = ("process_memory_bytes", "device_memory_bytes")  # the first of these that the driver gave
LIFTED_TIMES, LIFTED_BYTES = 2, 2**30  # a lifted limit is so many times the limit, and so much more
LIFTED_SHARE, LEAST_LIFTED_TIMES = 0.95, 1.05  # share of what is available, at most; times the limit, at least


def largest_of(trials: StepTrials, framework: str, bound: Bound, look_around: bool = True) -> Largest:
    """Search with `trials`, whose request is `memory_limit.bounded` by the bound; `look_around` is as in `largest`."""
    launcher = trials.launchers[framework]
    if isinstance(launcher, Unavailable):
        return Largest(None, launcher.reason, bound.limit, bound.limit_bytes)
    attempt, lifted = attempts(trials, framework, bound)
    counted, ends_at = count(trials, framework, bound, launcher)
    return largest(attempt, bound, counted, ends_at, lifted, look_around)


def attempts(trials: StepTrials, framework: str, bound: Bound) -> tuple[Attempt, Attempt | None]:
    """Return (a trial of a batch size, the same with the limit lifted).

    The second shows if the limit ended the first. The limit of a GPU or a container cannot be lifted.
    """

    def attempt(batch_size: int, trials: StepTrials = trials) -> Tried:
        result, folder = trials.run(framework, batch_size, ANSWERS)
        return tried(result, folder, trials.request.results, bound.limit)

    if bound.limit not in BY_WORKER:
        return attempt, None
    limit_bytes = lifted_bytes(bound.limit_bytes)
    return attempt, None if limit_bytes is None else partial(attempt, trials=trials.limited(limit_bytes))


def lifted_bytes(limit_bytes: int) -> int | None:
    """Return a limit well above this one and within what is available; None where there is not enough memory."""
    higher = min(LIFTED_TIMES * limit_bytes + LIFTED_BYTES, round(LIFTED_SHARE * available_bytes()))
    return higher if higher >= LEAST_LIFTED_TIMES * limit_bytes else None


def context_bytes(folder: Path) -> int:
    """Return the bytes that the framework holds on the card outside its allocator's count.

    Raises ValueError for files that no worker wrote.
    """
    opened = [event["t_ns"] for event in read_events(folder / EVENTS_FILE) if event["event"] == Event.CONTEXT_SAMPLED]
    samples = read_samples(folder / SAMPLES_FILE)
    until = samples["t_ns"] <= max(opened, default=0)
    known = [values for name in GPU_COLUMNS if np.isfinite(values := samples[name][until]).any()]
    return int(np.nanmax(known[0])) if known else 0


def _peak(account: MemoryAccount, limit: Limit, context: int) -> int | None:
    if limit is Limit.GPU:
        return account["peak"] + context if "peak" in account else None
    counts = account.get("host", {})
    resident: int | None = counts.get("peak_resident_bytes")
    return BY_WORKER[limit](counts) if limit in BY_WORKER else resident


def count(trials: StepTrials, framework: str, bound: Bound, launcher: Launcher) -> tuple[dict[int, float], int | None]:
    """Return ({batch size: peak bytes of what the limit counts}, size at which counting ran out of memory, or None).

    This is only a first guess: counting takes memory of its own.
    """
    specs = [trials.spec(framework, size) for size in COUNTED]
    MemoryWorker(trials.request.results, specs).gather(specs[0], launcher)
    folder = Job(Kind.MEMORY, specs[0]).folder(trials.request.results)
    try:
        return _counted(folder, bound)
    except ValueError:  # its output cannot be read
        return {}, None


def _counted(folder: Path, bound: Bound) -> tuple[dict[int, float], int | None]:
    """Return what the process in this folder counted. Raises ValueError."""
    context = context_bytes(folder) if bound.limit is Limit.GPU else 0
    accounts = read_accounts(folder).items()
    peaks = {size: float(peak) for size, account in accounts if (peak := _peak(account, bound.limit, context))}
    events = read_events(folder / EVENTS_FILE)
    finished = any(event["event"] == Event.FINISHED for event in events)
    failed = bool(events) and events[-1].get("status") in (Status.FAILED, Status.UNSUPPORTED)  # not by memory
    ends_at = None if finished or failed else next((size for size in COUNTED if size not in peaks), None)
    return peaks, ends_at
