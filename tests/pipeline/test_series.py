"""A study of several series through the real runner: one folder, blocks in a drawn order, resumed as any other."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import run_runner
from copied import run_in

from workloads.study import list_studies

STUDY = """\
summary = "three series"
workload = "tiny"
dataset = "digits-64"
frameworks = ["numpy"]
batch_sizes = [4, 8]
epochs = 1
device = "cpu"
threads = 1
window_s = 0.05

[[series]]
name = "sgd"
optimizer = "sgd"

[[series]]
name = "adam"
optimizer = "adam"
batch_sizes = [8]

[[series]]
name = "parts"
optimizer = "sgd"
accumulate = 2
schedule = "cosine"
augment = "flip-crop"

[[series]]
name = "twice"
optimizer = "sgd"
batch_sizes = [8]
augment = "copy"
"""


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, ...]:
    folder = tmp_path_factory.mktemp("study")
    study = folder / "three.toml"
    study.write_text(STUDY, encoding="utf-8")
    return ("--study", study, "--isolation", "here", "--results", folder / "results")


def specs(asked: tuple[Any, ...]) -> list[dict[str, Any]]:
    return [json.loads(path.read_text())["spec"] for path in asked[-1].glob("trials/*/result.json")]


def test_one_series_is_run_alone_and_the_next_run_adds_the_others(lean: Path, asked: tuple[Any, ...]) -> None:
    first = run_in(lean, *asked, "--series", "adam")
    assert first.returncode == 0, first.stdout + first.stderr
    assert [(spec["task"]["optimizer"]["name"], spec["cell"]["batch_size"]) for spec in specs(asked)] == [("adam", 8)]
    planned = run_in(lean, *asked, "--plan")
    assert planned.stdout.count("finished") == 1 and "5 trials to run" in planned.stdout
    every = run_in(lean, *asked)
    assert every.returncode == 0, every.stdout + every.stderr
    assert "1 of 6 trials are finished" in every.stdout
    assert all(f"\n{series}" in every.stdout for series in ("sgd", "parts", "twice"))
    assert "6 of 6 trials are finished" in run_in(lean, *asked).stdout
    tasks = Counter((spec["task"]["optimizer"]["name"], spec["task"]["accumulate"]) for spec in specs(asked))
    assert tasks == {("sgd", 1): 3, ("adam", 1): 1, ("sgd", 2): 2}
    assert {spec["study"] for spec in specs(asked)} == {"three"}
    inputs = {(spec["task"]["augment"], spec["task"]["accumulate"]): spec["inputs"] for spec in specs(asked)}
    more = inputs["flip-crop", 2].keys() - inputs["none", 1].keys()
    assert more == {"rates", "augmentation"}, "what one series needs, the others do not get"
    images = {augment: files["train_images"]["sha256"] for (augment, _), files in inputs.items()}
    assert images["none"] == images["flip-crop"] != images["copy"], "of one data set, but not the same images"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--optimizer", "sgd"), "--optimizer: study three sets it per series (sgd, adam, parts, twice): leave it out"),
        (("--batch-size", "5"), "--batch-size 5: the series of study three have 4, 8: choose from those"),
        (("--series", "admam"), "unknown series 'admam': did you mean adam?"),
        (("--until-stable",), "--until-stable: study three has the series sgd, adam, parts, twice: choose one of them"),
    ],
)
def test_what_a_series_says_itself_is_no_option(
    lean: Path, asked: tuple[Any, ...], words: tuple[str, ...], reason: str
) -> None:
    refused = run_in(lean, *asked, *words)
    assert refused.returncode == 2
    assert refused.stderr.startswith(f"runner: {reason}") and refused.stderr.count("\n") == 1


def test_an_option_that_no_chosen_series_says_itself_holds_for_all_of_them(lean: Path, asked: tuple[Any, ...]) -> None:
    planned = run_in(lean, *asked, "--series", "sgd", "parts", "--batch-size", "16", "--plan")
    assert planned.stdout.count("batch    16  repeat 0") == 2 and "adam" not in planned.stdout


def test_series_that_differ_by_their_threads_alone_are_refused_where_there_are_no_more(
    lean: Path, tmp_path: Path
) -> None:
    study, cores = tmp_path / "threads.toml", len(os.sched_getaffinity(0))
    series = f'[[series]]\nname = "some"\nthreads = {cores}\n[[series]]\nname = "every"\n'
    study.write_text(f'summary = "x"\ndevice = "cpu"\n{series}', encoding="utf-8")
    refused = run_in(lean, "--study", study, "--isolation", "here", "--framework", "numpy", "--plan")
    assert refused.returncode == 2, refused.stdout
    assert f"series every trains the same as some, in {cores} thread(s) on this machine" in refused.stderr


@pytest.mark.parametrize("study", [name for name in list_studies() if name.endswith("-cpu")])
def test_a_study_for_two_cores_is_planned_in_about_half_an_hour(study: str, tmp_path: Path) -> None:
    done = run_runner("--study", study, "--device", "cpu", "--plan", "--results", tmp_path / "results")
    cores = min(2, len(os.sched_getaffinity(0)))  # a worker of pytest-xdist has one
    if study == "devices-cpu" and cores == 1:
        assert done.returncode == 2 and "in 1 thread(s) on this machine" in done.stderr
        return
    *_, total = done.stdout.strip().splitlines()
    assert " to run, about " in total and " h " not in total, total  # of two cores and of one
    assert int(total.split("about ")[1].split(" min")[0]) < 33 * 2 / cores
