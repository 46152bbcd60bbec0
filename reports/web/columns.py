"""Encode data for the page: as columns, compressed, within a budget of bytes."""

from __future__ import annotations

import base64
import gzip
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

Scalar = str | int | float | bool | None


def pack(value: Any) -> str:
    """Pack as JSON, gzip, base64: characters safe in HTML. Raises ValueError for NaN and the infinities."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode("utf-8", "replace"), 9, mtime=0)).decode()


def columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Build a column for every key of any row, because repeated values compress well; None where a row lacks it."""
    keys = dict.fromkeys(key for row in rows for key in row)
    return {key: [row.get(key) for row in rows] for key in keys}


def flat(nested: Any, prefix: str = "") -> dict[str, Scalar]:
    """Flatten a dict or a dataclass to {"optimizer.name": "sgd", ...}; a list or tuple is one value, as JSON."""
    values: dict[str, Scalar] = {}
    items = nested if isinstance(nested, dict) else {each.name: getattr(nested, each.name) for each in fields(nested)}
    for key, value in items.items():
        if value is None or isinstance(value, str | int | float | bool):
            values[f"{prefix}{key}"] = value
        elif isinstance(value, list | tuple):
            values[f"{prefix}{key}"] = json.dumps(value)
        else:
            values |= flat(value, f"{prefix}{key}.")
    return values


def rounded(value: Any, digits: int) -> Any:
    """Round a float to so many significant digits, to an int if whole, None if not finite; other values are
    unchanged.
    """
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        return None
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() and abs(short) < 2**53 else short


def fitting(values: Sequence[Any], form: Callable[[Sequence[Any]], Any], room: int) -> tuple[str, int]:
    """Pack the values in the form; returns (packed, number of values): all, or as many of the first as fit in `room`
    bytes.
    """
    count = len(values)
    while count > 0:
        packed = pack(form(values[:count]))
        if len(packed) <= room:
            return packed, count
        count = count * room // len(packed)
    return "", 0
