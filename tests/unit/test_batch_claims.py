"""The claim "3 to 4 times faster at equal quality" checked with trials at two batch sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from conftest import make_spec

from workloads.records.batch_answers import Holds
from workloads.records.result import Epoch, TrialResult
from workloads.records.status import Status
from workloads.trainings import epoch_s, trained

HALF_POINT = [0.005, -0.002, 0.001, -0.004, 0.0]


def trial(batch_size: int, repeat: int, seconds: float, accuracy: float, **changes: object) -> TrialResult:
    epochs = [Epoch(s, 10, 100, 1.0, 0.5, 1.0, a) for s, a in ((9 * seconds, 0.1), (seconds, 0.2), (seconds, accuracy))]
    spec = make_spec(batch_size=batch_size, repeat=repeat, seed=repeat, dataset="cifar10", **changes)
    return TrialResult(spec, Status.OK, None, "2026-01-01T00:00:00+00:00", 1.0, epochs=epochs)


def both(faster: float, lower: float = 0.0, count: int = 5, noise: Sequence[float] = HALF_POINT) -> list[TrialResult]:
    """Trials at 64 and 512. Each repeat's accuracy and time have noise in addition to what both sizes share."""
    results = []
    for repeat in range(count):
        results.append(trial(64, repeat, 10.0 + repeat, 0.70 + 0.01 * repeat))
        faster_here = faster * (1 + 4 * noise[repeat])
        results.append(trial(512, repeat, (10.0 + repeat) / faster_here, 0.70 + 0.01 * repeat - lower + noise[repeat]))
    return results


@pytest.mark.parametrize(
    ("faster", "lower", "verdict"),
    [
        (3.5, 0.0, Holds.HOLDS),
        (3.5, -0.05, Holds.HOLDS),
        (5.0, 0.0, Holds.HOLDS),
        (2.0, 0.0, Holds.DOES_NOT),
        (3.5, 0.03, Holds.DOES_NOT),
        (2.0, 0.03, Holds.DOES_NOT),
        (3.0, 0.0, Holds.UNCERTAIN),
        (3.5, 0.01, Holds.UNCERTAIN),
    ],
)
def test_the_verdict_is_what_the_intervals_support(faster: float, lower: float, verdict: Holds) -> None:
    answer = trained(both(faster, lower), 64, 512)
    assert answer.verdict is verdict and (answer.in_use, answer.batch_size, answer.repeats) == (64, 512, 5)
    assert answer.speed_up_low is not None and answer.speed_up is not None and answer.speed_up_high is not None
    assert answer.speed_up_low < answer.speed_up < answer.speed_up_high
    assert answer.speed_up == pytest.approx(faster, rel=0.01)
    assert answer.accuracy_change == pytest.approx(-lower, abs=1e-3)


@pytest.mark.parametrize("count", [1, 2])
def test_few_repeats_have_no_interval_and_no_verdict(count: int) -> None:
    answer = trained(both(3.5, count=count), 64, 512)
    assert answer.speed_up is not None and answer.speed_up_low is answer.accuracy_high is None
    assert answer.verdict is Holds.UNCERTAIN and answer.repeats == count


def test_accuracies_that_agree_exactly_still_spread_by_a_test_image() -> None:
    answer = trained(both(3.5, noise=[0.0] * 5), 64, 512)
    assert answer.accuracy_low is not None and answer.accuracy_low == pytest.approx(-2.776 * 1e-4 / 5**0.5, rel=1e-3)


def test_the_first_epoch_has_the_first_step_in_it_and_is_left_out_where_there_are_more() -> None:
    result = trial(64, 0, 2.0, 0.5)
    assert epoch_s(result) == 2.0
    assert epoch_s(replace(result, epochs=result.epochs[:1])) == 18.0


def test_only_pairs_of_a_repeat_count() -> None:
    results = [*both(3.5), trial(512, 7, 1.0, 0.9), replace(trial(64, 8, 1.0, 0.9), status=Status.FAILED)]
    assert trained(results, 64, 512) == trained(both(3.5), 64, 512)
    alone = trained([trial(512, 7, 1.0, 0.9)], 64, 512)
    assert alone.repeats == 0 and alone.speed_up is None and alone.verdict is Holds.UNCERTAIN


def test_a_training_that_diverged_at_the_found_size_is_no_equal_quality() -> None:
    results = [
        replace(trial(512, each.spec.draw.repeat, 1.0, 0.1), status=Status.DIVERGED)
        if each.spec.cell.batch_size == 512
        else each
        for each in both(3.5)
    ]
    assert trained(results, 64, 512).verdict is Holds.DOES_NOT


def test_trials_that_differ_in_more_than_batch_size_and_repeat_are_refused() -> None:
    with pytest.raises(ValueError, match="differ in more than batch size and repeat"):
        trained([*both(3.5), trial(512, 5, 1.0, 0.9, framework="other")], 64, 512)
