"""Read RESULTS/trials/*/result.json; what cannot be read is named with its reason, never dropped."""

from __future__ import annotations

import dataclasses
import json
import math
import types
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

from workloads.trial import RESULT_FILE, TrialResult


class ReportError(Exception):
    """No report can be made; the message is one line: what, where, what to do."""


@dataclass(frozen=True)
class Unreadable:
    """A result file that says nothing usable, and why."""

    path: Path
    reason: str


@dataclass(frozen=True)
class Stored:
    """What a results folder holds: results, each with its trial's folder; `unfinished` are folders without a result."""

    results: tuple[TrialResult, ...]
    folders: tuple[Path, ...]
    unreadable: tuple[Unreadable, ...]
    unfinished: tuple[Path, ...]


def read(folder: Path) -> Stored:
    """Raises ReportError where the folder is missing or holds no result file at all."""
    trials = folder / "trials"
    if not folder.is_dir():
        raise ReportError(f"{folder}: no such folder; give the folder that `python -m runner` wrote")
    try:
        trial_dirs = sorted(path for path in trials.iterdir() if path.is_dir()) if trials.is_dir() else []
    except OSError as error:
        raise ReportError(f"{trials}: cannot be listed: {error.strerror}; check its permissions") from error
    results, folders, unreadable, unfinished = [], [], [], []
    for trial_dir in trial_dirs:
        path = trial_dir / RESULT_FILE
        if not path.exists():
            unfinished.append(trial_dir)
            continue
        try:
            results.append(read_result(path))
            folders.append(trial_dir)
        except ValueError as error:
            unreadable.append(Unreadable(path, str(error)))
    if not results and not unreadable:
        state = f"{len(unfinished)} trials there are unfinished" if unfinished else "no trial is there"
        raise ReportError(f"{trials}: no {RESULT_FILE} found, {state}; run `python -m runner` first")
    return Stored(tuple(results), tuple(folders), tuple(unreadable), tuple(unfinished))


def read_result(path: Path) -> TrialResult:
    """Raises ValueError for a file that cannot be read, is not JSON, or has a field of the wrong kind."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse_constant)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"not whole JSON: {error}") from error
    if not isinstance(data, dict):
        raise ValueError("not a trial result: the file holds no JSON object")
    result = TrialResult.from_json(data)
    misfit = _misfit(result, TrialResult, "")
    if misfit:
        raise ValueError(f"not a trial result: {misfit}")
    if result.spec.batch_size < 1:
        raise ValueError(f"not a trial result: spec.batch_size is {result.spec.batch_size}")
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


def _misfit(value: Any, hint: Any, where: str) -> str | None:
    """Where `value` is not what the annotation `hint` of trial.py promises; None if it fits.

    `from_json` builds dataclasses without looking at the types inside, and a hand can edit any of them.
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return None
    if origin in (Union, types.UnionType):
        misfits = [_misfit(value, argument, where) for argument in arguments]
        return None if None in misfits else misfits[0]
    if origin is Literal:
        return None if value in arguments else f"{where} is {value!r}"
    if origin is list and isinstance(value, list):
        parts = [(item, arguments[0], f"{where}[{index}]") for index, item in enumerate(value)]
    elif origin is dict and isinstance(value, dict):
        parts = [(item, arguments[1], f"{where}.{key}".lstrip(".")) for key, item in value.items()]
    elif isinstance(hint, type) and dataclasses.is_dataclass(hint) and isinstance(value, hint):
        hints = get_type_hints(hint)
        parts = [(getattr(value, name), hints[name], f"{where}.{name}".lstrip(".")) for name in hints]
    elif hint is float:
        number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        return None if number else f"{where} is {value!r}, not a finite number"
    elif isinstance(hint, type) and isinstance(value, hint) and (hint is bool or not isinstance(value, bool)):
        return None
    else:
        return f"{where} is {value!r}, not {getattr(origin or hint, '__name__', hint)}"
    return next((found for part in parts if (found := _misfit(*part))), None)
