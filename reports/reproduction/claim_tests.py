"""What a claim says of values over batch sizes, tested by their intervals.

Published figures are taken at their word: their interval is the value itself. Where a value has no interval (one
repeat) two single values are not compared; a trend over four batch sizes or more is.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from enum import StrEnum

from . import ranks
from .comparable import Point, listed

PEAK, BELOW, ABOVE = (64, 128), 32, 256
FALL, JUMP = (128, 256, 512, 1024), (64, 128)
STRONG, FLAT, TWICE = 0.8, 1.5, 2.0


class Outcome(StrEnum):
    HOLDS = "holds"
    FAILS = "does not hold"
    UNTOLD = "cannot be told"


@dataclass(frozen=True)
class Verdict:
    """`compared`: intervals of two values were held against each other."""

    outcome: Outcome
    why: str
    compared: bool = False


def all_above(pairs: list[tuple[Point, Point]], told: str) -> Verdict:
    """Whether the first of each pair lies above the second, by their intervals."""
    if any(math.isnan(point.low) for pair in pairs for point in pair):
        return Verdict(Outcome.UNTOLD, f"one repeat; in this run {told}")
    if any(a.high < b.low or (a == b and a.low == a.high) for a, b in pairs):
        return Verdict(Outcome.FAILS, told, True)
    if all(a.low > b.high for a, b in pairs):
        return Verdict(Outcome.HOLDS, told, True)
    return Verdict(Outcome.UNTOLD, f"intervals overlap; {told}", True)


def rises(values: dict[int, Point]) -> Verdict:
    sizes, told = list(values), [point.value for point in values.values()]
    if len(sizes) < ranks.FEWEST:
        return Verdict(Outcome.UNTOLD, f"{len(sizes)} batch sizes, {ranks.FEWEST} are needed")
    if all(point.n == 0 for point in values.values()):  # published
        rho = ranks.rho(sizes, told)
        return Verdict(Outcome.HOLDS if rho >= STRONG else Outcome.FAILS, f"rank correlation {rho:.2f}")
    found = ranks.correlation(sizes, told)
    if math.isnan(found.rho):
        return Verdict(Outcome.FAILS, "all values are the same")
    if found.p >= ranks.ALPHA:
        return Verdict(Outcome.UNTOLD, str(found))
    return Verdict(Outcome.HOLDS if found.rho >= STRONG else Outcome.FAILS, str(found))


def is_flat(values: dict[int, Point]) -> Verdict:
    """Spread between runs can only widen the range, so one repeat can show that it is flat, not that it is not."""
    if len(values) < ranks.FEWEST:
        return Verdict(Outcome.UNTOLD, f"{len(values)} batch sizes, {ranks.FEWEST} are needed")
    points = list(values.values())
    top, bottom = max(points, key=lambda point: point.value), min(points, key=lambda point: point.value)
    told = f"highest is {top.value / bottom.value:.2f} times the lowest" if bottom.value else "the lowest is 0"
    if any(math.isnan(point.low) for point in points):
        flat = top.value <= FLAT * bottom.value
        return Verdict(Outcome.HOLDS if flat else Outcome.UNTOLD, told if flat else f"one repeat; in this run {told}")
    if max(point.high for point in points) <= FLAT * min(point.low for point in points):
        return Verdict(Outcome.HOLDS, told)
    if max(point.low for point in points) > FLAT * min(point.high for point in points):
        return Verdict(Outcome.FAILS, told)
    return Verdict(Outcome.UNTOLD, f"interval too wide; {told}")


def jumps(values: dict[int, Point]) -> Verdict:
    before, after = JUMP
    missing = [size for size in JUMP if size not in values]
    if missing:
        return Verdict(Outcome.UNTOLD, f"no value at {listed(missing)}")
    a, b = values[before], values[after]
    told = f"{b.value / a.value:.2f} times the value at {before}" if a.value else f"the value at {before} is 0"
    if math.isnan(a.low) or math.isnan(b.low):
        return Verdict(Outcome.UNTOLD, f"one repeat; in this run {told}")
    if b.low >= TWICE * a.high:
        return Verdict(Outcome.HOLDS, told)
    if b.high < TWICE * a.low:
        return Verdict(Outcome.FAILS, told)
    return Verdict(Outcome.UNTOLD, f"interval too wide; {told}")


def peaks(values: dict[int, Point]) -> Verdict:
    """The sizes on either side must be there, or a peak beyond the sizes that were run would pass for one here."""
    inside = [size for size in PEAK if size in values]
    outside = [size for size in values if size not in PEAK]
    missing = [size for size in (BELOW, *(PEAK if not inside else ()), ABOVE) if size not in values]
    if missing:
        return Verdict(Outcome.UNTOLD, f"no value at {listed(missing)}")
    best = max(inside, key=lambda size: values[size].value)
    rival = max(outside, key=lambda size: values[size].value)
    told = f"{values[best].value:.2f} % at {best}, outside at most {values[rival].value:.2f} % at {rival}"
    if any(math.isnan(point.low) for point in values.values()):
        return Verdict(Outcome.UNTOLD, f"one repeat; in this run {told}")
    if all(values[best].low > values[size].high for size in outside):
        return Verdict(Outcome.HOLDS, told, True)
    if any(all(values[size].low > values[mine].high for mine in inside) for size in outside):
        return Verdict(Outcome.FAILS if len(inside) == len(PEAK) else Outcome.UNTOLD, told, True)
    return Verdict(Outcome.UNTOLD, f"intervals overlap; {told}", True)


def falls(values: dict[int, Point]) -> Verdict:
    missing = [size for size in FALL if size not in values]
    if missing:
        return Verdict(Outcome.UNTOLD, f"no value at {listed(missing)}")
    told = ", ".join(f"{values[size].value:.2f} % at {size}" for size in FALL)
    return all_above([(values[a], values[b]) for a, b in itertools.pairwise(FALL)], told)
