"""The runner's own knowledge of a trial, stored in the trial's folder. The result can be rebuilt from it and from
the worker's and the sampler's files.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from runner.ask import Ended
from runner.attendance import EventLooks
from runner.launch import WorkerOutcome
from runner.results.memory import MemoryAccount
from workloads.records import validation
from workloads.records.events import Evaluation, Event, Events, add_evaluations
from workloads.records.files import ATTEMPT_FILE, write_json
from workloads.records.status import Status
from workloads.records.stored_events import events_of

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class WorkerEnd:
    """Ending of the worker's process, and the status that the runner concluded from it."""

    exit_code: int
    timed_out: bool
    wall_s: float
    status: Status
    reason: str | None
    times_apart_s: float | None = None  # see EventTimes.apart_s; None for workers stored by earlier versions
    out_of_memory: bool = False
    doubtful_events: tuple[EventLooks, ...] = ()  # see EventTimes.doubtful; none for workers stored before


@dataclass(frozen=True)
class Attempt:
    """One attempt at a trial, stored before the worker starts, when it has ended, and after the gate's second probe."""

    started_at: str
    machine: dict[str, Any]
    memory: MemoryAccount | None  # None: the memory worker has not been asked yet
    worker: WorkerEnd | None = None  # None: it runs, or the runner was killed before it knew
    evaluations: tuple[Evaluation, ...] | None = None  # None: the same, or the worker had computed them
    end: dict[str, Any] | None = None  # the gate's evidence of the trial's end, once it was gathered
    schema_version: int = SCHEMA_VERSION

    def store(self, folder: Path) -> None:
        """Write the attempt into this folder. Raises OSError."""
        write_json(folder / ATTEMPT_FILE, asdict(self))

    def ended(self, ended: Ended, conditions: dict[str, Any]) -> Attempt:
        """Return the attempt with the worker's end, and the conditions after it."""
        assert ended.outcome is not None
        outcome = ended.outcome
        worker = WorkerEnd(
            outcome.exit_code, outcome.timed_out, outcome.wall_s, ended.status, ended.reason,
            outcome.times_apart_s, outcome.out_of_memory, outcome.doubtful_events,
        )  # fmt: skip
        return replace(self, machine=self.machine | conditions, worker=worker)

    def with_events(self, events: Events) -> Ended | None:
        """Return the worker's ending; from the events alone if the runner was killed early, None if unknown.
        Its evaluations are those of the runner.
        """
        events = add_evaluations(events, self.evaluations)
        if self.worker is not None:
            worker = self.worker
            outcome = WorkerOutcome(
                worker.exit_code, worker.timed_out, worker.wall_s,
                times_apart_s=worker.times_apart_s, out_of_memory=worker.out_of_memory,
                doubtful_events=worker.doubtful_events,
            )  # fmt: skip
            return Ended(events, outcome, worker.status, worker.reason)
        if any(event["event"] == Event.FINISHED for event in events):
            return Ended(events, None, Status.OK, None)
        last = events[-1] if events else {}
        return Ended(events, None, Status(last["status"]), last["reason"]) if last.get("event") == Event.ENDED else None


def read(folder: Path) -> Attempt:
    """Read the attempt of a trial's folder. Raises ValueError if there is none, or none that can be read."""
    path = folder / ATTEMPT_FILE
    try:
        attempt = validation.read(path, Attempt)
    except ValueError as error:
        raise ValueError(f"{ATTEMPT_FILE}: {error}") from error
    if attempt is None:
        raise ValueError(f"{ATTEMPT_FILE}: there is none")
    if attempt.schema_version != SCHEMA_VERSION:
        raise ValueError(
            f"{ATTEMPT_FILE}: schema version {attempt.schema_version}, this program reads {SCHEMA_VERSION}"
        )
    if attempt.memory is not None:
        _refuse_account(attempt.memory)
    return attempt


def _refuse_account(account: MemoryAccount) -> None:
    """Raise ValueError for an account that is neither an event of the memory worker nor the reason for its absence."""
    if account.get("event") == Event.MEMORY_TOLD:
        events_of(json.dumps(account).encode() + b"\n", f"{ATTEMPT_FILE}: memory")
    elif set(account) != {"reason"} or not isinstance(account["reason"], str):
        raise ValueError(f"{ATTEMPT_FILE}: memory: neither what the memory worker told, nor why it did not")
