"""A results folder: the trials that it holds, and what a run needs of it.

Free space, the folder and what is installed are checked before and after each trial. A run that has lost one of them
ends, because all later measurements would fail without meaning. So does one whose code or packages changed, because its
trials would be stored under the identity of the old ones.
"""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Container, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from runner import log
from runner.environments.watch import InstallationWatch
from runner.gate.rivals import find_group
from runner.launch import Launcher, Local, Unavailable
from workloads.networks import find_trained
from workloads.records import stored
from workloads.records.files import ATTEMPTS, RESULT_FILE, move_aside
from workloads.records.job import ROOMS, TEST_LABELS, Kind, TrialSpec
from workloads.records.result import TrialResult
from workloads.records.stored import Unreadable
from workloads.words import format_count

TRIAL = Kind.TRIAL
TRIALS = ROOMS[TRIAL]
LOOKED_AT = 100  # the number of finished trials whose folders are added up
MARGIN = 1.5  # times the largest of them
SAMPLE_BYTES_S = 10 * 200 + 60 * 40  # rows at 10 Hz, and a driver's own samples at up to 60 Hz
OTHER_BYTES = 4 * 2**20  # result, events and meter; the folders of the gate and of the memory worker
KEPT_WEIGHTS = 4  # copies of the weights in the file of a trial's end, until the referee has read it
SECTOR_BYTES = 512  # of st_blocks (stat(2))
FILES = 64  # number of files of a trial and of its other folders


class CannotGoOn(Exception):
    """The run cannot go on; the message is one line: what is missing, where, what to do."""


class Storage:
    """The storage of one run: the results folder that it found at its start."""

    def __init__(self, results: Path) -> None:
        """Record the identity of the results folder. Raises OSError."""
        self.results = results.resolve()
        self.identity = _identity(self.results)
        self.seen: set[Path] = set()
        self.watch = InstallationWatch()

    def need(self, spec: TrialSpec, launcher: Launcher | Unavailable | None) -> None:
        """Check before a trial. Raises CannotGoOn if something is gone or the disk has too little space."""
        self.whole(spec, launcher)
        status = os.statvfs(self.results)
        free, needed = status.f_bavail * status.f_frsize, estimate_needed_bytes(self.results, spec)
        advice = "free some space there; finished trials are kept, and the same command continues from here"
        if free < needed:
            sizes = f"{free / 2**20:,.1f} MiB are free, the next trial may need {needed / 2**20:,.1f}"
            raise CannotGoOn(f"{self.results}: {sizes}: {advice}")
        if status.f_files and status.f_favail < FILES:
            raise CannotGoOn(
                f"{self.results}: space for {format_count(status.f_favail, 'file')}, "
                f"the next trial needs {FILES}: {advice}"
            )

    def whole(
        self, spec: TrialSpec, launcher: Launcher | Unavailable | None, folder: Path | None = None, kind: Kind = TRIAL
    ) -> None:
        """Check after a trial, before its result is stored. Raises CannotGoOn if something is gone or has changed.

        `folder` is that of an attempt of this kind. If what is installed is gone or has changed, it is put aside, so
        that no later run makes a result of its files.
        """
        self.present()
        advice = "finished trials are kept; the same command writes it again and continues from here"
        for file in spec.inputs.values():
            self._expect(self.results / file.path, "removed during the run", advice)
        try:
            self._installed(spec, launcher)
        except CannotGoOn:
            if folder is not None:
                move_aside(folder, room_aside(folder, kind))
            raise

    def _installed(self, spec: TrialSpec, launcher: Launcher | Unavailable | None) -> None:
        """Raise CannotGoOn if the packages of a local worker are gone, or they or its code have changed."""
        if not isinstance(launcher, Local):
            return
        custom = "interpreter" in launcher.conditions
        advice = "name another with --python" if custom else "the same command makes it again"
        advice += "; finished trials are kept"
        self._expect(Path(launcher.interpreter), "its environment was removed or moved during the run", advice)
        if (changed := self.watch.find_change(spec, launcher)) is not None:
            why = "later trials would be recorded as those of before"
            advice = "finished trials are kept, and the same command measures anew with what is there now"
            raise CannotGoOn(f"{changed}: changed during the run, and {why}; {advice}")

    def _expect(self, path: Path, gone: str, advice: str) -> None:
        """Raise CannotGoOn if this path existed before and is gone; the worker reports one that never existed."""
        if path.exists():
            self.seen.add(path)
        elif path in self.seen:
            raise CannotGoOn(f"{path}: {gone}; {advice}")

    def present(self) -> None:
        """Raise CannotGoOn if the results folder is not the one found at the start."""
        with suppress(OSError):
            if _identity(self.results) == self.identity:
                return
        raise CannotGoOn(f"{self.results}: removed or moved during the run, with everything in it; the run stops")

    def filled(self, error: OSError) -> None:
        """Raise CannotGoOn if this error says that the disk or a quota is full; it does not always name the file."""
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            advice = "free some space; the files of the running trial stay, finished trials are kept"
            raise CannotGoOn(f"{error.filename or self.results}: {error.strerror}: {advice}") from error


def estimate_needed_bytes(results: Path, spec: TrialSpec) -> int:
    """Return the bytes a trial needs: by the largest finished one in its folder, or a floor by its time limit."""
    passing = _logits_bytes(results, spec)
    with suppress(KeyError, OSError):  # custom code has none
        passing += KEPT_WEIGHTS * (results / spec.inputs["weights"].path).stat().st_size
    largest = max(itertools.islice(_finished_bytes(results), LOOKED_AT), default=None)
    if largest is None:
        largest = (
            log.HEAD_BYTES
            + log.TAIL_BYTES
            + round(SAMPLE_BYTES_S * spec.timeout_s) * (1 + len(spec.placement.others))
            + OTHER_BYTES
        )
    return passing + round(MARGIN * largest)


def _logits_bytes(results: Path, spec: TrialSpec) -> int:
    """Return the bytes of the logits of all evaluations, which stay until the trial's end. A logit has as many bytes
    as a label: four.
    """
    own, workload = spec.task.own_code, find_trained(spec, results)
    outputs = own.outputs if own else workload.classes if workload else 0
    with suppress(KeyError, OSError):  # the worker reports an input that is missing
        return spec.passes.epochs * outputs * (results / spec.inputs[TEST_LABELS].path).stat().st_size
    return 0


def _finished_bytes(results: Path) -> Iterator[int]:
    """Yield the bytes on disk of each trial that has a result."""
    for kind in (Kind.TRIAL, Kind.STEPS):
        for folder in (results / ROOMS[kind]).glob("*"):
            with suppress(OSError):  # another run's, which it moves
                files = {file.name: file.stat() for file in os.scandir(folder)}
                if RESULT_FILE in files:
                    yield sum(status.st_blocks * SECTOR_BYTES for status in files.values())


def _identity(folder: Path) -> tuple[int, int]:
    status = folder.stat()
    return status.st_dev, status.st_ino


def room_aside(folder: Path, kind: Kind) -> Path:
    """Return the folder that holds the attempts put aside of this kind of job."""
    room = folder.parent
    return room.parent / ATTEMPTS if kind is TRIAL else room


@dataclass(frozen=True)
class StoredTrials:
    """Stored trials: the readable ones by id, in their order; `unfinished` are trials' folders without a result."""

    results: dict[str, TrialResult]
    unreadable: tuple[Unreadable, ...]
    unfinished: tuple[Path, ...]

    def of_groups(self, specs: Iterable[TrialSpec], besides: Container[str] = ()) -> dict[str, TrialResult]:
        """Return these trials and those that are compared with them, by id, without the ids in `besides`."""
        groups = {find_group(spec) for spec in specs}
        others = {name: result for name, result in self.results.items() if name not in besides}
        return {name: result for name, result in others.items() if find_group(result.spec) in groups}


def read_trials(results: Path, most: int | None = None) -> StoredTrials:
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
            unreadable.append(Unreadable.from_error(folder / RESULT_FILE, error))
    return StoredTrials(found, tuple(unreadable), tuple(folder for folder in folders if changed[folder] is None))


def _changed_ns(path: Path) -> int | None:
    """Return when the file was written; None if there is none, 0 if it is unknown: reading it says why."""
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
        raise ValueError(f"it belongs to the trial {name}: changed after the run, or in the wrong folder")
    return result
