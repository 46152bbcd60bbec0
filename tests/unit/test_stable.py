"""Which cells ask for another repeat, and what is said of each in the end; speeds are made up."""

from __future__ import annotations

import math

import pytest
from conftest import make_spec

from runner.intervals import mean_interval
from runner.stable import cells, follow, wanted
from workloads.trial import Figure, Status, TrialResult

STEADY, UNSTEADY = (1000.0, 1001.0, 999.0), (1000.0, 1100.0, 900.0)


def trial(framework, batch_size, repeat, speed, status=Status.OK):
    spec = make_spec(framework=framework, batch_size=batch_size, repeat=repeat)
    figure = Figure(speed, "test") if speed is not None else Figure(None, "test", reason="no window")
    reason = None if status is Status.OK else "made up"
    return TrialResult(spec, status, reason, "2026-01-01T00:00:00+00:00", 1.0, figures={"images_per_s": figure})


def repeats(framework, batch_size, speeds):
    return [trial(framework, batch_size, repeat, speed) for repeat, speed in enumerate(speeds)]


def told(results):
    return [cell.told() for cell in cells(results)]


def test_the_interval_is_not_that_of_the_t_table():
    """t(2) at 97.5 % is 4.303 (NIST/SEMATECH e-Handbook, 1.3.6.7.2); s of 1, 2, 3 is 1."""
    mean, low, high = mean_interval([1.0, 2.0, 3.0])
    assert (mean, high - mean) == pytest.approx((2.0, 4.303 / math.sqrt(3)), rel=1e-4)
    assert mean - low == pytest.approx(high - mean)


def test_a_steady_cell_asks_for_more_or_an_unsteady_one_for_none():
    assert wanted(repeats("a", 4, STEADY)) == set()
    assert wanted(repeats("a", 4, UNSTEADY)) == {("a", 4)}
    assert wanted(repeats("a", 4, STEADY[:2])) == {("a", 4)}, "two repeats are no interval"


def test_the_width_is_not_held_against_two_percent_of_the_mean():
    """Half-width of three repeats m - d, m, m + d: 4.303 d / sqrt(3); 2 % of 1000 is reached at d = 8.05."""
    assert wanted(repeats("a", 4, (992.0, 1000.0, 1008.0))) == set()
    assert wanted(repeats("a", 4, (991.9, 1000.0, 1008.1))) == {("a", 4)}


def test_other_frameworks_are_left_out_where_one_goes_on():
    results = repeats("a", 4, UNSTEADY) + repeats("b", 4, STEADY) + repeats("b", 8, STEADY)
    assert wanted(results) == {("a", 4), ("b", 4)}


@pytest.mark.parametrize("status", [Status.OUT_OF_MEMORY, Status.UNSUPPORTED, Status.FAILED, Status.TIMEOUT])
def test_a_cell_that_does_not_end_ok_goes_on_for_ever(status):
    ended = [trial("b", 4, repeat, None, status) for repeat in range(3)]
    assert wanted(ended) == set()
    assert wanted(repeats("a", 4, UNSTEADY) + ended) == {("a", 4)}
    assert told(ended) == [
        f"b batch 4: stopped: {status.replace('_', ' ')} in repeat 2; no interval after 0 repeats that ended ok"
    ]


def test_a_trial_that_failed_once_enters_the_speeds():
    results = [*repeats("a", 4, STEADY), trial("a", 4, 3, 1.0, Status.UNVERIFIED), trial("a", 4, 4, 1000.0)]
    assert wanted(results) == set()
    assert told(results)[0].startswith("a batch 4: stable after 4 repeats, ±0.")


def run(results, limit, speed):
    """(all results, repeats asked for) where every further trial is as fast as `speed(repeat)`."""
    asked = []

    def run_repeats(numbers, keys):
        asked.append((numbers, set(keys)))
        return [trial(*key, repeat, speed(repeat)) for repeat in numbers for key in sorted(keys)]

    return follow(results, 3, limit, run_repeats), asked


def test_repeats_go_on_beyond_the_limit():
    results, asked = run(repeats("a", 4, UNSTEADY), 5, lambda repeat: 1000.0 + 300 * (-1) ** repeat)
    assert asked == [(range(3, 4), {("a", 4)}), (range(4, 5), {("a", 4)})]
    assert told(results)[0].startswith("a batch 4: limit reached, ±") and "after 5 repeats" in told(results)[0]


def test_repeats_go_on_after_all_is_stable():
    results, asked = run(repeats("a", 4, (1000.0, 1010.0, 990.0)) + repeats("a", 8, STEADY), 10, lambda repeat: 1000.0)
    assert [numbers for numbers, _ in asked] == [range(3, 4)] and asked[0][1] == {("a", 4)}
    assert told(results)[0] == "a batch 4: stable after 4 repeats, ±1.3 %"


def test_a_limit_that_the_repeats_have_reached_adds_one():
    assert run(repeats("a", 4, UNSTEADY), 3, lambda repeat: 1000.0)[1] == []
