"""Show a report in a notebook."""

from __future__ import annotations

from dataclasses import dataclass, fields

from . import markdown
from .report import Report


@dataclass(frozen=True)
class ShownReport(Report):
    """Report that displays itself in a notebook, without the charts."""

    def _repr_markdown_(self) -> str:
        return markdown.page(self, (), {})


def shown(report: Report) -> ShownReport:
    """Return the same report, as one that displays itself."""
    return ShownReport(**{each.name: getattr(report, each.name) for each in fields(report)})
