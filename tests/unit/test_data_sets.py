"""Images that a command asks for: twice, or with those that are left over."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pets_archive
import pytest
from conftest import PROJECT
from pictured import QUIET, a_folder, noise
from rich.console import Console

from runner.request import cli, inputs, own_data
from runner.request.parser import BadInput, run_parser
from workloads import datasets
from workloads.datasets import DataError, Split
from workloads.layers import Shape
from workloads.setting_words import describe_fit

LABELS = np.array([0, 1], np.int32)
STAND_IN = ("--framework", "numpy", "--workload", "cats-dogs-cnn-32", "--dataset", "cifar10-cats-dogs")


def asked(*words: object) -> cli.Request:
    return cli.build_request(run_parser().parse_args([*map(str, words), "--isolation", "here", "--plan"]), PROJECT)


def test_images_that_are_left_over_are_told_in_the_source_and_leave_network_and_training_as_they_are(
    real_data: Path,
) -> None:
    few, every = (
        own_data.prepare_images(asked(*STAND_IN, "--data-dir", real_data, *more), QUIET)
        for more in ((), ("--test-all",))
    )
    assert few.source is None and every.source is not None
    assert (every.source.train, every.source.test, every.source.enlarged) == (1200, 8400, False)
    assert every.workload == few.workload and every.study.dataset == few.study.dataset
    train, test = datasets.load(every.dataset, real_data, every.workload.input_shape)
    plain, _ = datasets.load(few.dataset, real_data, few.workload.input_shape)
    assert np.array_equal(train.images, plain.images) and len(test.images) == 8400


@pytest.mark.parametrize(("by_option", "advice"), [(True, "leave out --data-dir"), (False, "unset BATCHWISE_DATA")])
def test_a_folder_without_the_files_is_named_as_it_was_given(
    by_option: bool, advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("BATCHWISE_DATA", "/elsewhere" if by_option else "~/data")
    more = ("--data-dir", tmp_path / "data") if by_option else ()
    request = asked(*STAND_IN, *more, "--results", tmp_path / "results")
    assert request.data_dir == tmp_path / "data"
    with pytest.raises(DataError) as told:
        inputs.write_data(request, QUIET)
    first = tmp_path / "data" / "cifar-10-batches-bin" / "data_batch_1.bin"
    assert str(told.value) == f"data file {first} is missing: put it there, or {advice} to download it"


def test_images_that_are_left_over_change_no_training_on_a_network_of_another_size() -> None:
    words = ("--framework", "numpy", "--workload", "cats-dogs-cnn", "--dataset", "cifar10-cats-dogs")
    train, test = (Split(np.stack([noise(32, 32, seed) for seed in seeds]), LABELS) for seeds in ((0, 1), (2, 3)))
    seen = []
    for more in ((), ("--test-all",)):
        request = asked(*words, *more)
        few = replace(request.dataset, read=lambda _: (train, test), files=(), train_count=2, test_count=2)
        request = own_data.prepare_images(replace(request, dataset=few), QUIET)
        seen.append((request, datasets.load(request.dataset, Path(), request.workload.input_shape)))
    (plain, without), (every, with_all) = seen
    assert every.workload == plain.workload and every.workload.input_shape == (200, 200, 3)
    assert np.array_equal(with_all[0].images, without[0].images) and without[0].images.shape == (2, 200, 200, 3)
    assert plain.source is None and every.source is not None
    assert (every.source.rows, every.source.columns, every.source.enlarged) == (200, 200, False)
    assert describe_fit(every.source) == ""  # nothing was interpolated


@pytest.mark.parametrize("copies", ["copy", "zoom-copy"])
def test_images_that_are_there_twice_count_twice_in_what_is_planned_and_what_is_refused(copies: str) -> None:
    doubled = asked(*STAND_IN, "--augment", copies, "--batch-size", 2400, "--last-batch", "drop")
    assert (doubled.dataset.train_count, doubled.dataset.test_count) == (2400, 400)
    with pytest.raises(BadInput, match=r"\(1200 images\) and last_batch is drop"):
        asked(*STAND_IN, "--batch-size", 2400, "--last-batch", "drop")


@pytest.mark.parametrize("series", [False, True])
def test_a_batch_larger_than_the_images_left_is_refused_if_the_last_is_dropped(series: bool, tmp_path: Path) -> None:
    photos = a_folder(tmp_path / "photos", train=10)
    for number in range(4):
        (photos / f"train/cat/{number}.png").write_bytes(b"no image")
    study = tmp_path / "study.toml"
    rules = {"sgd": 4, "adam": 18}
    parts = (
        f"[[series]]\nname = '{name}'\noptimizer = '{name}'\nbatch_sizes = [{size}]\n" for name, size in rules.items()
    )
    study.write_text(
        f"dataset = './photos'\nworkload = 'tiny'\nbatch_sizes = [4, 18]\n{''.join(parts) if series else ''}"
    )
    words = ("--study", study, "--framework", "numpy", "--skip-unreadable", "--results", tmp_path / "results")
    printed = io.StringIO()
    kept = own_data.prepare_images(asked(*words, "--last-batch", "keep"), Console(file=printed, soft_wrap=True))
    assert {part.dataset.train_count for part in kept.parts.values()} == {16}
    larger = "batch size 18 is larger than its 16 training images: an epoch is one batch of 16"
    assert printed.getvalue().count(larger) == 1, "once for all series"
    request = asked(*words, "--last-batch", "drop")
    told = r"batch size 18 is larger than the training split of photos \(16 images\).*: nothing would be trained"
    with pytest.raises(BadInput, match=told):
        own_data.prepare_images(request, QUIET)


@pytest.mark.slow
@pytest.mark.parametrize(("workload", "shape"), [("cats-dogs-cnn", (10, 10, 3)), ("cats-dogs-cnn-32", (10, 10, 3))])
def test_the_archive_is_decoded_for_a_plan_as_for_the_run(workload: str, shape: Shape, tmp_path: Path) -> None:
    pets_archive.write(tmp_path, count=1000)
    words = ("--framework", "numpy", "--workload", workload, "--dataset", "cats-dogs", "--data-dir", tmp_path)
    results = tmp_path / "results"
    request = own_data.prepare_images(asked(*words, "--augment", "zoom-copy", "--results", results), QUIET)
    assert (request.dataset.train_count, request.dataset.test_count) == (2400, 400)
    assert request.workload.input_shape == shape and request.arrays is not None
    assert all(file.path.is_relative_to(results) for file in request.arrays.values())
    assert request.source is not None and request.source.content


@pytest.mark.parametrize("dataset", ["./photos", "mine.npz"])
def test_a_folder_of_published_files_is_refused_beside_images_of_ones_own(tmp_path: Path, dataset: str) -> None:
    said = rf"^--data-dir {tmp_path}: is for published files, but --dataset {dataset} is your own; leave it out$"
    with pytest.raises(BadInput, match=said):
        asked("--framework", "numpy", "--dataset", dataset, "--data-dir", tmp_path)


def test_a_folder_of_ones_own_leaves_nothing_over_and_a_missing_archive_says_what_to_fetch(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"--test-all: data set \./photos has no images left over"):
        asked("--dataset", "./photos", "--test-all")
    with pytest.raises(DataError, match="it is not downloaded here: fetch Microsoft's"):
        asked("--workload", "cats-dogs-cnn", "--dataset", "cats-dogs", "--data-dir", tmp_path)
