"""The error rates of the verdicts, compared with what they promise: made-up repeats through the commands' functions.

Small and seeded; the tables of docs/evidence/verdicts.md come from the same simulation, `simulate_verdicts.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simulate_batch_size
import simulate_compare
import simulate_coverage
import simulate_orders
import simulate_verdicts
from scipy import stats  # type: ignore[import-untyped]  # it has no stubs of its own
from stored import trial
from test_report_compare import in_runs

from reports.comparing import command, gate
from reports.comparing.cell_tests import Replicate
from runner import stable
from workloads.records.figures import Figure
from workloads.records.result import TrialResult
from workloads.statistics import ERROR, POWER

pytestmark = pytest.mark.slow

ALL_SLOWER = simulate_compare.lost(0.15, everywhere=True)
AT_THE_LIMIT = simulate_compare.lost(simulate_compare.TOLERATED_PERCENT / 100, everywhere=True)


def at_most(share: float, runs: int) -> float:
    """Percent of the runs that a true rate of this share exceeds once in a thousand times."""
    return 100 * float(stats.binom.ppf(0.999, runs, share)) / runs


@pytest.mark.parametrize(
    "truth", [simulate_compare.NOTHING, simulate_compare.MEMORY_ONLY], ids=lambda truth: truth.name
)
def test_what_memory_does_makes_no_false_loss_of_speed(truth: simulate_compare.Truth) -> None:
    rates = simulate_compare.rates(truth, 3, 0.07, 100, 1)
    assert rates.false_speed <= at_most(ERROR, rates.runs)
    assert rates.regression <= at_most(ERROR, rates.runs)


@pytest.mark.parametrize("truth", simulate_compare.DRIFTS[1:], ids=lambda truth: truth.name)
def test_runs_that_drift_as_a_whole_make_no_loss_of_speed(truth: simulate_compare.Truth) -> None:
    once = simulate_compare.rates(truth, 3, 0.03, 5, 1, Replicate.ONE_RUN)
    assert (once.false_speed, once.passed) == (0, 0), "one run per side cannot tell"
    for replicate in (Replicate.RUNS, Replicate.REPEATS):
        rates = simulate_compare.rates(truth, 3, 0.03, 40, 1, replicate)
        assert rates.false_speed <= at_most(ERROR, rates.runs), replicate


def test_a_loss_in_one_framework_makes_no_false_loss_in_another() -> None:
    rates = simulate_compare.rates(ALL_SLOWER, 5, 0.07, 60, 1)
    assert rates.false_speed <= at_most(ERROR, rates.runs)
    assert rates.passed == 0
    assert rates.regression >= 95, "and that framework's is found"


def test_what_is_asked_about_passes_as_seldom_as_the_bound_promises_and_small_noise_passes() -> None:
    rates = simulate_compare.rates(AT_THE_LIMIT, 3, 0.03, 100, 2)
    assert rates.passed <= at_most(ERROR, rates.runs)
    assert simulate_compare.rates(simulate_compare.NOTHING, 3, 0.03, 40, 3).passed >= 80


def test_the_smallest_loss_that_is_said_to_be_found_is_found_as_often() -> None:
    runs = 60
    _, of_a_cell = simulate_compare.smallest_losses(3, 0.07, 10, 1)
    percent = simulate_compare.found_percent(of_a_cell / 100, 3, 0.07, runs, 1)
    low, high = (100 * float(stats.binom.ppf(p, runs, POWER)) / runs for p in (0.001, 0.999))
    assert low <= percent <= high


def test_unlike_noise_makes_few_false_losses() -> None:
    """The spread that cells share is an assumption: the worst of these may have twice the nominal rate."""
    rates = [simulate_compare.rates(truth, 3, 0.07, 60, 1) for truth in simulate_compare.UNLIKE]
    assert max(one.false_speed for one in rates) <= at_most(2 * ERROR, 60)


def trials(draws: simulate_compare.Draws, side: int, **changes: Any) -> list[TrialResult]:
    """Make the trials of one side."""
    figures: dict[tuple[str, int, int], dict[str, Figure]] = {}
    named = {
        simulate_compare.SPEED: ("images_per_s", 1.0),
        simulate_compare.MEMORY: ("host_memory_bytes", 2.0**20),
        simulate_compare.ACCURACY: ("test_accuracy", 0.01),
    }
    for (framework, size, quantity), sides in draws.items():
        name, factor = named[quantity]
        for repeat, value in enumerate(sides[side]):
            figures.setdefault((framework, size, repeat), {})[name] = Figure(factor * value, "drawn")
    return [trial(*place, figures=values, **changes) for place, values in figures.items()]


@pytest.mark.parametrize(("truth", "spread"), [(ALL_SLOWER, 0.07), (simulate_compare.NOTHING, 0.15)])
def test_the_command_rules_as_the_simulation_does_and_passes_no_loss_that_it_could_not_see(
    tmp_path: Path, truth: simulate_compare.Truth, spread: float, capsys: pytest.CaptureFixture[str]
) -> None:
    draws = simulate_compare.draw(truth, 3, spread, np.random.default_rng(1))
    expected = gate.rule(simulate_compare.judged(draws), 5, False, ())
    a = in_runs(tmp_path / "a", trials(draws, 0))
    b = in_runs(tmp_path / "b", trials(draws, 1, started_at="2025-11-22T10:00:00+00:00"))
    code = command.main([str(a), str(b), "--fail-on-regression", "5%"])
    assert code == expected.outcome != gate.ExitCode.PASSED
    assert f"reports: --fail-on-regression 5%: {expected.head}\n" in capsys.readouterr().err


def test_accuracies_that_do_not_differ_are_seldom_called_not_comparable() -> None:
    runs = 60
    rates = simulate_orders.parity_rates(0, 3, runs, 1)
    assert rates.false_reports <= at_most(ERROR, runs)
    apart = simulate_orders.parity_rates(5, 3, runs, 1)
    assert apart.false_reports <= at_most(ERROR, runs)
    assert apart.true_pairs > 60, "five points in every cell of one framework are found"


def test_no_framework_is_named_the_fastest_where_none_is() -> None:
    runs = 60
    assert simulate_orders.order_rates(0, 3, 0.07, runs, 1).wrong_stated <= at_most(ERROR, runs)
    assert simulate_orders.order_rates(0, 1, 0.07, runs, 1).wrong_seen == 0, "no spread is known"
    assert simulate_orders.order_rates(0, 1, 0.07, runs, 1, known=2).wrong_seen <= at_most(ERROR, runs)
    assert simulate_orders.order_rates(0.3, 1, 0.03, 10, 1, known=4).right > 90
    assert simulate_orders.order_rates(0.3, 5, 0.03, 10, 1).right == 100


def test_a_cells_interval_holds_the_true_mean_as_often_as_the_page_says() -> None:
    """It does so less often where noise is skewed: docs/evidence/verdicts.md has the rates."""
    covered = {noise.name: simulate_coverage.coverage_percent(noise, 5, 4000, 1) for noise in simulate_coverage.NOISES}
    assert covered["even, 15 %"] == pytest.approx(95, abs=1.2)
    assert covered["skewed, 7 %"] == pytest.approx(95, abs=1.5)
    assert 90 <= covered["skewed, 50 %"] <= 93


@pytest.mark.parametrize("spread_percent", [1, 3])
def test_a_stable_cells_interval_is_worth_what_is_said(spread_percent: int) -> None:
    rates = simulate_orders.stable_rates(spread_percent / 100, 10, 200, 1)
    low, high = stable.COVERAGE_PERCENT[spread_percent]
    assert rates.count >= 50
    assert rates.covered >= 100 - at_most(1 - low / 100, rates.count)
    assert rates.covered <= at_most(high / 100, rates.count)


@pytest.mark.parametrize("correlation", stable.CORRELATED_PERCENT)
def test_a_stable_cells_interval_covers_what_is_said_where_repeats_hang_together(correlation: float) -> None:
    rates = simulate_orders.stable_rates(0.01, 10, 150, 1, simulate_orders.Shared(correlation=correlation))
    low, high = stable.CORRELATED_PERCENT[correlation]
    assert rates.covered >= 100 - at_most(1 - low / 100, rates.count)
    assert rates.covered <= at_most(high / 100, rates.count)


def test_rounds_over_nine_cells_and_tests_for_drift_keep_the_coverage_of_a_machine_that_hangs_together() -> None:
    together = simulate_orders.stable_rates(0.01, 10, 20, 1, simulate_orders.Shared(9, 0.7))
    alone = simulate_orders.stable_rates(0.01, 10, 150, 1, simulate_orders.Shared(1, 0.7))
    before = simulate_orders.stable_rates(0.01, 10, 150, 1, simulate_orders.Shared(1, 0.7, before=True))
    assert together.covered >= 85 > 75 > alone.covered
    assert alone.stable <= 90 < before.stable, "of cells alone the tests find some"


@pytest.mark.parametrize(
    ("curve", "noise_percent"),
    [("plateau from 256 on", 1), ("plateau from 256 on", 7), ("3 % below at half the size", 2), ("peaked", 3.5)],
)
def test_a_batch_size_that_is_stated_as_the_best_is_seldom_wrong(curve: str, noise_percent: float) -> None:
    rates = simulate_batch_size.best_rates(simulate_batch_size.CURVES[curve], noise_percent / 100, 25, 1)
    assert rates.wrong <= at_most(ERROR, 25)
    assert rates.false_worse <= at_most(ERROR, 25)
    assert rates.stated >= 90 or noise_percent > 1


@pytest.mark.parametrize("trouble", simulate_batch_size.TROUBLES, ids=lambda trouble: trouble.name)
def test_what_a_machine_does_beside_its_noise_makes_no_wrong_best(trouble: simulate_batch_size.Trouble) -> None:
    rates = simulate_batch_size.best_rates(simulate_batch_size.CURVES["peaked"], 0.01, 25, 1, trouble)
    assert max(rates.wrong, rates.false_worse) <= at_most(ERROR, 25)


def test_the_claim_holds_or_does_not_as_seldom_in_error_as_its_intervals_promise() -> None:
    runs, (one_sided, both) = 100, (ERROR / 2, ERROR)
    for case in ((3.0, 0.0), (3.5, 0.01), (3.0, 0.01)):
        rates = simulate_batch_size.claim_rates(*case, 5, 0.03, runs, 1)
        assert rates.holds <= at_most(one_sided, runs) and rates.does_not <= at_most(both, runs)
    assert simulate_batch_size.claim_rates(2.5, 0.0, 5, 0.03, runs, 1).does_not >= 95
    assert simulate_batch_size.claim_rates(3.5, 0.0, 10, 0.03, runs, 1).holds >= 60


def test_no_batch_size_is_stated_as_the_soonest_where_none_is() -> None:
    wrong, _ = simulate_batch_size.target_rates(0, 5, 0.07, 200, 1)
    assert wrong <= at_most(ERROR, 200)
    assert simulate_batch_size.target_rates(0.3, 5, 0.07, 50, 1)[1] >= 90


@pytest.mark.parametrize(
    ("name", "tables"), [("verdicts", simulate_verdicts.TABLES), ("batch-size", simulate_batch_size.TABLES)]
)
def test_the_page_holds_every_table_that_the_simulation_writes(name: str, tables: simulate_verdicts.Tables) -> None:
    page = (simulate_verdicts.ROOT / "docs" / "evidence" / f"{name}.md").read_text(encoding="utf-8")
    for name in tables:
        _, _, rest = page.partition(f"<!-- {name} -->\n")
        table, end, _ = rest.partition("\n<!-- end -->")
        assert end and table.startswith("| "), name
