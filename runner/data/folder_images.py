"""Pictures, those of a folder above all, decoded by Pillow in several processes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console

from runner.data import folder, pictures, pool
from runner.data.folder import Listing, Picture, shown
from runner.data.own import SPLITS, OwnImages, Place, Size, SplitName, Survey, digest, rows_of
from runner.data.packed import Packed
from workloads.records.job import Fit

Seen = tuple[str, Size | None, str]  # sha256, size, ""; or "", None, why it cannot be read


@dataclass(frozen=True)
class PictureImages(OwnImages):
    """Of picture files, wherever they lie."""

    @abstractmethod
    def source(self, place: Place) -> str | Packed:
        """The picture's path, or where it is in an archive."""

    def survey(self, console: Console) -> Survey:
        """Every file's checksum and size."""
        places: list[Place] = [(split, number) for split in SPLITS for number in range(len(self.labels[split]))]
        seen = pool.in_order(_looks, [self.source(place) for place in places], f"{self.name}: reading", console)
        labels = [int(self.labels[split][number]) for split, number in places]
        content = [[split, label, one[0]] for (split, _), label, one in zip(places, labels, seen, strict=True)]
        return Survey(
            digest("images of a folder", content)[:16],
            frozenset(size for _, size, _ in seen if size),
            {place: reason for place, (_, _, reason) in zip(places, seen, strict=True) if reason},
        )

    def fill(self, places: list[Place], arrays: dict[SplitName, Path], fit: Fit, console: Console) -> dict[Place, str]:
        """Each process writes what it decodes into its rows."""
        failed: dict[Place, str] = {}
        for split, path in arrays.items():
            wanted = [place for place in places if place[0] == split]
            items = [(row, self.source(place)) for row, place in enumerate(wanted)]
            reasons = pool.in_order(partial(_decode, path, fit), items, f"{self.name}: decoding {split}", console)
            failed |= {place: reason for place, reason in zip(wanted, reasons, strict=True) if reason}
        return failed


@dataclass(frozen=True)
class FolderImages(PictureImages):
    """Of the folder `path`."""

    path: Path
    files: dict[SplitName, tuple[Picture, ...]]

    def described(self, place: Place) -> str:
        """The file's path below the folder."""
        return shown(str(Path(self.source(place)).relative_to(self.path)))

    def source(self, place: Place) -> str:
        """The file's path."""
        split, number = place
        return self.files[split][number].path


def of_folder(name: str, path: Path) -> FolderImages:
    """Raises DataError for a folder that is laid out otherwise."""
    listing = folder.listing(path)
    files: dict[SplitName, tuple[Picture, ...]] = {"train": listing.train, "test": listing.test}
    labels = {split: np.array([each.label for each in files[split]], np.int32) for split in SPLITS}
    return FolderImages(
        name, labels, len(listing.classes), listing.drawn_test, _notes(listing), path.resolve(), files
    )  # fmt: skip


def _notes(listing: Listing) -> tuple[str, ...]:
    notes = []
    if listing.drawn_test:
        notes.append(f"no test/: one in {folder.DRAWN_SHARE} images of each class of train/ is drawn for the test")
    if listing.validation:
        notes.append(f"validation/ is not read: nothing is trained or judged on its {listing.validation} images")
    if listing.left_out:
        notes.append(f"{listing.left_out} files are no {', '.join(folder.SUFFIXES)} and left out")
    return tuple(notes)


def _looks(sources: Sequence[str | Packed]) -> list[Seen]:
    def look(source: str | Packed) -> Seen:
        try:
            seen = pictures.look(source)
        except pictures.Unreadable as error:
            return "", None, str(error)
        return seen.sha256, seen.size, ""

    return [look(source) for source in sources]


def _decode(array: Path, fit: Fit, items: Sequence[tuple[int, str | Packed]]) -> list[str]:
    """Write each picture into its row; "" for each, or why not."""
    rows, reasons = rows_of(array), []
    for row, source in items:
        try:
            rows[row] = pictures.decoded(source, rows.shape[1:], fit)
            reasons.append("")
        except pictures.Unreadable as error:
            reasons.append(str(error))
    return reasons
