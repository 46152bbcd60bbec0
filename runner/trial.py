"""One trial: its worker in a separate process, measured, and its result; and which trials need not be run."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from runner.ask import Ended, ask
from runner.attendance import SILENCE_S
from runner.launch import FIRST_TO_BE_KILLED, Launcher, LaunchFailed, cores
from runner.machine import description
from runner.results.assemble import assemble
from runner.results.attempt import Attempt
from runner.results.evaluations import evaluate_epochs
from runner.results.memory import MemoryAccount
from workloads.records.events import Evaluation, add_evaluations
from workloads.records.job import Job, Kind, TrialSpec
from workloads.records.result import TrialResult
from workloads.records.status import Status


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
    used = cores(spec.placement)
    load = {"load_average_before": description.load_average()}
    throttle_count = description.throttle_count(used)
    variables = {"profile_variables": launcher.profile_variables.get(spec.task.profile, {})}
    conditions = conditions | launcher.conditions | load | variables | {"silence_limit_s": SILENCE_S}
    attempt = Attempt(now(), conditions, account)
    attempt.store(folder)
    try:
        ended = ask(Job(kind, spec), folder, launcher)
    except LaunchFailed as error:
        return TrialResult(spec, Status.FAILED, str(error), attempt.started_at, 0.0, machine=attempt.machine)
    killed_first = {"oom_score_adj": FIRST_TO_BE_KILLED if ended.outcome and ended.outcome.killed_first else None}
    behind = {
        "load_average_after": description.load_average(),
        "throttled": description.rise_of(throttle_count, description.throttle_count(used)),
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


def now() -> str:
    """Return the time in ISO 8601, UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


FITS = (Status.OK, Status.DIVERGED, Status.CONTENDED, Status.UNVERIFIED)  # it came to its end
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
        elif result.status in FITS:
            self.fits[way] = max(size, self.fits.get(way, 0))

    def reason(self, spec: TrialSpec) -> str | None:
        """Return why this trial need not be run; None if nothing smaller ran out, or something as large fits."""
        way, size = _way(spec), spec.cell.batch_size
        smaller = self.ran_out.get(way)
        if smaller is None or not smaller.spec.cell.batch_size < size or self.fits.get(way, 0) >= size:
            return None
        return (
            f"batch size {smaller.spec.cell.batch_size} ran out of memory ({smaller.reason}); --try-all runs this one"
        )


def _way(spec: TrialSpec) -> Way:
    return spec.memory_id, spec.cell.allocator
