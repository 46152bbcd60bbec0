"""Ask one worker for one job: its folder, its process, and its ending."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from runner.attendance import WORDS
from runner.launch import Launcher, LaunchFailed, WorkerOutcome, run_worker
from runner.log import describe_thread_limits, find_refused_thread, find_telling_line, read_last_lines
from runner.machine import description, locks
from workloads.records import files
from workloads.records.events import Event, Events, MemoryBound
from workloads.records.files import COMPUTER_FILE, EVENTS_FILE, JOB_FILE, LOCK_FILE, LOG_FILE, settle, write_json
from workloads.records.job import Job, Kind, TrialSpec
from workloads.records.status import Status
from workloads.records.stored_events import read_events
from workloads.temporary import clear_parts

# The ends of a process that is refused memory where nothing can catch it: exit code, and text in its last lines.
OUT_OF_MEMORY_ENDS = (
    (-signal.SIGABRT, "terminate called after throwing an instance of 'std::bad_alloc'"),
    (1, "OpenBLAS error: Memory allocation still failed after"),
)
LAST_LINES = 20
BOUNDS: dict[str, str] = {
    MemoryBound.DATA: " of its limit of private memory (RLIMIT_DATA)",
    MemoryBound.ADDRESS_SPACE: " of its limit of address space (RLIMIT_AS)",
    MemoryBound.CONTROL_GROUP: " in its control group",
    MemoryBound.MACHINE: " on the machine",
    MemoryBound.DEVICE: " on the device",
}


@dataclass(frozen=True)
class Ended:
    """Result of a job; `reason` is None if it is ok."""

    events: Events
    outcome: WorkerOutcome | None  # None: the runner was killed before it knew
    status: Status
    reason: str | None

    @cached_property
    def last(self) -> dict[str, dict[str, Any]]:
        """The events by name, the last of each."""
        return {event["event"]: event for event in self.events}


def ask(job: Job, folder: Path, launcher: Launcher) -> Ended:
    """Run the worker until it has ended, and return its own events, not earlier ones. Raises LaunchFailed."""
    folder.mkdir(parents=True, exist_ok=True)
    earlier = len(_read(folder))
    write_json(folder / JOB_FILE, job.to_json())
    kills_before = description.count_memory_kills()
    try:
        outcome = run_worker(folder, job, launcher)
    finally:
        clear_parts(folder)  # of a sampler or worker that was killed
    killed_for_memory = description.count_memory_kills() != kills_before
    limit_bytes, log = job.trial.placement.memory_limit_bytes, folder / LOG_FILE
    # Without a limit only the kernel's count is believed: a framework can write anything into its log.
    killed = outcome.exit_code == -signal.SIGKILL and killed_for_memory
    refused = limit_bytes is not None and find_refused_line(outcome, log) is not None
    outcome = replace(outcome, out_of_memory=killed or refused)
    settle(folder)
    try:
        events = read_events(folder / EVENTS_FILE)[earlier:]
    except ValueError as error:  # a framework's process wrote this file, so it is not trusted
        return Ended([], outcome, Status.FAILED, str(error))
    status, reason = find_ending(events, outcome, log, killed_for_memory, limit_bytes)
    if status is Status.FAILED and outcome.sampler_lost is None:
        reason = add_refused_thread(reason or "", log, job.trial)
    return Ended(events, outcome, status, reason)


def add_refused_thread(reason: str, log: Path, trial: TrialSpec) -> str:
    """Return the reason; if a library was refused a thread, add its message and the limits (a container has others)."""
    line = find_refused_thread([reason]) or find_refused_thread(read_last_lines(log))
    if line is None:
        return reason
    said = "" if line.strip()[-WORDS:] in reason else f"; before that: {line.strip()[-WORDS:]}"
    limits = "" if trial.installation.isolation == "docker" else describe_thread_limits()
    allowed = f"at most {limits}" if limits else "no limit is known"
    limit_bytes = trial.placement.memory_limit_bytes
    memory = "" if limit_bytes is None else f"; a thread's stack needs memory, limited to {_mib(limit_bytes)}"
    return f"{reason}{said}; it was refused a thread (threads and processes: {allowed}{memory})"


def describe_refusal(memory: object) -> str:
    """Describe the `ended` event of a worker that ran out of memory, to precede the framework's message: bytes asked
    for and bytes available. Empty if the event does not report them.
    """
    if not isinstance(memory, dict):
        return ""
    asked, available = memory.get("asked_bytes"), memory.get("available_bytes")
    words = "amount requested unknown" if asked is None else f"{_mib(asked)} requested"
    if available is None:
        return f"{words}, amount available unknown: "
    return (
        f"{words}, {_mib(available)} available{BOUNDS.get(memory.get('bound') or '', '')} once the error was caught: "
    )


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:,.1f} MiB"


@contextmanager
def lock_answer(folder: Path) -> Iterator[None]:
    """Hold the folder of an answer that several runs may want: one asks, and the next finds the answer. Raises
    LockRefused, OSError.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    path = folder.parent.with_name(LOCK_FILE.format(f"{folder.parent.name}-{folder.name}"))
    with locks.wait_for_file(path, f"{folder}: another run asks for it", "name another --results"):
        yield


def list_own_answers(folder: Path) -> list[Path]:
    """Return the folders of a question with answers of this computer, the newest first; they may be empty.

    Answers that another computer's followed are earlier attempts. Earlier versions did not store the computer.
    """
    here = description.identify_computer()
    newest = [folder] if _read_computer(folder) in (None, here) else []
    earlier = files.attempts_of(folder.parent, folder.name)
    return [*newest, *(each for each in reversed(earlier) if _read_computer(each) == here)]


def _read_computer(folder: Path) -> Any:
    """Return what identifies the computer of the answer in this folder; None if that is not stored."""
    try:
        return json.loads((folder / COMPUTER_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def begin_answer(folder: Path) -> None:
    """Make the folder of an answer, where it has none, and store which computer will give it. Hold `lock_answer`.

    An answer of another computer is kept as an earlier attempt.
    """
    here = description.identify_computer()
    if _read_computer(folder) not in (None, here):
        files.move_aside(folder, folder.parent)
    if not (folder / EVENTS_FILE).exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / COMPUTER_FILE, here)


def answer_once(job: Job, folder: Path, launcher: Launcher | None) -> Events:
    """Return the events of a worker that finished: the stored ones, if there is an answer of this computer, else those
    of a new worker. Without a launcher, another computer's answer will do.

    Raises LaunchFailed if it does not finish, or there is no launcher.
    """
    if launcher is None and not folder.exists():
        raise LaunchFailed("its framework could not be queried")
    with lock_answer(folder):
        for each in [*list_own_answers(folder), *([folder] if launcher is None else [])]:
            if events := _finished(each):
                return events
        if launcher is None:
            raise LaunchFailed("its framework could not be queried")
        if folder.exists():
            files.move_aside(folder, folder.parent)  # it did not finish, and its log says why; or another computer's
        if job.kind is not Kind.NOISE:  # the same on every computer, within rounding, and a training each
            begin_answer(folder)
        ended = ask(job, folder, launcher)
        if events := _finished(folder):
            return events
    raise LaunchFailed(f"{ended.status}: {ended.reason} (log: {folder.parent.name}/{folder.name}/{LOG_FILE})")


def _read(folder: Path) -> Events:
    """Read the events of the folder. Raises LaunchFailed with the reason."""
    try:
        return read_events(folder / EVENTS_FILE)
    except ValueError as error:
        raise LaunchFailed(f"{folder}: {error}; move the folder away, and run again") from error


def _finished(folder: Path) -> Events:
    """Return the events if the worker finished, else none. Raises LaunchFailed for events that cannot be read."""
    events = _read(folder)
    return events if any(event["event"] == Event.FINISHED for event in events) else []


def find_ending(
    events: Events, outcome: WorkerOutcome, log: Path, killed_for_memory: bool, limit_bytes: int | None = None
) -> tuple[Status, str | None]:
    """Return the worker's ending, by its events first, then by its exit code or signal and its log."""
    last = events[-1] if events else {}
    lost = outcome.sampler_lost
    if lost is None and any(event["event"] == Event.FINISHED for event in events):  # a later failure loses no
        return Status.OK, None  # measurement
    if last.get("event") == Event.ENDED:  # also if it then hangs, as frameworks do that ran out of memory
        return Status(last["status"]), describe_refusal(last.get("memory")) + last["reason"]
    if lost is not None:
        return Status.FAILED, f"{lost}; last event: {last.get('event', 'none')}"
    if outcome.timed_out or outcome.hung is not None:
        why = f"not finished after {outcome.wall_s:.0f} s" if outcome.timed_out else f"stopped: {outcome.hung}"
        return Status.TIMEOUT, f"{why}; last event: {last.get('event', 'none')}; its stacks: {log.name}"
    if outcome.exit_code == -signal.SIGKILL and killed_for_memory:
        limit = "" if limit_bytes is None else f", under a limit of {_mib(limit_bytes)}"
        killed = f"killed by SIGKILL while the kernel's out-of-memory count (oom_kill) rose{limit}"
        return Status.OUT_OF_MEMORY, f"{killed}; last event: {last.get('event', 'none')}"
    if (line := find_refused_line(outcome, log)) is not None:
        return Status.OUT_OF_MEMORY, f"{line[-WORDS:]}; last event: {last.get('event', 'none')}"
    lines = [line for line in read_last_lines(log) if line.strip()]
    if outcome.exit_code < 0:
        telling = find_telling_line(lines)
        said = "" if telling is None else f"; its last output: {telling.strip()[-WORDS:]}"
        reason = f"the worker was killed by {name_signal(-outcome.exit_code)}{said}"
    else:
        reason = f"the worker ended with exit code {outcome.exit_code}: {lines[-1][-WORDS:] if lines else 'no output'}"
    return Status.FAILED, f"{reason}; last event: {last.get('event', 'none')}"


def find_refused_line(outcome: WorkerOutcome, log: Path) -> str | None:
    """Return the log line with which a process ended that was refused memory where nothing can catch it."""
    codes = [sign for code, sign in OUT_OF_MEMORY_ENDS if outcome.exit_code == code]
    lines = [line for line in read_last_lines(log) if line.strip()] if codes else []
    return next((line for line in lines[-LAST_LINES:] if any(sign in line for sign in codes)), None)


def name_signal(number: int) -> str:
    """Return the signal's name as in signal(7); a real-time signal has only its number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
