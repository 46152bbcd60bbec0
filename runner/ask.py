"""One worker asked for one job: its folder, its process, and how that ended."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from runner.launch import Launcher, LaunchFailed, Outcome, run_worker
from runner.machine import description
from workloads.records.events import Event, Events, read_events
from workloads.records.files import EVENTS_FILE, JOB_FILE, LOG_FILE, write_json
from workloads.records.job import Job
from workloads.records.status import Status

# How a process ends that is refused memory where nothing can catch it: exit code, and what stands in its last lines.
OUT_OF_MEMORY_ENDS = (
    (-signal.SIGABRT, "terminate called after throwing an instance of 'std::bad_alloc'"),
    (1, "OpenBLAS error: Memory allocation still failed after"),
)
LAST_LINES = 20


@dataclass(frozen=True)
class Ended:
    """What came of it; `reason` is None where it is ok."""

    events: Events
    outcome: Outcome
    status: Status
    reason: str | None

    @cached_property
    def last(self) -> dict[str, dict[str, Any]]:
        """The events by name, the last of each."""
        return {event["event"]: event for event in self.events}


def ask(job: Job, folder: Path, launcher: Launcher) -> Ended:
    """Blocks until the worker has ended. An earlier one in the folder keeps its events, which are not among those that
    are returned. Raises LaunchFailed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    earlier = len(read_events(folder / EVENTS_FILE))
    write_json(folder / JOB_FILE, job.to_json())
    kills_before = description.out_of_memory_kills()
    outcome = run_worker(folder, job, launcher)
    killed_for_memory = description.out_of_memory_kills() != kills_before
    events = read_events(folder / EVENTS_FILE)[earlier:]
    return Ended(events, outcome, *ending(events, outcome, folder / LOG_FILE, killed_for_memory))


def answered(job: Job, folder: Path, launcher: Launcher | None) -> Events:
    """The events of a worker that finished: of the one before, where the folder has its answer, else of one that is
    asked now. Raises LaunchFailed where it does not finish, or there is nobody to ask.
    """
    if events := _finished(folder):
        return events
    if launcher is None:
        raise LaunchFailed("its framework cannot be asked")
    (folder / EVENTS_FILE).unlink(missing_ok=True)
    ended = ask(job, folder, launcher)
    if events := _finished(folder):
        return events
    raise LaunchFailed(f"{ended.status}: {ended.reason} (log: {folder / LOG_FILE})")


def _finished(folder: Path) -> Events:
    events = read_events(folder / EVENTS_FILE)
    return events if any(event["event"] == Event.FINISHED for event in events) else []


def ending(events: Events, outcome: Outcome, log: Path, killed_for_memory: bool) -> tuple[Status, str | None]:
    """How the worker ended, by its events first, then by its exit code and the last line of its log."""
    last = events[-1] if events else {}
    if any(event["event"] == Event.FINISHED for event in events):  # nothing behind it loses what was measured
        return Status.OK, None
    if last.get("event") == Event.ENDED:  # also where it then hangs, as frameworks do that ran out of memory
        return Status(last["status"]), last["reason"]
    if outcome.timed_out:
        return Status.TIMEOUT, f"not finished after {outcome.wall_s:.0f} s; last event: {last.get('event', 'none')}"
    if outcome.exit_code == -signal.SIGKILL and killed_for_memory:
        return Status.OUT_OF_MEMORY, "killed by SIGKILL while the kernel's out-of-memory count (oom_kill) rose"
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    for line in lines[-LAST_LINES:]:
        if any(outcome.exit_code == code and sign in line for code, sign in OUT_OF_MEMORY_ENDS):
            return Status.OUT_OF_MEMORY, f"{line}; last event: {last.get('event', 'none')}"
    if outcome.exit_code < 0:
        reason = f"the worker was killed by {signal.Signals(-outcome.exit_code).name}"
    else:
        reason = f"the worker ended with exit code {outcome.exit_code}: {lines[-1] if lines else 'no output'}"
    return Status.FAILED, f"{reason}; last event: {last.get('event', 'none')}"
