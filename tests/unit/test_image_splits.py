"""Folders that are the splits of a data set; every folder is named with its number of images."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pictured import a_folder, noise, save

from runner.data.folder import list_folder
from runner.data.own import ImageChoices
from runner.data.splits import TEST_NAMES, TRAIN_NAMES, VALIDATION_NAMES
from runner.request.data_sets import choose_data_set, find_images
from runner.request.parser import BadInput
from workloads.datasets import DataError
from workloads.study import Study


def with_folders(root: Path, *names: str) -> Path:
    """Write train/ with 8 images, and these folders with 4 each, with the same classes."""
    a_folder(root)
    for name in names:
        if name != "test":
            shutil.copytree(root / "test", root / name)
    if "test" not in names:
        shutil.rmtree(root / "test")
    return root


def refused(folder: Path, test_folder: str | None = None) -> str:
    with pytest.raises(DataError) as told:
        find_images(folder, ImageChoices(test_folder))
    text = str(told.value)
    assert "\n" not in text and str(folder) in text
    return text


@pytest.mark.parametrize("name", [*TEST_NAMES, *VALIDATION_NAMES, "Test", "VAL", "Validation"])
def test_a_folder_of_a_common_name_is_the_test_split(name: str, tmp_path: Path) -> None:
    found = list_folder(with_folders(tmp_path / "photos", name))
    assert not found.drawn_test and (len(found.train), len(found.test)) == (8, 4)
    assert found.notes[0] == "train/: 8 images to train on"
    said = "" if name.lower() in TEST_NAMES else ", since there is no test/"
    assert found.notes[1:] == (f"{name}/: 4 images to test with{said}",)


@pytest.mark.parametrize("name", [*TRAIN_NAMES, "Training", "TRAIN"])
def test_a_folder_of_a_common_name_is_the_training_split(name: str, tmp_path: Path) -> None:
    folder = with_folders(tmp_path / "photos", "test")
    (folder / "train").rename(folder / name)
    found = list_folder(folder)
    assert len(found.train) == 8 and found.notes[0] == f"{name}/: 8 images to train on"


@pytest.mark.parametrize("name", VALIDATION_NAMES)
def test_a_validation_split_beside_a_test_split_is_counted_and_not_read(name: str, tmp_path: Path) -> None:
    folder = with_folders(tmp_path / "photos", "test", name)
    (folder / name / "cat" / "0.png").write_bytes(b"nothing")
    found = list_folder(folder)
    assert {Path(each.path).parts[-3] for each in found.test} == {"test"}
    assert f"{name}/ is not read: 4 images not used" in found.notes


def test_every_other_folder_and_file_is_named_and_no_link_out_is_followed(tmp_path: Path) -> None:
    folder = with_folders(tmp_path / "photos", "test")
    save(folder / "images" / "deep" / "a.png", noise(8, 8))
    (folder / "empty").mkdir()
    (folder / "labels.csv").touch()
    for name in ("__MACOSX", ".git"):
        shutil.copytree(folder / "test", folder / name)
    (folder / ".DS_Store").touch()
    save(folder / "train" / "loose.png", noise(8, 8))
    notes = list_folder(folder).notes
    assert notes[2:] == (
        "empty/ is not read: 0 images not used",
        "images/ is not read: 1 image not used",
        "1 file next to the folders, not read: labels.csv",
        "1 image outside class folders left out",
    )
    folder = with_folders(tmp_path / "2" / "photos", "test")
    (folder / "raw").symlink_to("/")
    assert "raw/ is not read: 0 images not used" in list_folder(folder).notes


def test_where_several_may_be_meant_the_option_says_which_one(tmp_path: Path) -> None:
    folder = with_folders(tmp_path / "photos", "val", "dev")
    text = refused(folder)
    assert "dev/ (4 images), val/ (4 images): each may be the test split: choose one with --test-folder" in text
    found = list_folder(folder, "dev")
    assert {Path(each.path).parts[-3] for each in found.test} == {"dev"}
    assert found.notes[1:] == (
        "dev/: 4 images to test with",
        "val/ is not read: 4 images not used",
    )
    assert list_folder(folder, "dev/") == list_folder(folder, "./dev") == found, "as a shell completes it"
    images = find_images(folder, ImageChoices("dev"))
    assert images.test_folder == "dev" and find_images(with_folders(tmp_path / "b", "test")).test_folder == ""


def test_what_may_be_meant_otherwise_is_refused_and_the_option_says_which(tmp_path: Path) -> None:
    folder = with_folders(tmp_path / "photos", "test")
    shutil.copytree(folder / "test", folder / "Training")
    assert "Training/ (4 images), train/ (8 images): each may be the training images" in refused(folder)
    folder = with_folders(tmp_path / "2" / "photos", "val")
    for name in ("gone", "train"):
        text = refused(folder, name)
        assert f"--test-folder {name}: no such folder next to train/; it has val/ (4 images)" in text
    # Many published sets have an unlabelled test split next to a labelled val/.
    folder = with_folders(tmp_path / "3" / "photos", "val")
    save(folder / "test" / "0.png", noise(8, 8))
    assert "put some in test/CLASS/ (1 image of it outside class folders), or give --test-folder val" in refused(folder)


def test_a_folder_with_trains_classes_is_no_bystander_where_there_is_no_test(tmp_path: Path) -> None:
    folder = with_folders(tmp_path / "photos", "holdout")
    text = refused(folder)
    assert "holdout/ (4 images) with folders as in train/: give --test-folder holdout" in text
    assert len(list_folder(folder, "holdout").test) == 4
    shutil.rmtree(folder / "holdout" / "dog")
    (folder / "holdout" / "cat").rename(folder / "holdout" / "others")
    found = list_folder(folder)
    assert found.drawn_test and "holdout/ is not read" in found.notes[1]


def test_classes_without_a_split_are_refused_with_what_helps(tmp_path: Path) -> None:
    folder = with_folders(tmp_path / "photos")
    for name in ("cat", "dog"):
        (folder / "train" / name).rename(folder / name)
    (folder / "train").rmdir()
    text = refused(folder)
    assert "it has cat/ (4 images), dog/ (4 images); if these are the classes, move them into a folder train/" in text


@pytest.mark.parametrize(
    ("study", "telling"),
    [
        (Study("s", dataset="digits", test_folder="val"), "--test-folder: data set digits is published"),
        (Study("s", dataset="digits", pixel_range=(0, 16)), "--pixel-range: data set digits is published"),
    ],
)
def test_options_of_ones_own_images_are_refused_of_a_published_set(study: Study, telling: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=telling):
        choose_data_set(study, tmp_path)
