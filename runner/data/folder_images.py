"""Decode pictures, mostly of a folder, with Pillow in several processes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console

from runner.data import folder, own, pictures
from runner.data.folder import PictureFile
from runner.data.own import (
    SPLITS,
    Filled,
    ImageChoices,
    OwnImages,
    Place,
    Size,
    SplitName,
    Survey,
    digest,
    open_rows,
    shown,
)
from runner.data.pictures import Packed
from runner.data.splits import TEST
from workloads.datasets import DataError
from workloads.records.job import Fit, PixelRange

Seen = tuple[str, Size | None, str]  # (sha256, size, ""), or ("", None, why it cannot be read)


@dataclass(frozen=True)
class PictureImages(OwnImages):
    """Images from picture files, in a folder or an archive."""

    @abstractmethod
    def source(self, place: Place) -> str | Packed:
        """Return the picture's path, or its source in an archive."""

    def survey(self, console: Console) -> Survey:
        """Read every file's checksum and size."""
        places: list[Place] = [(split, number) for split in SPLITS for number in range(len(self.labels[split]))]
        seen = own.work_in_order(_looks, [self.source(place) for place in places], f"{self.name}: reading", console)
        labels = [int(self.labels[split][number]) for split, number in places]
        content = [[split, label, one[0]] for (split, _), label, one in zip(places, labels, seen, strict=True)]
        return Survey(
            digest("images of a folder", content)[:16],
            frozenset(size for _, size, _ in seen if size),
            {place: reason for place, (_, _, reason) in zip(places, seen, strict=True) if reason},
            {place: sha256 for place, (sha256, _, reason) in zip(places, seen, strict=True) if not reason},
        )

    def fill(self, places: dict[Place, str], arrays: dict[SplitName, Path], fit: Fit, console: Console) -> Filled:
        """Decode the pictures; each process writes its own rows. Raises DataError for one that changed."""
        filled = Filled({}, {})
        for split, path in arrays.items():
            wanted = [place for place in places if place[0] == split]
            items = [(row, self.source(place), places[place]) for row, place in enumerate(wanted)]
            work = partial(_decode, path, fit, self.pixel_range)
            try:
                found = own.work_in_order(work, items, f"{self.name}: decoding {split}", console)
            except pictures.ChangedPicture as error:
                changed = f"{shown(str(error))} changed while it was read; run it again"
                raise DataError(f"data set {self.name}: {changed}") from error
            answers = dict(zip(wanted, found, strict=True))
            filled |= Filled(
                {place: reason for place, (reason, _) in answers.items() if reason},
                {place: faded for place, (_, faded) in answers.items() if faded},
            )
        return filled


@dataclass(frozen=True)
class FolderImages(PictureImages):
    """Images of the folder `path`."""

    path: Path
    files: dict[SplitName, tuple[PictureFile, ...]]
    class_names: tuple[str, ...]

    def class_name(self, label: int) -> str:
        """Name of the class's folder."""
        return shown(self.class_names[label])

    def described(self, place: Place) -> str:
        """Return the file's path below the folder."""
        return shown(str(Path(self.source(place)).relative_to(self.path)))

    def source(self, place: Place) -> str:
        """Return the file's path."""
        split, number = place
        return self.files[split][number].path


def read_folder(name: str, path: Path, asked: ImageChoices) -> FolderImages:
    """Return the images of a folder. Raises DataError for a folder with another layout."""
    listing = folder.list_folder(path, asked.test_folder)
    files: dict[SplitName, tuple[PictureFile, ...]] = {"train": listing.train, "test": listing.test}
    labels = {split: np.array([each.label for each in files[split]], np.int32) for split in SPLITS}
    found = name, labels, len(listing.classes), listing.drawn_test, listing.notes, path.resolve(), files
    test_folder = "" if listing.splits.test in (None, TEST) else shown(listing.splits.test)
    return FolderImages(*found, listing.classes, pixel_range=asked.pixel_range, test_folder=test_folder)


def _looks(sources: Sequence[str | Packed]) -> list[Seen]:
    """Look at each picture. Files that cannot be read are listed like damaged ones: the next survey looks again."""

    def look(source: str | Packed) -> Seen:
        try:
            seen = pictures.look(source)
        except OSError as error:
            return "", None, error.strerror or str(error)
        except pictures.UnreadablePicture as error:
            return "", None, str(error)
        return seen.sha256, seen.size, ""

    return [look(source) for source in sources]


def _decode(
    array: Path, fit: Fit, pixel_range: PixelRange | None, items: Sequence[tuple[int, str | Packed, str]]
) -> list[tuple[str, str]]:
    """Write each picture into its row, and return (why not, what happened to its values), "" for nothing to report.

    Items are (row, source, sha256). Raises ChangedPicture, and OSError for a failure that may pass.
    """
    rows, answers = open_rows(array), []
    for row, source, sha256 in items:
        try:
            decoded = pictures.decode(source, rows.shape[1:], fit, pixel_range, sha256)
            rows[row] = decoded.pixels
            answers.append(("", decoded.faded))
        except pictures.UnreadablePicture as error:
            answers.append((str(error), ""))
    return answers
