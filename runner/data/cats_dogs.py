"""Read Microsoft's archive of cats and dogs, the user's copy, in place: PetImages/Cat/N.jpg, PetImages/Dog/N.jpg.

Files without JFIF in their first ten bytes are left out, as the script of Lheureux 2022 does with damaged files. The
rest of each class is split in the order of its file names (`workloads.pets`).
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from runner.data.folder_images import PictureImages
from runner.data.own import SPLITS, Place, SplitName, shown
from runner.data.pictures import METHODS, Packed
from workloads import pets
from workloads.datasets import DataError, Dataset
from workloads.records.job import PixelRange

MEMBER = re.compile(rf"PetImages/({'|'.join(pets.CLASSES)})/[0-9]+\.jpg")
HEADER_BYTES, MARK = 10, b"JFIF"
ENCRYPTED = 1  # a member's flag
BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError)


@dataclass(frozen=True)
class CatsDogs(PictureImages):
    """Images of an archive; `members` by split, in its order."""

    path: Path
    changed_ns: int
    members: dict[SplitName, tuple[str, ...]]

    def class_name(self, label: int) -> str:
        """Name of the class's folder in the archive."""
        return pets.CLASSES[label]

    def described(self, place: Place) -> str:
        """Return the member's name."""
        split, number = place
        return self.members[split][number]

    def source(self, place: Place) -> Packed:
        """Return its source in the archive."""
        return Packed(str(self.path), self.changed_ns, self.described(place))


def read_cats_dogs(dataset: Dataset, folder: Path, test_all: bool, pixel_range: PixelRange | None = None) -> CatsDogs:
    """Return the images of this archive, or of the archive in this folder.

    Raises DataError where there is none, or it is incomplete.
    """
    path = _found(dataset, folder)
    where = f"data set {dataset.name}: {shown(str(path))}"
    try:
        with zipfile.ZipFile(path) as archive:
            by_class, others = _members(where, archive)
            sound = {name: [each for each in names if _is_jfif(archive, each)] for name, names in by_class.items()}
        changed_ns = path.stat().st_mtime_ns
    except (OSError, zipfile.BadZipFile, NotImplementedError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "not a zip archive, or incomplete"
        raise DataError(f"{where}: {reason}") from error
    for name, members in sound.items():
        if len(members) < pets.OF_CLASS:
            few = f"{len(members):,} sound images in PetImages/{name}/; at least {pets.OF_CLASS:,} are needed"
            raise DataError(f"{where}: {few}")
    divided = [pets.divided(sound[name], test_all) for name in pets.CLASSES]
    parts = {split: [each[number] for each in divided] for number, split in enumerate(SPLITS)}
    return CatsDogs(
        dataset.name,
        {split: np.repeat(np.arange(2, dtype=np.int32), [len(each) for each in parts[split]]) for split in SPLITS},
        len(pets.CLASSES),
        False,
        _notes(by_class, sound, others),
        path.resolve(),
        changed_ns,
        {split: tuple(name for members in parts[split] for name in members) for split in SPLITS},
        pixel_range=pixel_range,
    )


def _found(dataset: Dataset, folder: Path) -> Path:
    """Return the path of the archive. Raises DataError unless there is exactly one."""
    if folder.is_file():
        return folder
    found = sorted(path for path in folder.glob(dataset.own_archive) if path.is_file())
    where = f"data set {dataset.name}:"
    if not found:
        what = 'it is not downloaded here: fetch Microsoft\'s "Kaggle Cats and Dogs Dataset"'
        raise DataError(
            f"{where} no {dataset.own_archive} in {shown(str(folder))}; {what}, and name its folder with --data-dir"
        )
    if len(found) > 1:
        names = ", ".join(shown(path.name) for path in found)
        raise DataError(f"{where} {names} in {shown(str(folder))}; name one of them with --data-dir")
    return found[0]


def _members(where: str, archive: zipfile.ZipFile) -> tuple[dict[str, list[str]], int]:
    """Return ({class: its members by name}, number of other members that are not folders). Raises DataError."""
    by_class: dict[str, list[str]] = {name: [] for name in pets.CLASSES}
    files = [info for info in archive.infolist() if not info.is_dir()]
    for info in files:
        if matched := MEMBER.fullmatch(info.filename):
            if info.compress_type not in METHODS or info.flag_bits & ENCRYPTED:
                raise DataError(f"{where}: {info.filename} is encrypted, or packed in an unusual way")
            by_class[matched[1]].append(info.filename)
    pictures = [name for names in by_class.values() for name in names]
    twice = [name for name, count in Counter(pictures).items() if count > 1]
    if twice:
        raise DataError(f"{where}: {twice[0]} is in it twice")
    return {name: sorted(names) for name, names in by_class.items()}, len(files) - len(pictures)


def _is_jfif(archive: zipfile.ZipFile, member: str) -> bool:
    """True if its first bytes can be read and contain the JFIF mark."""
    try:
        with archive.open(member) as file:
            return MARK in file.read(HEADER_BYTES)
    except BROKEN:
        return False


def _notes(by_class: dict[str, list[str]], sound: dict[str, list[str]], others: int) -> tuple[str, ...]:
    """Return notes on what is not used as an image."""
    left_out = {name: len(by_class[name]) - len(sound[name]) for name in pets.CLASSES}
    notes = [
        f"{count:,} of {len(by_class[name]):,} files in PetImages/{name}/ have no JFIF header and are left out"
        for name, count in left_out.items()
        if count
    ]
    if others:
        notes.append(f"{others} members of the archive are not PetImages/Cat/N.jpg or PetImages/Dog/N.jpg: left out")
    return tuple(notes)
