"""Ask a worker for a probe, or read the answer that an earlier run stored."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from runner.ask import answer_once
from runner.launch import Launcher
from workloads.records.check_name import CheckName
from workloads.records.events import Event
from workloads.records.evidence import PROBE_BATCH
from workloads.records.job import ON_DEMAND, Job, Kind, TrialSpec
from workloads.records.result import TrialResult
from workloads.records.status import Status


def ask_probe(spec: TrialSpec, results: Path, launcher: Launcher | None) -> dict[str, Any]:
    """Return the event of a worker that answers the probe and does nothing else. Its folder is kept in `results`.

    Raises LaunchFailed, also if there is no stored answer and no launcher.
    """
    cell = replace(spec.cell, batch_size=PROBE_BATCH, allocator=ON_DEMAND)
    job = Job(Kind.PROBE, replace(spec, cell=cell, placement=spec.placement.first))
    events = {event["event"]: event for event in answer_once(job, job.folder(results), launcher)}
    return events[Event.PROBED]


def lacks_evidence(trial: TrialResult) -> bool:
    """True if the trial is complete but its framework's probe failed, so that it was never compared with anything."""
    asked = not trial.spec.task.own_code and any(check.name == CheckName.GATE for check in trial.checks)
    return trial.status is Status.UNVERIFIED and not trial.evidence and asked
