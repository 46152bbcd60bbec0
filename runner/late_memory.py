"""Measure what the memory of a session's trials holds after the last of them, and add it to their results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from rich.console import Console

from runner import rebuild
from runner.launch import Launcher, Unavailable
from runner.request.plan import Plan
from runner.storage import Storage
from runner.trial import MemoryWorker
from workloads.records.figures import STEPS_PEAK
from workloads.records.files import EVENTS_FILE
from workloads.records.job import TrialSpec
from workloads.records.result import TrialResult
from workloads.records.stored_events import read_events


class Measuring(Protocol):
    """What is asked of the session that measured the trials."""

    launchers: Mapping[str, Launcher | Unavailable]
    known: dict[str, TrialResult]
    memory: MemoryWorker
    storage: Storage
    console: Console

    def folder(self, spec: TrialSpec) -> Path:
        """Return the folder of the trial's newest attempt."""

    def judge_anew(self, changed: Mapping[str, TrialResult]) -> None:
        """Replace known trials by these, by id, and judge them again."""


def add_accounts(session: Measuring, plan: Plan) -> None:
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
    """True if the trial was measured but its memory contents were not."""
    peak = result.figures.get(STEPS_PEAK.name)
    try:
        return peak is not None and peak.value is None and rebuild.read_attempt(folder).memory is None
    except ValueError:  # a trial stored before such files existed
        return False
