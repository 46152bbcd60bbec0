"""Results rebuilt from a trial's files, if its worker ended but the result is missing: nothing is measured again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from runner.ask import Ended
from runner.gate import trial_end
from runner.gate.end_referee import EndReferee
from runner.results import attempt
from runner.results.assemble import assemble
from runner.results.attempt import Attempt
from runner.results.evaluations import evaluate_epochs, left_logits
from workloads.records import stored, validation
from workloads.records.end_evidence import END_FILE, EVALUATED_FILE, EVALUATION_FILE, MIDDLE_FILE, Missing
from workloads.records.events import Event
from workloads.records.files import (
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
from workloads.records.stored_events import read_events
from workloads.temporary import clear_parts


def rebuilt(folder: Path, name: str | None = None) -> TrialResult | None:
    """Rebuild the result of the folder's trial: `name`, else the one that the folder is named after. None if its
    worker had not ended. `evidence`, the gate's of its framework, is empty. Raises ValueError if files are missing
    or cannot be read.
    """
    events = read_events(folder / EVENTS_FILE)
    measured = {event.get("event") for event in events} & {Event.FINISHED, Event.ENDED}
    try:
        written = attempt.read(folder)
    except ValueError:
        if measured:
            raise
        return None
    if written.with_events(events) is None:
        return None
    spec = trial_of(folder, name or folder.name)
    written = evaluated(folder, spec, written)
    ended = written.with_events(events)
    assert ended is not None
    return made_of(folder, spec, written, ended)


def evaluated(folder: Path, spec: TrialSpec, written: Attempt) -> Attempt:
    """Return the attempt with its evaluations, made from the worker's logits if the runner was killed before. Raises
    ValueError if they cannot be made.
    """
    events = read_events(folder / EVENTS_FILE)
    if written.evaluations is not None or not left_logits(folder, events):
        return written
    return replace(written, evaluations=evaluate_epochs(folder, spec, events))


def made_of(folder: Path, spec: TrialSpec, written: Attempt, ended: Ended) -> TrialResult:
    """Return the result of this trial from its worker's ending, its sampler's files and the runner's own records.
    Raises ValueError for a result that could not be read again.
    """
    result = assemble(folder, spec, ended, written.machine, written.started_at, written.memory)
    made = replace(result, end=written.end or {})
    stored.result_of(json.dumps(without_nan(made.to_json())).encode())  # no unreadable file is made
    return made


def trial_of(folder: Path, expected: str) -> TrialSpec:
    """Return the trial that was asked for there. Raises ValueError if it cannot be read, or belongs elsewhere."""
    try:
        data = json.loads((folder / JOB_FILE).read_text(encoding="utf-8"))
        spec = validation.record(data, Job, JOB_FILE).trial
    except OSError as error:
        raise ValueError(f"{JOB_FILE}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        reason = validation.one_line(error)
        raise ValueError(reason if reason.startswith(JOB_FILE) else f"{JOB_FILE}: {reason}") from error
    name = spec.id
    if name != expected:
        raise ValueError(f"{JOB_FILE}: it asks for {name}")
    return spec


def end_of(referee: EndReferee, folder: Path, spec: TrialSpec, most_multiply_adds: int) -> dict[str, Any]:
    """Return the gate's evidence of the trial's end: gathered before, else made from the worker's files."""
    written = attempt.read(folder)
    if written.end is not None:
        return written.end
    return with_our_faults(folder, trial_end.gather(referee, folder, spec, most_multiply_adds))


def with_our_faults(folder: Path, end: dict[str, Any]) -> dict[str, Any]:
    """Return the evidence of a trial's end, without blaming a worker that we left no time or memory to answer."""
    written = attempt.read(folder)
    told = any(event["event"] == Event.END_PROBED for event in read_events(folder / EVENTS_FILE))
    if end.get("missing") != Missing.WORKER or told:
        return end
    if written.worker is None:
        return end | {"missing": Missing.RUNNER, "reason": "the runner was killed before the worker had answered"}
    if written.worker.out_of_memory:
        return end | {"missing": Missing.MEMORY, "reason": "the worker was ended for want of memory while it was asked"}
    return end


def store(folder: Path, result: TrialResult) -> None:
    """Write the folder's result. One that cannot be read is kept under another name. What the worker saved for the
    gate is removed, and what the result was made of is stored.
    """
    path = folder / RESULT_FILE
    if path.exists():
        set_aside(path, UNREADABLE_FILE)
    evaluated(folder, result.spec, attempt.read(folder)).store(folder)
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
    replace(attempt.read(folder), end=end).store(folder)
