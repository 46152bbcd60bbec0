"""Double the training images: each as it is and once more, unchanged or zoomed. The copies are made once, as data.

"copy": each image once more, unchanged. "zoom-copy": each once more, enlarged to five quarters of the size and cut to
its top left. Lheureux 2022 does the same (250 x 250, cut to 200 x 200). Both have twice the images, and so twice the
updates per epoch: they differ only in the zoom.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from rich.console import Console

from runner.data import own
from runner.data.own import Filled, OwnImages, Place, SplitName, Survey, digest, open_rows, reserve
from workloads.datasets import Dataset, Images, Labels, Split
from workloads.layers import Shape
from workloads.records.job import Fit

Copies = Literal["copy", "zoom-copy"]
ROWS = 64  # images that are copied together


def enlarge_shape(shape: Shape) -> Shape:
    """Return (rows, columns, channels) of the enlarged image whose top left is the zoomed copy of `shape`."""
    rows, columns, channels = shape
    return rows * 5 // 4, columns * 5 // 4, channels


@dataclass(frozen=True)
class Twice(OwnImages):
    """Images with each training image doubled. Number n + i of the training split is the copy of its number i.

    The test split is that of `inner`.
    """

    inner: OwnImages
    copies: Copies

    @property
    def count(self) -> int:
        """Number of training images that are not copies."""
        return len(self.inner.labels["train"])

    @property
    def made_by_pillow(self) -> bool:
        """True for zoomed copies, and for all images that Pillow decodes."""
        return self.copies == "zoom-copy" or self.inner.made_by_pillow

    def described(self, place: Place) -> str:
        """Return the description of the original image."""
        return self.inner.described(self._original(place))

    def class_name(self, label: int) -> str:
        """Name of the class that has this label."""
        return self.inner.class_name(label)

    def is_copy(self, place: Place) -> bool:
        """True for the second half of the training split."""
        return place != self._original(place)

    def listed(self, reasons: dict[Place, str]) -> list[str]:
        """Return each original image once with its reason."""
        return super().listed({place: why for place, why in reasons.items() if place == self._original(place)})

    def survey(self, console: Console) -> Survey:
        """Survey the inner images; a copy is unreadable where its original is."""
        survey = self.inner.survey(console)
        content = digest(self.copies, survey.content)[:16]
        return replace(survey, content=content, unreadable=self._with_copies(survey.unreadable))

    def fill(self, places: dict[Place, str], arrays: dict[SplitName, Path], fit: Fit, console: Console) -> Filled:
        """Write the originals with `inner`, then the copies, each through a temporary file next to `arrays`."""
        originals = {place: sha256 for place, sha256 in places.items() if place == self._original(place)}
        mine = {place: sha256 for place, sha256 in originals.items() if place[0] == "train"}
        rows = open_rows(arrays["train"])
        with tempfile.TemporaryDirectory(dir=arrays["train"].parent) as folder:
            made = Path(folder) / "train_images.npy"
            reserve(made, (len(mine), *rows.shape[1:]))
            filled = self.inner.fill(originals, arrays | {"train": made}, fit, console)
            _copy(made, rows, 0)
            if self.copies == "zoom-copy":
                reserve(made, (len(mine), *enlarge_shape(rows.shape[1:])))
                filled |= self.inner.fill(mine, {"train": made}, fit, console)
            _copy(made, rows, len(mine))
        return Filled(self._with_copies(filled.failed), filled.faded)

    def _original(self, place: Place) -> Place:
        split, number = place
        return (split, number % self.count) if split == "train" else place

    def _with_copies(self, reasons: dict[Place, str]) -> dict[Place, str]:
        copies: dict[Place, str] = {("train", n + self.count): why for (s, n), why in reasons.items() if s == "train"}
        return reasons | copies


def _copy(source: Path, rows: Images, first: int) -> None:
    """Copy the top left of each image, as large as a row, into the rows from `first` on."""
    images = np.load(source, mmap_mode="r")
    _, high, wide, _ = rows.shape
    for start in range(0, len(images), ROWS):
        piece = images[start : start + ROWS, :high, :wide]
        rows[first + start : first + start + len(piece)] = piece


def double_own(images: OwnImages, copies: Copies) -> Twice:
    """Return these images with every training image twice."""
    labels: dict[SplitName, Labels] = {**images.labels, "train": np.tile(images.labels["train"], 2)}
    known = images.name, labels, images.classes, images.drawn_test, images.notes
    return Twice(*known, images, copies, pixel_range=images.pixel_range, test_folder=images.test_folder)


def double_published(dataset: Dataset, copies: Copies) -> Dataset:
    """Return the data set with every training image twice, in its published size."""

    def read(folder: Path) -> tuple[Split, Split]:
        train, test = dataset.read(folder)
        once_more = zoom(train.images) if copies == "zoom-copy" else train.images
        return Split(np.concatenate([train.images, once_more]), np.tile(train.labels, 2)), test

    return replace(dataset, train_count=2 * dataset.train_count, read=read)


def zoom(images: Images) -> Images:
    """Return images (n, h, w, c), each the top left of its bilinear enlargement. Raises DataError where Pillow is
    missing.
    """
    _, high, wide, _ = images.shape
    pieces = (images[start : start + ROWS] for start in range(0, len(images), ROWS))
    return np.concatenate(
        [own.fit_to_shape(each, enlarge_shape(each.shape[1:]), "stretch")[:, :high, :wide] for each in pieces]
    )
