"""The text of a study: the line of a key, and suggestions for a wrong value."""

from __future__ import annotations

import difflib
import re
from typing import Any, Literal, get_args, get_origin

HEAD = re.compile(r"\s*\[\[\s*series\s*\]\]")  # of each series in a file


def choices(kind: Any) -> tuple[str, ...]:
    """Return the choices of a Literal, or of a list of them; none for any other type."""
    if get_origin(kind) is Literal:
        return get_args(kind)
    return next(filter(None, map(choices, get_args(kind))), ())


def offer(value: Any, known: tuple[str, ...]) -> str:
    """Suggest a known value for a wrong one, and list the known ones, if any; judges a list's first wrong item."""
    if not known:
        return ""
    value = next((each for each in value if each not in known), "") if isinstance(value, list | tuple) else value
    close = difflib.get_close_matches(str(value), known, n=1, cutoff=0.5)
    meant = f"; did you mean {close[0]}?" if close else ""
    return f"{meant}; known are {', '.join(known)}"


def line_of(key: str, text: str, series: int = 0) -> int:
    """Return the line of the key, from 1; for a key of a series, search below the head of series number `series`."""
    start_of_key = re.compile(rf"""\s*\[*\s*["']?{re.escape(key)}["']?\s*[.=\]]""")
    heads, first = 0, 1
    for number, line in enumerate(text.splitlines(), start=1):
        if HEAD.match(line):
            heads += 1
            first = number if heads == series else first
        if key and heads == series and start_of_key.match(line):
            return number
    return first
