"""Measure what the memory of a session's trials holds after the last of them, and add it to their results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from runner import rebuild
from runner.launch import Unavailable
from runner.machine import description
from workloads.records.figures import STEPS_PEAK
from workloads.records.files import EVENTS_FILE
from workloads.records.result import TrialResult
from workloads.records.stored_events import read_events

if TYPE_CHECKING:
    from runner.request.plan import Plan
    from runner.session import Session


def add_accounts(session: Session, plan: Plan) -> None:
    """Measure what the trials' memory holds if that was not known when they ran, in this run or in one that ended
    too early. Their results are then rebuilt from their files.
    """
    asked: set[str] = set()
    for spec in plan.trials:
        folder, launcher, before = session.folder(spec), session.launchers[spec.cell.framework], session.known[spec.id]
        if isinstance(launcher, Unavailable) or not _waits_for_memory(before, folder):
            continue
        if spec.memory_id not in asked and session.memory.known(spec) is None:
            session.console.print(f"{spec.cell.framework}: measuring what its memory holds ...")
        asked.add(spec.memory_id)
        session.storage.need(spec, launcher)
        account = session.memory.gather(spec, launcher)
        session.storage.whole(spec, launcher)
        written = replace(rebuild.read_attempt(folder), memory=account)
        try:
            ended = written.with_events(read_events(folder / EVENTS_FILE))
            result = None if ended is None else rebuild.assemble_trial(folder, spec, written, ended)
            if result is None or rebuild.loses_figures(before, result):
                raise ValueError("its files hold less than its result, which stays unchanged")
        except ValueError as error:
            session.console.print(f"{spec.id}: its memory contents were not added: {error}")
            continue
        session.judge_anew({spec.id: replace(result, evidence=before.evidence, end=before.end)})
        written.store(folder)  # last: while this is missing, it is done again


def _waits_for_memory(result: TrialResult, folder: Path) -> bool:
    """True if the trial was measured on this computer but its memory contents were not."""
    peak = result.figures.get(STEPS_PEAK.name)
    if peak is None or peak.value is not None:
        return False
    try:
        attempt = rebuild.read_attempt(folder)
    except ValueError:  # a trial stored before such files existed
        return False
    computer = description.identify_computer().items()
    return attempt.memory is None and all(attempt.machine.get(name, value) == value for name, value in computer)
