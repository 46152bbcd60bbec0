"""Phrases that messages of the runner and of the reports share.

A measured value and its upper bound are shown so that the two numbers always say which of them is larger.
"""

from __future__ import annotations


def format_count(number: int | str, noun: str) -> str:
    """Return "1 trial", "2 trials", "1,000 trials"."""
    words = f"{number:,}" if isinstance(number, int) else number
    return f"{words} {noun}" + ("" if words == "1" else "s")


MOST_DIGITS = 17  # enough to separate any two floating-point numbers


def show_both(value: float, allowed: float, style: str = "e", digits: int = 1, fewer: int = 1) -> tuple[str, str]:
    """Return both as text, with more `digits` until the texts compare as the numbers do.

    `style` is a format, "e" or "f"; `digits` follow the point of the value, `fewer` less that of the bound.
    """
    for more in range(digits, MOST_DIGITS):
        texts = f"{value:,.{more}{style}}", f"{allowed:,.{max(0, more - fewer)}{style}}"
        shown, bound = (float(text.replace(",", "")) for text in texts)
        if (shown <= bound) == (value <= allowed):
            return texts
    return repr(value), repr(allowed)


def compare_with_allowed(value: float, allowed: float) -> str:
    """Return "1.93e-04 (allowed 1.9e-04)": it never looks as if a failed comparison had passed, or the reverse."""
    shown, bound = show_both(value, allowed)
    return f"{shown} (allowed {bound})"
