"""A .npz file with x_train, y_train, x_test and y_test, as Keras' own data sets come: read piece by piece, never
unpickled, and by nobody's word about its size.
"""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from runner.data import pool
from runner.data.folder import shown
from runner.data.own import SPLITS, OwnImages, Place, SplitName, Survey, digest, in_shape, rows_of
from workloads.datasets import DataError, Images, Labels, file_digest
from workloads.records.job import Fit

KEYS = ("x_train", "y_train", "x_test", "y_test")
PIECE_BYTES = 2**22
MOST_TIMES, SLACK_BYTES = 1040, 4096  # deflate makes of one byte no more than 1032
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # those of numpy.savez and numpy.savez_compressed
DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OSError)


@dataclass(frozen=True)
class Archive:
    """Images as (n, h, w, c), c 1 or 3; labels from 0 upwards."""

    path: Path
    shapes: dict[SplitName, tuple[int, int, int, int]]  # by split
    labels: dict[SplitName, Labels]

    def pieces(self, split: SplitName) -> Iterator[Images]:
        """The images in their order, some at a time. Raises DataError."""
        count, *shape = self.shapes[split]
        row_bytes = math.prod(shape)
        rows = max(1, PIECE_BYTES // row_bytes)
        key = f"x_{split}"
        with _damage_named(self.path, key), zipfile.ZipFile(self.path) as file, file.open(f"{key}.npy") as member:
            _header(member)
            for start in range(0, count, rows):
                size = min(rows, count - start) * row_bytes
                if len(content := member.read(size)) < size:
                    raise EOFError("it ends too early")
                yield np.frombuffer(content, np.uint8).reshape(-1, *shape)
            member.read(1)  # the end: its checksum is looked at


def archive(path: Path) -> Archive:
    """Raises DataError for a file that holds something else."""
    try:
        with zipfile.ZipFile(path) as file:
            arrays = {key: _member(path, file, key) for key in KEYS}
            labels = {split: _labels(path, file, f"y_{split}", *arrays[f"y_{split}"]) for split in SPLITS}
    except (zipfile.BadZipFile, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "no .npz file, or a damaged one"
        raise DataError(f"data set {path}: {reason}") from error
    shapes = {split: _image_shape(path, f"x_{split}", *arrays[f"x_{split}"]) for split in labels}
    _check(path, shapes, labels)
    return Archive(path, shapes, labels)


@contextmanager
def _damage_named(path: Path, key: str) -> Iterator[None]:
    """Raises DataError for what a damaged member raises."""
    try:
        yield
    except DataError:
        raise
    except DAMAGED as error:
        reason = " ".join(str(error).split())
        raise DataError(f"data set {path}: {key} cannot be read: {type(error).__name__}: {reason}") from error


def _header(member: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
    """(shape, whether columns come first, dtype). Raises ValueError."""
    version = np.lib.format.read_magic(member)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
    if read is None:
        raise ValueError(f".npy version {version}")
    return read(member)


def _member(path: Path, file: zipfile.ZipFile, key: str) -> tuple[tuple[int, ...], np.dtype[np.generic]]:
    """(shape, dtype) of a member that is as long as these say."""
    try:
        info = file.getinfo(f"{key}.npy")
    except KeyError as error:
        others = shown(", ".join(name.removesuffix(".npy") for name in file.namelist()[:8])) or "nothing"
        raise DataError(f"data set {path}: no {key} in it; {', '.join(KEYS)} are needed, it has {others}") from error
    if info.compress_type not in METHODS or info.flag_bits & 1:
        raise DataError(f"data set {path}: {key} is packed in a way that numpy does not; write it by numpy.savez")
    with _damage_named(path, key), file.open(info) as member:
        shape, columns_first, dtype = _header(member)
        header_bytes = member.tell()
    if dtype.hasobject:
        raise DataError(f"data set {path}: {key} holds Python objects, which are pickles; they are never read")
    if columns_first and len(shape) > 1:
        raise DataError(f"data set {path}: {key} has its columns first; save numpy.ascontiguousarray({key})")
    size = header_bytes + math.prod(shape) * dtype.itemsize
    if size != info.file_size or size > MOST_TIMES * info.compress_size + SLACK_BYTES:
        raise DataError(f"data set {path}: {key} is not as large as its header says, {shape} of {dtype}")
    return shape, dtype


def _labels(path: Path, file: zipfile.ZipFile, key: str, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Labels:
    """(n,) of an array (n,) or, as Keras has CIFAR's, (n, 1)."""
    if len(shape) not in (1, 2) or shape[1:] not in ((), (1,)) or dtype.kind not in "iu":
        raise DataError(f"data set {path}: {key} is {shape} of {dtype}; labels are whole numbers, (n,) or (n, 1)")
    with _damage_named(path, key), file.open(f"{key}.npy") as member:
        _header(member)
        values: NDArray[np.generic] = np.frombuffer(member.read(), dtype).reshape(-1)
    if not len(values):
        raise DataError(f"data set {path}: {key} is empty")
    if int(values.min()) < 0 or int(values.max()) >= 2**31 - 1:
        raise DataError(f"data set {path}: {key} has labels from {values.min()} to {values.max()}; they count from 0")
    return values.astype(np.int32)


def _image_shape(
    path: Path, key: str, shape: tuple[int, ...], dtype: np.dtype[np.generic]
) -> tuple[int, int, int, int]:
    if dtype != np.uint8:
        hint = f"({key} * 255).round().astype('uint8') makes it of 0..1" if dtype.kind == "f" else "save it as uint8"
        raise DataError(f"data set {path}: {key} is of {dtype}; images are uint8, 0 to 255: {hint}")
    whole = (*shape, 1) if len(shape) == 3 else shape
    if len(whole) != 4 or whole[3] not in (1, 3) or min(whole[1:3]) < 2:
        raise DataError(f"data set {path}: {key} is {shape}; images are (n, h, w), (n, h, w, 1) or (n, h, w, 3)")
    return whole[0], whole[1], whole[2], whole[3]


def _check(path: Path, shapes: dict[SplitName, tuple[int, int, int, int]], labels: dict[SplitName, Labels]) -> None:
    """What must fit together. Raises DataError."""
    for split, values in labels.items():
        if len(values) != shapes[split][0]:
            raise DataError(f"data set {path}: x_{split} has {shapes[split][0]} images, y_{split} {len(values)} labels")
    if shapes["train"][1:] != shapes["test"][1:]:
        raise DataError(f"data set {path}: x_train and x_test differ: {shapes['train'][1:]} and {shapes['test'][1:]}")
    known = np.unique(labels["train"])
    if len(known) < 2:
        raise DataError(f"data set {path}: y_train has one class, two are the least")
    strange = np.setdiff1d(labels["test"], known)
    if len(strange):
        raise DataError(f"data set {path}: class {strange[0]} is in y_test and not in y_train")


@dataclass(frozen=True)
class ArchiveImages(OwnImages):
    """Images that are decoded already."""

    file: Archive

    def described(self, place: Place) -> str:
        """As numpy would name it."""
        return f"x_{place[0]}[{place[1]}]"

    def survey(self, console: Console) -> Survey:
        """The file's checksum."""
        _, rows, columns, _ = self.file.shapes["train"]
        content = digest("arrays", file_digest(self.file.path, "sha256"))[:16]
        return Survey(content, frozenset({(rows, columns)}), {})

    def fill(self, places: list[Place], arrays: dict[SplitName, Path], fit: Fit, console: Console) -> dict[Place, str]:
        """All of them: each is an image."""
        for split, path in arrays.items():
            images, done = rows_of(path), 0
            with pool.bar(console) as progress:
                task = progress.add_task(f"{self.name}: {split}", total=len(images))
                for piece in self.file.pieces(split):
                    images[done : done + len(piece)] = in_shape(piece, images.shape[1:], fit)
                    done += len(piece)
                    progress.advance(task, len(piece))
        return {}


def of_archive(name: str, path: Path) -> ArchiveImages:
    """Raises DataError for a file that holds something else. As many classes as the highest label says."""
    file = archive(path)
    return ArchiveImages(name, file.labels, int(file.labels["train"].max()) + 1, False, (), file)
