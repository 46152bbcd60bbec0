"""Read RESULTS/trials/*/result.json; what cannot be read is named with its reason, never dropped."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

from workloads.records.figures import ACCURACY
from workloads.records.files import RESULT_FILE
from workloads.records.result import TrialResult
from workloads.records.versions import OtherSchema

from . import frameworks

LARGEST = 1e30  # of a figure
LOCK_FILE = ".lock"  # held by the runner while it writes
HALF_A_CHARACTER = re.compile(rb"\\u[dD][89a-fA-F]")  # a surrogate, as JSON writes it


class ReportError(Exception):
    """No report can be made; the message is one line: what, where, what to do."""


@dataclass(frozen=True)
class Unreadable:
    """A result file that says nothing usable, and why."""

    path: Path
    reason: str
    other_schema: bool = False


@dataclass(frozen=True)
class Stored:
    """What results folders hold: results, each with its trial's folder; `unfinished` are trial folders without a
    result; `in_use` are results folders into which a run is writing.
    """

    results: tuple[TrialResult, ...]
    folders: tuple[Path, ...]
    unreadable: tuple[Unreadable, ...]
    unfinished: tuple[Path, ...]
    in_use: tuple[Path, ...] = ()


def read(*folders: Path) -> Stored:
    """Of all the folders together; a trial that several of them hold, byte for byte, is read once.

    Raises ReportError for a folder that is missing or holds no result file at all.
    """
    results, read_of, unreadable, unfinished = [], [], [], []
    seen: set[tuple[str, bytes]] = set()
    for trial_dir in itertools.chain.from_iterable(map(_trial_dirs, dict.fromkeys(folders))):
        path = trial_dir / RESULT_FILE
        if not path.exists():
            unfinished.append(trial_dir)
            continue
        try:
            content = _content(path)
            digest = trial_dir.name, hashlib.sha256(content).digest()
            if digest in seen:
                continue
            results.append(result := _result(content))
            frameworks.learn_label(result.spec.cell.framework, result.machine)
            read_of.append(trial_dir)
            seen.add(digest)
        except ValueError as error:
            unreadable.append(Unreadable(path, str(error), isinstance(error, OtherSchema)))
    in_use = tuple(folder for folder in folders if _in_use(folder))
    return Stored(tuple(results), tuple(read_of), tuple(unreadable), tuple(unfinished), in_use)


def has_results(*folders: Path) -> bool:
    """Whether a trial of any of them has a result."""
    return any(True for folder in folders for _ in (folder / "trials").glob(f"*/{RESULT_FILE}"))


def _trial_dirs(folder: Path) -> list[Path]:
    trials = folder / "trials"
    if not folder.is_dir():
        raise ReportError(f"{folder}: no such folder; give the folder that `python -m runner` wrote")
    try:
        trial_dirs = sorted(path for path in trials.iterdir() if path.is_dir()) if trials.is_dir() else []
    except OSError as error:
        raise ReportError(f"{trials}: cannot be listed: {error.strerror}; check its permissions") from error
    if not any((trial_dir / RESULT_FILE).exists() for trial_dir in trial_dirs):
        state = f"{len(trial_dirs)} trials there are unfinished" if trial_dirs else "no trial is there"
        raise ReportError(f"{trials}: no {RESULT_FILE} found, {state}; run `python -m runner` first")
    return trial_dirs


def _in_use(folder: Path) -> bool:
    """Whether a run holds the folder's lock, other than the one that asks for this report."""
    lock = folder / LOCK_FILE
    if not lock.exists():
        return False
    asking = {os.getpid(), os.getppid()}
    inode = str(lock.stat().st_ino)
    held = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return any(
        words[5].rsplit(":", 1)[-1] == inode and int(words[4]) not in asking for words in held if words[1] == "FLOCK"
    )


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from error


def _result(content: bytes) -> TrialResult:
    """Raises ValueError for what is not JSON, or has a field of the wrong kind."""
    try:
        data = json.loads(content.decode(), parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise ValueError(f"not whole JSON: {error}") from error
    except RecursionError as error:
        raise ValueError("not a trial result: nested without end") from error
    if HALF_A_CHARACTER.search(content):  # no file but JSON can hold one
        data = json.loads(json.dumps(data, ensure_ascii=False).encode("utf-8", "replace"))
    result = TrialResult.from_json(data)
    for name, figure in result.figures.items():
        if figure.value is not None and not abs(figure.value) < LARGEST:
            raise ValueError(f"not a trial result: figures.{name}.value is {figure.value}, too large to be measured")
    if not 1 <= result.spec.cell.batch_size < 2**31:
        raise ValueError(f"not a trial result: spec.cell.batch_size is {result.spec.cell.batch_size}")
    accuracy = result.figures.get(ACCURACY.name)
    if accuracy and accuracy.value is not None and not 0 <= accuracy.value <= 1:
        raise ValueError(f"not a trial result: figures.test_accuracy.value is {accuracy.value}, not from 0 to 1")
    started(result)
    return result


def started(result: TrialResult) -> datetime:
    """Raises ValueError for a `started_at` that is not ISO 8601. Without a zone it is taken as UTC."""
    moment = datetime.fromisoformat(result.started_at)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"not a trial result: {name} is no JSON number")
