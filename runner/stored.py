"""The trials that a results folder holds, as a run, a plan and a list read them."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from pathlib import Path

from runner.gate.judge import group
from workloads.records import stored
from workloads.records.files import RESULT_FILE
from workloads.records.job import ROOMS, Kind, TrialSpec
from workloads.records.result import TrialResult
from workloads.records.stored import Unreadable

TRIALS = ROOMS[Kind.TRIAL]


@dataclass(frozen=True)
class StoredTrials:
    """Stored trials: the readable ones by id, in their order; `unfinished` are trials' folders without a result."""

    results: dict[str, TrialResult]
    unreadable: tuple[Unreadable, ...]
    unfinished: tuple[Path, ...]

    def of_groups(self, specs: Iterable[TrialSpec], besides: Container[str] = ()) -> dict[str, TrialResult]:
        """Return these trials and those that are compared with them, by id, without the ids in `besides`."""
        groups = {group(spec) for spec in specs}
        others = {name: result for name, result in self.results.items() if name not in besides}
        return {name: result for name, result in others.items() if group(result.spec) in groups}


def read(results: Path, most: int | None = None) -> StoredTrials:
    """Read every trial of the folder; with `most`, only the results that were written last. Raises OSError."""
    room = results / TRIALS
    folders = sorted(path for path in room.iterdir() if path.is_dir()) if room.is_dir() else []
    changed = {folder: _changed_ns(folder / RESULT_FILE) for folder in folders}
    finished = {folder: moment for folder, moment in changed.items() if moment is not None}
    newest = sorted(finished, key=lambda folder: finished[folder], reverse=True)[:most]
    found, unreadable = dict[str, TrialResult](), []
    for folder in sorted(newest):
        try:
            found[folder.name] = _read(folder)
        except ValueError as error:
            unreadable.append(Unreadable.of(folder / RESULT_FILE, error))
    return StoredTrials(found, tuple(unreadable), tuple(folder for folder in folders if changed[folder] is None))


def _changed_ns(path: Path) -> int | None:
    """Return when the file was written; None if there is none, 0 if it cannot be told: reading it says why."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return None
    except OSError:
        return 0


def _read(folder: Path) -> TrialResult:
    """Return the result of a trial's folder. Raises ValueError with the reason if there is none."""
    result = stored.read_result(folder / RESULT_FILE)
    if (name := result.spec.id) != folder.name:
        raise ValueError(f"it is of the trial {name}: changed after the run, or in the wrong folder")
    return result
