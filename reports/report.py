"""A report over stored results: everything that its page, its Markdown and its files say, in one object."""

from __future__ import annotations

from dataclasses import dataclass

from .charts import Chart
from .conditions import Replaced, Section
from .load import Stored
from .table import Table


@dataclass(frozen=True)
class Chapter:
    """One section: trials of the same conditions. Sentences are plain text, no markup."""

    heading: str
    section: Section
    conditions: tuple[str, ...]
    tables: tuple[Table, ...]
    charts: tuple[Chart, ...]
    remarks: tuple[str, ...]  # a line for each table that could not be made, and why


@dataclass(frozen=True)
class Summary:
    """What comes first. Sentences are plain text, generated from the data."""

    ran: tuple[str, ...]  # what was run, on what, when
    findings: tuple[str, ...]  # five at most
    not_verified: tuple[str, ...]  # what these results cannot say, and why


@dataclass(frozen=True)
class Report:
    """`beside` are tables over several sections (side by side); `appendix` those of the whole results folder.

    `problems`: {what kind: a line each}: trials not ok, checks that failed, unreadable files, and so on.
    """

    stored: Stored
    replaced: tuple[Replaced, ...]
    summary: Summary
    chapters: tuple[Chapter, ...]
    beside: tuple[Table, ...]
    appendix: tuple[Table, ...]
    problems: dict[str, tuple[str, ...]]
