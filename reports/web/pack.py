"""How data travel inside the page: as columns, each text once, compressed within a budget of bytes."""

from __future__ import annotations

import base64
import gzip
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from typing import Any

Scalar = str | int | float | bool | None
Column = dict[str, Any]


def pack(value: Any) -> str:
    """JSON, gzip, base64: letters that HTML leaves alone. Raises ValueError for NaN and the infinities."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode("utf-8", "replace"), 9, mtime=0)).decode()


def column(values: Sequence[Scalar]) -> Column:
    """{"same": value}, {"of": distinct values, "at": places in them} or {"all": values}: whichever is short."""
    places: dict[tuple[type, Scalar], int] = {}
    at = [places.setdefault((type(value), value), len(places)) for value in values]
    if len(places) == 1:
        return {"same": values[0]}
    repeated = any(isinstance(value, str) and len(value) > 8 for value in values)
    if len(places) <= len(values) / 4 or (repeated and len(places) < len(values)):
        return {"of": [value for _, value in places], "at": at}
    return {"all": list(values)}


def columns(rows: Sequence[dict[str, Scalar]]) -> dict[str, Column]:
    """A column for every key that any row has; None where a row lacks it."""
    keys = dict.fromkeys(key for row in rows for key in row)
    return {key: column([row.get(key) for row in rows]) for key in keys}


def flat(nested: Any, prefix: str = "") -> dict[str, Scalar]:
    """{"optimizer.name": "sgd", ...} of a dict or a dataclass; a list is one value, as JSON."""
    found: dict[str, Scalar] = {}
    items = nested if isinstance(nested, dict) else {each.name: getattr(nested, each.name) for each in fields(nested)}
    for key, value in items.items():
        if value is None or isinstance(value, str | int | float | bool):
            found[f"{prefix}{key}"] = value
        elif isinstance(value, list):
            found[f"{prefix}{key}"] = json.dumps(value)
        else:
            found |= flat(value, f"{prefix}{key}.")
    return found


def rounded(value: Any, digits: int) -> Any:
    """A float to so many significant digits, whole where it can be, None where not finite; anything else as it is."""
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        return None
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() and abs(short) < 2**53 else short


def ranges(indices: Iterable[int]) -> str:
    """ "3-5,9": the indices in their order, runs joined."""
    runs: list[list[int]] = []
    for index in indices:
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def fitting(levels: Iterable[tuple[str, Callable[[], Any]]], room: int) -> tuple[str, str]:
    """(packed, what is missing) of the first level that fits into `room` bytes; ("", the last level's words) if none.

    A level is (what it leaves out, in words; what makes it). It is made only when the ones before did not fit; one
    that cannot be made small enough returns None.
    """
    missing = ""
    for missing, make in levels:
        made = make()
        packed = "" if made is None else pack(made)
        if packed and len(packed) <= room:
            return packed, missing
    return "", missing
