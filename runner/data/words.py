"""Format names and numbers of images."""

from __future__ import annotations

import os
from collections.abc import Sequence

from workloads.words import counted

NAMES_SHOWN = 10


def shown(name: str) -> str:
    """Return a name as one line of text, whatever bytes it has."""
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def images_of(count: int) -> str:
    """Return a number of images as text."""
    return counted(count, "image")


def listed(names: Sequence[object]) -> str:
    """Return the first names, and how many more there are."""
    more = f", and {len(names) - NAMES_SHOWN:,} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(map(str, names[:NAMES_SHOWN])) + more
