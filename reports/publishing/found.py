"""Collect what published results say: headline, findings and tested claims."""

from __future__ import annotations

from ..report import Report
from ..reproduction import claims_across
from ..reproduction.claims import Tested
from .publication import ClaimOutcome, Found


def of_report(report: Report) -> Found:
    """Collect the findings of a report. The picture has the chapter's number if there are several of its kind."""
    summary = report.summary
    tested = list(claims_across.tested([chapter.section for chapter in report.of_trials if chapter.section]))
    tested += [each for chapter in report.chapters for each in chapter.tested]
    number = None if summary.main is None else report.number(summary.main)
    return Found(
        summary.headline,
        summary.findings,
        f"{summary.about}-{number}.png" if number else f"{summary.about}.png",
        {article.name: article.source for article, _ in tested},
        [_outcome(article.name, each) for article, each in tested],
    )


def _outcome(name: str, tested: Tested) -> ClaimOutcome:
    published = {series: str(told.outcome) if told else None for series, told in tested.published.items()}
    return ClaimOutcome(name, tested.claim.text, tested.framework, published, str(tested.measured.outcome))
