"""The one rule for comparing two values, and for naming the one with the most."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from each import for_each

from reports.order import Order, Point, find_extreme, order, read_point
from workloads.statistics import Described

ONCE = math.nan


def sure(value: float, reach: float) -> Point:
    return Point(value, value - reach, value + reach, 3)


def once(value: float, borrowed: float = ONCE) -> Point:
    return Point(value, ONCE, ONCE, 1, borrowed)


def published(value: float) -> Point:
    return Point(value, value, value, 0)


@for_each(
    "a, b, expected",
    [
        (sure(10, 1), sure(7, 1), Order.ABOVE),
        (sure(7, 1), sure(10, 1), Order.BELOW),
        (sure(10, 2), sure(7, 1), Order.OVERLAP),  # 8 and 8 touch
        (once(1234), once(1233), Order.TIE),
        (once(68.89), once(68.76), Order.TIE),
        (once(100), once(95), Order.TIE),  # exactly 5 % of the larger
        (once(100), once(94.9), Order.ABOVE_ONCE),
        (once(94.9), once(100), Order.BELOW_ONCE),
        (once(100), sure(50, 1), Order.ABOVE_ONCE),  # one of them has no interval
        (once(0), once(0), Order.TIE),
        (once(-100), once(-90), Order.BELOW_ONCE),
        (published(3), published(3), Order.EQUAL),
        (published(3.1), published(3), Order.ABOVE),
        (sure(3, 0), sure(3, 0), Order.OVERLAP),  # measured values are never equal for certain
    ],
)
def test_an_order_needs_intervals_apart_and_one_repeat_is_a_tie_or_of_this_run(
    a: Point, b: Point, expected: Order
) -> None:
    assert order(a, b) is expected


@pytest.mark.parametrize(
    ("points", "name", "kind"),
    [
        ({"a": sure(10, 1), "b": sure(7, 1), "c": sure(5, 1)}, "a", Order.ABOVE),
        ({"a": sure(10, 1), "b": sure(7, 1), "c": sure(5, 4)}, "a", Order.OVERLAP),
        ({"a": once(10), "b": once(9.8)}, "a", Order.TIE),
        ({"a": once(10), "b": once(9.8), "c": once(5)}, "a", Order.UNRANKED),
        ({"a": once(10), "b": once(9), "c": once(5)}, "a", Order.UNRANKED),
        ({"a": once(10, 0.4), "b": once(9, 0.4), "c": once(5, 0.4)}, "a", Order.ABOVE_ONCE),
        ({"a": once(10, 0.6), "b": once(9, 0.5), "c": once(5, 0.4)}, "a", Order.UNRANKED),
        ({"a": sure(10, 1), "b": once(9), "c": sure(5, 1)}, "a", Order.UNRANKED),
        ({"a": sure(10, 1), "b": once(8, 0.5), "c": sure(5, 1)}, "a", Order.ABOVE_ONCE),
    ],
)
def test_who_has_the_most_is_as_sure_as_the_weakest_of_the_orders(
    points: dict[str, Point], name: str, kind: Order
) -> None:
    end = find_extreme(points)
    assert (end.name, end.kind) == (name, kind)
    assert end.stated is (kind is Order.ABOVE)
    assert end.seen is (kind is Order.ABOVE_ONCE)


def test_the_least_is_found_by_the_same_rule_and_no_interval_is_narrower_than_the_least_spread() -> None:
    end = find_extreme({"a": sure(10, 1), "b": sure(7, 1)}, highest=False)
    assert (end.name, end.kind, end.stated) == ("b", Order.BELOW, True)
    with pytest.raises(ValueError, match="1 values have no order"):
        find_extreme({"a": once(1)})
    cell = Described(3, 600.0, 600.0, 600.0, 0.0)
    point = read_point(cell, 3.0)
    assert point.high == pytest.approx(600 + 4.302653 * 3 / 3**0.5)  # t(0.975, 2)
    assert point.low == pytest.approx(600 - 4.302653 * 3 / 3**0.5)
    assert not read_point(replace(cell, n=1), 3.0).sure
