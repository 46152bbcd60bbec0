"""Ratios of time to guess for trials on this machine, in any results folder."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from runner import stored
from runner.estimate import Pace, Paces
from runner.index import Entry
from runner.machine.description import runner_digest
from runner.project import Project

# Reading other results folders takes at most 0.2 s in total: 2 ms per folder and 12 to 20 ms for a result that its
# index lacks.
MOST_FOLDERS, MOST_RESULTS, MOST_OF_FOLDER = 10, 9, 3


def results_folders(below: Path) -> list[Path]:
    """Folders with trials, at most two levels below."""
    return [room.parent for pattern in ("*", "*/*") for room in below.glob(f"{pattern}/{stored.TRIALS}")]


def read_paces(results: Path, others: Iterable[Path], computers: Collection[str | None], project: Project) -> Paces:
    """Return the paces of all trials in `results`, and of those in the newest other folders that ran on these
    computers.

    The other folders' indexes are used as far as they go. Of results that they lack, only the newest are read.
    """
    code, left = runner_digest(project), MOST_RESULTS
    entries = list(stored.read_by(code, results).entries.values())
    for folder in _newest(others, results):
        try:
            found = stored.read_by(code, folder, min(left, MOST_OF_FOLDER))
        except OSError:  # not readable, or gone by now
            continue
        left -= found.fresh
        entries += [each for each in found.entries.values() if _is_of(each, computers)]
    return Paces(
        Pace(each.memory_id, each.framework, each.device_kind, each.workload, each.pace)
        for each in entries
        if each.pace is not None
    )


def _newest(folders: Iterable[Path], results: Path) -> list[Path]:
    """Return those of these folders, without `results`, in which a trial was started last."""
    begun = {}
    for folder in folders:
        try:
            if folder.resolve() != results.resolve():
                begun[folder] = (folder / stored.TRIALS).stat().st_mtime_ns
        except OSError:
            continue
    return sorted(begun, key=lambda folder: begun[folder], reverse=True)[:MOST_FOLDERS]


def _is_of(entry: Entry, computers: Collection[str | None]) -> bool:
    return entry.computer is not None and entry.computer in computers
