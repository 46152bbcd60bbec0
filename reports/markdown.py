"""Text that GitHub shows as it is meant, whatever characters a reason or a name brings along."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pandas as pd

SPECIAL = re.compile(r"[\\`*\[\]<>|~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")


def escape(text: object) -> str:
    """One line, no markup: safe in a paragraph, a list and a table's cell."""
    line = " ".join(str(text).split()).replace("&", "&amp;")
    return SPECIAL.sub(lambda found: "\\" + found.group(), line)


def table(frame: pd.DataFrame, align: str = "right") -> str:
    """Cells are taken as they are: escape what comes from outside. The first column is flush left."""
    columns = ("left", *[align] * (len(frame.columns) - 1))
    return frame.to_markdown(index=False, disable_numparse=True, colalign=columns)


def bullets(lines: list[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def numbered(notes: Iterable[str]) -> dict[str, int]:
    """{note: its number}, each once, in order of appearance."""
    return {note: number for number, note in enumerate(dict.fromkeys(notes), start=1)}


def marks(notes: Iterable[str], numbers: dict[str, int]) -> str:
    """What a cell carries after its text: " [1] [3]"."""
    return "".join(f" [{numbers[note]}]" for note in notes)


def footnotes(numbers: dict[str, int]) -> str:
    return bullets([f"[{number}] {escape(note)}" for note, number in numbers.items()])
