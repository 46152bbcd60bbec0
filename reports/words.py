"""What sentences are made of: lists, counts, words for how a trial ended."""

from __future__ import annotations

from collections.abc import Iterable


def listed(items: Iterable[object]) -> str:
    """ "4, 8 and 16"."""
    *first, last = [str(item) for item in items] or [""]
    return f"{', '.join(first)} and {last}" if first else last


def counted(number: int | str, noun: str) -> str:
    """ "1 trial", "2 trials"."""
    return f"{number} {noun}" + ("" if str(number) == "1" else "s")


def status_words(status: str) -> str:
    """ "out of memory"."""
    return str(status).replace("_", " ")
