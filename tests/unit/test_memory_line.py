from __future__ import annotations

from dataclasses import astuple

import pytest

from workloads.records.memory_line import Line, fit_line

SIZES = (4, 8, 16, 32, 64, 128, 256, 512, 1024)


def test_a_line_gives_back_its_fixed_cost_and_slope_at_any_size_of_bytes() -> None:
    line = fit_line({size: 3e10 + 1e6 * size for size in SIZES})
    assert line is not None
    assert line.fixed_bytes == pytest.approx(3e10, rel=1e-12)
    assert line.per_sample_bytes == pytest.approx(1e6, rel=1e-9)
    assert line.r_squared == pytest.approx(1)
    assert line.left_out_error == pytest.approx(0, abs=1e-12)
    assert line.n == 9
    assert line.at(2048) == pytest.approx(3e10 + 2048e6)


def test_a_point_off_the_line_costs_r_squared_and_is_the_error_of_the_size_left_out() -> None:
    # Through (1, 1), (2, 2), (3, 3), (4, 8): slope 11/5, intercept -2; residuals 0.8, -0.4, -1.6, 1.2 squared: 4.8;
    # about the mean 3.5: 29. Without (4, 8) the line is y = x: 4 instead of 8, an error of one half. Without (1, 1)
    # it is y = 3 x - 14/3: -5/3 instead of 1.
    line = fit_line({1: 1.0, 2: 2.0, 3: 3.0, 4: 8.0})
    assert line is not None
    assert (line.fixed_bytes, line.per_sample_bytes) == pytest.approx((-2.0, 2.2))
    assert line.r_squared == pytest.approx(1 - 4.8 / 29)
    assert line.left_out_error == pytest.approx(8 / 3)


def test_the_order_of_the_sizes_does_not_matter() -> None:
    line, mixed = fit_line({1: 1.0, 2: 2.0, 3: 3.0, 4: 8.0}), fit_line({3: 3.0, 1: 1.0, 4: 8.0, 2: 2.0})
    assert line is not None and mixed is not None
    assert astuple(mixed) == pytest.approx(astuple(line))


def test_below_four_sizes_there_is_no_error_of_a_size_left_out_and_below_two_no_line() -> None:
    three = fit_line({4: 10.0, 8: 12.0, 16: 16.0})
    assert three is not None
    assert (three.left_out_error, three.n) == (None, 3)
    assert fit_line({4: 10.0}) is None
    assert fit_line({}) is None


def test_memory_that_does_not_move_is_a_flat_line() -> None:
    assert fit_line({4: 10.0, 8: 10.0, 16: 10.0, 32: 10.0}) == Line(10.0, 0.0, 1.0, 0.0, 4)


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan")])
def test_what_is_no_amount_of_memory_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="more than 0 bytes"):
        fit_line({4: 10.0, 8: value})
