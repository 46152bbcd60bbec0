"""Describe a ratio B/A, or a difference B - A, in words: "B is 1.95 [1.85, 2.05] times as fast as A"."""

from __future__ import annotations

import math

from ..quantities import ACCURACY, ENERGY, MEMORY, SPEED, USAGE, Quantity
from ..tables import count_decimals
from .cell_tests import QuantityTest
from .comparison import PairComparison

MOST_DECIMALS = 3
BETTER = {1: "more is better", -1: "less is better", 0: "neither more nor less is better: not judged"}


TIMES = {
    SPEED.name: "times as fast",
    MEMORY.name: "times the memory",
    ENERGY.name: "times the energy",
    USAGE.name: "times the usage",
    ACCURACY.name: "points",
}
SENTENCES = {
    SPEED.name: "{b} is {effect} times as fast as {a}",
    MEMORY.name: "{b} takes {effect} times the memory of {a}",
    ENERGY.name: "{b} takes {effect} times the energy of {a}",
    USAGE.name: "{b} has {effect} times the usage of {a}",
    ACCURACY.name: "{b} minus {a} is {effect} points",
}


def effect(test: QuantityTest) -> str:
    """Format a ratio, "0.921 [0.905, 0.937]", or points, "-0.28 [-0.90, +0.34]"; the interval only if there is one."""
    value, low, high = test.effect
    if not test.in_points:
        return format_ratio(value, low, high)
    return f"{value:+z.2f} [{low:+z.2f}, {high:+z.2f}]" if test.estimate else f"{value:+z.2f}"


def format_ratio(value: float, low: float, high: float) -> str:
    """Format "1.95 [1.85, 2.05]"; without an interval three digits."""
    if math.isnan(low):
        return f"{value:.{count_decimals(value)}f}"
    value_text, *ends = (f"{number:.{_decimals(low, high)}f}" for number in (value, low, high))
    return f"{value_text} [{', '.join(ends)}]"


def excludes_1(low: float, high: float) -> bool:
    """True if the interval as printed excludes 1. One that is printed as ending at 1.00 shows no difference."""
    decimals = _decimals(low, high)
    return round(low, decimals) > 1 or round(high, decimals) < 1


def _decimals(low: float, high: float) -> int:
    """Number of decimals for two digits of half the interval; fewer if it is wide, at most MOST_DECIMALS."""
    half = (high - low) / 2
    return min(MOST_DECIMALS, max(0, 1 - math.floor(math.log10(half)))) if half > 0 else MOST_DECIMALS


def name_quantity(compared: PairComparison, quantity: Quantity) -> str:
    """Name of what is measured, as "Training speed"."""
    spec = quantity.figure(compared.pair.a.condition)
    return spec.label if spec else quantity.name
