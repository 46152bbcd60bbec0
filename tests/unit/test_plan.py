"""Trials that a study becomes, and their order."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from conftest import make_spec

from runner.estimate import LIMIT_TIMES, Pace, Paces, compute_pace, estimate_s, guess_s, limit_s
from runner.request.block import Shard, build_blocks
from runner.request.parser import BadInput, run_parser
from runner.request.plan import Plan, PlanPart, plan_trials
from runner.stable import collect_cells
from workloads.networks import WORKLOADS
from workloads.records.figures import Figure
from workloads.records.job import Cell, Installation, Placement, TrialSpec
from workloads.records.result import Epoch, TrialResult
from workloads.records.status import Status
from workloads.spec import OptimizerSpec
from workloads.study import LIMIT_S, Study, list_studies
from workloads.study_file import read

CATS_DOGS, IMAGES = WORKLOADS["cats-dogs-cnn"], 1200  # Adam at batch size 16 took 350 s for five epochs of these


def cats_dogs(**changes: Any) -> TrialSpec:
    settings = {"workload": "cats-dogs-cnn", "optimizer": OptimizerSpec.named("adam"), "batch_size": 16, "epochs": 5}
    return make_spec(**(settings | {"threads": 2, "window_s": 5.0} | changes))


def timed(spec: TrialSpec, wall_s: float, status: Status = Status.OK, epochs: int = 5) -> TrialResult:
    each = Epoch(train_s=1.0, steps=75, images=IMAGES, train_loss=1.0, evaluate_s=1.0, test_loss=1.0, test_accuracy=0.5)
    return TrialResult(spec, status, None, "2026-01-01T00:00:00+00:00", wall_s, epochs=epochs * [each])


def test_a_network_bound_by_memory_is_estimated_by_the_bytes_that_an_update_moves() -> None:
    by_rule = [
        guess_s(cats_dogs(optimizer=OptimizerSpec.named(name)), CATS_DOGS, 5 * IMAGES) for name in ("sgd", "adam")
    ]
    assert by_rule[0] < by_rule[1] and 350 / 2.5 < by_rule[1] < 350 * 2.5
    small = make_spec(batch_size=128, epochs=10, threads=2, window_s=5.0)  # 2,000 to 5,000 images/s
    assert 10 + 14370 / 5000 < guess_s(small, WORKLOADS["osu-cnn"], 14370) < 10 + 14370 / 2000


def test_an_estimate_is_corrected_by_the_trials_that_are_most_like_it(tmp_path: Path) -> None:
    spec = cats_dogs()
    guess = guess_s(spec, CATS_DOGS, 5 * IMAGES)
    larger = cats_dogs(batch_size=32)
    pace = compute_pace(timed(larger, 3 * guess_s(larger, CATS_DOGS, 5 * IMAGES)), tmp_path)
    alike = Pace(spec.memory_id, "numpy", "cpu", "cats-dogs-cnn", 3.0)
    assert pace and pace.times == pytest.approx(3) and replace(pace, times=3.0) == alike
    network, column = replace(alike, memory_id="", times=2.0), Pace("", "numpy", "cpu", "osu-cnn", 4.0)
    other, on_gpu = replace(column, framework="mxnet", times=0.5), replace(alike, device_kind="cuda", times=9.0)
    for paces, times in (
        ([alike, network, column, other, on_gpu], 3),
        ([network, column, other, on_gpu], 2),
        ([column, other, on_gpu], 4),
        ([other, on_gpu], 0.5),
        ([on_gpu], 1),
        ([], 1),
    ):
        assert estimate_s(spec, CATS_DOGS, IMAGES, [], Paces(paces)) == pytest.approx(times * guess)
    assert estimate_s(spec, CATS_DOGS, IMAGES, [timed(spec, 77.0)], Paces([alike])) == 77.0, "as the cell itself took"
    plan = Plan([spec], {}, CATS_DOGS, IMAGES, paces=Paces([alike])).with_stored([])
    assert plan.estimates_s == {spec.id: pytest.approx(3 * guess)}


@pytest.mark.parametrize(("status", "epochs", "counted"), [
    (Status.OK, 5, True), (Status.CONTENDED, 5, True), (Status.TIMEOUT, 3, False), (Status.FAILED, 0, False),
])  # fmt: skip
def test_a_trial_that_was_trained_to_its_end_says_how_long_others_take(
    status: Status, epochs: int, counted: bool, tmp_path: Path
) -> None:
    assert (compute_pace(timed(cats_dogs(), 100.0, status, epochs), tmp_path) is not None) is counted


def test_the_time_limit_is_600_s_or_more_where_the_estimate_needs_it() -> None:
    assert limit_s(make_spec(), WORKLOADS["tiny"], 64, LIMIT_S) == LIMIT_S == Study("s").limit_s == 600
    estimate = estimate_s(cats_dogs(), CATS_DOGS, 2 * IMAGES, [])
    assert limit_s(cats_dogs(), CATS_DOGS, 2 * IMAGES, LIMIT_S) == pytest.approx(LIMIT_TIMES * estimate, abs=1)
    assert LIMIT_TIMES * estimate > 2 * 700, "twice the images took 700 s"
    assert Study("s", timeout_s=30).limit_s == 30


@pytest.mark.parametrize(("times", "raised"), [(4.0, 4.0), (1.0, 1.0), (0.25, 1.0)])
def test_a_slower_pace_raises_the_time_limit_and_a_faster_one_does_not_lower_it(times: float, raised: float) -> None:
    spec, count = cats_dogs(), 2 * IMAGES
    paces = Paces([Pace(spec.memory_id, "numpy", "cpu", "cats-dogs-cnn", times)])
    assert limit_s(spec, CATS_DOGS, count, 0.0, paces) == pytest.approx(
        raised * limit_s(spec, CATS_DOGS, count, 0.0), abs=4
    )
    assert limit_s(spec, CATS_DOGS, count, 1e9, paces) == 1e9


STUDY = Study("test", batch_sizes=(64, 8), repeats=2)
GPU = "GPU-00000000-1111-2222-3333-444444444444"


def planned(repeats: range = range(2), preallocating: tuple[str, ...] = ("tensorflow",)) -> list[TrialSpec]:
    digests = {"mxnet": "a", "pytorch": "b", "tensorflow": "c"}
    installations = {name: Installation("venv", digest) for name, digest in digests.items()}
    part = PlanPart(STUDY, Placement(GPU, 2, {}), {})
    return [spec for _, spec in plan_trials({"": part}, installations, preallocating, repeats)]


@pytest.mark.parametrize("name", sorted(list_studies()))
@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_every_trial_of_a_study_is_in_one_shard_with_its_rivals(name: str, count: int) -> None:
    series = read(list_studies()[name]).parts
    installations = {framework: Installation("venv", "a") for framework in ("mxnet", "pytorch", "tensorflow@tuned")}
    own = len({(each.frameworks, each.profiles) for each in series.values()}) > 1  # of columns
    columns = {key: [f"mxnet@{key}"] if own else [*installations] for key in series}
    installations |= {column: Installation("venv", "a") for each in columns.values() for column in each}
    parts = {key: PlanPart(each, Placement(GPU, 2, {}), {}, columns[key]) for key, each in series.items()}
    plan = [spec for _, spec in plan_trials(parts, installations, ("mxnet",), range(2))]
    shards = [Shard(number, count).select(plan) for number in range(1, count + 1)]
    assert sorted(spec.id for shard in shards for spec in shard) == sorted(spec.id for spec in plan)
    cells = [
        {(s.task, s.passes, s.cell.batch_size, s.cell.allocator, s.draw, s.placement) for s in shard}
        for shard in shards
    ]
    assert not any(one & other for one, other in combinations(cells, 2)), "rivals are in two shards"
    together = len(build_blocks(plan, None))
    assert (
        sorted({len(build_blocks(shard, None)) for shard in shards} - {together // count, -(-together // count)}) == []
    )


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "1/0", "a/b", "-1/2", "1/2/3", "", "\u0661/2"])
def test_a_bad_shard_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(BadInput, match=r"--shard.*not I/N with I from 1 to N") as refused:
        run_parser().parse_args([f"--shard={text}"])
    assert "\n" not in str(refused.value)


def test_the_policy_of_a_framework_that_preallocates_is_measured_once_and_no_repeat_of_its_cell() -> None:
    # policy of a framework that preallocates is measured once
    *others, last = planned()
    assert (last.cell, last.draw.repeat) == (Cell("tensorflow", 8, "default"), 0)
    assert len(others) == 12 and {spec.cell.allocator for spec in others} == {"on-demand"}
    assert len({spec.id for spec in [*others, last]}) == 13
    # further repeats do not measure the policy again
    assert {spec.cell.allocator for spec in planned(repeats=range(2, 3))} == {"on-demand"}
    # a framework that takes memory as it needs it is not measured twice
    assert len(planned(preallocating=())) == 12

    # trial of the policy does not count as a repeat of its cell
    def result(**changes: Any) -> TrialResult:
        figures = {"images_per_s": Figure(100.0, "s")}
        return TrialResult(make_spec(**changes), Status.OK, None, "2026-01-01T00:00:00+00:00", 1.0, figures=figures)

    (cell,) = collect_cells([result(), result(repeat=1, seed=1), result(allocator="default")])
    assert cell.speeds == (100.0, 100.0)
    # the policy is measured once for all series
    parts = {
        name: PlanPart(Study("s", batch_sizes=(8, 4)).changed(optimizer=rule), Placement(GPU, 2, {}), {})
        for name, rule in (("a", "sgd"), ("b", "adam"))
    }
    trials = plan_trials(parts, {"tensorflow": Installation("venv", "c")}, ("tensorflow",), range(1))
    own = [(name, spec.cell.batch_size) for name, spec in trials if spec.cell.allocator == "default"]
    assert own == [("a", 4)] and trials[-1][1].cell.allocator == "default"


FOUR = {name: Installation("venv", name) for name in ("jax", "mxnet", "pytorch", "tensorflow@fit")}


def series_of(**columns: tuple[str, ...]) -> dict[str, PlanPart]:
    """Return series of these columns, each named by its optimizer."""
    studies = {name: Study("s", batch_sizes=(8, 4)).changed(optimizer=name) for name in columns}
    return {name: PlanPart(studies[name], Placement("cpu", 2, {}), {}, each) for name, each in columns.items()}


def test_the_policy_is_measured_in_the_first_series_that_has_the_column() -> None:
    parts = series_of(sgd=("mxnet", "pytorch"), adam=("mxnet", "tensorflow@fit"))
    trials = plan_trials(parts, FOUR, ("mxnet", "tensorflow@fit"), range(2))
    own = [(name, spec.cell.framework, spec.cell.batch_size, spec.draw.repeat) for name, spec in trials[-2:]]
    assert own == [("sgd", "mxnet", 4, 0), ("adam", "tensorflow@fit", 4, 0)]
    assert sum(spec.cell.allocator == "default" for _, spec in trials) == 2


def test_columns_of_one_table_are_measured_in_one_block_whichever_series_has_them() -> None:
    studies = series_of(sgd=("mxnet", "pytorch"), adam=("mxnet", "pytorch"))
    fit = replace(studies["sgd"], study=replace(studies["sgd"].study, profiles=("fit",)), columns=("tensorflow@fit",))
    trials = plan_trials({**studies, "by-fit": fit}, FOUR, (), range(3))
    keys = [(spec.task.optimizer.name, spec.draw.repeat, spec.cell.batch_size) for _, spec in trials]
    blocks = [key for key, before in zip(keys, [None, *keys], strict=False) if key != before]
    assert len(blocks) == len(set(blocks)) == 12, "a block is in two pieces"
    places = {place % 3 for place, spec in enumerate(s for n, s in trials if n != "adam") if "@" in spec.cell.framework}
    assert len(places) > 1, "it is always at the same place of its block"


def test_series_that_train_different_things_are_in_the_order_of_before_series_had_columns() -> None:
    trials = plan_trials(series_of(sgd=("mxnet", "pytorch"), adam=("mxnet", "pytorch", "jax")), FOUR, (), range(1))
    assert [(name, spec.cell.framework, spec.cell.batch_size) for name, spec in trials] == [
        ("adam", "jax", 8), ("adam", "pytorch", 8), ("adam", "mxnet", 8), ("sgd", "mxnet", 8), ("sgd", "pytorch", 8),
        ("sgd", "mxnet", 4), ("sgd", "pytorch", 4), ("adam", "jax", 4), ("adam", "pytorch", 4), ("adam", "mxnet", 4),
    ]  # fmt: skip


def test_in_rounds_every_cell_has_a_repeat_before_any_has_the_next_in_an_order_drawn_for_each_round() -> None:
    def order(seed: int) -> list[tuple[int, int]]:
        part = PlanPart(Study("s", batch_sizes=(1, 2, 4, 8, 16), seed=seed), Placement("cpu", 2, {}), {})
        one = {"pytorch": Installation("venv", "a")}
        trials = plan_trials({"": part}, one, (), range(5), in_rounds=True)
        return [(spec.draw.repeat, spec.cell.batch_size) for _, spec in trials]

    drawn = order(1)
    assert [repeat for repeat, _ in drawn] == [repeat for repeat in range(5) for _ in range(5)]
    rounds = [tuple(size for _, size in drawn[start : start + 5]) for start in range(0, 25, 5)]
    assert len(set(rounds)) >= 4 and all(sorted(sizes) == [1, 2, 4, 8, 16] for sizes in rounds)
    assert order(1) == drawn != order(2), "the run's seed decides"


def test_frameworks_of_a_block_follow_each_other_and_blocks_of_all_series_are_shuffled() -> None:
    sizes = {"a": (1, 2, 3, 4), "b": (2, 4), "c": (8, 16, 32)}
    parts = {
        name: PlanPart(Study("s", batch_sizes=each, repeats=2), Placement("cpu", 2, {}), {})
        for name, each in sizes.items()
    }
    installations = {name: Installation("venv", name) for name in ("mxnet", "pytorch", "tensorflow")}
    trials = [
        (name, spec.draw.repeat, spec.cell.batch_size) for name, spec in plan_trials(parts, installations, (), range(2))
    ]
    blocks = trials[::3]
    assert trials == [block for block in blocks for _ in installations]
    assert sorted(blocks) == sorted(
        (name, repeat, size) for name in sizes for repeat in range(2) for size in sizes[name]
    )
    names = [name for name, _, _ in blocks]
    assert names != sorted(names), "not one series after the other"


# As it was before there were series.
ORDER = [
    ("mxnet", 64, 1), ("tensorflow", 64, 1), ("pytorch", 64, 1), ("mxnet", 64, 0), ("tensorflow", 64, 0),
    ("pytorch", 64, 0), ("mxnet", 8, 0), ("tensorflow", 8, 0), ("pytorch", 8, 0), ("pytorch", 8, 1), ("mxnet", 8, 1),
    ("tensorflow", 8, 1),
]  # fmt: skip


def test_a_study_without_series_is_run_in_the_order_of_before_there_were_any() -> None:
    order = [(spec.cell.framework, spec.cell.batch_size, spec.draw.repeat) for spec in planned(preallocating=())]
    assert order == ORDER
