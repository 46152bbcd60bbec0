"""What a claim says of values over batch sizes, tested by the rule of `order`.

Published figures are taken at their word: their interval is the value itself. Where a value has no interval (one
repeat) nothing holds or fails: the claim is seen in this run, or not seen, or the values are too near to each other. A
trend over four batch sizes or more is tested even so, for the sizes are its repeats.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from enum import StrEnum

from ..order import ABOVE as ABOVE_EITHER
from ..order import TIE_PERCENT, Order, Point, order
from . import ranks
from .comparable import listed

PEAK, BELOW, ABOVE = (64, 128), 32, 256
FALL, JUMP = (128, 256, 512, 1024), (64, 128)
STRONG, FLAT, TWICE = 0.8, 1.5, 2.0
NEAR = f"one repeat, within {TIE_PERCENT:g} %"


class Outcome(StrEnum):
    """What a claim comes to on these results; the last two are of one repeat."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNTOLD = "cannot be told"
    SEEN = "seen in this run"
    UNSEEN = "not seen in this run"


@dataclass(frozen=True)
class Verdict:
    """`why`: the numbers behind the outcome, in words."""

    outcome: Outcome
    why: str


def all_above(pairs: list[tuple[Point, Point]], text: str) -> Verdict:
    """Whether the first of each pair lies above the second."""
    orders = [order(a, b) for a, b in pairs]
    if any(one in (Order.BELOW, Order.EQUAL) for one in orders):
        return Verdict(Outcome.FAILS, text)
    if all(one is Order.ABOVE for one in orders):
        return Verdict(Outcome.HOLDS, text)
    if Order.BELOW_ONCE in orders:
        return Verdict(Outcome.UNSEEN, f"one repeat; {text}")
    if Order.TIE in orders:
        return Verdict(Outcome.UNTOLD, f"{NEAR}; in this run {text}")
    if Order.OVERLAP in orders:
        return Verdict(Outcome.UNTOLD, f"intervals overlap; {text}")
    return Verdict(Outcome.SEEN, f"one repeat; {text}")


def _once(above: Order, why: str) -> Verdict:
    """Of a claim that one repeat shows where a value lies above another one."""
    outcome = {Order.ABOVE_ONCE: Outcome.SEEN, Order.BELOW_ONCE: Outcome.UNSEEN}.get(above, Outcome.UNTOLD)
    return Verdict(outcome, f"{NEAR}; in this run {why}" if outcome is Outcome.UNTOLD else f"one repeat; {why}")


def rises(values: dict[int, Point]) -> Verdict:
    """Whether values by batch size have a rank correlation with it of STRONG or more."""
    sizes, numbers = list(values), [point.value for point in values.values()]
    if len(sizes) < ranks.FEWEST:
        return Verdict(Outcome.UNTOLD, f"{len(sizes)} batch sizes, {ranks.FEWEST} are needed")
    if all(point.n == 0 for point in values.values()):  # published
        rho = ranks.rho(sizes, numbers)
        return Verdict(Outcome.HOLDS if rho >= STRONG else Outcome.FAILS, f"rank correlation {rho:.2f}")
    found = ranks.correlation(sizes, numbers)
    if math.isnan(found.rho):
        return Verdict(Outcome.FAILS, "all values are the same")
    if found.p >= ranks.ALPHA:
        return Verdict(Outcome.UNTOLD, str(found))
    return Verdict(Outcome.HOLDS if found.rho >= STRONG else Outcome.FAILS, str(found))


def is_flat(values: dict[int, Point]) -> Verdict:
    """Whether the highest of the values by batch size is at most FLAT times the lowest."""
    if len(values) < ranks.FEWEST:
        return Verdict(Outcome.UNTOLD, f"{len(values)} batch sizes, {ranks.FEWEST} are needed")
    points = list(values.values())
    top, bottom = max(points, key=lambda point: point.value), min(points, key=lambda point: point.value)
    text = f"highest is {top.value / bottom.value:.2f} times the lowest" if bottom.value else "the lowest is 0"
    if not all(point.sure for point in points):
        bound = replace(bottom.times(FLAT), low=math.nan)  # another point may lack its interval than these two
        return _once(order(bound, top), text)
    if max(point.high for point in points) <= FLAT * min(point.low for point in points):
        return Verdict(Outcome.HOLDS, text)
    if max(point.low for point in points) > FLAT * min(point.high for point in points):
        return Verdict(Outcome.FAILS, text)
    return Verdict(Outcome.UNTOLD, f"interval too wide; {text}")


def jumps(values: dict[int, Point]) -> Verdict:
    """Whether the value at the second batch size of JUMP is TWICE that at the first or more."""
    before, after = JUMP
    missing = [size for size in JUMP if size not in values]
    if missing:
        return Verdict(Outcome.UNTOLD, f"no value at {listed(missing)}")
    a, b = values[before], values[after]
    text = f"{b.value / a.value:.2f} times the value at {before}" if a.value else f"the value at {before} is 0"
    if not (a.sure and b.sure):
        return _once(order(b, a.times(TWICE)), text)
    if b.low >= TWICE * a.high:
        return Verdict(Outcome.HOLDS, text)
    if b.high < TWICE * a.low:
        return Verdict(Outcome.FAILS, text)
    return Verdict(Outcome.UNTOLD, f"interval too wide; {text}")


def peaks(values: dict[int, Point]) -> Verdict:
    """The sizes on either side must be there, or a peak beyond the sizes that were run would pass for one here."""
    inside = [size for size in PEAK if size in values]
    outside = [size for size in values if size not in PEAK]
    missing = [size for size in (BELOW, *(PEAK if not inside else ()), ABOVE) if size not in values]
    if missing:
        return Verdict(Outcome.UNTOLD, f"no value at {listed(missing)}")
    best = max(inside, key=lambda size: values[size].value)
    rival = max(outside, key=lambda size: values[size].value)
    text = f"{values[best].value:.2f} % at {best}, outside at most {values[rival].value:.2f} % at {rival}"
    ahead = [order(values[best], values[size]) for size in outside]
    if all(one is Order.ABOVE for one in ahead):
        return Verdict(Outcome.HOLDS, text)
    if all(one in ABOVE_EITHER for one in ahead):
        return Verdict(Outcome.SEEN, f"one repeat; {text}")
    beaten = [[order(values[size], values[mine]) for mine in inside] for size in outside]
    whole = len(inside) == len(PEAK)  # or the size that was not run might be higher
    if whole and any(all(one is Order.ABOVE for one in orders) for orders in beaten):
        return Verdict(Outcome.FAILS, text)
    if whole and any(all(one in ABOVE_EITHER for one in orders) for orders in beaten):
        return Verdict(Outcome.UNSEEN, f"one repeat; {text}")
    if Order.TIE in ahead:
        return Verdict(Outcome.UNTOLD, f"{NEAR}; in this run {text}")
    return Verdict(Outcome.UNTOLD, f"intervals overlap; {text}" if Order.OVERLAP in ahead else text)


def falls(values: dict[int, Point]) -> Verdict:
    """Whether the values at the batch sizes of FALL get smaller from each to the next."""
    missing = [size for size in FALL if size not in values]
    if missing:
        return Verdict(Outcome.UNTOLD, f"no value at {listed(missing)}")
    text = ", ".join(f"{values[size].value:.2f} % at {size}" for size in FALL)
    return all_above([(values[a], values[b]) for a, b in itertools.pairwise(FALL)], text)
