"""Which trials a study becomes, and in which order."""

from __future__ import annotations

from typing import Any

from conftest import make_spec

from runner.command.plan import Part, planned_trials
from runner.command.stable import cells
from workloads.records.figures import Figure
from workloads.records.job import Cell, Installation, Placement, TrialSpec
from workloads.records.result import TrialResult
from workloads.records.status import Status
from workloads.study import Study

STUDY = Study("test", batch_sizes=(64, 8), repeats=2)
GPU = "GPU-00000000-1111-2222-3333-444444444444"


def planned(repeats: range = range(2), preallocating: tuple[str, ...] = ("tensorflow",)) -> list[TrialSpec]:
    digests = {"mxnet": "a", "pytorch": "b", "tensorflow": "c"}
    installations = {name: Installation("venv", digest) for name, digest in digests.items()}
    part = Part(STUDY, Placement(GPU, 2, {}), {})
    return [spec for _, spec in planned_trials({"": part}, installations, preallocating, repeats)]


def test_policy_of_a_framework_that_preallocates_is_measured_once() -> None:
    *others, last = planned()
    assert (last.cell, last.draw.repeat) == (Cell("tensorflow", 8, "default"), 0)
    assert len(others) == 12 and {spec.cell.allocator for spec in others} == {"on-demand"}
    assert len({spec.id for spec in [*others, last]}) == 13


def test_further_repeats_do_not_measure_the_policy_again() -> None:
    assert {spec.cell.allocator for spec in planned(repeats=range(2, 3))} == {"on-demand"}


def test_a_framework_that_takes_memory_as_it_needs_it_is_not_measured_twice() -> None:
    assert len(planned(preallocating=())) == 12


def test_trial_of_the_policy_does_not_count_as_a_repeat_of_its_cell() -> None:
    def result(**changes: Any) -> TrialResult:
        figures = {"images_per_s": Figure(100.0, "s")}
        return TrialResult(make_spec(**changes), Status.OK, None, "2026-01-01T00:00:00+00:00", 1.0, figures=figures)

    (cell,) = cells([result(), result(repeat=1, seed=1), result(allocator="default")])
    assert cell.speeds == (100.0, 100.0)


def test_frameworks_of_a_block_follow_each_other_and_blocks_of_all_series_are_shuffled() -> None:
    sizes = {"a": (1, 2, 3, 4), "b": (2, 4), "c": (8, 16, 32)}
    parts = {
        name: Part(Study("s", batch_sizes=each, repeats=2), Placement("cpu", 2, {}), {}) for name, each in sizes.items()
    }
    installations = {name: Installation("venv", name) for name in ("mxnet", "pytorch", "tensorflow")}
    trials = [
        (name, spec.draw.repeat, spec.cell.batch_size)
        for name, spec in planned_trials(parts, installations, (), range(2))
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


def test_the_policy_is_measured_once_for_all_series() -> None:
    parts = {
        name: Part(Study("s", batch_sizes=(8, 4)).changed(optimizer=rule), Placement(GPU, 2, {}), {})
        for name, rule in (("a", "sgd"), ("b", "adam"))
    }
    trials = planned_trials(parts, {"tensorflow": Installation("venv", "c")}, ("tensorflow",), range(1))
    own = [(name, spec.cell.batch_size) for name, spec in trials if spec.cell.allocator == "default"]
    assert own == [("a", 4)] and trials[-1][1].cell.allocator == "default"
