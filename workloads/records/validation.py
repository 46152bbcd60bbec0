"""What a file holds, held against the types of the record that it should be. No worker imports this: msgspec is none of
their packages.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

MOST_CHARACTERS = 500  # of a reason: a value may be as long as its file

# What a table can show of a file's numbers: an integer of any size is no float.
Count = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Real = Annotated[float, Meta(ge=-1e30, le=1e30)]
Number = Count | Real

Kind = TypeVar("Kind")


def record(data: Any, kind: type[Kind], name: str) -> Kind:
    """`data`, of JSON or TOML, as this kind of record; `name` is where it comes from.

    Raises ValueError that names the key and what is expected, for a field that the record does not have, too.
    """
    try:
        converted = msgspec.convert(data, kind)
    except (ValueError, RecursionError) as error:
        raise ValueError(one_line(ValueError(f"{name}: {one_line(error)}"))) from error
    for key in _invented(data, msgspec.to_builtins(converted), "$"):
        raise ValueError(one_line(ValueError(f"{name}: Unknown field - at `{key}`")))
    return converted


def numbers(data: Any) -> Any:
    """The same with NaN for every null: in JSON that is what was no number."""
    if isinstance(data, dict):
        return {key: numbers(item) for key, item in data.items()}
    if isinstance(data, list):
        return [numbers(item) for item in data]
    return math.nan if data is None else data


def one_line(error: Exception) -> str:
    """Why something cannot be read; what a stranger's file says may have lines of its own."""
    if isinstance(error, RecursionError):
        return "nested without end"
    return " ".join(str(error).split())[:MOST_CHARACTERS]


def _invented(data: Any, known: Any, path: str) -> Iterator[str]:
    """Where `data` has a key that `known` has not."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _invented(value, known[key], f"{path}.{key}") if key in known else (f"{path}.{key}",)
    elif isinstance(data, list):
        for number, (value, of_value) in enumerate(zip(data, known, strict=True)):
            yield from _invented(value, of_value, f"{path}[{number}]")


def read(path: Path, kind: type[Kind]) -> Kind | None:
    """The record that a JSON file holds; None without a file.

    Raises ValueError with the reason, without the path, for what cannot be read or is of another kind.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from error
    return decoded(content, kind)


def decoded(content: bytes, kind: type[Kind]) -> Kind:
    """The record that JSON holds. Raises ValueError with the reason, one line."""
    try:
        return msgspec.json.decode(content, type=kind)
    except (ValueError, RecursionError) as error:
        raise ValueError(one_line(error)) from error
