"""The keys of a study: how each is given on the command line, its choices, and suggestions for a wrong value."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, get_args, get_origin

# Groups of options. A series may have its own value for every key of the second and third.
WHERE, NETWORK, TRAINING, MEASURING = "where", "network", "training", "measuring"
KEY = "key"  # the entry of a field's metadata that holds its StudyKey
Value = TypeVar("Value")


@dataclass(frozen=True)
class StudyKey:
    """Option of a key on the command line. How it is parsed follows from the key's type."""

    group: str
    name: str  # without its hyphens; "" for the key's own name
    help: str  # may name {workloads}, {datasets} and the {choices} of the key's type
    metavar: str | tuple[str, ...]  # "" for the choices
    by_series: bool  # a series may have its own value


def define_key(
    default: Value,
    group: str,
    help_text: str = "",
    metavar: str | tuple[str, ...] = "",
    name: str = "",
    by_series: bool = False,
) -> Value:
    """Define a key of a study, as a field of its dataclass: its default, and its option."""
    own = by_series or group in (NETWORK, TRAINING)
    return field(default=default, metadata={KEY: StudyKey(group, name, help_text, metavar, own)})


def list_choices(kind: Any) -> tuple[str, ...]:
    """Return the choices of a Literal, or of a list of them; none for any other type."""
    if get_origin(kind) is Literal:
        return get_args(kind)
    return next(filter(None, map(list_choices, get_args(kind))), ())


def suggest_value(value: Any, known: Sequence[str]) -> str:
    """Suggest a known value for a wrong one, and list the known ones, if any; judges a list's first wrong item."""
    if not known:
        return ""
    value = next((each for each in value if each not in known), "") if isinstance(value, list | tuple) else value
    close = difflib.get_close_matches(str(value), known, n=1, cutoff=0.5)
    meant = f"; did you mean {close[0]}?" if close else ""
    return f"{meant}; known: {', '.join(known)}"
