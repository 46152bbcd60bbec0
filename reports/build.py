"""A Report from results folders: read, cut into sections, a chapter each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from . import caveats, chapters, condition_text, findings, load, overhead, stable
from .conditions import sections
from .load import ReportError
from .report import Report
from .table import Table


def report(folders: Sequence[Path], columns: bool = False) -> Report:
    """`columns`: sections of differing conditions stand side by side in one table, in columns of their own.

    Raises ReportError: a folder without results, or none that can be read.
    """
    stored = load.read(*folders)
    if not stored.results:
        first = stored.unreadable[0]
        all_of_them = f"none of the {len(stored.unreadable)} results can be read"
        raise ReportError(f"{first.path}: {first.reason}; {all_of_them}, run the trials anew")
    found, replaced = sections(stored.results)
    headings = condition_text.headings(found)
    aside = columns and len(found) > 1
    named = dict(zip(chapters.letters(len(found)), found, strict=True)) if aside else {}
    beside = chapters.side_by_side(named)
    whole = [made for folder in folders for made in _of_folder(folder, named=len(folders) > 1)]
    return Report(
        stored,
        tuple(replaced),
        findings.summary(stored, found),
        tuple(
            chapters.chapter(section, f"{number}. {heading}", with_quantities=not aside)
            for number, (section, heading) in enumerate(zip(found, headings, strict=True), start=1)
        ),
        tuple(table for table in beside if isinstance(table, Table)),
        dict(zip(named, headings, strict=False)),
        tuple(table for table in whole if isinstance(table, Table)),
        tuple(line for line in (*beside, *whole) if isinstance(line, str)),
        caveats.lists(stored, replaced),
    )


def _of_folder(folder: Path, named: bool) -> list[Table | str]:
    """The tables of a whole results folder; `named` after it where there are several."""
    made = [made for made in (stable.table(folder), overhead.table(folder)) if made]
    return [replace(one, title=f"{one.title}, {folder}") if named and isinstance(one, Table) else one for one in made]
