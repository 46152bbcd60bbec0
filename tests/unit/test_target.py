"""Time and energy to a target accuracy; and the four answers of a published table."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import make_spec
from each import for_each
from published_curve import CurveAnswers, Row, answers_of_curve

from runner.batch_size.best import find_best_size
from workloads.records.batch_answers import Reached
from workloads.records.figures import Figure
from workloads.records.result import Epoch, TrialResult
from workloads.records.status import Status
from workloads.spec import OptimizerSpec
from workloads.trainings import FEWEST, target

# ShuffleNetV2 on CIFAR-100, one V100: from the traces of Zeus (You et al., NSDI 2023; Apache-2.0, see NOTICE).
ZEUS = Path(__file__).parent / "zeus-2023.csv"
IMAGES = 50_000


def zeus() -> CurveAnswers:
    with ZEUS.open(newline="", encoding="utf-8") as file:
        rows = [
            Row(
                int(row["batch_size"]),
                float(row["epoch_s"]),
                float(row["energy_per_image_j"]),
                float(row["epochs_to_60_percent"]),
            )
            for row in csv.DictReader(file)
        ]
    return answers_of_curve(rows, IMAGES, 0.6)


def test_the_published_traces_of_zeus_have_four_different_answers() -> None:
    answers = zeus()
    assert answers.largest == 4096
    assert answers.fastest.batch_size == 1024
    assert answers.least_energy.batch_size == 2048
    assert answers.target.least_energy == 128
    assert answers.target.batch_size == 256, "soonest is another one than least energy"
    for reason in (answers.fastest.reason, answers.least_energy.reason, answers.target.energy_reason):
        assert reason is not None, "single figures: no interval supports any of them"


def test_the_energy_to_the_target_is_what_zeus_says() -> None:
    with ZEUS.open(newline="", encoding="utf-8") as file:
        published = {int(row["batch_size"]): float(row["energy_to_60_percent_kj"]) for row in csv.DictReader(file)}
    ours = {each.batch_size: each.energy_j for each in zeus().target.reached}
    assert {size: joules / 1e3 for size, joules in ours.items() if joules is not None} == pytest.approx(
        published, rel=0.02
    )


def test_the_search_finds_in_the_traces_what_the_table_says() -> None:
    with ZEUS.open(newline="", encoding="utf-8") as file:
        rows = {int(row["batch_size"]): row for row in csv.DictReader(file)}

    def measured(size: int, column: str) -> float | None:
        return float(rows[size][column]) if size in rows else None

    times = find_best_size(lambda size: measured(size, "epoch_s"), 4096, better=-1)
    joules = find_best_size(lambda size: measured(size, "energy_per_image_j"), 4096, better=-1)
    assert (times.batch_size, joules.batch_size) == (1024, 2048)


def test_a_table_without_rows_is_refused_and_one_without_energy_says_nothing_of_it() -> None:
    with pytest.raises(ValueError, match="without rows"):
        answers_of_curve([], IMAGES, 0.6)
    answers = answers_of_curve([Row(8, 10.0, None, 3), Row(16, 6.0, None, None)], IMAGES, 0.6)
    assert answers.least_energy.batch_size is None and answers.target.least_energy is None
    assert answers.target.batch_size == 8 and answers.target.reason == "16 did not reach it in its only repeat"


def trial(
    batch_size: int,
    repeat: int,
    epoch_s: float,
    accuracies: list[float],
    joules: float | None = None,
    **changes: object,
) -> TrialResult:
    epochs = [Epoch(epoch_s, 10, 100, 1.0, 0.5, 1.0, accuracy) for accuracy in accuracies]
    figure = Figure(joules, "NVML") if joules is not None else Figure(None, "NVML", reason="no counter")
    spec = make_spec(batch_size=batch_size, repeat=repeat, seed=repeat, **changes)
    figures = {"energy_per_image_j": figure}
    return TrialResult(spec, Status.OK, None, "2026-01-01T00:00:00+00:00", 1.0, epochs=epochs, figures=figures)


def repeats(batch_size: int, epoch_s: float, spread: float = 0.01, joules: float | None = None) -> list[TrialResult]:
    """Three repeats, which reach 0.6 after the second of three epochs."""
    factors = (1 - spread, 1.0, 1 + spread)
    return [trial(batch_size, r, epoch_s * each, [0.3, 0.6, 0.7], joules) for r, each in enumerate(factors)]


def test_time_and_energy_are_those_of_the_epochs_until_the_first_that_reaches_it() -> None:
    (reached,) = target([trial(32, 0, 2.0, [0.2, 0.61, 0.5, 0.7], 0.5)], 0.6).reached
    assert (reached.epochs, reached.train_s, reached.energy_j) == (2, 4.0, 0.5 * 200)
    assert reached.accuracy == 0.7 and reached.learning_rate == 0.01
    assert reached.folder == f"trials/{make_spec(batch_size=32).id}"


def test_the_rate_that_was_used_is_told_where_it_is_scaled() -> None:
    rule = replace(OptimizerSpec.named("momentum"), scale="linear")
    (reached,) = target([trial(128, 0, 2.0, [0.7], optimizer=rule)], 0.6).reached
    assert reached.learning_rate == 0.02


def test_an_order_is_stated_where_the_interval_of_paired_repeats_supports_it() -> None:
    answer = target([*repeats(32, 2.0, joules=0.2), *repeats(64, 1.0, joules=0.3)], 0.6)
    assert (answer.batch_size, answer.reason) == (64, None)
    assert answer.least_energy == 32
    assert [(each.batch_size, each.repeat) for each in answer.reached] == [(s, r) for s in (32, 64) for r in range(3)]
    # Each repeat of both sizes is slow where the other's is: a tenth apart in every pair
    answer = target([*repeats(32, 1.1, 0.5), *repeats(64, 1.0, 0.5)], 0.6)
    assert (answer.batch_size, answer.reason) == (64, None)


def test_what_few_repeats_do_not_tell_and_a_trial_that_failed_are_said() -> None:
    slow = [trial(32, r, s, [0.7]) for r, s in enumerate((1.0, 1.3, 0.8))]
    fast = [trial(64, r, s, [0.7]) for r, s in enumerate((1.2, 0.9, 0.9))]
    answer = target([*slow, *fast, *repeats(128, 50.0)], 0.6)
    assert answer.batch_size == 64 and answer.reason == "by its mean; not significantly different: 32"
    answer = target([replace(trial(32, 0, 1.0, [0.7]), status=Status.FAILED)], 0.6)
    assert answer.batch_size is None and "32: 1 of 1 training did not end well (failed)" in (answer.reason or "")


@for_each("status", [Status.OUT_OF_MEMORY, Status.CONTENDED, Status.UNVERIFIED])
def test_a_size_whose_trainings_did_not_all_end_well_is_no_answer_and_is_named(status: Status) -> None:
    """256 is sooner in the three repeats that ended well, and two did not."""
    known = [trial(64, repeat, 2.0, [0.7]) for repeat in range(5)]
    sooner = [trial(256, repeat, 1.0, [0.7], 0.1) for repeat in range(5)]
    answer = target([*known, *(replace(each, status=status) for each in sooner[:2]), *sooner[2:]], 0.6)
    assert (answer.batch_size, answer.least_energy) == (64, None)
    assert answer.reason == f"256: 2 of 5 trainings did not end well ({status.replace('_', ' ')})"
    assert [(each.train_s, each.accuracy) for each in answer.reached[5:]] == [(None, None)] * 2 + [(1.0, 0.7)] * 3
    assert [each.status for each in answer.reached[5:]] == [status] * 2 + [Status.OK] * 3


@pytest.mark.parametrize("count", range(1, FEWEST))
def test_single_runs_are_named_as_what_the_order_rests_on(count: int) -> None:
    results = [trial(size, repeat, 1.0 / size, [0.7]) for size in (32, 64) for repeat in range(count)]
    answer = target(results, 0.6)
    assert answer.batch_size == 64 and answer.reason is not None and answer.reason.startswith("in these runs")


def test_sizes_that_do_not_reach_it_are_named_and_are_no_answer() -> None:
    results = [*repeats(32, 2.0), trial(64, 0, 0.1, [0.7]), trial(64, 1, 0.1, [0.5]), trial(128, 0, 0.1, [0.1])]
    answer = target(results, 0.6)
    assert answer.batch_size == 32
    assert answer.reason == "64 did not reach it in 1 of 2 repeats; 128 did not reach it in its only repeat"
    assert [each.epochs for each in answer.reached] == [2, 2, 2, 1, None, None]
    assert (
        answer.least_energy is None and answer.energy_reason is not None and "energy is unknown" in answer.energy_reason
    )


def test_where_none_reaches_it_there_is_no_answer() -> None:
    answer = target([trial(32, 0, 1.0, [0.1]), replace(trial(64, 0, 1.0, []), status=Status.DIVERGED)], 0.6)
    assert answer.batch_size is None and answer.least_energy is None
    said = "no batch size reached it in every repeat (2 trials made)"
    assert answer.reason is not None and answer.reason.startswith(said)
    assert answer.reached[1] == Reached(64, 0, 0.01, None, None, None, None, answer.reached[1].folder, Status.DIVERGED)
    assert target([], 0.6).batch_size is None
