"""Dataclasses that are stored as JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, is_dataclass
from enum import Enum
from functools import cache, partial
from types import UnionType
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from typing import Self  # not in the Python 3.10 of NVIDIA's MXNet image


class Record:
    """A dataclass whose fields are what JSON has, enumerations, dataclasses, or tuples, lists and objects of these."""

    def to_json(self) -> dict[str, Any]:
        """As `from_json` takes it."""
        return asdict(self)  # type: ignore[call-overload]

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Raises TypeError, AttributeError, ValueError for what is no such record."""
        return _read(cls, data)


def _read(kind: type, data: dict[str, Any]) -> Any:
    """Of a dataclass; a field that has a default may be missing."""
    readers = _readers(kind)
    return kind(**{name: readers[name](value) if name in readers else value for name, value in data.items()})


@cache
def _readers(kind: type) -> dict[str, Callable[[Any], Any]]:
    """By field; those that JSON has as they are need none."""
    hints = get_type_hints(kind)
    return {name: reader for name, hint in hints.items() if (reader := _reader(hint))}


def _reader(hint: Any) -> Callable[[Any], Any] | None:
    origin, arguments = get_origin(hint), get_args(hint)
    if isinstance(hint, type) and is_dataclass(hint):
        return partial(_read, hint)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint
    if origin not in (tuple, list, dict, UnionType):
        return None
    inside = _reader(arguments[origin is dict])
    if inside is None:
        return tuple if origin is tuple else None
    if origin is UnionType:
        return lambda value: None if value is None else inside(value)
    if origin is dict:
        return lambda value: {key: inside(item) for key, item in value.items()}
    return lambda value: origin(map(inside, value))
