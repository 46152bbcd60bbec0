"""A folder of images: train/CLASS/*.jpg and, where it is there, test/CLASS/*.jpg; classes in alphabetical order."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from workloads.datasets import DataError

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".webp")
OF_SYSTEMS = ("thumbs.db", "desktop.ini")  # hidden ones begin with a dot
TRAIN, TEST, VALIDATION = "train", "test", "validation"
DRAWN_SHARE, DRAW_SEED = 5, 14  # one in five of each class is test, where there is no test split


@dataclass(frozen=True)
class Picture:
    """A file, and the number of its class."""

    path: str  # absolute; bytes that are no UTF-8 as os.fsdecode has them
    label: int


@dataclass(frozen=True)
class Listing:
    """What a folder holds. `left_out`: files that are no images by their names; `validation`: images, not read."""

    classes: tuple[str, ...]
    train: tuple[Picture, ...]
    test: tuple[Picture, ...]
    drawn_test: bool
    left_out: int
    validation: int


def listing(folder: Path) -> Listing:
    """Raises DataError for a folder that is laid out otherwise."""
    root, left_out = folder.resolve(), 0
    classes: tuple[str, ...] = ()
    splits: dict[str, list[Picture]] = {TRAIN: [], TEST: []}
    if not (root / TRAIN).is_dir():
        raise DataError(f"data set {folder}: no folder train/ in it; images lie in train/CLASS/ and test/CLASS/")
    for split in splits:
        if not (root / split).is_dir():
            continue
        _stays(root, root / split)
        names, others = _classes(root, root / split)
        left_out += others
        if split == TRAIN:
            classes = names
            if len(classes) < 2:
                raise DataError(f"data set {folder}: train/ has {len(classes)} class folders, two are the least")
        for name in names:
            if name not in classes:
                raise DataError(f"data set {folder}: class {shown(name)} is in {split}/ and not in train/")
            files, others = _pictures(root, root / split / name)
            left_out += others
            splits[split] += [Picture(file, classes.index(name)) for file in files]
    drawn = not (root / TEST).is_dir()
    train, test = _drawn(splits[TRAIN]) if drawn else (splits[TRAIN], splits[TEST])
    if not test:
        raise DataError(f"data set {folder}: no image to test with; put some in test/CLASS/")
    validation = sum(name.lower().endswith(SUFFIXES) for *_, names in os.walk(root / VALIDATION) for name in names)
    return Listing(classes, tuple(train), tuple(test), drawn, left_out, validation)


def shown(name: str) -> str:
    """A name as one line of text, whatever bytes it has."""
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def _entries(root: Path, folder: Path) -> Iterator[os.DirEntry[str]]:
    """By name, without what is hidden or a system's own. Raises DataError for a link out of `root` or in a circle."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: os.fsencode(entry.name))
        for entry in entries:
            if entry.name.startswith(".") or entry.name.lower() in OF_SYSTEMS:
                continue
            _stays(root, Path(entry.path))
            yield entry
    except OSError as error:
        name = _below(root, os.fsdecode(error.filename or folder))
        raise DataError(f"data set {root}: {name}: {error.strerror or error}") from error


def _stays(root: Path, path: Path) -> None:
    """Raises DataError for a link that leads out of `root`, nowhere, or back to a folder that it lies in."""
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


def _classes(root: Path, split: Path) -> tuple[tuple[str, ...], int]:
    """(names of the folders in it, how many other files there are)."""
    entries = list(_entries(root, split))
    names = tuple(entry.name for entry in entries if entry.is_dir())
    for name in names:
        try:
            os.fsencode(name).decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"data set {root}: the class name {split.name}/{shown(name)} is no UTF-8") from error
    return names, len(entries) - len(names)


def _pictures(root: Path, folder: Path) -> tuple[list[str], int]:
    """(images in it, how many other files there are)."""
    entries = list(_entries(root, folder))
    inner = next((entry for entry in entries if entry.is_dir()), None)
    if inner is not None:
        raise DataError(f"data set {root}: {_below(root, inner.path)} is a folder inside a class; a class has none")
    files = [e.path for e in entries if e.name.lower().endswith(SUFFIXES) and e.is_file()]
    if not files:
        raise DataError(f"data set {root}: class {_below(root, str(folder))} has no {', '.join(SUFFIXES)} file in it")
    return files, len(entries) - len(files)


def _drawn(pictures: list[Picture]) -> tuple[list[Picture], list[Picture]]:
    """(train, test): a fifth of each class, at least one where there are two, is test; the same every time."""
    test: set[int] = set()
    labels = np.array([picture.label for picture in pictures])
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        wanted = max(1, round(len(members) / DRAWN_SHARE)) if len(members) > 1 else 0
        generator = np.random.Generator(np.random.PCG64([DRAW_SEED, int(label)]))
        test |= set(generator.permutation(members)[:wanted].tolist())
    split = [index in test for index in range(len(pictures))]
    return (
        [picture for picture, is_test in zip(pictures, split, strict=True) if not is_test],
        [picture for picture, is_test in zip(pictures, split, strict=True) if is_test],
    )
