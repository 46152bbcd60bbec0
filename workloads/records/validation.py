"""What a file holds, held against the types of the record that it should be. No worker imports this: msgspec is none of
their packages.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

Kind = TypeVar("Kind")


def record(data: Any, kind: type[Kind], name: str) -> Kind:
    """`data`, of JSON or TOML, as this kind of record; `name` is where it comes from.

    Raises ValueError that names the key and what is expected, for a field that the record does not have, too.
    """
    try:
        converted = msgspec.convert(data, kind)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    for key in _invented(data, msgspec.to_builtins(converted), "$"):
        raise ValueError(f"{name}: Unknown field - at `{key}`")
    return converted


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
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from error
