"""Cells that ask for another repeat, and each cell's sentence in the end; speeds are made up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import pytest
from conftest import make_spec, varied

from runner.stable import (
    CORRELATED_PERCENT,
    COVERAGE_PERCENT,
    FEWEST,
    Key,
    collect_cells,
    describe_coverage,
    find_further_repeats,
    find_unstable_cells,
    follow,
    to_json,
)
from workloads.records.figures import Figure
from workloads.records.result import TrialResult
from workloads.records.status import Status

STEADY = (1000.0, 1001.0, 999.0, 1000.0, 1001.0, 999.0)
UNSTEADY = (1000.0, 1100.0, 900.0, 1000.0, 1100.0, 900.0)


def trial(framework: str, batch_size: int, repeat: int, speed: float | None, status: Status = Status.OK) -> TrialResult:
    spec = make_spec(framework=framework, batch_size=batch_size, repeat=repeat)
    figure = Figure(speed, "test") if speed is not None else Figure(None, "test", reason="no window")
    reason = None if status is Status.OK else "made up"
    return TrialResult(spec, status, reason, "2026-01-01T00:00:00+00:00", 1.0, figures={"images_per_s": figure})


def repeats(framework: str, batch_size: int, speeds: Sequence[float]) -> list[TrialResult]:
    return [trial(framework, batch_size, repeat, speed) for repeat, speed in enumerate(speeds)]


def told(results: list[TrialResult]) -> list[str]:
    return [cell.line() for cell in collect_cells(results)]


def test_five_repeats_are_needed_and_more_until_the_interval_is_within_two_percent_of_the_mean() -> None:
    # a steady cell asks for no more and an unsteady one does
    assert find_unstable_cells(repeats("a", 4, STEADY)) == set()
    assert find_unstable_cells(repeats("a", 4, UNSTEADY)) == {("a", 4)}
    # five repeats are needed and one more once the interval is narrow
    assert find_unstable_cells(repeats("a", 4, STEADY[:4])) == {("a", 4)}
    assert find_unstable_cells(repeats("a", 4, STEADY[:5])) == {("a", 4)}, "narrow for the first time: one more"
    assert find_unstable_cells(repeats("a", 4, STEADY)) == set()
    assert find_unstable_cells(repeats("a", 4, (*STEADY[:5], 1100.0))) == {("a", 4)}, "judged on all repeats"
    assert told(repeats("a", 4, STEADY[:4]))[0] == "a batch 4: limit reached, no interval after 4 repeats"
    # the width is compared with two percent of the mean
    # Half-width of m - d, m, m + d, m, m: t(4) at 97.5 % is 2.776, s = d sqrt(2 / 4): 2.776 d / sqrt(10); 2 % of 1000
    # is reached at d = 22.78. With a sixth m it is narrower: t(5) = 2.571, s = d sqrt(2 / 5)
    assert find_unstable_cells(repeats("a", 4, (977.3, 1000.0, 1022.7, 1000.0, 1000.0, 1000.0))) == set()
    assert find_unstable_cells(repeats("a", 4, (977.1, 1000.0, 1022.9, 1000.0, 1000.0, 1000.0))) == {("a", 4)}
    # other frameworks are not left out where one goes on
    results = repeats("a", 4, UNSTEADY) + repeats("b", 4, STEADY) + repeats("b", 8, STEADY)
    assert find_unstable_cells(results) == {("a", 4), ("b", 4)}


@pytest.mark.parametrize("status", [Status.OUT_OF_MEMORY, Status.UNSUPPORTED, Status.FAILED, Status.TIMEOUT])
def test_a_cell_that_does_not_end_ok_does_not_go_on(status: Status) -> None:
    ended = [trial("b", 4, repeat, None, status) for repeat in range(3)]
    assert find_unstable_cells(ended) == set()
    assert find_unstable_cells(repeats("a", 4, UNSTEADY) + ended) == {("a", 4)}
    assert told(ended) == [
        f"b batch 4: stopped: {status.replace('_', ' ')} in repeat 2; no interval after 0 repeats that ended ok"
    ]


def test_a_trial_that_failed_once_stays_out_of_the_speeds() -> None:
    results = [*repeats("a", 4, STEADY), trial("a", 4, 6, 1.0, Status.UNVERIFIED), trial("a", 4, 7, 1000.0)]
    assert find_unstable_cells(results) == set()
    assert told(results)[0].startswith("a batch 4: stable after 7 repeats, ±0.")


def test_a_further_repeat_that_failed_is_asked_for_again_by_the_next_run() -> None:
    five, failed = repeats("a", 4, UNSTEADY[:5]), trial("a", 4, 5, None, Status.FAILED)
    contended, killed = trial("a", 4, 6, 1.0, Status.CONTENDED), trial("a", 4, 7, None, Status.TIMEOUT)
    every = [
        replace(each, spec=varied(each.spec, seed=each.spec.draw.repeat)) for each in (*five, failed, contended, killed)
    ]
    assert find_further_repeats(every[:5], every) == [*every[:5], every[6]]


def run(
    results: list[TrialResult], limit: int, speed: Callable[[int], float]
) -> tuple[list[TrialResult], list[tuple[Iterable[int], set[Key]]]]:
    """(all results, repeats asked for) where every further trial is as fast as `speed(repeat)`."""
    asked = []

    def run_repeats(numbers: Iterable[int], keys: Iterable[Key]) -> list[TrialResult]:
        asked.append((numbers, set(keys)))
        return [trial(*key, repeat, speed(repeat)) for repeat in numbers for key in sorted(keys)]

    return follow(results, FEWEST, limit, run_repeats), asked


def test_repeats_end_at_the_limit_or_when_all_is_stable() -> None:
    results, asked = run(repeats("a", 4, UNSTEADY[:5]), 7, lambda repeat: 1000.0 + 300 * (-1) ** repeat)
    assert asked == [(range(5, 6), {("a", 4)}), (range(6, 7), {("a", 4)})]
    assert told(results)[0].startswith("a batch 4: limit reached, ±") and "after 7 repeats" in told(results)[0]
    wide = (1000.0, 1024.0, 976.0, 1000.0, 1000.0)  # narrow with six, and again with seven
    results, asked = run(repeats("a", 4, wide) + repeats("a", 8, STEADY), 10, lambda repeat: 1000.0)
    assert [numbers for numbers, _ in asked] == [range(5, 6), range(6, 7)] and asked[0][1] == {("a", 4)}
    assert told(results)[0] == "a batch 4: stable after 7 repeats, ±1.3 %"
    assert run(repeats("a", 4, UNSTEADY[:5]), 5, lambda repeat: 1000.0)[1] == []


RISING = (990.0, 993.0, 997.0, 1000.0, 1004.0, 1007.0)


def test_a_cell_that_drifts_is_not_stable_however_narrow_its_interval() -> None:
    assert find_unstable_cells(repeats("a", 4, RISING)) == {("a", 4)}
    assert told(repeats("a", 4, RISING)) == ["a batch 4: limit reached, its speed drifts, ±0.7 % after 6 repeats"]
    mixed = (RISING[3], RISING[0], RISING[5], RISING[1], RISING[4], RISING[2])
    assert find_unstable_cells(repeats("a", 4, mixed)) == set(), "the same speeds in another order"


def test_drift_is_looked_for_in_the_order_of_starts_not_of_repeats() -> None:
    """A repeat that is measured again at the end is such a case."""
    minutes = (3, 0, 5, 1, 4, 2)
    trials = [
        replace(trial("a", 4, repeat, RISING[minute]), started_at=f"2026-01-01T00:0{minute}:00+00:00")
        for repeat, minute in enumerate(minutes)
    ]
    assert find_unstable_cells(trials) == {("a", 4)}


def test_a_trend_too_small_for_one_cell_is_seen_in_all_of_a_run_and_none_is_stable() -> None:
    speeds = (998.0, 1001.0, 997.0, 1003.0, 999.0, 1002.0)
    run = [result for size in (4, 8, 16, 32, 64, 128) for result in repeats("a", size, speeds)]
    assert told(repeats("a", 4, speeds)) == ["a batch 4: stable after 6 repeats, ±0.2 %"]
    assert {cell.ended for cell in collect_cells(run)} == {"limit reached, the run drifts"}
    assert to_json(collect_cells(run), 10)["run_drifts"] and not to_json(collect_cells(run), 10)["cells"][0]["drifts"]


def test_what_the_interval_is_worth_is_stored_and_said() -> None:
    stored = to_json(collect_cells(repeats("a", 4, STEADY)), 10)["coverage_percent"]
    assert stored == {str(spread): list(ends) for spread, ends in COVERAGE_PERCENT.items()}
    for spread, (low, high) in COVERAGE_PERCENT.items():
        assert f"{low} to {high} % where repeats spread by {spread} %" in describe_coverage()
    assert to_json([], 10)["correlated_percent"].keys() == {"0.3", "0.7"}
    for correlation, (low, high) in CORRELATED_PERCENT.items():
        assert f"{low} to {high} % at an autocorrelation of {correlation}" in describe_coverage()
