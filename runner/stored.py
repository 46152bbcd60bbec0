"""The trials that a results folder holds, as a run, a plan and a list read them."""

from __future__ import annotations

import os
from collections.abc import Collection, Container, Iterable
from dataclasses import dataclass
from pathlib import Path

from runner import index
from runner.index import Entry, Stamp, stamp_of
from runner.machine.description import runner_digest
from runner.project import Project
from workloads.records import stored
from workloads.records.files import RESULT_FILE
from workloads.records.job import ROOMS, Kind, TrialSpec
from workloads.records.result import TrialResult
from workloads.records.stored import Unreadable

TRIALS = ROOMS[Kind.TRIAL]
NO_STAMP = (0, 0, 0)


@dataclass(frozen=True)
class StoredTrials:
    """Stored trials. `entries` are by id, of those that can be read; `unfinished` are trials' folders without a
    result. `fresh` counts the results that were read because the index lacked them.
    """

    room: Path
    entries: dict[str, Entry]
    unreadable: tuple[Unreadable, ...]
    unfinished: tuple[Path, ...]
    fresh: int

    def of_groups(self, specs: Iterable[TrialSpec], besides: Container[str] = ()) -> dict[str, TrialResult]:
        """Return these trials and those that are compared with them, by id, without the ids in `besides`."""
        groups = {index.group_digest(spec) for spec in specs}
        names = (name for name, entry in self.entries.items() if entry.group in groups)
        return self.load(name for name in names if name not in besides)

    def planned(self, specs: Collection[TrialSpec]) -> dict[str, TrialResult]:
        """Return the stored ones of these trials, by id. Trials of a plan that runs nothing may have no inputs; they
        are then found by everything else.
        """
        ids = {spec.id for spec in specs}
        return self.load(name for name, entry in self.entries.items() if name in ids or entry.bare_id in ids)

    def load(self, names: Iterable[str]) -> dict[str, TrialResult]:
        """Return these trials by id, without those that were removed meanwhile, or can no longer be read."""
        read = ((name, _read(self.room / name)) for name in names)
        return {name: result for name, result in read if isinstance(result, TrialResult)}


def read(results: Path, project: Project, shared: bool = False) -> StoredTrials:
    """Read every trial of the folder, in the order of their ids.

    `shared`: runs on other machines may be active there. SQLite cannot lock a file on every shared disk, so the index
    then stays unchanged.
    """
    return read_by(runner_digest(project), results, shared=shared)


def read_by(code: str, results: Path, most: int | None = None, shared: bool = False) -> StoredTrials:
    """Read the trials by the digest of the runner's code. With `most`, read at most this many of the results that
    the index lacks, the newest ones, and write nothing.
    """
    room = results / TRIALS
    known = index.read(results, code)
    stamps = _stamps(room)
    entries = {name: known[name] for name, stamp in stamps if name in known and known[name].stamp == stamp}
    lacking = {name: stamp for name, stamp in stamps if stamp is not None and name not in entries}
    newest = sorted(lacking, key=lambda name: lacking[name][-1], reverse=True)[:most]
    fresh, unreadable = [], []
    for name in sorted(newest):
        result = _read(room / name)
        if isinstance(result, TrialResult):
            fresh.append(Entry.of(result, lacking[name], results))
        else:
            unreadable.append(Unreadable.of(room / name / RESULT_FILE, result))
    entries |= {entry.id: entry for entry in fresh}
    gone = known.keys() - entries.keys()
    if most is None and not shared and (fresh or gone):
        index.write(results, code, fresh, gone, anew=not known)
    unfinished = tuple(room / name for name, stamp in stamps if stamp is None)
    return StoredTrials(room, dict(sorted(entries.items())), tuple(unreadable), unfinished, len(newest))


def _stamps(room: Path) -> list[tuple[str, Stamp | None]]:
    """Return (name, stamp of its result's file) of each trial's folder, sorted; None if there is no result."""
    if not room.is_dir():
        return []
    stamps: list[tuple[str, Stamp | None]] = []
    folder = os.open(room, os.O_RDONLY)
    try:
        with os.scandir(room) as found:
            names = sorted(entry.name for entry in found if entry.is_dir())
        for name in names:
            try:
                stamps.append((name, stamp_of(os.stat(f"{name}/{RESULT_FILE}", dir_fd=folder))))
            except FileNotFoundError:
                stamps.append((name, None))
            except OSError:
                stamps.append((name, NO_STAMP))  # reading it says why
    finally:
        os.close(folder)
    return stamps


def _read(folder: Path) -> TrialResult | ValueError:
    """Return the result of a trial's folder, or why there is none."""
    try:
        result = stored.read_result(folder / RESULT_FILE)
        name = result.spec.id
        if name != folder.name:
            raise ValueError(f"it is of the trial {name}: changed after the run, or in the wrong folder")
    except ValueError as error:
        return error
    return result
