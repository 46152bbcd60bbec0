"""The trials that a results folder holds, as a run, a plan and a list find them."""

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
    """`entries` are by id, of what can be read; `unfinished` are trials' folders without a result; `fresh` is how many
    results were read, for the index lacked them.
    """

    room: Path
    entries: dict[str, Entry]
    unreadable: tuple[Unreadable, ...]
    unfinished: tuple[Path, ...]
    fresh: int

    def of_groups(self, specs: Iterable[TrialSpec], besides: Container[str] = ()) -> dict[str, TrialResult]:
        """By id, these and those that are held against them; without those of the ids `besides`."""
        groups = {index.group_digest(spec) for spec in specs}
        names = (name for name, entry in self.entries.items() if entry.group in groups)
        return self.load(name for name in names if name not in besides)

    def planned(self, specs: Collection[TrialSpec]) -> dict[str, TrialResult]:
        """By id, those of these trials, which may have no inputs, as in a plan that runs nothing: then known by all
        else.
        """
        ids = {spec.id for spec in specs}
        return self.load(name for name, entry in self.entries.items() if name in ids or entry.bare_id in ids)

    def load(self, names: Iterable[str]) -> dict[str, TrialResult]:
        """By id; without those that went meanwhile, or can be read no more."""
        read = ((name, _read(self.room / name)) for name in names)
        return {name: result for name, result in read if isinstance(result, TrialResult)}


def read(results: Path, project: Project, shared: bool = False) -> StoredTrials:
    """Every trial of the folder, in the order of their ids.

    `shared`: runs on other machines may be at work there. SQLite cannot lock a file on every shared disk, so the index
    then stays as it is.
    """
    return read_by(runner_digest(project), results, shared=shared)


def read_by(code: str, results: Path, most: int | None = None, shared: bool = False) -> StoredTrials:
    """The same by the digest of the runner's code. With `most`, only so many of the results that the index lacks are
    read, the newest, and nothing is written.
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
        elif result is not None:
            unreadable.append(Unreadable.of(room / name / RESULT_FILE, result))
    entries |= {entry.id: entry for entry in fresh}
    gone = known.keys() - entries.keys()
    if most is None and not shared and (fresh or gone):
        index.write(results, code, fresh, gone, anew=not known)
    unfinished = tuple(room / name for name, stamp in stamps if stamp is None)
    return StoredTrials(room, dict(sorted(entries.items())), tuple(unreadable), unfinished, len(newest))


def _stamps(room: Path) -> list[tuple[str, Stamp | None]]:
    """(name, what its result's file is known by) of each trial's folder, sorted; None where there is no result."""
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


def _read(folder: Path) -> TrialResult | ValueError | None:
    """The result of a trial's folder, or why there is none; None for one of an old id."""
    try:
        result = stored.read_result(folder / RESULT_FILE)
        name = result.spec.id
        if name != folder.name:
            raise ValueError(f"it is of the trial {name}: changed after the run, or in the wrong folder")
    except ValueError as error:
        return error
    return result if name == folder.name else None
