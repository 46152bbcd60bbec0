"""Phrases that messages of the runner and of the reports share."""

from __future__ import annotations


def counted(number: int | str, noun: str) -> str:
    """Return "1 trial", "2 trials", "1,000 trials"."""
    words = f"{number:,}" if isinstance(number, int) else number
    return f"{words} {noun}" + ("" if words == "1" else "s")
