"""Determine what limits a search's memory, and how much of it a trial used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from runner.request.cli import Request
from workloads import control_groups
from workloads.records.batch_answers import Fit, Limit, Tried
from workloads.records.events import Event
from workloads.records.figures import DEVICE_MEMORY, HOST_MEMORY_PEAK, PROCESS_GPU_MEMORY
from workloads.records.files import EVENTS_FILE, write_json
from workloads.records.result import TrialResult
from workloads.records.status import Status
from workloads.records.stored_events import read_events

HOST_LIMIT_FILE = "host-limit.json"
RESERVE = 0.15  # of what is available: for the system, the runner, and for lifting the limit
MEASURED = (Status.OK, Status.CONTENDED, Status.UNVERIFIED, Status.DIVERGED)  # the trial came to its end
ANSWERS = (*MEASURED, Status.OUT_OF_MEMORY)  # statuses that tell if it fits


def limit_of(request: Request) -> tuple[Limit, int]:
    """Return (what limits the memory of a search's trials, bytes); for trials on a GPU the whole card.

    Raises LookupError where a GPU does not report its memory size.
    """
    placement = request.placement
    if placement.device != "cpu":
        card = next(gpu for gpu in request.gpus if gpu.uuid == placement.device)
        if card.memory_bytes is None:
            raise LookupError(f"{card.name} does not tell how much memory it has")
        return Limit.GPU, card.memory_bytes
    if placement.memory_limit_bytes is not None:
        local = Limit.GROUP if placement.control_group else Limit.ASKED
        return Limit.CONTAINER if request.isolation == "docker" else local, placement.memory_limit_bytes
    return Limit.HOST, host_limit_bytes(request.results, stored=not request.plan_only)


def bounded(request: Request, limit: Limit, limit_bytes: int) -> Request:
    """Return the request with this memory limit on its trials.

    Only a host limit changes it, by limiting the data segment. A GPU limits itself, and a requested limit applies
    already.
    """
    if limit is not Limit.HOST:
        return request
    return replace(request, placement=replace(request.placement, memory_limit_bytes=limit_bytes))


def host_limit_bytes(results: Path, stored: bool = True) -> int:
    """Return the available memory of the machine and of this process's control groups, less a reserve.

    The limit of an earlier search in this results folder is reused where it still fits, if need be in the reserve. Its
    trials then count on, because the available memory is never the same twice. A plan has nothing `stored`.
    """
    available = available_bytes()
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


def available_bytes() -> int:
    """Return the bytes of memory that are available without swapping anything out."""
    available: int = psutil.virtual_memory().available
    limit = control_groups.memory_limit_bytes()
    return available if limit is None else min(available, limit)


def tried(result: TrialResult, folder: Path, results: Path, limit: Limit) -> Tried:
    """Return what a trial of steps only, run in `folder`, says about memory."""
    fit = {Status.OUT_OF_MEMORY: Fit.TOO_LARGE}.get(result.status, Fit.UNKNOWN)
    fit = Fit.FITS if result.status in MEASURED else fit
    name = str(folder.relative_to(results.resolve()))
    reason = result.reason if fit is Fit.UNKNOWN else None
    return Tried(result.spec.cell.batch_size, fit, name, peak_bytes(result, folder, limit), reason=reason)


def peak_bytes(result: TrialResult, folder: Path, limit: Limit) -> int | None:
    """Return the trial's peak of what the limit counts; None where it is unknown."""
    if limit in BY_WORKER:
        try:
            events = {event["event"]: event for event in read_events(folder / EVENTS_FILE)}
        except ValueError:  # the trial's result reports it
            return None
        before = events.get(Event.WINDOW_STARTED, {}).get("peak_resident_bytes")
        return BY_WORKER[limit](events.get(Event.HOST_COUNTED, {}), before)
    specs = (PROCESS_GPU_MEMORY, DEVICE_MEMORY) if limit is Limit.GPU else (HOST_MEMORY_PEAK,)
    value = result.first_known(*specs)
    return None if value is None else round(value)


def data_peak_bytes(counts: Mapping[str, Any], before: int | None = None) -> int | None:
    """Estimate the peak of what RLIMIT_DATA counts: its present size, plus the resident peak beyond the present.

    `before` is the resident peak until the count was reset.
    """
    return _peak_bytes(counts, "data_bytes", before)


def group_peak_bytes(counts: Mapping[str, Any], before: int | None = None) -> int | None:
    """Estimate the peak of what a control group counts and cannot drop, from anonymous bytes in the same way."""
    return _peak_bytes(counts, "anonymous_bytes", before)


def _peak_bytes(counts: Mapping[str, Any], name: str, before: int | None) -> int | None:
    present, resident, peak = (counts.get(key) for key in (name, "resident_bytes", "peak_resident_bytes"))
    if present is None or resident is None or peak is None:
        return None
    return int(present + max(peak, before or 0) - resident)


# How a worker's counts give each limit's peak; for other limits the sampler's figures give it.
BY_WORKER = {Limit.ASKED: data_peak_bytes, Limit.HOST: data_peak_bytes, Limit.GROUP: group_peak_bytes}
