"""Decide if one value is above another, or a difference beyond a tolerance; every sentence uses this rule.

An order is stated only if the intervals of both values do not overlap. Without an interval (one repeat), two values
within TIE_PERCENT of the larger are a tie. Beyond that, the order is reported for this run only. From one repeat, the
first of several is named only if its lead exceeds the spread between repeats. That spread must be known from other
cells of the same section. A difference is compared with a tolerance by its interval. Differences beyond it are
corrected for the number of comparisons.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

from workloads.statistics import LEAST_SPREAD, Described, Estimate, Verdict, accuracy_step, decide, pool

from . import tables
from .conditions import Section
from .frameworks import order_frameworks
from .quantities import ACCURACY, Quantity

TIE_PERCENT = 5.0
FEWEST_FREEDOM = 4  # repeats beyond the first of each cell, summed over cells: for example two cells of three
IN_THIS_RUN = "in this run"  # added to the order of one repeat

Key = TypeVar("Key")


@dataclass(frozen=True)
class Point:
    """A value with its interval, in one unit; the bounds are NaN if the spread is unknown.

    n counts the repeats; 0 means published, which counts as exact. `borrowed` is half the 95 % interval of one repeat,
    estimated from repeats of other cells. It is NaN if those are too few.
    """

    value: float
    low: float
    high: float
    n: int
    borrowed: float = math.nan

    @property
    def sure(self) -> bool:
        """True if it has an interval."""
        return not (math.isnan(self.low) or math.isnan(self.high))

    def times(self, factor: float) -> Point:
        """Multiply value and interval by `factor`, which must be above 0."""
        return Point(factor * self.value, factor * self.low, factor * self.high, self.n, factor * self.borrowed)


Points = dict[tables.Place, Point]


def read_points(section: Section, quantity: Quantity) -> Points:
    """Points of the cells that have a value."""
    task = section.condition.task
    step = accuracy_step(task.dataset, task.source)
    cells = {place: cell for place, cell in tables.compute_cells(section, quantity).items() if cell.n}
    absolute = quantity is ACCURACY
    found = {
        place: read_point(cell, step if absolute else LEAST_SPREAD * abs(cell.mean)) for place, cell in cells.items()
    }
    return borrow_spread(found, cells, step if absolute else LEAST_SPREAD, absolute)


def by_size(points: Mapping[tables.Place, Point]) -> dict[int, dict[str, Point]]:
    """Map {batch size: {framework: point}}, both in the order of tables."""
    sizes = sorted({size for _, size in points})
    names = order_frameworks(name for name, _ in points)
    return {size: {name: points[name, size] for name in names if (name, size) in points} for size in sizes}


def borrow_spread(
    points: Mapping[Key, Point], cells: Mapping[Key, Described], least_spread: float, absolute: bool
) -> dict[Key, Point]:
    """Return the points; those of one repeat get the spread of the other cells' repeats, pooled.

    The spread is a share of the mean, or with `absolute` a number in the unit. With fewer than FEWEST_FREEDOM degrees
    of freedom none is given.
    """
    known = [cell for cell in cells.values() if cell.n > 1 and not math.isnan(cell.cv_percent)]
    deviations = [cell.cv_percent / 100 * (abs(cell.mean) if absolute else 1.0) for cell in known]
    variance, freedom = pool(
        Estimate(cell.mean, deviation, cell.n - 1) for cell, deviation in zip(known, deviations, strict=True)
    )
    if freedom < FEWEST_FREEDOM or all(point.sure for point in points.values()):
        return dict(points)
    half = Estimate(0.0, max(math.sqrt(variance), least_spread), freedom).half_width
    return {
        key: point if point.sure else replace(point, borrowed=half * (1.0 if absolute else abs(point.value)))
        for key, point in points.items()
    }


def read_point(cell: Described, least_spread: float) -> Point:
    """Mean of a cell of `tables`, with its interval.

    The interval is at least as wide as repeats with a spread of `least_spread` (in the cell's unit) would give.
    """
    n, mean = cell.n, cell.mean
    if n < 2:
        return Point(mean, math.nan, math.nan, n)
    half = max(cell.high - mean, mean - cell.low, Estimate(mean, least_spread, n - 1, n).half_width)
    return Point(mean, mean - half, mean + half, n)


class Order(StrEnum):
    """Order of a first value relative to a second one."""

    ABOVE = "above"
    BELOW = "below"
    EQUAL = "equal"  # both count as exact, and are the same
    OVERLAP = "intervals overlap"
    ABOVE_ONCE = "above in this run"
    BELOW_ONCE = "below in this run"
    TIE = "a tie"  # without an interval, and within TIE_PERCENT
    UNRANKED = "one repeat"  # the spread between repeats is not known, or is larger than the difference


ABOVE = (Order.ABOVE, Order.ABOVE_ONCE)
BELOW = (Order.BELOW, Order.BELOW_ONCE)
APART = {Verdict.BETTER: Order.ABOVE, Verdict.WORSE: Order.BELOW}  # of intervals that do not overlap
ONCE = (Order.ABOVE_ONCE, Order.BELOW_ONCE, Order.TIE)  # possible orders from one repeat


def order(a: Point, b: Point) -> Order:
    """Order two values by their intervals, which must not overlap; without both, by value as TIE_PERCENT allows."""
    if not (a.sure and b.sure):
        if abs(a.value - b.value) <= TIE_PERCENT / 100 * max(abs(a.value), abs(b.value)):
            return Order.TIE
        return Order.ABOVE_ONCE if a.value > b.value else Order.BELOW_ONCE
    apart = decide(a.low, a.high, margin=(b.low, b.high))
    if apart in APART:
        return APART[apart]
    exact = a.low == a.high == b.low == b.high
    return Order.EQUAL if exact and a.n == b.n == 0 else Order.OVERLAP


def rank(a: Point, b: Point) -> Order:
    """Order two values strictly enough to name the first of several.

    UNRANKED: one repeat, and the difference is within the spread or the spread is unknown.
    """
    by_value = order(a, b)
    if by_value not in (Order.ABOVE_ONCE, Order.BELOW_ONCE):
        return by_value
    (a_low, a_high), (b_low, b_high) = (
        (each.low, each.high) if each.sure else (each.value - each.borrowed, each.value + each.borrowed)
        for each in (a, b)
    )
    return by_value if a_low > b_high or a_high < b_low else Order.UNRANKED  # comparisons with NaN are false


@dataclass(frozen=True)
class Extreme:
    """The name with the highest, or the lowest, value.

    `name` is the one seen at that end. `kind` is the weakest of its orders to the others. ABOVE or BELOW is a
    statement, ABOVE_ONCE or BELOW_ONCE what this run shows, and any other kind neither.
    """

    name: str
    kind: Order

    @property
    def stated(self) -> bool:
        """True if the intervals show it."""
        return self.kind in (Order.ABOVE, Order.BELOW)

    @property
    def seen(self) -> bool:
        """True if only the values of this run show it."""
        return self.kind in (Order.ABOVE_ONCE, Order.BELOW_ONCE)


def find_extreme(points: Mapping[str, Point], highest: bool = True) -> Extreme:
    """Find the extreme of two or more points. Raises ValueError for fewer."""
    if len(points) < 2:
        raise ValueError(f"{len(points)} values have no order")
    name = (max if highest else min)(points, key=lambda key: points[key].value)
    wanted, wanted_once = (Order.ABOVE, Order.ABOVE_ONCE) if highest else (Order.BELOW, Order.BELOW_ONCE)
    strength = (Order.UNRANKED, Order.OVERLAP, Order.EQUAL, Order.TIE, wanted_once, wanted)
    orders = (rank(points[name], points[other]) for other in points if other != name)
    return Extreme(name, min(orders, key=strength.index))


def map_stated(by_size: Mapping[int, Mapping[str, Point]], highest: bool) -> dict[str, list[int]]:
    """Map {name: batch sizes at which intervals show it at that end}, the name with most sizes first.

    Batch sizes with fewer than three names are left out: of two, either end is the same fact.
    """
    ends = {size: find_extreme(of_size, highest) for size, of_size in by_size.items() if len(of_size) > 2}
    return group_sizes({size: end for size, end in ends.items() if end.stated})


def group_sizes(ends: Mapping[int, Extreme]) -> dict[str, list[int]]:
    """Map {name: batch sizes at which it is at that end}, the name with most sizes first."""
    sizes: dict[str, list[int]] = {}
    for size, end in ends.items():
        sizes.setdefault(end.name, []).append(size)
    return dict(sorted(sizes.items(), key=lambda item: -len(item[1])))


@dataclass(frozen=True)
class BestWithTies:
    """The batch size of the highest value, and those not significantly lower, in order."""

    place: int
    tied: tuple[int, ...]


def find_best(points: Mapping[int, Point]) -> BestWithTies:
    """Find the best of one or more points by batch size; of equal ones the smallest. Raises ValueError without any."""
    place = max(sorted(points), key=lambda size: points[size].value)
    others = (size for size in sorted(points) if size != place)
    return BestWithTies(place, tuple(size for size in others if rank(points[place], points[size]) not in ABOVE))
