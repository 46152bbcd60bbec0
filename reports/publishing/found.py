"""Collect what published results say, from either kind of report: headline, findings and tested claims."""

from __future__ import annotations

from collections.abc import Sequence

from ..blocks import article, claims
from ..blocks import page as blocks
from ..report import Report
from ..reproduction import claims_across
from ..reproduction.claim_tests import Outcome
from ..reproduction.claims import Tested
from .publication import ClaimOutcome, Found


def of_report(report: Report) -> Found:
    """Collect the findings of a report on trials."""
    summary = report.summary
    tested = list(claims_across.tested([chapter.section for chapter in report.chapters]))
    return Found(
        summary.headline,
        summary.findings,
        f"{summary.about}{_number(len(report.chapters), summary.main)}.png",
        {article.name: article.source for article, _ in tested},
        [_outcome(article.name, each) for article, each in tested],
    )


def of_blocks(chapters: Sequence[blocks.Chapter]) -> Found:
    """Collect the findings of processes; the headline is that of the first set of conditions."""
    first, *_ = chapters
    return Found(
        first.headline,
        [line for each in chapters for line in each.findings],
        f"{blocks.STEM}{_number(len(chapters), 0)}.png" if first.chart else "",
        {article.NAME: article.SOURCE},
        [_of_sizes(claim) for each in chapters for claim in each.claims],
    )


def _number(chapters: int, place: int | None) -> str:
    """Number of the picture in its file name; pictures are numbered if there are several chapters."""
    return f"-{place + 1}" if chapters > 1 and place is not None else ""


def _outcome(name: str, tested: Tested) -> ClaimOutcome:
    published = {series: str(told.outcome) if told else None for series, told in tested.published.items()}
    return ClaimOutcome(name, tested.claim.text, tested.framework, published, str(tested.measured.outcome))


def _of_sizes(claim: claims.Claim) -> ClaimOutcome:
    """Convert a claim about sizes.

    The article ran each size once, so its figures are inconclusive for sizes that it measured between two others.
    """
    has = any(each.phase is claim.phase and each.size in claim.sizes for each in article.published())
    text = f"{{framework}}, {claim.phase}: {claim.kind} are faster an image than their neighbours"
    return ClaimOutcome(
        article.NAME, text, claim.framework, {"table": str(Outcome.UNTOLD) if has else None}, str(claim.outcome)
    )
