"""Add what the memory of a trial's framework holds to a result that was stored before that was known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from runner import rebuild
from runner.machine import description
from runner.results.memory import MemoryAccount
from workloads.records.figures import STEPS_PEAK
from workloads.records.files import EVENTS_FILE
from workloads.records.result import TrialResult
from workloads.records.stored_events import read_events


def waits_for_memory(result: TrialResult, folder: Path) -> bool:
    """True if the trial was measured on this computer but its memory contents were not."""
    peak = result.figures.get(STEPS_PEAK.name)
    if peak is None or peak.value is not None:
        return False
    try:
        attempt = rebuild.read_attempt(folder)
    except ValueError:  # a trial stored before such files existed
        return False
    return attempt.memory is None and description.is_of_this_computer(attempt.machine)


def add_account(result: TrialResult, folder: Path, account: MemoryAccount) -> tuple[TrialResult, rebuild.Attempt]:
    """Return the result, rebuilt from its files with the account, and the attempt to store once it is judged.

    Raises ValueError if its files hold less than the result.
    """
    written = replace(rebuild.read_attempt(folder), memory=account)
    ended = written.with_events(read_events(folder / EVENTS_FILE))
    rebuilt = None if ended is None else rebuild.assemble_trial(folder, result.spec, written, ended)
    if rebuilt is None or rebuild.loses_figures(result, rebuilt):
        raise ValueError("its files hold less than its result, which stays unchanged")
    return replace(rebuilt, evidence=result.evidence, end=result.end), written
