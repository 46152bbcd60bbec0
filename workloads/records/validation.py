"""Validate a file's content against the types of its record. No worker imports this, since it lacks msgspec."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

MOST_CHARACTERS = 500  # of a reason: a value may be as long as its file

# Limits of what a table can show: an integer of any size is not a float.
Count = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Real = Annotated[float, Meta(ge=-1e30, le=1e30)]
Number = Count | Real

NESTED = (dict, list)

Kind = TypeVar("Kind")


def build_record(data: Any, kind: type[Kind], name: str) -> Kind:
    """Return `data`, of JSON or TOML, as this kind of record; `name` is its source.

    Raises ValueError that names the key and the expected type, also for a field that the record does not have.
    """
    try:
        converted = msgspec.convert(data, kind)
    except (ValueError, RecursionError) as error:
        raise ValueError(describe_error(ValueError(f"{name}: {describe_error(error)}"))) from error
    for key in _invented(data, msgspec.to_builtins(converted), "$"):
        raise ValueError(describe_error(ValueError(f"{name}: Unknown field - at `{key}`")))
    return converted


def restore_nan(data: Any) -> Any:
    """Return the same data with NaN for every null: in JSON null stands for a value that was not a number."""
    if isinstance(data, dict):
        return {key: restore_nan(item) for key, item in data.items()}
    if isinstance(data, list):
        return [restore_nan(item) for item in data]
    return math.nan if data is None else data


def describe_error(error: Exception) -> str:
    """Return why something cannot be read, on one line; messages from a foreign file may contain line breaks."""
    if isinstance(error, RecursionError):
        return "nested without end"
    return " ".join(str(error).split())[:MOST_CHARACTERS]


def _invented(data: Any, known: Any, path: str) -> Iterator[str]:
    """Yield the paths of keys in `data` that `known` does not have."""
    if isinstance(data, dict):
        for key, value in data.items():
            if key not in known:
                yield f"{path}.{key}"
            elif isinstance(value, NESTED):  # thousands of numbers have no keys, and are passed over quickly
                yield from _invented(value, known[key], f"{path}.{key}")
    elif isinstance(data, list):
        for number, (value, of_value) in enumerate(zip(data, known, strict=True)):
            if isinstance(value, NESTED):
                yield from _invented(value, of_value, f"{path}[{number}]")


def read(path: Path, kind: type[Kind]) -> Kind | None:
    """Return the record that a JSON file holds; None without a file.

    Raises ValueError with the reason, without the path, for content that cannot be read or is of another kind.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from error
    return decode(content, kind)


def decode(content: bytes, kind: type[Kind]) -> Kind:
    """Return the record that JSON holds. Raises ValueError with the reason, one line."""
    try:
        return msgspec.json.decode(content, type=kind)
    except (ValueError, RecursionError) as error:
        raise ValueError(describe_error(error)) from error
