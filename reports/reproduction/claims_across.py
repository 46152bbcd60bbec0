"""Test claims that compare two series of a study, over all sections of a report.

Examples: SGD and Adam, one thread and all, memory and parameters. Two sections are compared if they differ only in the
settings by which the claim names them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from ..condition_text import ABSENT
from ..conditions import Section
from ..frameworks import ordered
from ..order import TIE_PERCENT, Point, Points
from ..quantities import MEMORY, MEMORY_PARTS, STEPS_PEAK
from ..sentences import listed, say
from ..table import Cell, Table, Theme
from . import claims
from .claim_tests import ClaimVerdict, Outcome, all_above, gains_nothing, is_times, mean_difference, same
from .claims import Tested, notes
from .publication import Claim, Publication, beside
from .reproduced import Reproduced, frameworks
from .selection import DEVICE_KIND, alike

NAME, PUBLISHED = "claims-across", "published"
TIDY = [
    "claim", "quantity", "against", "framework", "sections", "published", "measured", "why_published", "why_measured",
]  # fmt: skip

Pairs = Mapping[tuple[int, int], tuple[Point, Point]]  # {batch sizes: values of a claim's first and second side}


@dataclass(frozen=True)
class Sides:
    """Measured values of a claim's metric and of the metric it is compared with.

    `numbers` are those of their sections. With two kinds of device, each kind has its own installation.
    """

    a: Reproduced
    b: Reproduced
    numbers: tuple[int, int]
    of_two_devices: bool

    @property
    def frameworks(self) -> list[str]:
        """Frameworks with values on both sides in the same software."""
        of_a, of_b = (side.section.software for side in (self.a, self.b))
        measured = {*frameworks(self.a.points)} & {*frameworks(self.b.points)}
        return ordered(name for name in measured if self.of_two_devices or of_a[name] == of_b[name])


@dataclass(frozen=True)
class Across(Tested):
    """A tested claim with `numbers` of its two sections, none if nothing was measured."""

    numbers: tuple[int, ...]


def of_sections(sections: Sequence[Section]) -> list[Table]:
    """Build a table for each publication that has such claims and fits a section."""
    made = [(*each, told) for each in _held(sections).items() if (told := _tested(*each))]
    return [
        table(publication, held, told, NAME if len(made) == 1 else f"{NAME}-{publication.name}")
        for publication, held, told in made
    ]


def tested(sections: Sequence[Section]) -> Iterator[tuple[Publication, Tested]]:
    """Yield every claim tested on these sections: those of each section, then those across sections."""
    for publication, held in _held(sections).items():
        for section in held.values():
            yield from ((publication, each) for each in claims.of_section(section, publication)[0])
        yield from ((publication, each) for each in _tested(publication, held))


def headline(sections: Sequence[Section]) -> tuple[str, str] | None:
    """Return (outcomes of the claims in words, the quantity they are about); None without such claims."""
    told = _measured(sections)
    if not told:
        return None
    first = told[0].claim.metric.quantity
    about = MEMORY if first in (*MEMORY_PARTS, STEPS_PEAK) else first
    return say("published.claims", outcomes={"": _outcomes(told)}), about.name


def finding(sections: Sequence[Section]) -> str:
    """Summarise the outcomes per framework; "" if a report has no such claims."""
    by_framework: dict[str, list[Across]] = {}
    for each in _measured(sections):
        by_framework.setdefault(each.framework, []).append(each)
    if not by_framework:
        return ""
    outcomes = {name: _outcomes(by_framework[name]) for name in ordered(by_framework)}
    return f"{say('published.claims', outcomes=outcomes)}."


def _measured(sections: Sequence[Section]) -> list[Across]:
    """Claims of every publication for which both sides were run."""
    every = (each for publication, held in _held(sections).items() for each in _tested(publication, held))
    return [each for each in every if each.numbers]


def _outcomes(told: Sequence[Across]) -> dict[str, int]:
    """Count {outcome: how many}, in the order of Outcome."""
    counts = Counter(each.measured.outcome for each in told)
    return {str(outcome): counts[outcome] for outcome in Outcome if counts[outcome]}


def _held(sections: Sequence[Section]) -> dict[Publication, dict[int, Section]]:
    """Map {publication: {number: section}}, for the sections that fit."""
    held: dict[Publication, dict[int, Section]] = {}
    for number, section in enumerate(sections, start=1):
        for publication in beside(section) if section.results else ():
            held.setdefault(publication, {})[number] = section
    return held


def _tested(publication: Publication, held: dict[int, Section]) -> list[Across]:
    """Tested claims with published figures, or with both sides run."""
    every = (
        Across(
            claim,
            framework,
            {PUBLISHED: _of_published(claim, framework)},
            _of_ours(claim, framework, sides),
            tuple(dict.fromkeys(sides.numbers)) if sides else (),
        )
        for claim in publication.claims_across
        for framework, sides in _rows(claim, publication, held)
    )
    return [each for each in every if each.numbers or each.published[PUBLISHED]]


def table(publication: Publication, held: dict[int, Section], told: Sequence[Across], name: str = NAME) -> Table:
    """Build the table; `held` are sections by their number, `told` the claims tested on them."""
    rows, tidy = [], []
    untold = len(publication.claims_across) - len({each.claim.text for each in told})
    for each in told:
        numbers, against = listed(each.numbers) or ABSENT, each.claim.against
        assert against
        outcomes = each.outcomes
        rows.append((Cell(each.text), Cell(numbers), *(Cell(told or ABSENT) for told in outcomes), Cell(each.why)))
        key = each.text, each.claim.metric.name, against.name, each.framework, numbers
        tidy.append((*key, *outcomes, *each.whys))
    every = [Reproduced(section, publication, publication.metrics[0]) for section in held.values()]
    return Table(
        name=name,
        title="Claims over the series of the study, tested",
        head=("Claim", "Sections", "Published", "Measured", "Why"),
        rows=tuple(rows),
        tidy=pd.DataFrame(tidy, columns=TIDY),
        above=(publication.source,),
        below=(
            say("published.how_claims_across_are_tested", tie_percent=TIE_PERCENT),
            *notes(publication, every),
            *([say("published.claims_without_sides", number=untold)] if untold else []),
        ),
        words=True,
        theme=Theme.PUBLISHED,
    )


def _rows(claim: Claim, publication: Publication, held: dict[int, Section]) -> Iterator[tuple[str, Sides | None]]:
    """Yield (framework, what was measured), for each pair of sections and each framework in both.

    The framework that the figures were published for is included even if it was not measured, with None.
    """
    told = set()
    for sides in _sides(claim, publication, held):
        for framework in sides.frameworks:
            told.add(framework)
            yield framework, sides
    published = {metric.framework for metric in (claim.metric, claim.against) if metric and metric.framework}
    for framework in ordered({*published, *claim.frameworks, *(() if told or published else _named(held))} - told):
        yield framework, None


def _named(held: dict[int, Section]) -> list[str]:
    return ordered(result.spec.cell.framework for section in held.values() for result in section.results)


def _sides(claim: Claim, publication: Publication, held: dict[int, Section]) -> Iterator[Sides]:
    assert claim.against
    keys = claim.metric.selectors | claim.against.selectors
    for number_a, a in held.items():
        if claim.metric.other_conditions(a.condition):
            continue
        for number_b, b in held.items():
            if not claim.against.other_conditions(b.condition) and alike(a.condition, b.condition, keys):
                of_a, of_b = Reproduced(a, publication, claim.metric), Reproduced(b, publication, claim.against)
                yield Sides(of_a, of_b, (number_a, number_b), DEVICE_KIND in keys)


def _of_published(claim: Claim, framework: str) -> ClaimVerdict | None:
    """Test a claim on published figures; None if either side has none."""
    assert claim.against
    of_a, of_b = (
        {place: Point(value, value, value, 0) for place, value in metric.published.items() if place[0] == framework}
        for metric in (claim.metric, claim.against)
    )
    return verdict(claim, framework, of_a, of_b) if of_a and of_b else None


def _exact(pairs: Pairs) -> Point:
    """Mean difference of figures that count as exact."""
    mean = math.fsum(a.value - b.value for a, b in pairs.values()) / len(pairs)
    return Point(mean, mean, mean, 0)


def _of_ours(claim: Claim, framework: str, sides: Sides | None) -> ClaimVerdict:
    if sides is None:
        return ClaimVerdict(Outcome.UNTOLD, "no two sections of one software and machine hold both sides")
    if reasons := dict.fromkeys((*sides.a.obstacles_of_claims, *sides.b.obstacles_of_claims)):
        return ClaimVerdict(Outcome.UNTOLD, "; ".join(reasons))

    def difference(pairs: Pairs) -> Point | None:
        of_a, of_b = sides.a.repeats, sides.b.repeats
        return mean_difference([(of_a[framework, x], of_b[framework, y]) for x, y in pairs], sides.a.least_spread)

    return verdict(claim, framework, sides.a.points, sides.b.points, difference)


def verdict(
    claim: Claim, framework: str, a: Points, b: Points, difference: Callable[[Pairs], Point | None] = _exact
) -> ClaimVerdict:
    """Test a claim on these values of both sides; `difference` gives the mean difference over all pairs."""
    missing = [_at(x, y) for x, y in claim.pairs if (framework, x) not in a or (framework, y) not in b]
    if missing:
        return ClaimVerdict(Outcome.UNTOLD, f"no value of both sides at {listed(missing)}")
    pairs = {(x, y): (a[framework, x], b[framework, y]) for x, y in claim.pairs}
    if claim.test == "above":
        unit = claim.metric.quantity.unit
        text = (f"{p.value:.2f} against {q.value:.2f} {unit} at {_at(*at)}" for at, (p, q) in pairs.items())
        return all_above(list(pairs.values()), ", ".join(text))
    if claim.test == "times":
        return is_times(list(pairs.values()), claim.factor, claim.within)
    shift = difference(pairs)
    if shift is None:
        return ClaimVerdict(Outcome.UNTOLD, "no repeat is on both sides")
    return (gains_nothing if claim.test == "no-gain" else same)(shift, claim.within, claim.metric.unit)


def _at(x: int, y: int) -> str:
    return str(x) if x == y else f"{x} against {y}"
