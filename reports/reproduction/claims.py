"""Test the claims of publications, on their own figures and on ours, and show what came of them.

Published figures count as exact, ours have intervals. A claim about one metric is tested on its published table and
chart, and in each section. One that compares two metrics (SGD and Adam, one thread and all, memory and parameters) is
tested over all sections of a report. Two sections are compared if they differ only in the settings by which the claim
names them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from workloads.statistics import CONFIDENCE_PERCENT, ERROR, Estimate

from ..condition_text import ABSENT
from ..conditions import DEVICE_KIND, Section, alike, settings
from ..frameworks import FrameworkNames, order_frameworks
from ..order import TIE_PERCENT, Point, Points
from ..quantities import ACCURACY
from ..sentences import listed, note_corrected, say
from ..table import Columns, Record, Table, TableCell, Theme, build_rows
from ..tables import Place
from .claim_sides import MeanDifference, Pairs, compute_mean_difference, correct, estimate_effect, judge_sides
from .claim_tests import FLAT, STRONG, TWICE, ClaimVerdict, Outcome, judge_claim
from .publication import SERIES, Article, Claim, Metric, find_articles
from .reproduced import Reproduced, list_frameworks

NAME, ACROSS = "claims", "claims-across"
EXCLUDED = "0, or the bound of the claim,"  # by an interval whose verdict the correction overruled
MEASURED, PUBLISHED = "measured", "published"
BOUNDS = {"strong": STRONG, "flat": FLAT, "twice": TWICE, "alpha": ERROR, "tie_percent": TIE_PERCENT}


@dataclass(frozen=True)
class TestedClaim:
    """A claim about a framework, which tables call `name`, tested.

    `published` is {series: verdict on its figures, None if it has none}. `numbers` are those of the two sections that
    a claim across sections compares, none if nothing was measured. `figures` are further columns of its row in files.
    """

    claim: Claim
    framework: str
    name: str
    published: Mapping[str, ClaimVerdict | None]
    measured: ClaimVerdict
    numbers: tuple[int, ...] = ()
    figures: Mapping[str, Any] = field(default_factory=dict)

    @property
    def record(self) -> dict[str, Any]:
        """Row of a table: outcomes and their reasons, the published ones first."""
        against = self.claim.against
        verdicts = {f"{PUBLISHED}_{name}" if name in SERIES else name: told for name, told in self.published.items()}
        verdicts[MEASURED] = self.measured
        return {
            "claim": self.claim.text.format(framework=self.name),
            "quantity": self.claim.metric.name,
            **({"against": against.name} if against else {}),
            "framework": self.framework,
            **self.figures,
            **({"sections": listed(self.numbers) or ABSENT} if against else {}),
            **{name: str(told.outcome) if told else None for name, told in verdicts.items()},
            **{f"why_{name.split('_')[-1]}": told.why if told else None for name, told in verdicts.items()},
        }


def evaluate_section(section: Section, publication: Article) -> tuple[list[TestedClaim], Mapping[Metric, Reproduced]]:
    """Test the claims about metrics that match this section's conditions.

    Also returns what the section measured of every metric.
    """
    ours = {metric: Reproduced(section, publication, metric) for metric in publication.metrics}
    of_one = [claim for claim in publication.claims if claim.against is None]
    here = [claim for claim in of_one if not claim.metric.other_conditions(section.condition)]
    tested = [
        _test(claim, framework, (ours[claim.metric],), section.named) for claim, framework in _by_framework(here, ours)
    ]
    return _correct(tested), ours


def _correct(tested: Sequence[TestedClaim]) -> list[TestedClaim]:
    """Correct what was measured for the number of the table's comparisons."""
    corrected = correct([each.measured for each in tested])
    return [replace(each, measured=measured) for each, measured in zip(tested, corrected, strict=True)]


def _by_framework(claimed: Sequence[Claim], ours: Mapping[Metric, Reproduced]) -> list[tuple[Claim, str]]:
    """List (claim, framework) in table order: claims about named frameworks, then claims about each measured one."""
    named = [(claim, framework) for claim in claimed for framework in claim.frameworks]
    of_all = [claim for claim in claimed if not claim.frameworks]
    published = {claim.metric.framework for claim in of_all} - {""}
    measured = {framework for claim in of_all for framework, _ in ours[claim.metric].points}
    return named + [(claim, framework) for framework in order_frameworks(published | measured) for claim in of_all]


def _test(
    claim: Claim, framework: str, sides: Sequence[Reproduced], named: FrameworkNames, numbers: tuple[int, ...] = ()
) -> TestedClaim:
    published, measured = _published(claim, framework, named), _measured(claim, framework, sides, named)
    return TestedClaim(claim, framework, named(framework), published, measured, numbers)


def _published(claim: Claim, framework: str, named: FrameworkNames) -> dict[str, ClaimVerdict | None]:
    """Test a claim on each published series, or one of two metrics on the first of each."""
    if claim.against:
        a, b = (
            _exact({place: value for place, value in metric.published.items() if place[0] == framework})
            for metric in (claim.metric, claim.against)
        )
        return {PUBLISHED: judge_sides(claim, framework, a, b) if a and b else None}
    values = claim.metric.values if claim.metric.framework in ("", framework) else {}
    exact = {series: _exact(of_series) for series, of_series in values.items()}
    if claim.rival:
        sides = {series: (points, _as(framework, points, claim.rival)) for series, points in exact.items()}
        return {series: judge_sides(claim, framework, *both) for series, both in sides.items()}
    return {each: judge_claim(claim, framework, exact[each], named) if each in exact else None for each in SERIES}


def _as(framework: str, points: Points, rival: str) -> Points:
    """Return the rival's points as those of the framework that it is compared with."""
    return {(framework, size): point for (name, size), point in points.items() if name == rival}


def _exact(values: Mapping[Place, float]) -> Points:
    return {place: Point(value, value, value, 0) for place, value in values.items()}


def _measured(claim: Claim, framework: str, sides: Sequence[Reproduced], named: FrameworkNames) -> ClaimVerdict:
    """Test a claim on our values of its metric, and of the one that it is compared with."""
    if not sides:
        return ClaimVerdict(Outcome.UNCERTAIN, "no two sections with the same software and machine hold both sides")
    if reasons := dict.fromkeys(reason for side in sides for reason in side.obstacles_of_claims):
        return ClaimVerdict(Outcome.UNCERTAIN, "; ".join(reasons))
    if any(framework not in list_frameworks(side.points) for side in sides):
        return ClaimVerdict(Outcome.UNCERTAIN, f"nothing was measured for {named(framework)}")
    if claim.against is None and not claim.rival:
        return judge_claim(claim, framework, sides[0].points, named)
    a, b, other = sides[0], sides[-1], claim.rival or framework

    def find_repeats(x: int, y: int) -> tuple[Mapping[int, float], Mapping[int, float]]:
        # `repeats` leave out diverged trials: a point may rest on them alone
        return a.repeats.get((framework, x), {}), b.repeats.get((other, y), {})

    def subtract(pairs: Pairs) -> MeanDifference | None:
        bounds = a.metric.quantity.figures[0].difference_bounds
        return compute_mean_difference([find_repeats(*pair) for pair in pairs], a.least_spread, bounds)

    def contrast(x: int, y: int) -> Estimate | None:
        return estimate_effect(*find_repeats(x, y), a.least_spread, absolute=a.metric.quantity is ACCURACY)

    return judge_sides(claim, framework, a.points, _as(framework, b.points, other), subtract, contrast)


def hold_sections(sections: Sequence[Section]) -> dict[Article, dict[int, Section]]:
    """Map {publication: {number: section}}, for the sections that fit."""
    held: dict[Article, dict[int, Section]] = {}
    for number, section in enumerate(sections, start=1):
        for publication in find_articles(section) if section.results else ():
            held.setdefault(publication, {})[number] = section
    return held


def judge_all(sections: Sequence[Section]) -> Iterator[tuple[Article, TestedClaim]]:
    """Yield every claim tested on these sections: those of each section, then those across sections."""
    for publication, held in hold_sections(sections).items():
        for section in held.values():
            yield from ((publication, each) for each in evaluate_section(section, publication)[0])
        yield from ((publication, each) for each in judge_across(publication, held))


def judge_across(publication: Article, held: dict[int, Section]) -> list[TestedClaim]:
    """Test the claims that compare two metrics, and have published figures or both sides run."""
    named = next(iter(held.values())).named
    every = (
        _test(claim, framework, sides, named, numbers)
        for claim in publication.claims
        if claim.against
        for framework, sides, numbers in _rows(claim, claim.against, publication, held)
    )
    return _correct([each for each in every if each.numbers or each.published[PUBLISHED]])


def _rows(
    claim: Claim, against: Metric, publication: Article, held: dict[int, Section]
) -> Iterator[tuple[str, tuple[Reproduced, ...], tuple[int, ...]]]:
    """Yield (framework, both sides, numbers of their sections), for each pair of sections and each framework in both.

    The framework that the figures were published for is included even if it was not measured, without sides.
    """
    keys, told = claim.metric.selectors | against.selectors, set()
    firsts, seconds = (
        [(number, section) for number, section in held.items() if not metric.other_conditions(section.condition)]
        for metric in (claim.metric, against)
    )
    for (number_a, a), (number_b, b) in itertools.product(firsts, seconds):
        but = {key for key in keys if settings(a.condition).get(key) != settings(b.condition).get(key)}
        if not alike(a.condition, b.condition, but):
            continue
        sides = Reproduced(a, publication, claim.metric), Reproduced(b, publication, against)
        for framework in order_frameworks({*list_frameworks(sides[0].points)} & {*list_frameworks(sides[1].points)}):
            # Two kinds of device have an installation each.
            if DEVICE_KIND in but or a.software[framework] == b.software[framework]:
                told.add(framework)
                yield framework, sides, tuple(dict.fromkeys((number_a, number_b)))
    published = {metric.framework for metric in (claim.metric, against) if metric.framework}
    named = {result.spec.cell.framework for section in held.values() for result in section.results}
    for framework in order_frameworks({*published, *claim.frameworks, *(() if told or published else named)} - told):
        yield framework, (), ()


def build_table(every: Sequence[TestedClaim], publication: Article, section: Section) -> Table:
    """Build the table of the claims that this section tests."""
    how = [
        *([say("published.how_claims_are_tested", **BOUNDS)] if any(not each.claim.rival for each in every) else []),
        *([_say_how_sides_are_tested(columns=True)] if any(each.claim.rival for each in every) else []),
    ]
    return build_claim_table(
        NAME, "Claims of the publication, tested", every, (), (*how, *_notes(publication, [section]))
    )


def _say_how_sides_are_tested(columns: bool = False) -> str:
    return say(
        "published.how_claims_across_are_tested",
        tie_percent=TIE_PERCENT,
        confidence_percent=CONFIDENCE_PERCENT,
        error_percent=f"{100 * ERROR:g}",
        columns=columns,
    )


def tables_across(sections: Sequence[Section]) -> list[Table]:
    """Build a table of the claims that compare sections, for each publication that has such claims and fits one."""
    held = hold_sections(sections)
    told = {publication: tested for publication in held if (tested := judge_across(publication, held[publication]))}
    tables = []
    for publication, tested in told.items():
        claimed = [claim for claim in publication.claims if claim.against]
        untold = len(claimed) - len({each.claim.text for each in tested})
        below = (
            _say_how_sides_are_tested(),
            *_notes(publication, held[publication].values()),
            *([say("published.claims_without_sides", number=untold)] if untold else []),
        )
        name = ACROSS if len(told) == 1 else f"{ACROSS}-{publication.name}"
        title = "Claims over the series of the study, tested"
        tables.append(build_claim_table(name, title, tested, (publication.source,), below))
    return tables


def build_claim_table(
    name: str, title: str, every: Sequence[TestedClaim], above: tuple[str, ...], below: tuple[str, ...]
) -> Table:
    """Build a table with a row per tested claim, one or more: what came of it, and why."""
    records = [each.record for each in every]
    left_out = ("quantity", "against", "framework", *every[0].figures)
    every_key = dict.fromkeys(key for record in records for key in record)
    names = [key for key in every_key if key not in left_out and not key.startswith("why_")]
    shown: Columns = {key.replace("_", " ").capitalize(): _text_of(key) for key in names} | {"Why": _why}
    rows = build_rows(records, shown)
    overruled = note_corrected([each.measured.tests for each in every if each.measured.tests], EXCLUDED)
    return Table(name, title, *rows, above=(*above, *overruled), below=below, words=True, theme=Theme.PUBLISHED)


def _text_of(key: str) -> Callable[[Record], TableCell]:
    return lambda record: TableCell(record.get(key) or ABSENT)


def _why(record: Record) -> TableCell:
    whys = {key.removeprefix("why_"): why for key, why in record.items() if key.startswith("why_") and why is not None}
    return TableCell("; ".join(f"{where}: {why}" for where, why in whys.items()))


def _notes(publication: Article, sections: Iterable[Section]) -> list[str]:
    """Notes on the claims, and on tasks tested in place of the published one."""
    tasks = {section.condition.task for section in sections}
    names = {(task.workload, task.dataset) for task in tasks if publication.is_stand_in(task)}
    stand_in = [say("published.stand_in", workload=workload, dataset=dataset) for workload, dataset in sorted(names)]
    return [*stand_in, *([publication.claims_note] if publication.claims_note else [])]
