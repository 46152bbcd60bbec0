"""Read RESULTS/trials/*/result.json; what cannot be read is named with its reason, never dropped."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import math
import os
import re
import types
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

from workloads.records.figures import ACCURACY
from workloads.records.files import RESULT_FILE
from workloads.records.result import TrialResult
from workloads.records.versions import OtherSchema

from . import frameworks

LARGEST = 1e30
LOCK_FILE = ".lock"  # held by the runner while it writes
HALF_A_CHARACTER = re.compile(rb"\\u[dD][89a-fA-F]")  # a surrogate, as JSON writes it

Checker = Callable[[Any], str | None]  # of a value: where in it something is wrong, and what


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
    results, places, unreadable, unfinished = [], [], [], []
    seen: set[tuple[str, bytes]] = set()
    for trial_dir in (found for folder in dict.fromkeys(folders) for found in _trial_dirs(folder)):
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
            places.append(trial_dir)
            seen.add(digest)
        except ValueError as error:
            unreadable.append(Unreadable(path, str(error), isinstance(error, OtherSchema)))
    in_use = tuple(folder for folder in folders if _in_use(folder))
    return Stored(tuple(results), tuple(places), tuple(unreadable), tuple(unfinished), in_use)


def _trial_dirs(folder: Path) -> list[Path]:
    trials = folder / "trials"
    if not folder.is_dir():
        raise ReportError(f"{folder}: no such folder; give the folder that `python -m runner` wrote")
    try:
        found = sorted(path for path in trials.iterdir() if path.is_dir()) if trials.is_dir() else []
    except OSError as error:
        raise ReportError(f"{trials}: cannot be listed: {error.strerror}; check its permissions") from error
    if not any((trial_dir / RESULT_FILE).exists() for trial_dir in found):
        state = f"{len(found)} trials there are unfinished" if found else "no trial is there"
        raise ReportError(f"{trials}: no {RESULT_FILE} found, {state}; run `python -m runner` first")
    return found


def _in_use(folder: Path) -> bool:
    """Whether a run holds the folder's lock, other than the one that asks for this report."""
    lock = folder / LOCK_FILE
    if not lock.exists():
        return False
    own = {os.getpid(), os.getppid()}
    inode = str(lock.stat().st_ino)
    held = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return any(
        words[5].rsplit(":", 1)[-1] == inode and int(words[4]) not in own for words in held if words[1] == "FLOCK"
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
    if not isinstance(data, dict):
        raise ValueError("not a trial result: the file holds no JSON object")
    result = TrialResult.from_json(data)
    check = _checker(TrialResult)
    misfit = check and check(result)
    if misfit:
        raise ValueError(f"not a trial result: {misfit.removeprefix('.')}")
    if not 1 <= result.spec.cell.batch_size < 2**31:
        raise ValueError(f"not a trial result: spec.cell.batch_size is {result.spec.cell.batch_size}")
    accuracy = result.figures.get(ACCURACY.name)
    if accuracy and accuracy.value is not None and not 0 <= accuracy.value <= 1:
        raise ValueError(f"not a trial result: figures.test_accuracy.value is {accuracy.value}, not from 0 to 1")
    started(result)
    return result


def rows_of(path: Path, schema_version: int, key: str, kinds: dict[str, type[Any] | types.UnionType]) -> Any:
    """The JSON object at `path`, whose `key` is a list of rows with fields of these kinds; None without such a file.

    Raises ValueError with the reason for one that cannot be read, and for a number that is not finite.
    """
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from error
    if not isinstance(stored, dict) or stored.get("schema_version") != schema_version:
        raise ValueError(f"not of schema version {schema_version}")
    if not isinstance(stored.get(key), list):
        raise ValueError(f"{key} are missing")
    for number, row in enumerate(stored[key]):
        if not isinstance(row, dict):
            raise ValueError(f"{key}[{number}] is {row!r}")
        for name, kind in kinds.items():
            if not isinstance(row.get(name), kind) or isinstance(row[name], bool):
                raise ValueError(f"{key}[{number}].{name} is {row.get(name)!r}")
            if isinstance(row[name], float) and not math.isfinite(row[name]):
                raise ValueError(f"{key}[{number}].{name} is not finite")
    return stored


def started(result: TrialResult) -> datetime:
    """Raises ValueError for a `started_at` that is not ISO 8601. Without a zone it is taken as UTC."""
    moment = datetime.fromisoformat(result.started_at)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"not a trial result: {name} is no JSON number")


@functools.cache
def _checker(hint: Any) -> Checker | None:
    """What finds a value that is not what the annotation `hint` of trial.py promises; None if anything fits.

    `from_json` builds dataclasses without looking at the types inside, and a hand can edit any of them.
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return None
    if origin is Literal:
        return lambda value: None if value in arguments else f" is {value!r}"
    if origin in (list, tuple, dict):
        return _container(origin, _checker(arguments[1 if origin is dict else 0]))
    if dataclasses.is_dataclass(hint):
        hints = get_type_hints(hint)
        return _record([(name, checker) for name in hints if (checker := _checker(hints[name]))])
    return _plain(arguments if origin in (Union, types.UnionType) else (hint,))


def _container(kind: type[Any], inside: Checker | None) -> Checker:
    def check(value: Any) -> str | None:
        if not isinstance(value, kind):
            return f" is {value!r}, not {kind.__name__}"
        if inside is None:
            return None
        for key, item in value.items() if kind is dict else enumerate(value):
            found = inside(item)
            if found:
                return f".{key}{found}" if kind is dict else f"[{key}]{found}"
        return None

    return check


def _record(fields: list[tuple[str, Checker]]) -> Checker:
    def check(value: Any) -> str | None:
        for name, inside in fields:
            found = inside(getattr(value, name))
            if found:
                return f".{name}{found}"
        return None

    return check


def _plain(kinds: tuple[type[Any], ...]) -> Checker:
    """Exactly these, for True is an instance of int; a whole number is a float, too."""
    numbers = (int, float) if float in kinds else ()
    allowed = {*kinds, *numbers}

    def check(value: Any) -> str | None:
        kind = type(value)
        if kind not in allowed:
            return f" is {value!r}, not {kinds[0].__name__}"
        if kind in numbers and not abs(value) < LARGEST:  # nor is NaN
            return f" is {value!r}, not a number that can be measured"
        return None

    return check
