"""Compare memory, start and end of a stored trial with what its worker, the memory worker and the runner wrote.

Written independently of the runner, as `recompute` is.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workloads.activations import FLOAT32_BYTES, activation_bytes
from workloads.records import figures as registry
from workloads.records import files as numbered
from workloads.records import validation
from workloads.records.build import FLOAT64, REDUCED
from workloads.records.disturbance import find_disturbance
from workloads.records.events import Evaluation, Event, Events
from workloads.records.figures import read_value
from workloads.records.files import ATTEMPT_FILE, EVENTS_FILE
from workloads.records.job import ROOMS, Kind
from workloads.records.result import TrialResult
from workloads.records.status import COMPLETED, UNMEASURED, Status
from workloads.records.stored import read_start
from workloads.records.stored_events import parse_events, read_events
from workloads.spec import Workload

from ..attempts import Attempts
from .recompute import Values

SAME_PARTS = ("parameters", "gradients", "optimizer", "inputs")  # of an account: equal on every machine
Account = dict[str, Any]  # an event of the memory worker, or the reason why it is missing


@dataclass(frozen=True)
class _WorkerEnd:
    wall_s: float
    status: str
    reason: str | None


@dataclass(frozen=True)
class RunnerFacts:
    """Facts of a trial that only the runner knew; empty if it stored nothing."""

    started_at: str = ""
    machine: dict[str, Any] = field(default_factory=dict)
    memory: Account | None = None
    worker: _WorkerEnd | None = None
    evaluations: tuple[Evaluation, ...] | None = None
    end: dict[str, Any] | None = None


def read_attempt(trial_dir: Path) -> RunnerFacts:
    """Read ATTEMPT_FILE. Raises ValueError with its name if it is not a runner's file."""
    try:
        facts = validation.read(trial_dir / ATTEMPT_FILE, RunnerFacts) or RunnerFacts()
        if facts.memory is not None and "event" in facts.memory:
            parse_events(json.dumps(facts.memory).encode() + b"\n", "memory")
    except ValueError as error:
        raise ValueError(f"{ATTEMPT_FILE}: {error}") from error
    return facts


def collect_memory(result: TrialResult, events: Events, attempt: RunnerFacts, workload: Workload | None) -> Values:
    """Collect the bytes counted by the kernel, the allocator and the memory worker, and the exact count of
    activations.
    """
    spec, by_name = result.spec, {event["event"]: event for event in events}
    counts = by_name.get(Event.ALLOCATOR_COUNTED, {}).get("counts", {})
    account = attempt.memory or {}
    parts = {name: size for name, size in account.get("parts", {}).items() if size is not None}
    told = {spec.name: parts.get(part, counts.get(part)) for part, spec in registry.MEMORY_PARTS.items()}
    peak = counts.get("allocator_peak")
    told |= {
        registry.STEPS_PEAK.name: account.get("peak"),
        registry.WAITED_STEP_PEAK.name: account.get("step_peak"),
        registry.POOL_INDICES.name: account.get("pool_indices"),
        registry.ALLOCATOR_PEAK.name: peak if isinstance(peak, int) else account.get("peak"),
        registry.ALLOCATOR_RESERVED.name: counts.get("allocator_reserved"),
        registry.HOST_CONTEXT.name: by_name.get(Event.OPENED, {}).get("resident_bytes") or None,
        registry.PRODUCT.name: account.get("product", {}).get("flop_per_s"),
        registry.PRODUCT_BY_CPU_TIME.name: account.get("product", {}).get("cpu_time_flop_per_s"),
    }
    if spec.placement.devices == 1:
        told[registry.HOST_MEMORY_PSS.name] = by_name.get(Event.HOST_COUNTED, {}).get("proportional_bytes") or None
    if workload is not None and not spec.task.own_code and spec.task.precision not in REDUCED:
        value_bytes = 2 * FLOAT32_BYTES if spec.task.precision == FLOAT64 else FLOAT32_BYTES
        told[registry.EXACT_ACTIVATIONS.name] = activation_bytes(workload, spec.cell.batch_size, value_bytes)
    return {name: float(size) for name, size in told.items() if isinstance(size, int | float)}


def find_differences(result: TrialResult, attempt: RunnerFacts) -> Iterator[str]:
    """Yield a line for each fact of the trial's start and end that differs from ATTEMPT_FILE."""
    if attempt.started_at and attempt.started_at != result.started_at:
        yield f"started_at: stored: {result.started_at}; in {ATTEMPT_FILE}: {attempt.started_at}"
    worker = attempt.worker
    if worker is None:
        return  # the runner was killed, so the file says less than the result
    if worker.wall_s != result.wall_s:
        yield f"wall_s: stored: {result.wall_s:.9g}; in {ATTEMPT_FILE}: {worker.wall_s:.9g}"
    ended_well = worker.status == Status.OK
    allowed = (*COMPLETED, Status.FAILED) if ended_well else tuple(each for each in Status if each not in COMPLETED)
    if result.status not in allowed:  # its files may make a trial failed whose worker ended well
        yield f"status: stored: {result.status}; in {ATTEMPT_FILE}: {worker.status}: {worker.reason}"
    if (attempt.end or {}) != result.end:
        yield f"end: the gate's evidence of the trial's end differs from that in {ATTEMPT_FILE}"
    names = sorted(
        name for name in {*attempt.machine, *result.machine} if attempt.machine.get(name) != result.machine.get(name)
    )
    if names:
        yield f"machine: {', '.join(names)}: not as in {ATTEMPT_FILE}"


def find_status_faults(result: TrialResult) -> Iterator[str]:
    """Yield why a trial that is stored as ok is none, by its own figures and checks."""
    if result.status is not Status.OK:
        return
    versioned = result.machine.get("measurement_version") is not None  # before, no trial was contended
    if versioned and (others := find_disturbance(result.spec, result.figures, result.checks)):
        yield f"status: stored: ok; judged again: {Status.CONTENDED}: {others}"
    if (step := read_value(result.figures, registry.DIVERGED_STEP)) is not None:
        yield f"status: stored: ok; judged again: {Status.DIVERGED}: the loss of step {step:.0f} is not a number"


def compare_account(result: TrialResult, attempt: RunnerFacts, results: Path) -> Iterator[str]:
    """Yield a line if the memory worker's account of this batch size differs from that in ATTEMPT_FILE.

    Replaced answers are in numbered folders. Nothing is yielded if the worker left no events. A node of a cluster keeps
    its own: only what is the same on every machine is compared.
    """
    account = attempt.memory or {}
    if "parts" not in account:
        return

    def select(told: dict[str, Any]) -> dict[str, Any]:
        if "node" in attempt.machine:
            return {part: told["parts"].get(part) for part in SAME_PARTS}
        return {key: value for key, value in told.items() if key != "product"}

    room, name = results / ROOMS[Kind.MEMORY], result.spec.memory_id
    told = [
        event
        for folder in (room / name, *numbered.attempts_of(room, name))
        for event in read_events(folder / EVENTS_FILE)
        if event["event"] == Event.MEMORY_TOLD and event["batch_size"] == account.get("batch_size")
    ]
    if told and select(account) not in map(select, told):
        size = account.get("batch_size")
        yield f"memory: {ATTEMPT_FILE} has another account of batch size {size} than {room.name}/{name}/{EVENTS_FILE}"


def was_put_back(before: TrialResult, after: TrialResult) -> bool:
    """True if the runner put back a disturbed attempt, which then follows one that started later and measured
    nothing.
    """
    disturbed = after.status is Status.CONTENDED and before.status in UNMEASURED
    return disturbed and read_start(after) < read_start(before)


def check_order(attempts: Iterable[Attempts]) -> list[str]:
    """List attempts that started before the one that they follow, except those that were put back."""
    lines = []
    for each in attempts:
        known = [(number, one) for number, one in enumerate(each.every, start=1) if one.result is not None]
        for (before, first), (after, second) in itertools.pairwise(known):
            assert first.result is not None and second.result is not None
            early = read_start(second.result) < read_start(first.result)
            if early and not was_put_back(first.result, second.result):
                lines.append(
                    f"{second.folder}: started_at: {second.result.started_at}, attempt {after}, is before "
                    f"{first.result.started_at}, attempt {before}"
                )
    return lines
