"""Evaluate claims about values at several batch sizes, published or ours, by the rule of `order`.

Published figures count as exact: their interval is the value itself. A value from one repeat has no interval, so its
claim neither holds nor fails. Such a claim is seen in this run, not seen, or the values are too close to each other. A
trend over five or more batch sizes is tested even so, because the sizes serve as repeats. Claims that compare two
sides: `claim_sides`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from workloads.statistics import (
    FEWEST_RANKED,
    FEWEST_TESTED,
    Verdict,
    decide,
    p_of_ranks,
    rank_correlation,
)

from ..frameworks import FrameworkNames
from ..order import TIE_PERCENT, Order, Point, Points, order
from ..sentences import listed
from .publication import Claim
from .reproduced import list_frameworks

STRONG, FLAT, TWICE = 0.8, 1.5, 2.0
NEAR = f"one repeat, within {TIE_PERCENT:g} %"


class Outcome(StrEnum):
    """Result of testing a claim; the last two are for values from one repeat."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNCERTAIN = "uncertain"
    SEEN = "seen in this run"
    UNSEEN = "not seen in this run"


@dataclass(frozen=True)
class ClaimVerdict:
    """An outcome and `why`, the numbers that led to it, in words.

    `p` is the probability of such a difference between two sides, or one so far beyond the claim's bounds, by chance.
    It is NaN without repeats of both sides. `tests`: the comparisons for whose number it was corrected, where only that
    made it uncertain.
    """

    outcome: Outcome
    why: str
    p: float = math.nan
    tests: int = 0


def judge_claim(claim: Claim, framework: str, points: Points, named: FrameworkNames) -> ClaimVerdict:
    """Test a claim about one metric on these values of all frameworks."""
    values = {size: points[name, size] for name, size in sorted(points) if name == framework}
    sizes, unit = claim.sizes, claim.metric.quantity.unit
    match claim.test:
        case "highest" | "lowest":
            others = [name for name in list_frameworks(claim.metric.published) if name != framework]
            return is_extreme(points, [framework, *others], sizes, claim.test == "highest", named)
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


def all_above(pairs: Sequence[tuple[Point, Point]], text: str, or_equal: bool = False) -> ClaimVerdict:
    """Test if the first value of each pair is above the second."""
    orders = {order(a, b) for a, b in pairs} - ({Order.EQUAL} if or_equal else set())
    if orders & {Order.BELOW, Order.EQUAL}:
        return ClaimVerdict(Outcome.FAILS, text)
    if orders <= {Order.ABOVE}:
        return ClaimVerdict(Outcome.HOLDS, text)
    if Order.BELOW_ONCE in orders:
        return ClaimVerdict(Outcome.UNSEEN, f"one repeat; {text}")
    if Order.TIE in orders:
        return ClaimVerdict(Outcome.UNCERTAIN, f"{NEAR}; in this run {text}")
    if Order.OVERLAP in orders:
        return ClaimVerdict(Outcome.UNCERTAIN, f"intervals overlap; {text}")
    return ClaimVerdict(Outcome.SEEN, f"one repeat; {text}")


def is_extreme(
    values: Points, every: Sequence[str], sizes: Sequence[int], highest: bool, named: FrameworkNames
) -> ClaimVerdict:
    """Test if the first of these frameworks has the highest, or lowest, value of all at each of the batch sizes."""
    framework, *others = every
    missing = [size for size in sizes if any((name, size) not in values for name in every)]
    if missing or not others:
        return ClaimVerdict(Outcome.UNCERTAIN, f"no value of all frameworks at {listed(missing)}")
    pick, word = (max, "highest") if highest else (min, "lowest")
    ends = {size: pick(every, key=lambda name: values[name, size].value) for size in sizes}
    text = ", ".join(
        f"{named(name)} at {listed(size for size in sizes if ends[size] == name)}"
        for name in dict.fromkeys(ends.values())
    )
    pairs = [(values[framework, size], values[other, size]) for size in sizes for other in others]
    return all_above(pairs if highest else [(b, a) for a, b in pairs], f"{word} is {text}")


def rises(values: dict[int, Point]) -> ClaimVerdict:
    """Test if values and batch sizes have a rank correlation of STRONG or more."""
    sizes, numbers = list(values), [point.value for point in values.values()]
    published = all(point.n == 0 for point in values.values())
    if len(sizes) < (fewest := FEWEST_RANKED if published else FEWEST_TESTED):
        return _few(values, fewest)
    rho = rank_correlation(sizes, numbers)
    if published:
        return ClaimVerdict(Outcome.HOLDS if rho >= STRONG else Outcome.FAILS, f"rank correlation {rho:.2f}")
    if math.isnan(rho):
        return ClaimVerdict(Outcome.FAILS, "all values are the same")
    p = p_of_ranks(sizes, numbers)
    sure = decide(rho, rho, p=p) is not Verdict.UNDECIDED
    outcome = Outcome.UNCERTAIN if not sure else Outcome.HOLDS if rho >= STRONG else Outcome.FAILS
    return ClaimVerdict(outcome, describe_correlation(rho, len(sizes), p))


def describe_correlation(rho: float, n: int, p: float) -> str:
    """Format "rank correlation 0.95, n = 9, p = 0.002"."""
    return f"rank correlation {rho:.2f}, n = {n}, {'p < 0.001' if p < 0.001 else f'p = {p:.3f}'}"


def is_flat(values: dict[int, Point]) -> ClaimVerdict:
    """Test if the highest value is at most FLAT times the lowest."""
    if len(values) < FEWEST_RANKED:
        return _few(values, FEWEST_RANKED)
    points = values.values()
    top, bottom = (pick(point.value for point in points) for pick in (max, min))
    text = f"highest is {top / bottom:.2f} times the lowest" if bottom else "the lowest is 0"
    return all_above([(a.times(FLAT), b) for a in points for b in points], text, or_equal=True)


def jumps(values: dict[int, Point], before: int, after: int) -> ClaimVerdict:
    """Test if the value at the second batch size is at least TWICE the value at the first."""
    if missing := _missing(values, (before, after)):
        return missing
    a, b = values[before], values[after]
    text = f"{b.value / a.value:.2f} times the value at {before}" if a.value else f"the value at {before} is 0"
    return all_above([(b, a.times(TWICE))], text, or_equal=True)


def peaks(values: dict[int, Point], sizes: Sequence[int], neighbours: Sequence[int], unit: str) -> ClaimVerdict:
    """Test if the highest value is at one of these batch sizes.

    The neighbouring sizes must have values: otherwise a peak beyond the sizes that were run could look like one here.
    """
    inside, outside = [size for size in sizes if size in values], [size for size in values if size not in sizes]
    if missing := _missing(values, sorted((*neighbours, *(() if inside else sizes)))):
        return missing
    best, rival = (max(some, key=lambda size: values[size].value) for some in (inside, outside))
    text = f"{values[best].value:.2f} {unit} at {best}, outside at most {values[rival].value:.2f} {unit} at {rival}"
    ahead = all_above([(values[best], values[size]) for size in outside], text)
    if ahead.outcome not in (Outcome.FAILS, Outcome.UNSEEN):
        return ahead
    if len(inside) == len(sizes):  # otherwise the size that was not run might be higher
        beaten = [all_above([(values[size], values[mine]) for mine in inside], text).outcome for size in outside]
        if Outcome.HOLDS in beaten:
            return ClaimVerdict(Outcome.FAILS, text)
        if Outcome.SEEN in beaten:
            return ClaimVerdict(Outcome.UNSEEN, f"one repeat; {text}")
    return ClaimVerdict(Outcome.UNCERTAIN, text)


def falls(values: dict[int, Point], sizes: Sequence[int], unit: str) -> ClaimVerdict:
    """Test if the values decrease from each of these batch sizes to the next."""
    if missing := _missing(values, sizes):
        return missing
    text = ", ".join(f"{values[size].value:.2f} {unit} at {size}" for size in sizes)
    return all_above([(values[a], values[b]) for a, b in itertools.pairwise(sizes)], text)


def _few(values: dict[int, Point], fewest: int) -> ClaimVerdict:
    return ClaimVerdict(Outcome.UNCERTAIN, f"{len(values)} batch sizes, {fewest} are needed")


def _missing(values: dict[int, Point], sizes: Sequence[int]) -> ClaimVerdict | None:
    missing = [size for size in sizes if size not in values]
    return ClaimVerdict(Outcome.UNCERTAIN, f"no value at {listed(missing)}") if missing else None
