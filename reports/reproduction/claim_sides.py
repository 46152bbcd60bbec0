"""Evaluate claims that compare two sides: another metric, another series or another framework.

Two sides that were run are compared in pairs of repeats, because these share their seeds. The verdicts on differences
of one table are corrected for their number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from workloads.statistics import (
    LEAST_SPREAD,
    Estimate,
    Verdict,
    benjamini_hochberg,
    cut_interval,
    decide,
    estimate_mean,
    is_significant,
)

from ..order import Point, Points
from ..sentences import listed
from .claim_tests import ClaimVerdict, Outcome, all_above
from .publication import Claim

Pairs = Mapping[tuple[int, int], tuple[Point, Point]]  # {batch sizes: values of a claim's first and second side}


@dataclass(frozen=True)
class MeanDifference(Point):
    """The mean difference of two sides; `estimate` is that of its repeats, None for one repeat or exact figures."""

    estimate: Estimate | None = None


def correct(verdicts: Sequence[ClaimVerdict]) -> list[ClaimVerdict]:
    """Correct the verdicts of one table for their number, after Benjamini and Hochberg.

    A verdict that chance explains after the correction is uncertain. Claims that hold because two sides are alike stay.
    """
    every = [each.p for each in verdicts]
    tests = sum(not math.isnan(p) for p in every)
    return [_overrule(each, p, tests) for each, p in zip(verdicts, benjamini_hochberg(every), strict=True)]


def _overrule(verdict: ClaimVerdict, p: float, tests: int) -> ClaimVerdict:
    if is_significant(p) or not is_significant(verdict.p):
        return verdict
    return ClaimVerdict(Outcome.UNCERTAIN, f"{verdict.why}, corrected p {p:.2g}", p, tests)


def subtract_exact(pairs: Pairs) -> MeanDifference:
    """Return the mean difference of figures that count as exact."""
    mean = math.fsum(a.value - b.value for a, b in pairs.values()) / len(pairs)
    return MeanDifference(mean, mean, mean, 0)


def judge_sides(
    claim: Claim,
    framework: str,
    a: Points,
    b: Points,
    subtract: Callable[[Pairs], MeanDifference | None] = subtract_exact,
    contrast: Callable[[int, int], Estimate | None] = lambda *_: None,
) -> ClaimVerdict:
    """Test a claim that compares two metrics.

    `subtract` gives the mean difference over all pairs, `contrast` what `estimate_effect` finds at one pair of sizes.
    """
    missing = [_at(x, y) for x, y in claim.pairs if (framework, x) not in a or (framework, y) not in b]
    if missing:
        return ClaimVerdict(Outcome.UNCERTAIN, f"no value of both sides at {listed(missing)}")
    pairs = {(x, y): (a[framework, x], b[framework, y]) for x, y in claim.pairs}
    if claim.test == "above":
        unit = claim.metric.quantity.unit
        text = (f"{p.value:.2f} against {q.value:.2f} {unit} at {_at(*at)}" for at, (p, q) in pairs.items())
        effects = [contrast(*at) for at in pairs]
        found = [effect for effect in effects if effect]
        if len(found) == len(effects):
            return are_above(found, ", ".join(text))
        return all_above(list(pairs.values()), ", ".join(text))
    if claim.test == "times":
        return is_times(list(pairs.values()), claim.factor, claim.within)
    shift = subtract(pairs)
    if shift is None:
        return ClaimVerdict(Outcome.UNCERTAIN, "no repeat is on both sides")
    one_sided = claim.test == "no-gain"  # otherwise "same"
    said = f"mean difference {_signed(shift, claim.metric.unit)}"
    verdict = _between([shift], -math.inf if one_sided else -claim.within, claim.within, said)
    if shift.estimate is None:
        return verdict
    test = shift.estimate.p_past if one_sided else shift.estimate.p_beyond
    return replace(verdict, p=test(claim.within))


def _at(x: int, y: int) -> str:
    return str(x) if x == y else f"{x} against {y}"


def are_above(effects: Sequence[Estimate], text: str) -> ClaimVerdict:
    """Test if the first value of each pair is above the second, by the paired effects of `estimate_effect`."""
    places = [decide(*effect.interval) for effect in effects]
    p_below = min((each.p_apart for each in effects if decide(*each.interval) is Verdict.WORSE), default=1.0)
    if is_significant(len(effects) * p_below):  # any of the pairs can fail: after Bonferroni
        return ClaimVerdict(Outcome.FAILS, text, len(effects) * p_below)
    p_above = max(each.p_apart if each.value > 0 else 1.0 for each in effects)
    if Verdict.WORSE in places:
        why = f"{text}, p {len(effects) * p_below:.2g} corrected for {len(effects)} batch sizes"
        return ClaimVerdict(Outcome.UNCERTAIN, why, p_above, len(effects))
    if all(place is Verdict.BETTER for place in places):
        return ClaimVerdict(Outcome.HOLDS, text, p_above)
    return ClaimVerdict(Outcome.UNCERTAIN, f"an interval of the paired repeats reaches both sides; {text}", p_above)


def estimate_effect(
    a: Mapping[int, float], b: Mapping[int, float], least_spread: float, absolute: bool
) -> Estimate | None:
    """Estimate how far the first side is above the second, from the repeats that both have; each is {repeat: value}.

    The effect is the mean of the logarithms of the ratios, or with `absolute` of the differences. Returns None with
    fewer than two common repeats, and for a ratio with a value that is not above 0.
    """
    pairs = [(a[repeat], b[repeat]) for repeat in sorted({*a} & {*b})]
    if len(pairs) < 2 or (not absolute and min(map(min, pairs)) <= 0):
        return None
    values = [x - y if absolute else math.log(x / y) for x, y in pairs]
    return estimate_mean(values, least_spread if absolute else LEAST_SPREAD)


def is_times(pairs: Sequence[tuple[Point, Point]], factor: float, within: float) -> ClaimVerdict:
    """Test if the first value of each pair is `factor` times the second.

    The ratio may differ by the share `within` of the factor. For a factor of 0 it may be at most `within`.
    """
    if any(b.value <= 0 for _, b in pairs):
        return ClaimVerdict(Outcome.UNCERTAIN, "a value is 0: there is no ratio to it")
    ratios = [Point(a.value / b.value, *divide_intervals(a, b), min(a.n, b.n)) for a, b in pairs]
    text = f"{listed(f'{ratio.value:.3f}' for ratio in ratios)} times"
    slack = within * (factor or 1.0)
    return _between(ratios, factor - slack, factor + slack, text)


def divide_intervals(a: Point, b: Point) -> tuple[float, float]:
    """Return the bounds of a / b for a b above 0; without end where b's interval reaches 0. NaN stays NaN."""
    if math.isnan(b.low) or b.low > 0:
        ends = [x / y for x in (a.low, a.high) for y in (b.low, b.high)]
        return (min(ends), max(ends)) if not any(map(math.isnan, ends)) else (math.nan, math.nan)
    return (-math.inf if a.low < 0 else a.low / b.high), math.inf


def compute_mean_difference(
    pairs: Sequence[tuple[Mapping[int, float], Mapping[int, float]]],
    least_spread: float,
    bounds: tuple[float, float] | None = None,
) -> MeanDifference | None:
    """Mean difference, first side minus second, over the pairs and the repeats that all of them have.

    Each side is {repeat: value}. Returns None if no repeat is common. Repeats of one run share their seeds, so a seed's
    effect on both sides cancels. The interval is that of the repeats' means. It is at least as wide as a spread of
    `least_spread` per difference would give, and ends at the `bounds` of a difference.
    """
    common = sorted(set.intersection(*({*side} for pair in pairs for side in pair)))
    means = [math.fsum(a[repeat] - b[repeat] for a, b in pairs) / len(pairs) for repeat in common]
    if len(means) < 2:
        return MeanDifference(means[0], math.nan, math.nan, 1) if means else None
    found = estimate_mean(means, least_spread / math.sqrt(len(pairs)))
    interval = cut_interval((found.value, *found.interval), bounds)
    return MeanDifference(*interval, len(means), estimate=found)


def _signed(point: Point, unit: str) -> str:
    interval = f" [{point.low:+.2f}, {point.high:+.2f}]" if point.n and point.sure else ""
    return f"{point.value:+.2f}{interval} {unit}"


def _between(points: Sequence[Point], low: float, high: float, text: str) -> ClaimVerdict:
    """Test if all values lie between the two bounds, by their intervals."""
    if not all(point.sure for point in points):
        seen = all(low <= point.value <= high for point in points)
        return ClaimVerdict(Outcome.SEEN if seen else Outcome.UNSEEN, f"one repeat; {text}")
    places = {decide(point.low, point.high, margin=(low, high)) for point in points}
    if places & {Verdict.BETTER, Verdict.WORSE}:
        return ClaimVerdict(Outcome.FAILS, text)
    if places <= {Verdict.WITHIN}:
        return ClaimVerdict(Outcome.HOLDS, text)
    return ClaimVerdict(Outcome.UNCERTAIN, f"the interval reaches beyond the bound; {text}")
