"""Which trials a study becomes, and in which order."""

from __future__ import annotations

from typing import Any

from conftest import make_spec

from runner.command.plan import planned_trials
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
    return planned_trials(STUDY, installations, Placement(GPU, 2, {}), preallocating, repeats, {})


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
