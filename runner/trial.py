"""One trial: its worker in a separate process, measured, and its result; and which trials need not be run.

What a framework's memory holds at each batch size is reported by a worker of its own, once for all sizes of a plan.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from runner.ask import Ended, ask, begin_answer, list_own_answers, lock_answer
from runner.attendance import SILENCE_S
from runner.launch import FIRST_TO_BE_KILLED, Launcher, LaunchFailed, list_cores
from runner.machine import description
from runner.rebuild import Attempt
from runner.results.assemble import assemble
from runner.results.evaluations import evaluate_epochs
from runner.results.memory import MemoryAccount
from workloads.records.events import Evaluation, Event, add_evaluations
from workloads.records.files import EVENTS_FILE, LOG_FILE
from workloads.records.job import ON_DEMAND, ROOMS, Job, Kind, TrialSpec
from workloads.records.result import TrialResult
from workloads.records.status import COMPLETED, Status
from workloads.records.stored_events import read_events


def run_trial(
    folder: Path,
    spec: TrialSpec,
    launcher: Launcher,
    conditions: dict[str, Any],
    account: MemoryAccount | None,
    kind: Kind = Kind.TRIAL,
) -> TrialResult:
    """Run the trial and return its result, whatever the worker's ending; `kind` is TRIAL, or STEPS for steps alone.
    `account` is what its memory holds, None before it was measured. Writes no result, but the files from which one
    can be rebuilt (`rebuild`), in case this process is killed before.
    """
    folder.mkdir(parents=True, exist_ok=True)
    time.sleep(spec.cool_down_s)
    used = list_cores(spec.placement)
    load = {"load_average_before": description.read_load_average()}
    throttle_count = description.read_throttle_count(used)
    variables = {"profile_variables": launcher.profile_variables.get(spec.task.profile, {})}
    conditions = conditions | launcher.conditions | load | variables | {"silence_limit_s": SILENCE_S}
    attempt = Attempt(format_now(), conditions, account)
    attempt.store(folder)
    try:
        ended = ask(Job(kind, spec), folder, launcher)
    except LaunchFailed as error:
        return TrialResult(spec, Status.FAILED, str(error), attempt.started_at, 0.0, machine=attempt.machine)
    killed_first = {"oom_score_adj": FIRST_TO_BE_KILLED if ended.outcome and ended.outcome.killed_first else None}
    behind = {
        "load_average_after": description.read_load_average(),
        "throttled": description.compute_rise(throttle_count, description.read_throttle_count(used)),
    }
    ended, evaluations = with_evaluations(ended, folder, spec)
    attempt = replace(attempt.ended(ended, behind | killed_first), evaluations=evaluations)
    attempt.store(folder)
    return assemble(folder, spec, ended, attempt.machine, attempt.started_at, account)


def with_evaluations(ended: Ended, folder: Path, spec: TrialSpec) -> tuple[Ended, tuple[Evaluation, ...]]:
    """Return the ending with test loss and accuracy in its events, and these; `failed` if the logits are missing."""
    try:
        evaluations = evaluate_epochs(folder, spec, ended.events)
    except ValueError as error:
        failed = (Status.FAILED, str(error)) if ended.status is Status.OK else (ended.status, ended.reason)
        return Ended(add_evaluations(ended.events, ()), ended.outcome, *failed), ()
    return replace(ended, events=add_evaluations(ended.events, evaluations)), evaluations


def format_now() -> str:
    """Return the time in ISO 8601, UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


Way = tuple[str, str]  # everything that decides which sizes fit: TrialSpec.memory_id, the allocator's policy


class TooLarge:
    """Batch sizes that fit or do not, learned from trials of one task, placement, memory limit and installation."""

    def __init__(self, results: Iterable[TrialResult]) -> None:
        self.ran_out: dict[Way, TrialResult] = {}  # of each the smallest
        self.fits: dict[Way, int] = {}  # the largest batch size
        for result in results:
            self.learn(result)

    def learn(self, result: TrialResult) -> None:
        """Learn from this trial which sizes fit."""
        way, size = _way(result.spec), result.spec.cell.batch_size
        if result.status is Status.OUT_OF_MEMORY:
            smallest = self.ran_out.setdefault(way, result)
            if size < smallest.spec.cell.batch_size:
                self.ran_out[way] = result
        elif result.status in COMPLETED:
            self.fits[way] = max(size, self.fits.get(way, 0))

    def reason(self, spec: TrialSpec) -> str | None:
        """Return why this trial need not be run; None if nothing smaller ran out, or something as large fits."""
        way, size = _way(spec), spec.cell.batch_size
        smaller = self.ran_out.get(way)
        if smaller is None or not smaller.spec.cell.batch_size < size or self.fits.get(way, 0) >= size:
            return None
        return (
            f"batch size {smaller.spec.cell.batch_size} ran out of memory ({smaller.reason}); add --try-all to run it"
        )


def _way(spec: TrialSpec) -> Way:
    return spec.memory_id, spec.cell.allocator


class MemoryWorker:
    """Runs the memory worker and keeps its report below the results folder."""

    def __init__(self, results: Path, trials: list[TrialSpec]) -> None:
        """Prepare for `trials`: all of the plan, including the finished ones."""
        self.results = results
        self.ended: dict[str, str] = {}  # why it reported no more; it is asked once per run, also if it dies
        self.sizes: dict[str, set[int]] = {}
        for spec in trials:
            self.sizes.setdefault(spec.memory_id, set()).add(spec.cell.batch_size)

    def known(self, spec: TrialSpec) -> MemoryAccount | None:
        """Return its report from this run or an earlier one on this computer; None if it is still missing."""
        try:
            return read_own_accounts(self._job(spec).folder(self.results)).get(spec.cell.batch_size)
        except ValueError:
            return None

    def gather(self, spec: TrialSpec, launcher: Launcher) -> MemoryAccount:
        """Return the memory contents at the trial's batch size, or the reason why they are unknown."""
        try:
            with lock_answer(self._job(spec).folder(self.results)):
                return self._count_memory(spec, launcher)
        except ValueError as error:  # its events cannot be read
            return {"reason": f"the memory worker: {error} (in {ROOMS[Kind.MEMORY]}/{spec.memory_id})"}

    def _count_memory(self, spec: TrialSpec, launcher: Launcher) -> MemoryAccount:
        """Return the stored report, or run the worker for missing sizes. Raises ValueError for unreadable events."""
        batch_size, name = spec.cell.batch_size, spec.memory_id
        job = self._job(spec)
        folder = job.folder(self.results)
        counts = read_own_accounts(folder)
        if batch_size not in counts and name not in self.ended:
            missing = tuple(sorted(self.sizes[name] - set(counts)))
            trial = replace(job.trial, timeout_s=spec.timeout_s * len(missing))
            begin_answer(folder)
            try:
                ended = ask(replace(job, trial=trial, batch_sizes=missing), folder, launcher)
                self.ended[name] = (
                    f"{ended.status}: {ended.reason}" if ended.reason else "it ended without this batch size"
                )
            except LaunchFailed as error:
                self.ended[name] = str(error)
            counts = read_own_accounts(folder)
        if batch_size in counts:
            return counts[batch_size]
        return {"reason": f"the memory worker: {self.ended[name]} (log: {ROOMS[Kind.MEMORY]}/{name}/{LOG_FILE})"}

    @staticmethod
    def _job(spec: TrialSpec) -> Job:
        return Job(Kind.MEMORY, replace(spec, cell=replace(spec.cell, allocator=ON_DEMAND)))


def read_own_accounts(folder: Path) -> dict[int, MemoryAccount]:
    """Return what `read_accounts` does, of every answer of this computer to the question. Raises ValueError."""
    accounts: dict[int, MemoryAccount] = {}
    for each in reversed(list_own_answers(folder)):
        accounts |= read_accounts(each)
    return accounts


def read_accounts(folder: Path) -> dict[int, MemoryAccount]:
    """Return {batch size: its memory event}, with the worker's timing of matrix products. Raises ValueError."""
    events = read_events(folder / EVENTS_FILE)
    timed = [event for event in events if event["event"] == Event.PRODUCT_TIMED]
    product = {"product": timed[-1]} if timed else {}
    return {event["batch_size"]: event | product for event in events if event["event"] == Event.MEMORY_TOLD}
