"""Sections of a study's series have the series' names as headings."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import varied
from stored import store, trial

from reports import build, export, load
from reports.caveats import describe_missing_runs
from reports.checking import completeness
from reports.condition_text import build_headings
from reports.conditions import group_into_sections, name_series
from reports.drawing import figures
from reports.frameworks import Style
from reports.web.page import list_drawings
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


def fast(framework: str, profile: str = "default", size: int = 32, **changes: Any) -> TrialResult:
    """A trial of the study frameworks."""
    name = framework if profile == "default" else f"{framework}@{profile}"
    given: dict[str, Any] = {"study": "frameworks", "profile": profile, "epochs": 3} | changes
    return trial(name, size, **given)


def test_series_with_columns_of_their_own_share_a_section_that_has_both_names() -> None:
    (section,), _ = group_into_sections([fast("pytorch"), fast("tensorflow"), fast("tensorflow", "fit")])
    assert name_series(section) == "osu-cnn, osu-cnn-fit"
    (section,), _ = group_into_sections([fast("pytorch", epochs=1, last_batch="drop")])
    assert name_series(section) == "compilers"
    (section,), _ = group_into_sections([fast("pytorch"), fast("pytorch", "tuned")])
    assert name_series(section) == "", "none of its series asks for tuned"


def test_a_series_with_columns_of_its_own_that_was_not_run_is_said_to_lack() -> None:
    every = [
        fast(name, size=size, repeat=repeat)
        for name in ("pytorch", "mxnet")
        for size in (32, 256)
        for repeat in range(5)
    ]
    whole = "the study frameworks as it is defined: the series"
    assert describe_missing_runs(every) == [f"{whole} osu-cnn-fit, compilers, compilers-jax and resnet-18"]
    told = describe_missing_runs([*every, fast("tensorflow", "fit")])
    part = "the study frameworks (osu-cnn-fit) as it is defined: batch size 256 and 4 of 5 repeats"
    assert told == [f"{whole} compilers, compilers-jax and resnet-18", part]


def test_a_series_that_was_not_run_at_all_is_said_to_lack_and_keeps_results_from_being_published(
    tmp_path: Path,
) -> None:
    adam = [cats("adam", batch_size=size, repeat=repeat) for size in (16, 32, 64, 128, 256) for repeat in range(4)]
    phrase = "the study cats-dogs-cpu as it is defined: the series sgd, adam-augmented and adam-equal-updates"
    assert describe_missing_runs(adam) == [phrase]
    folder = store(tmp_path / "results", *adam)
    sentences = [obstacle.sentence for obstacle in completeness.find_obstacles(load.read(folder), folder)]
    assert f"not run of {phrase}" in sentences
    assert f"Not run of {phrase}." in build.build_report([folder]).summary.not_verified
    own = [replace(each, spec=varied(each.spec, study="mine")) for each in adam]
    assert describe_missing_runs(own) == []


def test_series_that_differ_in_threads_alone_are_each_run_or_not() -> None:
    one = [
        trial("pytorch", size, repeat, study="devices-cpu", epochs=5, threads=1)
        for size in (4, 16, 64, 256, 1024)
        for repeat in range(5)
    ]
    assert describe_missing_runs(one) == ["the study devices-cpu as it is defined: the series all-threads"]
    every = [*one, *(replace(each, spec=varied(each.spec, threads=2)) for each in one)]
    assert describe_missing_runs(every) == []


def test_a_column_of_another_series_lacks_no_size_that_its_own_does_not_ask_for(tmp_path: Path) -> None:
    every = [fast("pytorch"), fast("pytorch", size=256), fast("tensorflow", "fit")]
    own = [replace(each, spec=varied(each.spec, study="mine")) for each in every]
    for trials, lacking in ((every, ["TensorFlow @fit, batch size 256, repeat 0"]), (own, [])):
        folder = store(tmp_path / trials[0].spec.study, *trials)
        gaps = completeness.find_gaps(load.read(folder), folder)
        assert [gap.example for gap in gaps if gap.kind == "planned and not there"] == lacking


@pytest.mark.parametrize("changes", [{"epochs": 6}, {"study": "quick"}, {"study": "mine"}])
def test_what_an_option_changed_is_of_no_series(changes: dict[str, Any]) -> None:
    (section,), _ = group_into_sections([cats("sgd", **changes)])
    assert name_series(section) == ""


def test_the_page_and_the_pictures_give_a_column_one_style_in_all_series(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[dict[str, Style]] = []
    monkeypatch.setattr(figures, "draw", lambda *given: drawn.append(given[4]))
    monkeypatch.setattr(export, "ProcessPoolExecutor", lambda *_: ThreadPoolExecutor(1))
    every = [fast("tensorflow"), fast("tensorflow", "fit"), fast("tensorflow", "compiled", epochs=1, last_batch="drop")]
    report = build.build_report([store(tmp_path / "results", *every)])
    export.write(report, tmp_path / "report", ("png",))
    looks = [drawing.looks for drawing in list_drawings(report)]
    assert drawn and looks and all(each == looks[0] for each in (*drawn, *looks))
    assert len({looks[0][result.spec.cell.framework].marker for result in every}) == 3
