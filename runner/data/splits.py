"""Choose which folders of a data set are its splits, by their names or by the user's choice. Report unused ones."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from runner.data.own import shown
from workloads.datasets import DataError
from workloads.words import format_count

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".webp")
OF_SYSTEMS = ("thumbs.db", "desktop.ini", "__macosx")  # names; hidden ones begin with a dot
TRAIN, TEST = "train", "test"
TRAIN_NAMES, TEST_NAMES = (TRAIN, "training"), (TEST, "testing")  # case-insensitive, like the next ones
VALIDATION_NAMES = ("val", "valid", "validation", "dev", "eval")


@dataclass(frozen=True)
class Splits:
    """Names of folders of the root. `unused` maps each folder that is no split to its number of images."""

    train: str
    test: str | None  # None: there is none, and one is drawn
    unused: dict[str, int]
    files: tuple[str, ...]  # files in the root that are not folders
    named: bool  # True if the user named the test split


def is_passed_over(name: str) -> bool:
    """True if the name is hidden or belongs to an operating system."""
    return name.startswith(".") or name.lower() in OF_SYSTEMS


def find_splits(folder: Path, root: Path, test_folder: str | None) -> Splits:
    """Choose the splits among the root's folders; `folder` is the path that the user gave. Raises DataError."""
    try:
        entries = sorted((e for e in os.scandir(root) if not is_passed_over(e.name)), key=lambda e: os.fsencode(e.name))
    except OSError as error:
        raise DataError(f"data set {folder}: {error.strerror or error}") from error
    names = [entry.name for entry in entries if entry.is_dir()]
    train = _only(folder, root, _named(names, TRAIN_NAMES), "training images: rename the others")
    if train is None:
        raise DataError(f"data set {folder}: no folder train/ in it; {_without_train(root, names)}")
    test = _test(folder, root, train, [name for name in names if name != train], test_folder)
    unused = {name: count_images(root / name) for name in names if name not in (train, test)}
    return Splits(
        train, test, unused, tuple(entry.name for entry in entries if entry.name not in names), test_folder is not None
    )


def count_images(folder: Path) -> int:
    """Return the number of images below a folder of the root, by their names. Links out of the root are skipped."""
    if folder.is_symlink() and not folder.resolve().is_relative_to(folder.parent):
        return 0
    return sum(
        name.lower().endswith(SUFFIXES) and not is_passed_over(name)
        for place, _, names in os.walk(folder)
        if not any(map(is_passed_over, Path(place).relative_to(folder).parts))
        for name in names
    )


def _test(folder: Path, root: Path, train: str, others: list[str], test_folder: str | None) -> str | None:
    """Return the folder that the user names, else test/, else the only one that can be meant. Raises DataError."""
    if test_folder is not None:
        test_folder = os.path.normpath(test_folder)  # without the / of a shell's completion
        if test_folder not in others:
            there = _listed(root, others) or "nothing else"
            raise DataError(
                f"data set {folder}: --test-folder {shown(test_folder)}: no such folder next to {shown(train)}/; "
                f"it has {there}"
            )
        return test_folder
    choice = "test split: choose one with --test-folder"
    for known in (TEST_NAMES, VALIDATION_NAMES):
        if test := _only(folder, root, _named(others, known), choice):
            return test
    alike = [name for name in others if _has_classes_of(root / name, root / train)]
    if alike:
        raise DataError(
            f"data set {folder}: no folder test/ in it, but {_listed(root, alike)} with folders as in {shown(train)}/: "
            f"give --test-folder {shown(alike[0])}, or move it out of the data set"
        )
    return None


def _only(folder: Path, root: Path, found: list[str], choice: str) -> str | None:
    """Return the only found folder, or None. Raises DataError where there are several."""
    if len(found) > 1:
        raise DataError(f"data set {folder}: {_listed(root, found)}: each may be the {choice}")
    return found[0] if found else None


def _named(names: Iterable[str], known: Collection[str]) -> list[str]:
    return [name for name in names if name.lower() in known]


def _folders(folder: Path) -> set[str]:
    """Return the names of the folders in it; none where it cannot be read."""
    try:
        return {e.name for e in os.scandir(folder) if e.is_dir() and not is_passed_over(e.name)}
    except OSError:
        return set()


def _has_classes_of(folder: Path, train: Path) -> bool:
    """True if it looks like a split: images in folders, each named like a class of train."""
    classes = _folders(folder)
    return bool(classes) and classes <= _folders(train) and count_images(folder) > 0


def _without_train(root: Path, names: list[str]) -> str:
    """Return what exists in place of train/, and what helps."""
    layout = "images lie in train/CLASS/ and test/CLASS/"
    if not names:
        return layout
    advice = f"{layout}; it has {_listed(root, names)}"
    are_classes = len(names) > 1 and not any(_folders(root / name) for name in names)
    if are_classes and not _named(names, (*TEST_NAMES, *VALIDATION_NAMES)):
        advice += "; if these are the classes, move them into a folder train/: a test split is then drawn"
    return advice


def _listed(root: Path, names: Iterable[str]) -> str:
    return ", ".join(f"{shown(name)}/ ({format_count(count_images(root / name), 'image')})" for name in names)
