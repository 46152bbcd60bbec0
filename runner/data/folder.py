"""Read a folder of images: train/CLASS/*.jpg and, if it exists, test/CLASS/*.jpg; classes in alphabetical order.

`splits` decides which folders are the two splits.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from runner.data.own import shown
from runner.data.splits import SUFFIXES, TEST, TEST_NAMES, TRAIN, Splits, count_images, find_splits, is_passed_over
from workloads.datasets import DataError, file_digest
from workloads.words import format_count

DRAWN_SHARE, DRAW_SEED = 5, 14  # without a test split, one in five images of each class is test


@dataclass(frozen=True)
class PictureFile:
    """A file, and the number of its class."""

    path: str  # absolute; bytes that are not UTF-8 are decoded by os.fsdecode
    label: int


@dataclass(frozen=True)
class Listing:
    """Contents of a folder of images.

    `left_out` counts files in its splits whose names are not those of images. `loose` counts images in a split but in
    none of its classes.
    """

    classes: tuple[str, ...]
    train: tuple[PictureFile, ...]
    test: tuple[PictureFile, ...]
    drawn_test: bool
    left_out: int
    loose: int
    splits: Splits

    @property
    def notes(self) -> tuple[str, ...]:
        """A line for each folder of the root, and for what is not read."""
        train, test, all_images = shown(self.splits.train), self.splits.test, len(self.train) + len(self.test)
        notes = [f"{train}/: {format_count(all_images if self.drawn_test else len(self.train), 'image')} to train on"]
        if test is None:
            notes[0] += f"; no test/: one in {DRAWN_SHARE} images of each class of {train}/ is drawn for the test"
        else:
            why = "" if self.splits.named or test.lower() in TEST_NAMES else ", since there is no test/"
            notes.append(f"{shown(test)}/: {format_count(len(self.test), 'image')} to test with{why}")
        for name, count in self.splits.unused.items():
            notes.append(f"{shown(name)}/ is not read: {format_count(count, 'image')} not used")
        if files := self.splits.files:
            notes.append(
                f"{format_count(len(files), 'file')} next to the folders, not read: {shown(', '.join(files[:3]))}"
            )
        if self.loose:
            notes.append(f"{format_count(self.loose, 'image')} outside class folders left out")
        if self.left_out:
            verb = "is" if self.left_out == 1 else "are"
            notes.append(f"{format_count(self.left_out, 'file')} {verb} not {', '.join(SUFFIXES)} and left out")
        return tuple(notes)


def list_folder(folder: Path, test_folder: str | None = None) -> Listing:
    """Return the contents of a folder. Raises DataError for a folder with another layout.

    `test_folder` is the user's name for the test folder.
    """
    root, left_out, loose = folder.resolve(), 0, 0
    chosen = find_splits(folder, root, test_folder)
    classes: tuple[str, ...] = ()
    splits: dict[str, list[PictureFile]] = {TRAIN: [], TEST: []}
    for split, place in ((TRAIN, chosen.train), (TEST, chosen.test)):
        if place is None:
            continue
        _stays(root, root / place)
        names, others, images = _classes(root, root / place)
        left_out, loose = left_out + others, loose + images
        if split == TRAIN:
            classes = names
            if len(classes) < 2:
                raise DataError(f"data set {folder}: {place}/ has {len(classes)} class folders; it needs two or more")
        if strange := [shown(name) for name in names if name not in classes]:
            which = f"class {strange[0]} is" if len(strange) == 1 else f"classes {', '.join(strange)} are"
            raise DataError(f"data set {folder}: {which} in {place}/ and not in {chosen.train}/")
        splits[split], others = _of_classes(root, root / place, classes, names)
        left_out += others
    train, test = (splits[TRAIN], splits[TEST]) if chosen.test else _drawn(splits[TRAIN])
    if not test:
        raise DataError(f"data set {folder}: {_nothing_to_test(root, chosen)}")
    return Listing(classes, tuple(train), tuple(test), chosen.test is None, left_out, loose, chosen)


def _nothing_to_test(root: Path, chosen: Splits) -> str:
    """Return the reason why there is no test image, and what could serve instead."""
    if chosen.test is None:
        return f"no image to test with: no class of {chosen.train}/ has two that differ; put some in test/CLASS/"
    reason = f"no image to test with; put some in {chosen.test}/CLASS/"
    if loose := count_images(root / chosen.test):
        reason += f" ({format_count(loose, 'image')} of it outside class folders)"
    others = [name for name, count in chosen.unused.items() if count]
    return reason + (f", or give --test-folder {shown(others[0])}" if others else "")


def _of_classes(
    root: Path, split: Path, classes: tuple[str, ...], names: tuple[str, ...]
) -> tuple[list[PictureFile], int]:
    """Return (images of the classes in the split, number of other files). Raises DataError."""
    found = {name: _pictures(root, split / name) for name in names}
    if empty := [_below(root, str(split / name)) for name, (files, _) in found.items() if not files]:
        which = f"class {empty[0]} has" if len(empty) == 1 else f"classes {', '.join(empty)} have"
        raise DataError(f"data set {root}: {which} no {', '.join(SUFFIXES)} file in it")
    pictures = [PictureFile(file, classes.index(name)) for name, (files, _) in found.items() for file in files]
    return pictures, sum(others for _, others in found.values())


def _entries(root: Path, folder: Path) -> Iterator[os.DirEntry[str]]:
    """Yield entries by name, without hidden and system files.

    Raises DataError for a link out of `root` or in a circle.
    """
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: os.fsencode(entry.name))
        for entry in entries:
            if is_passed_over(entry.name):
                continue
            _stays(root, Path(entry.path))
            yield entry
    except OSError as error:
        name = _below(root, os.fsdecode(error.filename or folder))
        raise DataError(f"data set {root}: {name}: {error.strerror or error}") from error


def _stays(root: Path, path: Path) -> None:
    """Raises DataError for a link that leads out of `root`, nowhere, or back to one of its parent folders."""
    if not path.is_symlink():
        return
    try:
        target = path.resolve(strict=True)
    except (OSError, RuntimeError) as error:  # the second: in a circle, until Python 3.13
        raise DataError(f"data set {root}: link {_below(root, str(path))} leads nowhere or in a circle") from error
    if not target.is_relative_to(root) or path.parent.is_relative_to(target):
        raise DataError(f"data set {root}: link {_below(root, str(path))} leads out of it or in a circle")


def _below(root: Path, path: str) -> str:
    return shown(os.path.relpath(path, root))


def _classes(root: Path, split: Path) -> tuple[tuple[str, ...], int, int]:
    """Return (names of the folders in it, number of other files, number of images without a class)."""
    entries = list(_entries(root, split))
    names = tuple(entry.name for entry in entries if entry.is_dir())
    images = sum(entry.name.lower().endswith(SUFFIXES) for entry in entries if entry.name not in names)
    for name in names:
        try:
            os.fsencode(name).decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"data set {root}: the class name {split.name}/{shown(name)} is not UTF-8") from error
    return names, len(entries) - len(names) - images, images


def _pictures(root: Path, folder: Path) -> tuple[list[str], int]:
    """Return (images in it, number of other files)."""
    entries = list(_entries(root, folder))
    inner = next((entry for entry in entries if entry.is_dir()), None)
    if inner is not None:
        raise DataError(f"data set {root}: {_below(root, inner.path)} is a folder inside a class: remove it")
    files = [e.path for e in entries if e.name.lower().endswith(SUFFIXES) and e.is_file()]
    return files, len(entries) - len(files)


def _drawn(pictures: list[PictureFile]) -> tuple[list[PictureFile], list[PictureFile]]:
    """Return (train, test): a fifth of each class, at least one of two, is test; the draw never changes.

    Identical files stay together. Files that occur in several classes are in train, because their class is unknown.
    """
    test: set[int] = set()
    twins = _twins(pictures)
    labels = np.array([picture.label for picture in pictures])
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        wanted = max(1, round(len(members) / DRAWN_SHARE)) if len(members) > 1 else 0
        generator = np.random.Generator(np.random.PCG64([DRAW_SEED, int(label)]))
        test |= _whole_groups(generator.permutation(members).tolist(), wanted, twins, labels)
    return (
        [picture for index, picture in enumerate(pictures) if index not in test],
        [picture for index, picture in enumerate(pictures) if index in test],
    )


def _whole_groups(members: list[int], wanted: int, twins: list[list[int]], labels: NDArray[np.int64]) -> set[int]:
    """Return the first `wanted` of these, each with its twins, or the smallest group of twins if none fits."""
    groups = [twins[member] for member in members if len(set(labels[twins[member]])) == 1]
    drawn: set[int] = set()
    for group in groups:
        if drawn.isdisjoint(group) and len(drawn) + len(group) <= wanted:
            drawn |= set(group)
    if not drawn and wanted and groups:
        smallest = min(groups, key=len)
        return set(smallest) if len(smallest) < len(members) else set()
    return drawn


def _twins(pictures: list[PictureFile]) -> list[list[int]]:
    """Return, for each file, the numbers of all files identical to it, itself included.

    Only files of equal size are read.
    """
    sizes = [_size(picture) for picture in pictures]
    often = Counter(sizes)
    groups: dict[object, list[int]] = {}
    keys: list[object] = []
    for index, (picture, size) in enumerate(zip(pictures, sizes, strict=True)):
        keys.append(_content(picture, index) if often[size] > 1 else index)
        groups.setdefault(keys[-1], []).append(index)
    return [groups[key] for key in keys]


def _size(picture: PictureFile) -> int:
    try:
        return os.stat(picture.path).st_size
    except OSError:
        return -1  # the survey reports why


def _content(picture: PictureFile, index: int) -> object:
    """Return the file's checksum, or the picture's number if it cannot be read."""
    try:
        return file_digest(Path(picture.path), "sha256")
    except OSError:
        return index
