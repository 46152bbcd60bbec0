"""One trial: its worker in a separate process, measured, and its result."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from runner.ask import ask
from runner.attendance import SILENCE_S
from runner.launch import FIRST_TO_BE_KILLED, Launcher, LaunchFailed, cores
from runner.machine import clocks, description
from runner.results.assemble import assemble
from runner.results.attempt import Attempt
from runner.results.memory import MemoryAccount
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
    throttle_count = clocks.throttle_count(used)
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
        "throttled": clocks.rise(throttle_count, clocks.throttle_count(used)),
    }
    attempt = attempt.ended(ended, behind | killed_first)
    attempt.store(folder)
    return assemble(folder, spec, ended, attempt.machine, attempt.started_at, account)


def now() -> str:
    """Return the time in ISO 8601, UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
