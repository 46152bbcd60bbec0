"""Sections of a study's series have the series' names as headings."""

from __future__ import annotations

from typing import Any

import pytest
from stored import trial

from reports.condition_text import build_headings
from reports.conditions import group_into_sections, name_series
from workloads.records.result import TrialResult
from workloads.spec import OptimizerSpec

CATS: dict[str, Any] = {
    "study": "cats-dogs-cpu", "workload": "cats-dogs-cnn-32", "dataset": "cifar10-cats-dogs", "epochs": 5,
}  # fmt: skip


def cats(rule: Any, **changes: Any) -> TrialResult:
    return trial(optimizer=OptimizerSpec.named(rule), **CATS | changes)


def headed(*results: TrialResult) -> list[str]:
    return build_headings(group_into_sections(results)[0])


def test_each_section_of_a_series_is_headed_by_its_name_and_what_all_share() -> None:
    every = (cats("sgd"), cats("adam"), cats("adam", augment="zoom-copy"), cats("adam", augment="copy"))
    shared = "cats-dogs-cnn-32 on cifar10-cats-dogs, CPU, Intel(R) Xeon(R) Processor"
    assert sorted(headed(*every)) == sorted(
        f"{name}: {shared}" for name in ("adam", "adam-augmented", "adam-equal-updates", "sgd")
    )


def test_sections_of_a_series_are_headed_by_its_name_and_what_it_does_not_tell_apart_by_conditions() -> None:
    lines = headed(cats("sgd"), cats("adam"), cats("adam", threads=1))
    assert not any(line.startswith(("sgd:", "adam:")) for line in lines)
    assert any("threads 1" in line for line in lines)
    shared: dict[str, Any] = {"study": "devices-cpu", "epochs": 5}
    lines = headed(trial(threads=1, **shared), trial(**shared))
    assert sorted(line.partition(":")[0] for line in lines) == ["all-threads", "one-thread"]


@pytest.mark.parametrize("changes", [{"epochs": 6}, {"study": "quick"}, {"study": "mine"}])
def test_what_an_option_changed_is_of_no_series(changes: dict[str, Any]) -> None:
    (section,), _ = group_into_sections([cats("sgd", **changes)])
    assert name_series(section) == ""
