"""A report as a notebook shows it."""

from __future__ import annotations

from dataclasses import dataclass, fields

from . import markdown
from .report import Report


@dataclass(frozen=True)
class ShownReport(Report):
    """One that shows itself: all but the charts."""

    def _repr_markdown_(self) -> str:
        return markdown.page(self, (), {})


def shown(report: Report) -> ShownReport:
    """The same report."""
    return ShownReport(**{each.name: getattr(report, each.name) for each in fields(report)})
