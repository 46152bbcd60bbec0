"""Test each published claim that figures can test: on its own figures (table and chart) and on ours.

Published figures count as exact, ours have intervals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from workloads.statistics import ERROR

from ..condition_text import ABSENT
from ..conditions import Section
from ..frameworks import display_name, ordered
from ..order import TIE_PERCENT, Point
from ..sentences import say
from ..table import Cell, Table, Theme
from ..tables import Place
from .claim_tests import FLAT, STRONG, TWICE, ClaimVerdict, Outcome, extreme, falls, is_flat, jumps, peaks, rises
from .publication import SERIES, Claim, Metric, Publication
from .reproduced import Reproduced, frameworks

MEASURED = "measured"
TIDY = [
    "claim", "quantity", "framework", "published_table", "published_chart", "measured", "why_table", "why_chart",
    "why_measured",
]  # fmt: skip


@dataclass(frozen=True)
class Tested:
    """A claim about a framework, tested.

    `published` is {series: verdict on its figures, None if it has none}.
    """

    claim: Claim
    framework: str
    published: Mapping[str, ClaimVerdict | None]
    measured: ClaimVerdict

    @property
    def text(self) -> str:
        """Claim as shown in a table."""
        return self.claim.text.format(framework=display_name(self.framework))

    @property
    def verdicts(self) -> dict[str, ClaimVerdict | None]:
        """Verdicts {where: verdict}: the published series first, then ours."""
        return {**self.published, MEASURED: self.measured}

    @property
    def why(self) -> str:
        """Reasons for all verdicts, joined."""
        return "; ".join(f"{where}: {verdict.why}" for where, verdict in self.verdicts.items() if verdict)

    @property
    def outcomes(self) -> list[str | None]:
        """Outcomes of `verdicts`, in their order."""
        return [str(verdict.outcome) if verdict else None for verdict in self.verdicts.values()]

    @property
    def whys(self) -> list[str | None]:
        """Reasons for `verdicts`, in their order."""
        return [verdict.why if verdict else None for verdict in self.verdicts.values()]


def tested(claimed: Sequence[Claim], ours: Mapping[Metric, Reproduced]) -> list[Tested]:
    """Test the claims; `ours` holds our values of every metric."""
    return [
        Tested(
            claim,
            framework,
            {series: _of_published(claim, framework, series) for series in SERIES},
            _of_ours(claim, framework, ours[claim.metric]),
        )
        for claim, framework in _by_framework(claimed, ours)
    ]


def of_section(section: Section, publication: Publication) -> tuple[list[Tested], Mapping[Metric, Reproduced]]:
    """Test the claims about metrics that match this section's conditions.

    Also returns what the section measured of every metric.
    """
    ours = {metric: Reproduced(section, publication, metric) for metric in publication.metrics}
    here = [claim for claim in publication.own_claims if not claim.metric.other_conditions(section.condition)]
    return tested(here, ours), ours


def table(every: Sequence[Tested], publication: Publication, ours: Mapping[Metric, Reproduced]) -> Table:
    """Build the table of tested claims of one section."""
    rows = [(Cell(t.text), *(Cell(told or ABSENT) for told in t.outcomes), Cell(t.why)) for t in every]
    tidy = [(t.text, t.claim.metric.name, t.framework, *t.outcomes, *t.whys) for t in every]
    bounds = {
        "strong": STRONG,
        "flat": FLAT,
        "twice": TWICE,
        "alpha": ERROR,
        "tie_percent": TIE_PERCENT,
    }
    how = say("published.how_claims_are_tested", **bounds)
    return Table(
        name="claims",
        title="Claims of the publication, tested",
        head=("Claim", "Published table", "Published chart", "Measured", "Why"),
        rows=tuple(rows),
        tidy=pd.DataFrame(tidy, columns=TIDY),
        below=(how, *notes(publication, ours.values())),
        words=True,
        theme=Theme.PUBLISHED,
    )


def notes(publication: Publication, ours: Iterable[Reproduced]) -> list[str]:
    """Notes on the claims, and on tasks tested in place of the published one."""
    tasks = {each.section.condition.task for each in ours}
    names = {(task.workload, task.dataset): task for task in tasks if publication.is_stand_in(task)}
    stand_in = [say("published.stand_in", workload=workload, dataset=dataset) for workload, dataset in names]
    return [*stand_in, *([publication.claims_note] if publication.claims_note else [])]


def _by_framework(claimed: Sequence[Claim], ours: Mapping[Metric, Reproduced]) -> list[tuple[Claim, str]]:
    """List (claim, framework) in table order: claims about named frameworks, then claims about each measured one."""
    named = [(claim, framework) for claim in claimed for framework in claim.frameworks]
    of_all = [claim for claim in claimed if not claim.frameworks]
    published = {claim.metric.framework for claim in of_all} - {""}
    measured = {framework for claim in of_all for framework, _ in ours[claim.metric].points}
    return named + [(claim, framework) for framework in ordered(published | measured) for claim in of_all]


def _of_published(claim: Claim, framework: str, series: str) -> ClaimVerdict | None:
    """Test a claim on a published series; None if that series has no such figures."""
    values = claim.metric.values.get(series)
    if values is None or claim.metric.framework not in ("", framework):
        return None
    return verdict(claim, framework, {place: Point(value, value, value, 0) for place, value in values.items()})


def _of_ours(claim: Claim, framework: str, ours: Reproduced) -> ClaimVerdict:
    if ours.obstacles_of_claims:
        return ClaimVerdict(Outcome.UNTOLD, "; ".join(ours.obstacles_of_claims))
    if framework not in frameworks(ours.points):
        return ClaimVerdict(Outcome.UNTOLD, f"nothing was measured of {display_name(framework)}")
    return verdict(claim, framework, ours.points)


def verdict(claim: Claim, framework: str, points: Mapping[Place, Point]) -> ClaimVerdict:
    """Test a claim on these values of all frameworks."""
    values = {size: points[name, size] for name, size in sorted(points) if name == framework}
    sizes, unit = claim.sizes, claim.metric.quantity.unit
    match claim.test:
        case "highest" | "lowest":
            others = [name for name in frameworks(claim.metric.published) if name != framework]
            return extreme(dict(points), framework, others, sizes, claim.test == "highest")
        case "rises":
            return rises(values)
        case "flat":
            return is_flat(values)
        case "jumps":
            return jumps(values, *sizes)
        case "peaks":
            return peaks(values, sizes, claim.neighbours, unit)
        case "falls":
            return falls(values, sizes, unit)
        case _:
            raise ValueError(f"{claim.test}: no such test of a claim")
