"""Dataclasses that are stored as JSON, and strings with a fixed set of values."""

from __future__ import annotations

from dataclasses import asdict, is_dataclass
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

R = TypeVar("R", bound="Record")  # Self is not in the Python 3.10 of NVIDIA's MXNet image
_hints = cache(get_type_hints)


class Record:
    """A dataclass of JSON's values, enumerations, dataclasses, or tuples, lists and objects of these."""

    def to_json(self) -> dict[str, Any]:
        """Return the record in the form that `from_json` takes."""
        return dict(asdict(self))  # type: ignore[call-overload]

    @classmethod
    def from_json(cls: type[R], data: dict[str, Any]) -> R:
        """Read a record; fields with a default may be missing. Raises TypeError, AttributeError, ValueError."""
        record: R = _read(cls, data)
        return record


def _read(hint: Any, value: Any) -> Any:
    """Convert a value of JSON to its annotation."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is UnionType:
        return None if value is None else _read(arguments[0], value)
    if origin in (tuple, list):
        return origin(_read(arguments[0], item) for item in value)
    if origin is dict:
        return {key: _read(arguments[1], item) for key, item in value.items()}
    if isinstance(hint, type) and is_dataclass(hint):
        hints = _hints(hint)
        return hint(**{name: _read(hints.get(name), item) for name, item in value.items()})
    return hint(value) if isinstance(hint, type) and issubclass(hint, Enum) else value


class Word(str, Enum):  # noqa: UP042
    """A string with a fixed set of values; enum.StrEnum is not in the Python 3.10 of NVIDIA's MXNet image."""

    __str__ = str.__str__
