"""Read RESULTS/trials/*/result.json and earlier attempts; what cannot be read is listed with its reason."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from workloads.records import files as numbered
from workloads.records import job
from workloads.records.batch_answers import ANSWERS_FILE
from workloads.records.files import ATTEMPTS, LOCK_FILES, RESULT_FILE
from workloads.records.result import Key, TrialResult
from workloads.records.stored import Unreadable
from workloads.words import format_count

from . import attempts
from .attempts import AttemptResult, Attempts
from .frameworks import FrameworkNames, read_names

TRIALS, BLOCKS = "trials", attempts.BLOCKS
ROOMS = (TRIALS, ATTEMPTS)
OF_JOBS = (*ROOMS, BLOCKS)
LOCKS = Path("/proc/locks")  # on Linux, where a run may hold one
OF_SEARCHES = job.ROOMS[job.Kind.STEPS], job.ROOMS[job.Kind.NOISE]


class ReportError(Exception):
    """An error that prevents a report; the message is one line: what, where, what to do."""


@dataclass(frozen=True)
class Stored:
    """Contents of results folders.

    `results` holds, for each trial, the newest readable result; `folders` are their folders. `unfinished` are trial
    folders without a result. `in_use` are results folders that a run is writing to. `attempts` are those at each trial
    tried more than once. Their key is the folder of the attempt shown, otherwise of the newest.
    """

    results: tuple[TrialResult, ...]
    folders: tuple[Path, ...]
    unreadable: tuple[Unreadable, ...]
    unfinished: tuple[Path, ...]
    in_use: tuple[Path, ...] = ()
    attempts: dict[Path, Attempts] = field(default_factory=dict)

    @property
    def pairs(self) -> list[tuple[TrialResult, Path]]:
        """List each result with its folder."""
        return list(zip(self.results, self.folders, strict=True))

    @cached_property
    def named(self) -> FrameworkNames:
        """Names of the frameworks, by the labels in these results."""
        return read_names(self.results)

    @cached_property
    def tried(self) -> dict[Key, str]:
        """Outcome of the other attempts at each result, by its key."""
        return {result.key: str(self.attempts[folder]) for result, folder in self.pairs if folder in self.attempts}


def read(*folders: Path) -> Stored:
    """Read all folders; identical copies of a trial count once.

    Raises ReportError for a folder that is missing or holds no result file at all.
    """
    each = list_distinct(folders)
    return _stored(itertools.chain.from_iterable(map(_trials, each)), each)


def read_all(*folders: Path) -> Stored:
    """Read the folders' trials and the processes of their blocks together. Raises ReportError, as `read`."""
    each = list_distinct(folders)
    trials = (_trials(folder) for folder in each if has_results(folder) or not _has_other_results(folder, each))
    return _stored(itertools.chain(*trials, *(_processes(folder / BLOCKS) for folder in each)), each)


def list_distinct(folders: Sequence[Path]) -> list[Path]:
    """List each folder once, however its path is written, in the order and by the first of its spellings."""
    found: dict[Path, Path] = {}
    for folder in folders:
        found.setdefault(folder.resolve(), folder)
    return [*found.values()]


def _has_other_results(folder: Path, each: Sequence[Path]) -> bool:
    """True if the folder has processes of blocks, or answers of a search that are shown beside other folders."""
    return has_results(folder, rooms=(BLOCKS,)) or (len(each) > 1 and (folder / ANSWERS_FILE).is_file())


NOTHING = Stored((), (), (), ())


def _stored(jobs: Iterable[list[AttemptResult]], folders: Sequence[Path]) -> Stored:
    """Collect the attempts at each job, the newest last."""
    results, read_of, unreadable, unfinished = [], [], [], []
    several: dict[Path, Attempts] = {}
    seen: set[tuple[str, bytes]] = set()
    for every in jobs:
        newest, shown = every[-1], _shown(every)
        name = attempts.trial_id(newest.folder)
        if newest.error:
            unreadable.append(Unreadable.from_error(newest.folder / RESULT_FILE, newest.error))
        elif newest.result is None:
            unfinished.append(newest.folder)
        attempt = newest if shown is None else every[shown]
        if shown is not None and (name, attempt.digest) in seen:
            continue
        if len(every) > 1:
            several[attempt.folder] = Attempts(name, tuple(every), shown)
        if shown is None:
            continue
        assert attempt.result is not None
        results.append(attempt.result)
        read_of.append(attempt.folder)
        seen.add((name, attempt.digest))
    in_use = tuple(folder for folder in folders if _in_use(folder))
    return Stored(tuple(results), tuple(read_of), tuple(unreadable), tuple(unfinished), in_use, several)


def _shown(every: list[AttemptResult]) -> int | None:
    """Index of the newest attempt with a readable result."""
    return max((place for place, attempt in enumerate(every) if attempt.result is not None), default=None)


def has_results(*folders: Path, rooms: Sequence[str] = ROOMS) -> bool:
    """True if a trial, or another job of these rooms, has a result in any of the folders."""
    return any(True for folder in folders for room in rooms for _ in (folder / room).glob(f"*/{RESULT_FILE}"))


def _trials(folder: Path) -> Iterator[list[AttemptResult]]:
    """Yield the attempts at each trial, the newest last. Raises ReportError."""
    if not folder.is_dir():
        raise ReportError(f"{folder}: no such folder; give the folder that `python -m runner` wrote")
    try:
        newest = {path.name: path for path in _folders(folder / TRIALS)}
        earlier = attempts.find_earlier_attempts(folder)
    except OSError as error:
        raise ReportError(f"{error.filename}: cannot be listed: {error.strerror}; check its permissions") from error
    if not has_results(folder):
        if not newest and _is_unfinished_search(folder):
            again = "run the same batch-size command again to continue"
            raise ReportError(f"{folder}: the search has no answer yet; {again}")
        state = f"{format_count(len(newest), 'trial')} without a result" if newest else "it has no trials"
        raise ReportError(f"{folder / TRIALS}: no {RESULT_FILE} found, {state}; run `python -m runner` first")
    for name in sorted({*newest, *earlier}):
        yield [*earlier.get(name, []), *([attempts.read(newest[name])] if name in newest else [])]


def _is_unfinished_search(folder: Path) -> bool:
    """True if `python -m runner batch-size` made trials here, but stored no answer."""
    return not (folder / ANSWERS_FILE).is_file() and any(_folders(folder / room) for room in OF_SEARCHES)


def _processes(room: Path) -> Iterator[list[AttemptResult]]:
    """Yield the attempts at each process, the newest last."""
    earlier = numbered.attempts_by_id(room)
    newest = [path for path in _folders(room) if not numbered.NUMBERED.fullmatch(path.name)]
    for folder in sorted(newest):
        yield [attempts.read(path) for path in (*earlier.get(folder.name, ()), folder)]


def _folders(room: Path) -> list[Path]:
    return [path for path in room.iterdir() if path.is_dir()] if room.is_dir() else []


def _in_use(folder: Path) -> bool:
    """True if a run holds a lock of the folder, other than the run that asks for this report."""
    inodes = {str(lock.stat().st_ino) for lock in folder.glob(LOCK_FILES)}
    asking = {os.getpid(), os.getppid()}
    held = [line.split() for line in LOCKS.read_text().splitlines()] if inodes and LOCKS.exists() else []
    return any(
        words[5].rsplit(":", 1)[-1] in inodes and int(words[4]) not in asking for words in held if words[1] == "FLOCK"
    )
