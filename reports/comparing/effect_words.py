"""Describe a ratio B/A in words: "B is 1.95 [1.85, 2.05] times as fast as A"."""

from __future__ import annotations

import math
from typing import NamedTuple

from ..quantities import ENERGY, MEMORY, SPEED, USAGE, Quantity
from ..tables import significant
from .comparison import Compared

MOST_DECIMALS = 3
BETTER = {1: "more is better", -1: "less is better", 0: "neither more nor less is better: not judged"}


class Times(NamedTuple):
    """Words of the sentence "B `verb` R `times` `link` A"."""

    verb: str
    times: str
    link: str


TIMES = {
    SPEED.name: Times("is", "times as fast", "as"),
    MEMORY.name: Times("takes", "times the memory", "of"),
    ENERGY.name: Times("takes", "times the energy", "of"),
    USAGE.name: Times("has", "times the usage", "of"),
}


def ratio(value: float, low: float, high: float) -> str:
    """Format "1.95 [1.85, 2.05]"; without an interval three digits."""
    if math.isnan(low):
        return f"{value:.{significant(value)}f}"
    value_text, *ends = (f"{number:.{_decimals(low, high)}f}" for number in (value, low, high))
    return f"{value_text} [{', '.join(ends)}]"


def leaves_out_1(low: float, high: float) -> bool:
    """True if the interval as printed excludes 1. One that is printed as ending at 1.00 shows no difference."""
    decimals = _decimals(low, high)
    return round(low, decimals) > 1 or round(high, decimals) < 1


def _decimals(low: float, high: float) -> int:
    """Number of decimals for two digits of half the interval; fewer if it is wide, at most MOST_DECIMALS."""
    half = (high - low) / 2
    return min(MOST_DECIMALS, max(0, 1 - math.floor(math.log10(half)))) if half > 0 else MOST_DECIMALS


def label(compared: Compared, quantity: Quantity) -> str:
    """Name of what is measured, as "Training speed"."""
    spec = quantity.figure(compared.pair.a.condition)
    return spec.label if spec else quantity.name
