"""Store what the runner itself knows of a trial, and rebuild results from the files of its folder.

If its worker ended but the result is missing, nothing is measured again.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from runner.ask import Ended
from runner.attendance import EventLooks
from runner.gate import trial_end
from runner.gate.end_referee import EndReferee
from runner.launch import WorkerOutcome
from runner.results.assemble import assemble
from runner.results.evaluations import evaluate_epochs, left_logits
from runner.results.memory import MemoryAccount
from workloads.records import stored, validation
from workloads.records.end_evidence import END_FILE, EVALUATED_FILE, EVALUATION_FILE, MIDDLE_FILE, Missing
from workloads.records.events import Evaluation, Event, Events, add_evaluations
from workloads.records.files import (
    ATTEMPT_FILE,
    EVENTS_FILE,
    JOB_FILE,
    RESULT_FILE,
    UNREADABLE_FILE,
    set_aside,
    without_nan,
    write_json,
)
from workloads.records.job import Job, TrialSpec
from workloads.records.result import TrialResult
from workloads.records.status import Status
from workloads.records.stored_events import parse_events, read_events
from workloads.temporary import clear_parts

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


def read_attempt(folder: Path) -> Attempt:
    """Read the attempt of a trial's folder. Raises ValueError if there is none, or none that can be read."""
    path = folder / ATTEMPT_FILE
    try:
        attempt = validation.read(path, Attempt)
        if attempt is not None and attempt.end:
            attempt = replace(attempt, end=stored.without_unknown(attempt.end))
    except ValueError as error:
        raise ValueError(f"{ATTEMPT_FILE}: {error}") from error
    if attempt is None:
        raise ValueError(f"{ATTEMPT_FILE}: the file is missing")
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
        parse_events(json.dumps(account).encode() + b"\n", f"{ATTEMPT_FILE}: memory")
    elif set(account) != {"reason"} or not isinstance(account["reason"], str):
        raise ValueError(f"{ATTEMPT_FILE}: memory: neither a report of the memory worker nor a reason for its absence")


def rebuild_result(folder: Path, name: str | None = None) -> TrialResult | None:
    """Rebuild the result of the folder's trial: `name`, else the one that the folder is named after. None if its
    worker had not ended. `evidence`, the gate's of its framework, is empty. Raises ValueError if files are missing
    or cannot be read.
    """
    events = read_events(folder / EVENTS_FILE)
    measured = {event.get("event") for event in events} & {Event.FINISHED, Event.ENDED}
    try:
        written = read_attempt(folder)
    except ValueError:
        if measured:
            raise
        return None
    if written.with_events(events) is None:
        return None
    spec = read_trial(folder, name or folder.name)
    written = complete_evaluations(folder, spec, written, events)
    ended = written.with_events(events)
    assert ended is not None
    return assemble_trial(folder, spec, written, ended)


def complete_evaluations(folder: Path, spec: TrialSpec, written: Attempt, events: Events) -> Attempt:
    """Return the attempt with its evaluations, made from the worker's logits if the runner was killed before. Raises
    ValueError if they cannot be made.
    """
    if written.evaluations is not None or not left_logits(folder, events):
        return written
    return replace(written, evaluations=evaluate_epochs(folder, spec, events))


def assemble_trial(folder: Path, spec: TrialSpec, written: Attempt, ended: Ended) -> TrialResult:
    """Return the result of this trial from its worker's ending, its sampler's files and the runner's own records.
    Raises ValueError for a result that could not be read again.
    """
    result = assemble(folder, spec, ended, written.machine, written.started_at, written.memory)
    made = replace(result, end=written.end or {})
    stored.parse_result(json.dumps(without_nan(made.to_json())).encode())  # no unreadable file is made
    return made


def read_trial(folder: Path, expected: str) -> TrialSpec:
    """Return the trial that was asked for there. Raises ValueError if it cannot be read, or belongs elsewhere."""
    try:
        data = json.loads((folder / JOB_FILE).read_text(encoding="utf-8"))
        spec = validation.build_record(data, Job, JOB_FILE).trial
    except OSError as error:
        raise ValueError(f"{JOB_FILE}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        reason = validation.describe_error(error)
        raise ValueError(reason if reason.startswith(JOB_FILE) else f"{JOB_FILE}: {reason}") from error
    name = spec.id
    if name != expected:
        raise ValueError(f"{JOB_FILE}: it is the job of {name}")
    return spec


def read_end(referee: EndReferee, folder: Path, spec: TrialSpec, most_multiply_adds: int) -> dict[str, Any]:
    """Return the gate's evidence of the trial's end: gathered before, else made from the worker's files."""
    written = read_attempt(folder)
    if written.end is not None:
        return written.end
    return add_our_faults(folder, trial_end.gather(referee, folder, spec, most_multiply_adds))


def add_our_faults(folder: Path, end: dict[str, Any]) -> dict[str, Any]:
    """Return the evidence of a trial's end, without blaming a worker that we left no time or memory to answer."""
    written = read_attempt(folder)
    told = any(event["event"] == Event.END_PROBED for event in read_events(folder / EVENTS_FILE))
    if end.get("missing") != Missing.WORKER or told:
        return end
    if written.worker is None:
        return end | {"missing": Missing.RUNNER, "reason": "the runner was killed before the worker answered"}
    if written.worker.out_of_memory:
        return end | {"missing": Missing.MEMORY, "reason": "the worker ran out of memory while it was probed"}
    return end


def store(folder: Path, result: TrialResult) -> None:
    """Write the folder's result. One that cannot be read is kept under another name. What the worker saved for the
    gate is removed, and what the result was made of is stored.
    """
    path = folder / RESULT_FILE
    if path.exists():
        set_aside(path, UNREADABLE_FILE)
    written = read_attempt(folder)  # without evaluations or end if the run was stopped before it stored them
    written = replace(written, end=result.end or written.end)
    complete_evaluations(folder, result.spec, written, read_events(folder / EVENTS_FILE)).store(folder)
    write_json(path, result.to_json())
    remove_saved(folder)
    clear_parts(folder)  # of the run that was killed


def remove_saved(folder: Path) -> None:
    """Remove what the worker saved for the gate and for its evaluations; the result holds what was learned from it."""
    for pattern in (END_FILE, MIDDLE_FILE, EVALUATED_FILE, EVALUATION_FILE.format(epoch="*")):
        for file in folder.glob(pattern):
            file.unlink()


def keep_end(folder: Path, end: dict[str, Any]) -> None:
    """Store the end with the runner's own records of the trial, since END_FILE is removed once the result is stored."""
    replace(read_attempt(folder), end=end).store(folder)


def loses_figures(before: TrialResult, after: TrialResult) -> bool:
    """True if a figure that was known is unknown now."""
    known = (name for name, figure in before.figures.items() if figure.value is not None)
    return any(name not in after.figures or after.figures[name].value is None for name in known)
