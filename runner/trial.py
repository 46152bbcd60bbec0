"""One trial: its worker in a process of its own, measured, and what came of it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from runner.ask import ask
from runner.launch import Launcher, LaunchFailed
from runner.machine import description
from runner.results.assemble import assemble
from runner.results.memory import MemoryAccount
from workloads.records.job import Job, Kind, TrialSpec
from workloads.records.result import TrialResult
from workloads.records.status import Status


def run_trial(
    folder: Path,
    spec: TrialSpec,
    launcher: Launcher,
    conditions: dict[str, Any],
    account: MemoryAccount,
    kind: Kind = Kind.TRIAL,
) -> TrialResult:
    """Its result, whatever became of the worker; `kind` TRIAL, or STEPS for steps alone. Writes no result."""
    conditions = conditions | launcher.conditions
    load = {"load_average_before": description.load_average()}
    started_at = now()
    try:
        ended = ask(Job(kind, spec), folder, launcher)
    except LaunchFailed as error:
        return TrialResult(spec, Status.FAILED, str(error), started_at, 0.0, machine=conditions | load)
    load["load_average_after"] = description.load_average()
    return assemble(folder, spec, ended, conditions | load, started_at, account)


def now() -> str:
    """ISO 8601, UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
