"""Identical images are counted, whatever their files, and stay on one side of a test split that is drawn."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pictured import QUIET, a_folder, noise, save
from PIL import Image

from runner.data import cache, twice
from runner.data.cache import Cached, Repeats, Wanted, find_repeats
from runner.data.folder import list_folder
from runner.data.own import SPLITS, OwnImages, Place, SplitName
from runner.request import own_data
from runner.request.data_sets import find_images
from workloads.records.job import ImageFindings, ImageSource
from workloads.setting_words import describe_range, describe_split, list_doubts

CLEAN = ImageFindings(0, 0, 0, 0, 0)


def made(images: OwnImages, tmp_path: Path, skip: bool = False) -> Cached:
    return cache.provide_arrays(
        Wanted(images, images.survey(QUIET), (8, 8, 3), "stretch", skip), tmp_path / "cache", QUIET
    )


def lines(folder: Path, tmp_path: Path) -> list[str]:
    images = find_images(folder)
    return [
        line
        for line in own_data.describe_images(images, made(images, tmp_path))
        if not line.startswith(("train/", "test/"))
    ]


def test_a_set_without_any_has_zeros_and_no_line_and_left_out_images_shift_no_comparison(tmp_path: Path) -> None:
    folder = a_folder(tmp_path / "photos")
    assert made(find_images(folder), tmp_path).findings == CLEAN and lines(folder, tmp_path) == []
    folder = a_folder(tmp_path / "2" / "photos")
    (folder / "train/cat/0.png").write_bytes(b"no image")
    damaged = save(folder / "train/cat/1.png", noise(60, 60))
    damaged.write_bytes(damaged.read_bytes()[:-4000])
    shutil.copy(folder / "train/dog/3.png", folder / "test/dog/0.png")
    cached = made(find_images(folder), tmp_path / "2", skip=True)
    assert cached.findings.tested_on_trained == 1
    assert cached.firsts["tested_on_trained"] == "test/dog/0.png = train/dog/3.png"


def test_names_of_a_cached_finding_are_those_that_the_files_have_now(tmp_path: Path) -> None:
    folder = a_folder(tmp_path / "photos")
    shutil.copy(folder / "train/cat/1.png", folder / "test/cat/0.png")
    (folder / "train/dog/3.png").write_bytes(b"no image")
    first = made(find_images(folder), tmp_path, skip=True)
    (folder / "train/cat/1.png").rename(folder / "train/cat/1x.png")
    (folder / "train/dog/3.png").rename(folder / "train/dog/3x.png")
    again = made(find_images(folder), tmp_path, skip=True)
    assert again.files == first.files and len(list((tmp_path / "cache").glob("*.lock"))) == 1
    assert again.firsts["tested_on_trained"] == "test/cat/0.png = train/cat/1x.png"
    (reason,) = again.unreadable
    assert reason.startswith("train/dog/3x.png (not a ")
    stored = next((tmp_path / "cache").glob("*/meta.json")).read_text()
    assert ".png" not in stored and "cat" not in stored


def test_test_images_that_are_training_images_are_counted_by_their_pixels(tmp_path: Path) -> None:
    folder = a_folder(tmp_path / "photos")
    shutil.copy(folder / "train/cat/1.png", folder / "test/cat/0.png")
    Image.open(folder / "train/dog/2.png").save(folder / "test/dog/1.bmp")  # the same pixels in another file
    assert made(find_images(folder), tmp_path).findings == replace(CLEAN, tested_on_trained=2)
    (line,) = lines(folder, tmp_path)
    assert line.startswith("2 of 5 images of the test are identical to training images")
    assert line.endswith("the first: test/cat/0.png = train/cat/1.png")


def test_identical_images_of_two_classes_and_repeats_within_a_split_are_counted(tmp_path: Path) -> None:
    folder = a_folder(tmp_path / "photos")
    shutil.copy(folder / "train/cat/1.png", folder / "train/dog/x.png")
    for name in ("y", "z"):
        shutil.copy(folder / "test/cat/0.png", folder / f"test/cat/{name}.png")
    assert made(find_images(folder), tmp_path).findings == ImageFindings(0, 2, 1, 2, 0)
    assert [line.partition("; ")[0] for line in lines(folder, tmp_path)] == [
        "2 images identical to one of another class, so one of the labels is wrong",
        "train: 1 image identical to an earlier one",
        "test: 2 images identical to an earlier one",
    ]


def test_images_of_an_array_file_are_compared_too(tmp_path: Path) -> None:
    x = np.stack([noise(8, 8, seed) for seed in range(6)])
    test = np.stack([x[3], noise(8, 8, 9), x[5]])
    np.savez(tmp_path / "mine.npz", x_train=x, y_train=[0, 1, 0, 1, 0, 1], x_test=test, y_test=[1, 0, 0])
    cached = made(find_images(tmp_path / "mine.npz"), tmp_path)
    assert cached.findings == replace(CLEAN, tested_on_trained=2, two_labels=2)
    assert cached.firsts["tested_on_trained"] == "x_test[0] = x_train[3]"


@pytest.mark.parametrize("copies", ["copy", "zoom-copy"])
def test_copies_that_were_asked_for_are_no_repeats(copies: twice.Copies, tmp_path: Path) -> None:
    assert made(twice.double_own(find_images(a_folder(tmp_path / "photos")), copies), tmp_path).findings == CLEAN


def repeated(root: Path) -> Path:
    """Two classes of 20 files, identical two by two; no test split."""
    a_folder(root, train=20, test=None)
    for name in ("cat", "dog"):
        for number in range(0, 20, 2):
            shutil.copy(root / f"train/{name}/{number}.png", root / f"train/{name}/{number + 1}.png")
    return root


def test_a_drawn_test_split_keeps_identical_images_on_one_side_and_a_few_pairs_give_one(tmp_path: Path) -> None:
    folder = repeated(tmp_path / "photos")
    found = list_folder(folder)
    assert [sum(each.label == label for each in found.test) for label in (0, 1)] == [4, 4]
    assert found == list_folder(folder)
    assert made(find_images(folder), tmp_path).findings == ImageFindings(0, 0, 16, 4, 0)
    folder = a_folder(tmp_path / "2" / "photos", train=4, test=None)
    for number in (0, 2):
        shutil.copy(folder / f"train/cat/{number}.png", folder / f"train/cat/{number + 1}.png")
    test = [Path(each.path).name for each in list_folder(folder).test if each.label == 0]
    assert test in (["0.png", "1.png"], ["2.png", "3.png"])


def test_a_picture_stored_as_png_and_bmp_that_is_drawn_for_one_side_alone_is_counted_and_named(tmp_path: Path) -> None:
    """The draw comes before anything is decoded, so it knows files; the count knows pixels."""
    folder = a_folder(tmp_path / "photos", train=20, test=None)
    for picture in sorted(folder.glob("train/*/*.png")):
        Image.open(picture).save(picture.with_suffix(".bmp"))
    found = list_folder(folder)
    sides = [{Path(each.path).with_suffix("") for each in side} for side in (found.train, found.test)]
    leaked = sides[0] & sides[1]
    assert leaked and made(find_images(folder), tmp_path).findings.tested_on_trained == len(leaked)
    told = [line for line in lines(folder, tmp_path) if "identical to training images" in line]
    assert len(told) == 1 and told[0].startswith(f"{len(leaked)} of 16 images of the test")


def test_an_image_of_two_classes_is_not_drawn_for_the_test(tmp_path: Path) -> None:
    folder = a_folder(tmp_path / "photos", train=20, test=None)
    before = {Path(each.path).name for each in list_folder(folder).test if each.label == 0}
    for number in range(20):
        if f"{number}.png" in before:
            shutil.copy(folder / f"train/cat/{number}.png", folder / f"train/dog/twin{number}.png")
    drawn = {Path(each.path).name for each in list_folder(folder).test if each.label == 0}
    assert len(drawn) == 4 and not drawn & before
    assert made(find_images(folder), tmp_path).findings.tested_on_trained == 0


def test_a_class_without_an_image_is_named(tmp_path: Path) -> None:
    x = np.stack([noise(8, 8, seed) for seed in range(4)])
    np.savez(tmp_path / "mine.npz", x_train=x, y_train=[0, 3, 0, 3], x_test=x[:1] // 2, y_test=[3])
    assert lines(tmp_path / "mine.npz", tmp_path) == [
        "train: no image of 2 classes: 1, 2",
        "test: no image of 3 classes: 0, 1, 2",
    ]
    folder = a_folder(tmp_path / "photos")
    shutil.rmtree(folder / "test/dog")
    assert lines(folder, tmp_path) == ["test: no image of class dog"]


def test_what_was_found_stands_in_a_reports_conditions() -> None:
    source = ImageSource("f00d", 8, 8, False, "stretch", 64, 64, drawn_test=False, skipped=0, test_folder="val")
    assert list_doubts(source) == list_doubts(replace(source, findings=CLEAN)) == ""
    found = replace(source, findings=ImageFindings(64, 2, 0, 1, 3), pixel_range=(0.0, 4095.0))
    assert list_doubts(found) == (
        "64 of the test identical to training images, 2 identical to one of another class, 1 of the test identical to "
        "an earlier one, 3 without nearly all of their files' contrast"
    )
    assert describe_range(found) == "0 becomes 0, 4095 becomes 255"
    assert describe_split(found) == "as given, in val/"


def find_in_train(tmp_path: Path, named: list[int]) -> Repeats:
    """Return the repeats of a training split of identical images with these labels."""
    arrays: dict[SplitName, Path] = {split: tmp_path / f"{split}.npy" for split in SPLITS}
    for split, path in arrays.items():
        np.save(path, np.zeros((len(named) if split == "train" else 0, 1, 1, 1), np.uint8))
    labels = {split: np.array(named if split == "train" else [], np.int32) for split in SPLITS}
    places: dict[SplitName, list[Place]] = {"train": [("train", row) for row in range(len(named))], "test": []}
    return find_repeats(arrays, labels, places)


def test_the_twin_of_another_class_is_the_first_one(tmp_path: Path) -> None:
    found = find_in_train(tmp_path, [0, 0, 1, 2, 1])
    assert [(image[1], twin[1]) for image, twin in found.two_labels] == [(0, 2), (1, 2), (2, 0), (3, 0), (4, 0)]


def test_many_identical_images_of_two_labels_take_time_in_proportion(tmp_path: Path) -> None:
    half = 40_000  # each against each would be 1.6e9 comparisons, minutes
    began_s = time.process_time()
    found = find_in_train(tmp_path, [0] * half + [1] * half)
    assert len(found.two_labels) == 2 * half
    assert time.process_time() - began_s < 20
