"""Find the largest batch size of a framework that fits: what limits the memory, and how much of it its trials used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from runner.ask import list_own_answers
from runner.batch_size.largest import Attempt, Bound, find_largest
from runner.batch_size.steps import StepTrials
from runner.launch import Launcher, Unavailable
from runner.machine.description import read_available_bytes
from runner.request.cli import Request
from runner.results.memory import MemoryAccount
from runner.trial import MemoryWorker, read_accounts
from workloads.records.batch_answers import HOST_LIMIT_FILE, Fit, Largest, Limit, Tried
from workloads.records.events import Event
from workloads.records.figures import DEVICE_MEMORY, HOST_MEMORY_PEAK, PROCESS_GPU_MEMORY
from workloads.records.files import EVENTS_FILE, SAMPLES_FILE, write_json
from workloads.records.job import Job, Kind
from workloads.records.result import TrialResult
from workloads.records.samples import read_samples
from workloads.records.status import COMPLETED, Status
from workloads.records.stored_events import read_events

RESERVE = 0.15  # of what is available: for the system, the runner, and for lifting the limit
ANSWERS = (*COMPLETED, Status.OUT_OF_MEMORY)  # statuses that tell if it fits
# Sizes of the counting process, which ends where memory does. All together cost about twice the last.
COUNTED = (1, 2, 3, 4, 6, 8, 16, 32, 64, 128, 256)
GPU_COLUMNS = ("process_memory_bytes", "device_memory_bytes")  # the first of these that the driver gave
LIFTED_TIMES, LIFTED_BYTES = 2, 2**30  # a lifted limit is so many times the limit, and so much more
LIFTED_SHARE, LEAST_LIFTED_TIMES = 0.95, 1.05  # share of what is available, at most; times the limit, at least


def find_limit(request: Request) -> tuple[Limit, int]:
    """Return (what limits the memory of a search's trials, bytes); for trials on a GPU the whole card.

    Raises LookupError where a GPU does not report its memory size.
    """
    placement = request.placement
    if placement.device != "cpu":
        card = next(gpu for gpu in request.gpus if gpu.uuid == placement.device)
        if card.memory_bytes is None:
            raise LookupError(f"{card.name} does not report how much memory it has")
        return Limit.GPU, card.memory_bytes
    if placement.memory_limit_bytes is not None:
        local = Limit.GROUP if placement.control_group else Limit.ASKED
        return Limit.CONTAINER if request.isolation == "docker" else local, placement.memory_limit_bytes
    return Limit.HOST, compute_host_limit_bytes(request.results, stored=not request.plan_only)


def bound_request(request: Request, limit: Limit, limit_bytes: int) -> Request:
    """Return the request with this memory limit on its trials.

    Only a host limit changes it, by limiting the data segment. A GPU limits itself, and a requested limit applies
    already. Several devices may be one process each, and each gets its share; a container holds all of them.
    """
    if limit is not Limit.HOST:
        return request
    share_bytes = limit_bytes // (1 if request.isolation == "docker" else request.placement.devices)
    return replace(request, placement=replace(request.placement, memory_limit_bytes=share_bytes))


def compute_host_limit_bytes(results: Path, stored: bool = True) -> int:
    """Return the available memory of the machine and of this process's control groups, less a reserve.

    The limit of an earlier search in this results folder is reused where it still fits, if need be in the reserve. Its
    trials then count on, because the available memory is never the same twice. A plan has nothing `stored`.
    """
    available = read_available_bytes()
    room = available - round(RESERVE * available)
    path = results / HOST_LIMIT_FILE
    try:
        before = int(json.loads(path.read_text(encoding="utf-8"))["limit_bytes"])
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        before = 0
    if room / 2 < before <= available:
        return before
    if stored:
        write_json(path, {"limit_bytes": room})
    return room


def build_tried(result: TrialResult, folder: Path, results: Path, limit: Limit) -> Tried:
    """Return what a trial of steps only, run in `folder`, says about memory."""
    fit = {Status.OUT_OF_MEMORY: Fit.TOO_LARGE}.get(result.status, Fit.UNKNOWN)
    fit = Fit.FITS if result.status in COMPLETED else fit
    name = str(folder.relative_to(results.resolve()))
    reason = result.reason if fit is Fit.UNKNOWN else None
    return Tried(result.spec.cell.batch_size, fit, name, find_peak_bytes(result, folder, limit), reason=reason)


def find_peak_bytes(result: TrialResult, folder: Path, limit: Limit) -> int | None:
    """Return the trial's peak of what the limit counts; None where it is unknown.

    The worker counts itself alone. Several devices may be processes, of which the sampler counts all. The limit of
    several cards is that of one, so their mean counts.
    """
    if limit in BY_WORKER and result.spec.placement.devices == 1:
        try:
            events = {event["event"]: event for event in read_events(folder / EVENTS_FILE)}
        except ValueError:  # the trial's result reports it
            return None
        before = events.get(Event.WINDOW_STARTED, {}).get("peak_resident_bytes")
        return BY_WORKER[limit](events.get(Event.HOST_COUNTED, {}), before)
    specs = (PROCESS_GPU_MEMORY, DEVICE_MEMORY) if limit is Limit.GPU else (HOST_MEMORY_PEAK,)
    value = result.first_known(*specs)
    cards = result.spec.placement.devices if limit is Limit.GPU else 1
    return None if value is None else round(value / cards)


def estimate_data_peak_bytes(counts: Mapping[str, Any], before: int | None = None) -> int | None:
    """Estimate the peak of what RLIMIT_DATA counts: its present size, plus the resident peak beyond the present.

    `before` is the resident peak until the count was reset.
    """
    return _peak_bytes(counts, "data_bytes", before)


def estimate_group_peak_bytes(counts: Mapping[str, Any], before: int | None = None) -> int | None:
    """Estimate the peak of what a control group counts and cannot drop, from anonymous bytes in the same way."""
    return _peak_bytes(counts, "anonymous_bytes", before)


def _peak_bytes(counts: Mapping[str, Any], name: str, before: int | None) -> int | None:
    present, resident, peak = (counts.get(key) for key in (name, "resident_bytes", "peak_resident_bytes"))
    if present is None or resident is None or peak is None:
        return None
    return int(present + max(peak, before or 0) - resident)


# How a worker's counts give each limit's peak; for other limits the sampler's figures give it.
BY_WORKER = {
    Limit.ASKED: estimate_data_peak_bytes,
    Limit.HOST: estimate_data_peak_bytes,
    Limit.GROUP: estimate_group_peak_bytes,
}


def largest_of(trials: StepTrials, framework: str, bound: Bound) -> Largest:
    """Search with `trials`, whose request is `bounded` by the bound."""
    launcher = trials.launchers[framework]
    if isinstance(launcher, Unavailable):
        return Largest(None, launcher.reason, bound.limit, bound.limit_bytes)
    attempt, lifted = attempts(trials, framework, bound)
    counted, ends_at = count(trials, framework, bound, launcher)
    return find_largest(attempt, bound, counted, ends_at, lifted)


def attempts(trials: StepTrials, framework: str, bound: Bound) -> tuple[Attempt, Attempt | None]:
    """Return (a trial of a batch size, the same with the limit lifted).

    The second shows if the limit ended the first. The limit of a GPU or a container cannot be lifted.
    """

    def attempt(batch_size: int, trials: StepTrials = trials) -> Tried:
        result, folder = trials.run(framework, batch_size, ANSWERS)
        return build_tried(result, folder, trials.request.results, bound.limit)

    if bound.limit not in BY_WORKER:
        return attempt, None
    limit_bytes = lifted_bytes(bound.limit_bytes)
    return attempt, None if limit_bytes is None else partial(attempt, trials=trials.limited(limit_bytes))


def lifted_bytes(limit_bytes: int) -> int | None:
    """Return a limit well above this one and within what is available; None where there is not enough memory."""
    higher = min(LIFTED_TIMES * limit_bytes + LIFTED_BYTES, round(LIFTED_SHARE * read_available_bytes()))
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
    folder = list_own_answers(Job(Kind.MEMORY, specs[0]).folder(trials.request.results))[0]
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
