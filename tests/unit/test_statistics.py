"""The one home of statistics: intervals, spreads, corrections, correlations and the verdict, against worked numbers."""

from __future__ import annotations

import ast
import math
import random
import statistics
from dataclasses import astuple
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT
from each import for_each
from scipy import stats  # type: ignore[import-untyped]  # it has no stubs

from workloads.records import figures
from workloads.records.figures import ACCURACY
from workloads.shifts import Shift, estimate_cells, estimate_together, shift_points, shift_ratio, shift_runs
from workloads.statistics import (
    Estimate,
    Verdict,
    benjamini_hochberg,
    cut_interval,
    decide,
    describe,
    holm,
    judge,
    mean_interval,
    neighbour_score,
    p_of_ranks,
    rank_correlation,
    ratio_interval,
    trend_score,
)

HOME = Path("workloads/statistics.py")
FOLDERS = ("adapters", "workloads", "runner", "reports")


def alone(shift: Shift) -> tuple[float, float, float, float]:
    """(ratio, its interval, p of a higher one by chance) of a single cell."""
    (estimate,) = estimate_cells([shift])
    value, low, high = map(math.exp, (estimate.value, *estimate.interval))
    return value, low, high, estimate.p_above


def doubles_the_home(tree: ast.Module) -> list[str]:
    """List what only the home of statistics may do: import scipy, judge a p value, define a verdict."""
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names) if any(name.name.split(".")[0] == "scipy" for name in names):
                found.append("imports scipy")
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] == "scipy":
                found.append("imports scipy")
            case ast.Compare(left=left, comparators=others) if any(
                isinstance(side, ast.Name) and side.id == "ERROR" for side in (left, *others)
            ):
                found.append("compares a p value with ERROR")
            case ast.ClassDef(name="Verdict", bases=[ast.Name()]):
                found.append("defines a Verdict")
    return found


def test_no_other_module_computes_an_interval_judges_a_p_value_or_defines_a_verdict() -> None:
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    doubled = {path.relative_to(ROOT): doubles_the_home(ast.parse(path.read_text("utf-8"))) for path in files}
    assert set(doubled.pop(HOME)) == {"imports scipy", "compares a p value with ERROR", "defines a Verdict"}
    assert {path: found for path, found in doubled.items() if found} == {}


@for_each(
    "low, high, p, expected",
    [
        (1.1, 2.0, 0.0, Verdict.BETTER),
        (1.1, 2.0, 0.05, Verdict.BETTER),
        (1.1, 2.0, 0.06, Verdict.UNDECIDED),  # chance alone gives as much
        (-2.0, -1.1, 0.0, Verdict.WORSE),
        (-1.0, 1.0, 0.9, Verdict.WITHIN),
        (0.9, 1.1, 0.0, Verdict.UNDECIDED),  # it reaches beyond
        (-2.0, 2.0, 0.0, Verdict.UNDECIDED),
        (math.nan, math.nan, 0.0, Verdict.UNDECIDED),
        (1.1, 2.0, math.nan, Verdict.UNDECIDED),
    ],
)
def test_a_verdict_needs_the_whole_interval_and_for_a_difference_p(
    low: float, high: float, p: float, expected: Verdict
) -> None:
    assert decide(low, high, margin=(-1.0, 1.0), p=p) is expected


def test_without_a_margin_no_value_counts_as_no_difference() -> None:
    assert [decide(value, value, p=0.01) for value in (-0.1, 0.0, 0.1)] == [
        Verdict.WORSE, Verdict.UNDECIDED, Verdict.BETTER
    ]  # fmt: skip


def test_values_are_described_as_far_as_their_number_allows() -> None:
    assert describe([9.0, 10.0, 11.0]).cv_percent == pytest.approx(10)
    assert [math.isnan(number) for number in astuple(describe([5.0]))] == [False, False, True, True, True]
    assert [math.isnan(number) for number in astuple(describe([]))] == [False, True, True, True, True]
    assert math.isnan(describe([-1.0, 1.0]).cv_percent)  # no share of a mean of 0


def test_a_ratio_of_pairs_is_that_of_geometric_means() -> None:
    # Logarithms 0, 1, 2: mean 1, standard error 1 / sqrt 3, t(0.975, 2) = 4.302653.
    value, low, high = ratio_interval([0.0, 1.0, 2.0])
    assert (math.log(value), math.log(high)) == pytest.approx((1, 1 + 4.302653 / 3**0.5))
    assert low * high == pytest.approx(value**2)
    assert math.isnan(ratio_interval([1.0])[1])


def test_an_interval_is_that_of_the_t_table_corrected_after_bonferroni_at_one_end() -> None:
    """t(2) at 97.5 % is 4.303 (NIST/SEMATECH e-Handbook, 1.3.6.7.2); s of 1, 2, 3 is 1."""
    mean, low, high = mean_interval([1.0, 2.0, 3.0])
    assert (mean, high - mean) == pytest.approx((2.0, 4.303 / math.sqrt(3)), rel=1e-4)
    assert mean - low == pytest.approx(high - mean)
    # Two degrees of freedom: P(T < t) = 1/2 + t / (2 sqrt(2 + t^2)), so t = (2P - 1) sqrt(2 / (1 - (2P - 1)^2)).
    inside = 1 - 0.05 / 4
    assert Estimate(1.0, 0.5, 2).upper_end(4) == pytest.approx(1 + 0.5 * inside * (2 / (1 - inside**2)) ** 0.5)
    assert Estimate(1.0, 0.5, 2).upper_end(1) == pytest.approx(Estimate(1.0, 0.5, 2).interval[1])


def test_the_ratio_is_of_geometric_means_with_the_interval_of_welchs_t_on_logarithms() -> None:
    # Logs of A: 0, 2 (mean 1, variance 2); of B: 2, 4 (mean 3, variance 2). Difference 2, standard error
    # sqrt(2/2 + 2/2) = sqrt 2, degrees of freedom (1 + 1)^2 / (1 + 1) = 2, t(0.975, 2) = 4.302653.
    e = 2.718281828459045
    value, low, high, p = alone(shift_ratio([1, e**2], [e**2, e**4]))
    assert value == pytest.approx(e**2)
    assert low == pytest.approx(e ** (2 - 4.302653 * 2**0.5), rel=1e-5)
    assert high == pytest.approx(e ** (2 + 4.302653 * 2**0.5), rel=1e-5)
    # t = 2 / sqrt 2; with 2 degrees of freedom, P(|T| > t) = 1 - t / sqrt(2 + t^2) = 1 - sqrt(1/2); one-sided half.
    assert p == pytest.approx((1 - 0.5**0.5) / 2)


def test_accuracies_are_paired_so_that_what_a_seed_does_to_both_falls_out() -> None:
    # Differences 1, 2, 3: mean 2, standard error 1/sqrt 3, t(0.975, 2) = 4.302653.
    (paired,) = estimate_cells([shift_points([10, 50, 90], [11, 52, 93], True, 0.01)])
    assert paired.value == pytest.approx(2)
    assert paired.interval == pytest.approx((2 - 4.302653 / 3**0.5, 2 + 4.302653 / 3**0.5))
    (unpaired,) = estimate_cells([shift_points([10, 50, 90], [11, 52, 93], False, 0.01)])
    assert unpaired.error > 10 * paired.error


def test_what_cannot_be_tested_says_why_and_has_no_spread() -> None:
    one = shift_ratio([10.0], [9.0, 9.1])
    assert (one.sides, one.untested) == ({}, "cannot be tested: one repeat on a side")
    assert shift_ratio([10.0, 0.0], [9.0, 9.1]).untested.startswith("unknown: a value is not above 0")
    assert shift_points([70.0], [60.0], True, 0.01).untested == one.untested


def test_repeats_without_any_spread_are_taken_to_spread_by_the_least_and_never_as_exact() -> None:
    # 600 against 660, twice: ln 1.1 = 0.0953, standard error 0.005 sqrt(1/2 + 1/2), t = 19.06 with 2 degrees of
    # freedom: P(T > t) = (1 - t / sqrt(2 + t^2)) / 2
    *_, p = alone(shift_ratio([600, 600], [660, 660]))
    assert p == pytest.approx((1 - 19.062 / (2 + 19.062**2) ** 0.5) / 2, rel=1e-3)
    value, low, high, p = alone(shift_ratio([600, 600, 600], [600, 600, 600]))
    assert (value, p) == (1, 0.5)
    assert low < 1 < high
    # one test image of 360 and three repeats: 4.302653 x 0.278 / sqrt(3)
    (same,) = estimate_cells([shift_points([70.1, 71, 72], [70.1, 71, 72], True, 100 / 360)])
    assert same.interval[1] == pytest.approx(0.69, abs=0.001)


def test_a_cell_has_the_spread_of_its_frameworks_cells_or_its_own_where_that_is_larger() -> None:
    """The variance of the logarithms -s, 0, s is s^2."""

    def noisy(s: float) -> Shift:
        values = [100 * math.exp(step * s) for step in (-1, 0, 1)]
        return shift_ratio(values, values[::-1])

    wide, narrow, still = map(noisy, (0.03, 0.01, 0.0))
    one, other, third = estimate_cells([wide, narrow, still])
    pooled = (9e-4 + 1e-4 + 0.005**2) / 3
    assert other.error == third.error == pytest.approx((2 * pooled / 3) ** 0.5)
    assert one.error == pytest.approx((2 * 9e-4 / 3) ** 0.5)
    assert one.freedom == pytest.approx(2 * 3 * 2)  # two sides of three cells with two degrees of freedom each


def test_a_frameworks_mean_has_the_spreads_of_its_own_cells() -> None:
    shifts = [shift_ratio([100, 102], [90, 92]), shift_ratio([50, 53], [60, 61])]
    found = estimate_together(shifts)
    variances = [side.deviation**2 / 2 for shift in shifts for side in shift.sides.values()]
    assert found.value == pytest.approx((shifts[0].value + shifts[1].value) / 2)
    assert found.error == pytest.approx(sum(variances) ** 0.5 / 2)
    assert found.freedom == pytest.approx(sum(variances) ** 2 / sum(v**2 for v in variances))


@pytest.mark.parametrize(
    ("found", "p", "margin", "verdict"),
    [
        ((0.5, 0.1, 0.9), 0.05, 1.0, Verdict.BETTER),  # p comes first, although the interval is within the margin
        ((-0.5, -0.9, -0.1), 0.05, 1.0, Verdict.WORSE),
        ((0.5, 0.1, 0.9), 0.06, 1.0, Verdict.WITHIN),
        ((0.5, 0.1, 0.9), 0.06, 0.0, Verdict.UNDECIDED),
        ((0.5, -0.1, 1.1), 0.06, 1.0, Verdict.UNDECIDED),
        ((0.5, math.nan, math.nan), math.nan, 1.0, Verdict.UNDECIDED),
    ],
)
def test_p_is_judged_before_the_interval(
    found: tuple[float, float, float], p: float, margin: float, verdict: Verdict
) -> None:
    assert judge(found, p, margin) is verdict


def test_p_values_are_adjusted_after_holm_and_after_benjamini_and_hochberg() -> None:
    # Holm: 4 x 0.005, 3 x 0.01, 2 x 0.03, 1 x 0.04 and none below the one before.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    # p(i) m / i from the largest down, each at most the one above: 0.04, 0.04 (3/4 of 0.04 x 4/3), 0.04 (of 0.02 x 2).
    assert benjamini_hochberg([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.02, 0.04, 0.04, 0.02])
    untested = [0.01, math.nan, 0.04, 0.03, 0.005]
    assert benjamini_hochberg(untested) == pytest.approx([0.02, math.nan, 0.04, 0.04, 0.02], nan_ok=True)
    assert holm([0.01, math.nan, 0.04]) == pytest.approx([0.02, math.nan, 0.04], nan_ok=True)  # NaN is no test
    assert holm([]) == benjamini_hochberg([]) == []
    drawn = np.random.default_rng(1).random((20, 30)) ** 3
    for p_values in (*drawn, [0.02, 0.02, 0.5]):
        assert benjamini_hochberg(list(p_values)) == list(stats.false_discovery_control(p_values))


def test_the_p_value_of_a_difference_beyond_a_tolerance_counts_both_sides() -> None:
    # two degrees of freedom: P(T < -t) = (1 - t / sqrt(2 + t^2)) / 2
    def below(t: float) -> float:
        return (1 - t / math.sqrt(2 + t * t)) / 2

    assert Estimate(3.0, 0.5, 2).p_beyond(1.0) == pytest.approx(below(4) + below(8))
    assert Estimate(-3.0, 0.5, 2).p_beyond(1.0) == Estimate(3.0, 0.5, 2).p_beyond(1.0)
    assert Estimate(0.2, 0.5, 2).p_beyond(1.0) > 0.9


def test_rank_correlations_are_exact_and_four_pairs_are_no_proof() -> None:
    # of the 24 orders of four, two are as extreme: p = 2 / 24
    assert rank_correlation([1, 2, 3, 4], [10, 20, 30, 40]) == pytest.approx(1)
    assert p_of_ranks([1, 2, 3, 4], [10, 20, 30, 40]) == pytest.approx(2 / 24)
    assert rank_correlation(range(9), range(9, 0, -1)) == pytest.approx(-1)
    first, second = (p_of_ranks(range(9), range(9, 0, -1)) for _ in range(2))
    assert first == second < 0.001
    assert math.isnan(rank_correlation([1, 2, 3, 4], [5, 5, 5, 5]))
    assert math.isnan(p_of_ranks([1, 2, 3, 4], [5, 5, 5, 5]))


def test_rank_correlation_with_one_swap_of_neighbours_or_a_tie() -> None:
    # rho = 1 - 6 sum d^2 / n (n^2 - 1) = 1 - 6 x 2 / 120; of the 120 orders of five, 1 + 4 are as high: p = 2 x 5 / 120
    assert rank_correlation([1, 2, 3, 4, 5], [1, 2, 3, 5, 4]) == pytest.approx(0.9)
    assert p_of_ranks([1, 2, 3, 4, 5], [1, 2, 3, 5, 4]) == pytest.approx(10 / 120)
    # ranks 1, 2.5, 2.5, 4 beside 1, 2, 3, 4: covariance 4.5, sums of squares 4.5 and 5
    assert rank_correlation([1, 7, 7, 9], [1, 2, 3, 4]) == pytest.approx(4.5 / (4.5 * 5) ** 0.5)


def test_scores_of_independent_values_have_mean_0_and_variance_1() -> None:
    drawn = random.Random(1)
    series = [[drawn.gauss(1000, 10) for _ in range(6)] for _ in range(4000)]
    for score in (neighbour_score, trend_score):
        scores = [score(values) for values in series]
        assert statistics.fmean(scores) == pytest.approx(0, abs=0.05)
        assert statistics.pvariance(scores) == pytest.approx(1, abs=0.08)
        assert score([3.0] * 5) == 0.0
    assert trend_score([1.0, 2.0, 3.0, 4.0, 5.0]) == pytest.approx(2.0), "a correlation of 1 with the place"
    assert neighbour_score([1.0, 1.0, 1.0, 9.0, 9.0, 9.0]) > 2 > 0 > neighbour_score([1.0, 9.0] * 3)


def test_a_mean_over_cells_that_drift_together_is_as_uncertain_as_the_runs() -> None:
    """Three cells that are fast or slow together: the mean's interval is that of a single cell, not a third of it."""
    drifts = [1.0, 1.1, 0.95]

    def shift(size: int) -> Shift:
        return shift_runs(
            {run: [size * drift] for run, drift in enumerate(drifts)},
            {run: [size * drift] for run, drift in enumerate(reversed(drifts))},
        )

    shifts = [shift(size) for size in (100, 200, 300)]
    (one,) = estimate_cells(shifts[:1])
    for estimate in (estimate_together(shifts), *estimate_cells(shifts)):
        assert (estimate.error, estimate.freedom) == pytest.approx((one.error, one.freedom))


def test_an_interval_ends_where_its_quantity_does_and_holds_its_mean_all_the_same() -> None:
    free, cut = (describe([97.0, 100.0, 99.0], bounds) for bounds in (None, (0.0, 100.0)))
    assert free.high > 100 and (cut.low, cut.high) == (free.low, 100.0)
    assert (cut.mean, cut.cv_percent) == (free.mean, free.cv_percent)
    assert cut_interval((101.0, 99.0, 103.0), (0.0, 100.0)) == (101.0, 99.0, 101.0), "a value beyond stays inside"
    assert cut_interval((1.0, -2.0, 4.0), None) == (1.0, -2.0, 4.0)
    assert str(cut_interval((1.0, math.nan, math.nan), (0.0, 100.0))) == "(1.0, nan, nan)", "unknown stays unknown"
    assert ACCURACY.difference_bounds == (-100.0, 100.0)


def test_every_figure_in_percent_is_a_share_of_a_whole_but_four() -> None:
    """A product of matrices may be slower than the layers, a counter's step longer than the window. Others may use the
    other hyperthreads of the cores, too."""
    every = {spec for spec in vars(figures).values() if isinstance(spec, figures.FigureSpec) and spec.unit == "%"}
    free = {spec.name for spec in every if spec.bounds != figures.SHARE}
    others = {"foreign_cpu_percent", "foreign_cpu_epochs_percent"}
    assert free == {"product_share_percent", "energy_resolution_percent", *others}
