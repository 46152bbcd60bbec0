"""Images that a folder holds, and folders that are refused."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from pictured import a_folder, noise, save

from runner.data import own
from runner.data.folder import Listing, list_folder
from runner.request.data_sets import find_images
from workloads.datasets import DataError


def names(found: Listing, split: str) -> list[tuple[str, int]]:
    pictures = found.train if split == "train" else found.test
    return [("/".join(Path(each.path).parts[-2:]), each.label) for each in pictures]


def test_classes_are_in_alphabetical_order_and_files_within_them(tmp_path: Path) -> None:
    folder = a_folder(tmp_path / "photos", train=2, test=1, classes=("b", "a", "C"))
    found = list_folder(folder)
    assert found.classes == ("C", "a", "b") and not found.drawn_test
    assert names(found, "train") == [
        ("C/0.png", 0), ("C/1.png", 0), ("a/0.png", 1), ("a/1.png", 1), ("b/0.png", 2), ("b/1.png", 2),
    ]  # fmt: skip
    assert names(found, "test") == [("C/0.png", 0), ("a/0.png", 1), ("b/0.png", 2)]


def test_hidden_files_and_those_of_systems_are_no_images_and_others_are_counted(tmp_path: Path) -> None:
    folder = a_folder(tmp_path / "photos")
    for name in (".DS_Store", "train/.hidden.png", "train/cat/.DS_Store", "train/cat/Thumbs.db", "train/dog/._1.png"):
        (folder / name).write_bytes(b"")
    (folder / "train" / ".ipynb_checkpoints").mkdir()
    (folder / "train" / "dog" / ".git").mkdir()
    whole = list_folder(folder)
    assert (len(whole.train), len(whole.test), whole.left_out) == (8, 4, 0)
    for name in ("train/readme.txt", "train/cat/labels.csv", "test/dog/film.gif"):
        (folder / name).write_bytes(b"")
    assert list_folder(folder).left_out == 3


def test_without_a_test_split_a_fifth_of_each_class_is_drawn_the_same_every_time(tmp_path: Path) -> None:
    folder = a_folder(tmp_path / "photos", train=20, test=None, classes=("a", "b", "c"))
    (folder / "train/c/19.png").unlink()
    found = list_folder(folder)
    assert found.drawn_test and found == list_folder(folder)
    for label, (train, test) in enumerate([(16, 4), (16, 4), (15, 4)]):
        assert sum(each.label == label for each in found.train) == train
        assert sum(each.label == label for each in found.test) == test
    paths = [each.path for each in (*found.train, *found.test)]
    assert len(set(paths)) == 59
    assert [name for name, _ in names(found, "test")[:4]] == ["a/12.png", "a/18.png", "a/4.png", "a/6.png"]
    assert any("drawn for the test" in note for note in find_images(folder).notes)


def test_a_class_of_two_gives_one_image_to_the_test_and_a_class_of_one_none(tmp_path: Path) -> None:
    folder = a_folder(tmp_path / "photos", train=2, test=None)
    (folder / "train/cat/1.png").unlink()
    found = list_folder(folder)
    assert [each.label for each in found.train] == [0, 1] and [each.label for each in found.test] == [1]


def test_a_name_that_is_no_utf_8_and_a_link_within_the_folder_are_read(tmp_path: Path) -> None:
    folder = a_folder(tmp_path / "photos")
    (folder / "train/dog/linked.png").symlink_to("../cat/0.png")
    assert len(list_folder(folder).train) == 9
    folder = a_folder(tmp_path / "2" / "photos")
    os.rename(os.fsencode(folder / "train/cat/0.png"), os.fsencode(folder / "train/cat") + b"/caf\xe9\n.png")
    images = find_images(folder)
    assert images.described(("train", 3)) == "train/cat/caf\\xe9\\n.png"
    folder = a_folder(tmp_path / "3" / "photos")
    (folder / "train/cat/0.png").rename(folder / "train/cat/0.PNG")
    (folder / "train/cat/1.png").rename(folder / "train/cat/1.JpEg")
    assert len(list_folder(folder).train) == 8


def test_a_folder_is_known_by_its_own_name_wherever_one_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = a_folder(tmp_path / "Photos_2024")
    monkeypatch.chdir(folder)
    assert find_images(Path(".")).name == find_images(Path("../Photos_2024/")).name == "Photos_2024"


def emptied(folder: Path) -> None:
    for path in (folder / "train/dog").iterdir():
        path.unlink()


def one_class(folder: Path) -> None:
    for split in ("train", "test"):
        (folder / split / "dog").rename(folder / f"dog in {split}")


def empty_train(folder: Path) -> None:
    (folder / "train").rename(folder / "t")
    (folder / "train").mkdir()


def empty_test(folder: Path) -> None:
    (folder / "test").rename(folder / "t")
    (folder / "test").mkdir()


def linked_test(folder: Path) -> None:
    (folder / "test").rename(folder.parent / "t")
    (folder / "test").symlink_to("../t")


def no_utf_8(folder: Path) -> None:
    os.rename(os.fsencode(folder / "train/dog"), os.fsencode(folder / "train") + b"/d\xf6g")


def file_for_train(folder: Path) -> None:
    (folder / "train").rename(folder / "t")
    (folder / "train").touch()


def two_emptied(folder: Path) -> None:
    emptied(folder)
    for path in (folder / "train/cat").iterdir():
        path.unlink()


def emptied_test(folder: Path) -> None:
    for number in range(2):
        (folder / f"test/cat/{number}.png").unlink()


BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "no train folder": (lambda f: (f / "train").rename(f / "all"), "it has all/ (8 images), test/ (4 images)"),
    "a file for train": (file_for_train, "no folder train/ in it"),
    "one class": (one_class, "train/ has 1 class folders"),
    "no class": (empty_train, "train/ has 0 class folders"),
    "an empty class": (emptied, "class train/dog has no .jpg"),
    "two empty classes": (two_emptied, "classes train/cat, train/dog have no .jpg"),
    "an empty class of the test": (emptied_test, "test/cat has no"),
    "an empty test": (empty_test, "no image to test with"),
    "a class of the test alone": (lambda f: save(f / "test/emu/0.png", noise(8, 8)), "class emu is in test/"),
    "folders inside a class": (lambda f: save(f / "train/cat/more/0.png", noise(8, 8)), "train/cat/more is a folder"),
    "a link out": (lambda f: (f / "train/cat/x.png").symlink_to("/etc/hostname"), "link train/cat/x.png leads out"),
    "a class that leads out": (lambda f: (f / "train/emu").symlink_to("/usr"), "link train/emu leads out"),
    "a split that leads out": (linked_test, "link "),
    "a link to nowhere": (lambda f: (f / "train/cat/x.png").symlink_to("gone.png"), "leads nowhere"),
    "links in a circle": (lambda f: (f / "train/cat/x.png").symlink_to("x.png"), "in a circle"),
    "folders in a circle": (lambda f: (f / "train/cat/x").symlink_to("../../train"), "in a circle"),
    "a class that is no UTF-8": (no_utf_8, "class name train/d\\xf6g is not UTF-8"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_folder_that_is_laid_out_otherwise_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    folder, (change, telling) = a_folder(tmp_path / "photos"), BAD[name]
    change(folder)
    with pytest.raises(DataError) as told:
        find_images(folder)
    assert telling in str(told.value) and "\n" not in str(told.value) and str(folder) in str(told.value)


@pytest.mark.parametrize(
    ("name", "telling"),
    [
        ("digits", "digits is a published data set"),
        ("my photos", "its name may only have"),
        ("-photos", "its name may only have"),
        ("x" * 42, "its name may only have"),
        ("fotos\n", "its name may only have"),
    ],
)
def test_a_name_that_cannot_stand_in_the_names_of_files_is_refused(name: str, telling: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=telling) as told:
        find_images(a_folder(tmp_path / name))
    assert "\n" not in str(told.value)


def test_without_pillow_a_folder_is_refused_and_an_array_file_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking(name: str) -> None:
        assert name == "PIL"

    folder, pixels = a_folder(tmp_path / "photos"), np.stack([noise(8, 8, seed) for seed in range(2)])
    labels = np.arange(2)
    np.savez(tmp_path / "mine.npz", x_train=pixels, y_train=labels, x_test=pixels, y_test=labels)
    monkeypatch.setattr("importlib.util.find_spec", lacking)
    with pytest.raises(DataError, match="has no Pillow; run outside"):
        find_images(folder)
    images = find_images(tmp_path / "mine.npz")
    assert images.classes == 2 and own.fit_to_shape(pixels, (8, 8, 3), "stretch") is pixels
    with pytest.raises(DataError, match="has no Pillow"):
        own.fit_to_shape(pixels, (4, 4, 3), "stretch")


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file.zip").touch()
    os.mkfifo(tmp_path / "pipe.npz")
    for name, telling in (("file.zip", "a file, but not .npz"), ("gone", "not found"), ("pipe.npz", "not a folder")):
        with pytest.raises(DataError, match=telling):
            find_images(tmp_path / name)


def test_a_linked_folder_has_the_name_under_which_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = a_folder(tmp_path / "v2-final")
    (tmp_path / "photos").symlink_to(folder)
    assert find_images(tmp_path / "photos").name == "photos"
    monkeypatch.chdir(folder)
    assert find_images(Path(".")).name == "v2-final"
