"""Each claim of the published prose that figures can test: on its own figures, table and chart, and on ours.

Published figures are taken at their word, ours with intervals.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from ..frameworks import display_name, ordered
from ..order import TIE_PERCENT, Point
from ..sentences import say
from ..table import Cell, Table, Theme
from ..tables import Place
from . import rank_correlation
from .claim_tests import FLAT, STRONG, TWICE, Outcome, Verdict, extreme, falls, is_flat, jumps, peaks, rises
from .publication import SERIES, Claim, Metric, Publication
from .reproduced import Reproduced, frameworks

WORDING = "published"
TIDY = [
    "claim", "quantity", "framework", "published_table", "published_chart", "measured", "why_table", "why_chart",
    "why_measured",
]  # fmt: skip


def table(publication: Publication, ours: Mapping[Metric, Reproduced]) -> Table:
    """`ours` are those of every metric."""
    rows, tidy = [], []
    for claim, framework in _by_framework(publication, ours):
        text = claim.text.format(framework=display_name(framework))
        verdicts = {series: _of_published(claim, framework, series) for series in SERIES}
        verdicts["measured"] = _of_ours(claim, framework, ours[claim.metric])
        why = "; ".join(f"{where}: {verdict.why}" for where, verdict in verdicts.items() if verdict)
        outcomes = [str(verdict.outcome) if verdict else None for verdict in verdicts.values()]
        rows.append((Cell(text), *(Cell(outcome or "\N{EN DASH}") for outcome in outcomes), Cell(why)))
        whys = (verdict.why if verdict else None for verdict in verdicts.values())
        tidy.append((text, claim.metric.name, framework, *outcomes, *whys))
    bounds = {
        "strong": STRONG,
        "flat": FLAT,
        "twice": TWICE,
        "alpha": rank_correlation.ALPHA,
        "tie_percent": TIE_PERCENT,
    }
    how = say(WORDING, "how_claims_are_tested", **bounds)
    return Table(
        name="claims",
        title="Claims of the publication, tested",
        head=("Claim", "Published table", "Published chart", "Measured", "Why"),
        rows=tuple(rows),
        tidy=pd.DataFrame(tidy, columns=TIDY),
        below=(how, *([publication.claims_note] if publication.claims_note else [])),
        words=True,
        theme=Theme.PUBLISHED,
    )


def _by_framework(publication: Publication, ours: Mapping[Metric, Reproduced]) -> list[tuple[Claim, str]]:
    """In the order of the table: those of certain frameworks, then those of each that was measured."""
    named = [(claim, framework) for claim in publication.claims for framework in claim.frameworks]
    of_all = [claim for claim in publication.claims if not claim.frameworks]
    published = {claim.metric.framework for claim in of_all} - {""}
    measured = {framework for claim in of_all for framework, _ in ours[claim.metric].points}
    return named + [(claim, framework) for framework in ordered(published | measured) for claim in of_all]


def _of_published(claim: Claim, framework: str, series: str) -> Verdict | None:
    """None where that series has no such figures."""
    values = claim.metric.values.get(series)
    if values is None or claim.metric.framework not in ("", framework):
        return None
    return verdict(claim, framework, {place: Point(value, value, value, 0) for place, value in values.items()})


def _of_ours(claim: Claim, framework: str, ours: Reproduced) -> Verdict:
    if ours.obstacles:
        return Verdict(Outcome.UNTOLD, "; ".join(ours.obstacles))
    if framework not in frameworks(ours.points):
        return Verdict(Outcome.UNTOLD, f"nothing was measured of {display_name(framework)}")
    return verdict(claim, framework, ours.points)


def verdict(claim: Claim, framework: str, points: Mapping[Place, Point]) -> Verdict:
    """On these values of all frameworks."""
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
