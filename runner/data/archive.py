"""Read a .npz file with x_train, y_train, x_test and y_test, the layout of Keras' data sets.

It is read piece by piece and never unpickled, and its size is checked against its header.
"""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from runner.data import own, pixel_values
from runner.data.own import (
    SPLITS,
    Filled,
    OwnImages,
    Place,
    SplitName,
    Survey,
    digest,
    fit_to_shape,
    listed,
    open_rows,
    shown,
)
from workloads.datasets import DataError, Images, Labels, file_digest
from workloads.records.job import Fit, PixelRange

KEYS = ("x_train", "y_train", "x_test", "y_test")
PIECE_BYTES = 2**22
MOST_TIMES, SLACK_BYTES = 1040, 4096  # deflate expands one byte to at most 1032
NUMBERS = "biuf"  # kinds of numpy types that pixel values may have
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # the methods of numpy.savez and numpy.savez_compressed
DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OSError)


@dataclass(frozen=True)
class Archive:
    """Images as (n, h, w, c), c 1 or 3, with values as in the file; labels from 0 upwards."""

    path: Path
    state: tuple[int, ...]  # of the file, before anything of it was read
    types: dict[SplitName, np.dtype[np.generic]]  # of the images
    shapes: dict[SplitName, tuple[int, int, int, int]]  # by split
    labels: dict[SplitName, Labels]
    notes: tuple[str, ...]  # what was not read

    def pieces(self, split: SplitName) -> Iterator[NDArray[Any]]:
        """Yield the images in their order, some at a time. Raises DataError."""
        return _pieces(self.path, f"x_{split}", self.shapes[split], self.types[split])

    def check_unchanged(self) -> None:
        """Raises DataError where another file has taken its place, or it was written anew."""
        if _read_state(self.path) != self.state:
            raise DataError(f"data set {self.path}: it changed while it was read; run it again")


def _read_state(path: Path) -> tuple[int, ...]:
    """Return facts of a file that change with its content."""
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _pieces(path: Path, key: str, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Iterator[NDArray[Any]]:
    """Yield a member's rows, some at a time. Raises DataError."""
    count, row_bytes = shape[0], math.prod(shape[1:]) * dtype.itemsize
    rows = max(1, PIECE_BYTES // max(1, row_bytes))
    with _damage_named(path, key), zipfile.ZipFile(path) as file, file.open(f"{key}.npy") as member:
        _header(member)
        for start in range(0, count, rows):
            size = min(rows, count - start) * row_bytes
            if len(content := member.read(size)) < size:
                raise EOFError("it is cut short")
            yield np.frombuffer(content, dtype).reshape(-1, *shape[1:])
        member.read(1)  # reach the end, so that its checksum is verified


def read_archive(path: Path, pixel_range: PixelRange | None = None) -> Archive:
    """Return the checked archive. Raises DataError for a file with other contents."""
    try:
        state = _read_state(path)
        with zipfile.ZipFile(path) as file:
            arrays = {key: _member(path, file, key) for key in KEYS}
            unread = tuple(key for name in file.namelist() if (key := name.removesuffix(".npy")) not in KEYS)
            labels = {split: _labels(path, file, f"y_{split}", *arrays[f"y_{split}"]) for split in SPLITS}
    except (zipfile.BadZipFile, NotImplementedError, UnicodeDecodeError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "not a .npz file, or damaged"
        raise DataError(f"data set {path}: {reason}") from error
    shapes = {split: _image_shape(path, f"x_{split}", arrays[f"x_{split}"][0]) for split in labels}
    types = {split: arrays[f"x_{split}"][1] for split in labels}
    for split, dtype in types.items():
        _check_type(path, f"x_{split}", arrays[f"x_{split}"][0], dtype, pixel_range)
    _check(path, shapes, labels)
    notes = (f"not read: {own.shown(own.listed(unread))}",) if unread else ()
    return Archive(path, state, types, shapes, labels, notes)


@contextmanager
def _damage_named(path: Path, key: str) -> Iterator[None]:
    """Turn the errors of a damaged member into DataError."""
    try:
        yield
    except DataError:
        raise
    except DAMAGED as error:
        reason = " ".join(str(error).split())
        raise DataError(f"data set {path}: {key} cannot be read: {type(error).__name__}: {reason}") from error


def _header(member: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
    """Return (shape, whether columns come first, dtype). Raises ValueError."""
    version = np.lib.format.read_magic(member)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
    if read is None:
        raise ValueError(f".npy version {version}")
    return read(member)


def _member(path: Path, file: zipfile.ZipFile, key: str) -> tuple[tuple[int, ...], np.dtype[np.generic]]:
    """Return (shape, dtype) of a member, after checking that its length matches them."""
    try:
        info = file.getinfo(f"{key}.npy")
    except KeyError as error:
        others = shown(", ".join(name.removesuffix(".npy") for name in file.namelist()[:8])) or "nothing"
        raise DataError(f"data set {path}: no {key} in it; {', '.join(KEYS)} are needed, it has {others}") from error
    if info.compress_type not in METHODS or info.flag_bits & 1:
        raise DataError(f"data set {path}: {key} uses a compression that numpy never uses; save it with numpy.savez")
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
    """Return labels (n,) from an array (n,) or, as in Keras' CIFAR, (n, 1)."""
    if len(shape) not in (1, 2) or shape[1:] not in ((), (1,)) or dtype.kind not in "iu":
        raise DataError(
            f"data set {path}: {key} is {shape} of {dtype}; labels are whole numbers, (n,) or (n, 1)"
            f"{label_advice(key, shape, dtype)}"
        )
    with _damage_named(path, key), file.open(f"{key}.npy") as member:
        _header(member)
        values: NDArray[np.generic] = np.frombuffer(member.read(), dtype).reshape(-1)
    if not len(values):
        raise DataError(f"data set {path}: {key} is empty")
    if int(values.min()) < 0 or int(values.max()) >= 2**31 - 1:
        raise DataError(f"data set {path}: {key} has labels from {values.min()} to {values.max()}; they count from 0")
    return values.astype(np.int32)


def _check_type(
    path: Path, key: str, shape: tuple[int, ...], dtype: np.dtype[np.generic], pixel_range: PixelRange | None
) -> None:
    """Raises DataError for values that are not numbers, or whose black and white are unknown."""
    if dtype == np.uint8 or (pixel_range and dtype.kind in NUMBERS):
        return
    wrong = f"data set {path}: {key} is of {dtype}; images are uint8, 0 to 255"
    if dtype.kind not in NUMBERS or not math.prod(shape):
        raise DataError(wrong)
    low, high = math.inf, -math.inf
    for piece in _pieces(path, key, shape, dtype):
        low, high = min(low, float(piece.min())), max(high, float(piece.max()))
    if not math.isfinite(low + high):
        raise DataError(f"{wrong}: it holds values that are not finite")
    raise DataError(f"{wrong}: {range_advice(key, low, high, dtype.kind == 'f')}")


def _image_shape(path: Path, key: str, shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    whole = (*shape, 1) if len(shape) == 3 else shape
    if len(whole) != 4 or whole[3] not in (1, 3) or min(whole[1:3]) < 2:
        raise DataError(f"data set {path}: {key} is {shape}; images are (n, h, w), (n, h, w, 1) or (n, h, w, 3)")
    return whole[0], whole[1], whole[2], whole[3]


def _check(path: Path, shapes: dict[SplitName, tuple[int, int, int, int]], labels: dict[SplitName, Labels]) -> None:
    """Check that images and labels fit together. Raises DataError."""
    for split, values in labels.items():
        if len(values) != shapes[split][0]:
            raise DataError(f"data set {path}: x_{split} has {shapes[split][0]} images, y_{split} {len(values)} labels")
    if shapes["train"][1:] != shapes["test"][1:]:
        raise DataError(f"data set {path}: x_train and x_test differ: {shapes['train'][1:]} and {shapes['test'][1:]}")
    known = np.unique(labels["train"])
    if len(known) < 2:
        raise DataError(f"data set {path}: y_train has one class; at least two are needed")
    strange = np.setdiff1d(labels["test"], known).tolist()
    if strange:
        which = f"class {strange[0]} is" if len(strange) == 1 else f"classes {listed(strange)} are"
        raise DataError(f"data set {path}: {which} in y_test and not in y_train")


@dataclass(frozen=True)
class ArchiveImages(OwnImages):
    """Images that are already decoded."""

    file: Archive

    @property
    def made_by_pillow(self) -> bool:
        """False, because the file holds pixels."""
        return False

    def described(self, place: Place) -> str:
        """Return the image's name in numpy's notation."""
        return f"x_{place[0]}[{place[1]}]"

    def survey(self, console: Console) -> Survey:
        """Read the file's checksum. Raises DataError for a file that changed after its labels were read."""
        _, rows, columns, _ = self.file.shapes["train"]
        content = digest("arrays", file_digest(self.file.path, "sha256"))[:16]
        self.file.check_unchanged()
        return Survey(content, frozenset({(rows, columns)}), {})

    def fill(self, places: dict[Place, str], arrays: dict[SplitName, Path], fit: Fit, console: Console) -> Filled:
        """Write all images, whatever `places` says, because none of them can be unreadable.

        Raises DataError for a file that changed after its labels were read.
        """
        faded: dict[Place, str] = {}
        for split, path in arrays.items():
            images, done = open_rows(path), 0
            with own.build_picture_bar(console) as progress:
                task = progress.add_task(f"{self.name}: {split}", total=len(images))
                for piece in self.file.pieces(split):
                    stored = fit_to_shape(self._in_bytes(piece, f"x_{split}"), images.shape[1:], fit)
                    images[done : done + len(piece)] = stored
                    for number, (before, after) in enumerate(zip(piece, stored, strict=True), start=done):
                        if words := pixel_values.compute_extent(before).lost_in(pixel_values.compute_extent(after)):
                            faded[split, number] = words
                    done += len(piece)
                    progress.advance(task, len(piece))
        self.file.check_unchanged()
        return Filled({}, faded)

    def _in_bytes(self, piece: NDArray[Any], key: str) -> Images:
        """Convert to 8 bits per value. Raises DataError for values that are not finite numbers."""
        if self.pixel_range is None:
            return piece
        if piece.dtype.kind == "f" and not np.isfinite(piece).all():
            raise DataError(f"data set {self.file.path}: {key} holds values that are not finite")
        return pixel_values.convert_to_bytes(piece, self.pixel_range)


def read_archived_images(name: str, path: Path, pixel_range: PixelRange | None = None) -> ArchiveImages:
    """Return the images of an archive; its highest label gives the number of classes. Raises DataError."""
    file = read_archive(path, pixel_range)
    classes = int(file.labels["train"].max()) + 1
    return ArchiveImages(name, file.labels, classes, False, file.notes, file, pixel_range=pixel_range)


BITS = (1, 8, 10, 12, 14, 16)  # bits per value that devices write


def range_advice(key: str, low: float, high: float, is_float: bool) -> str:
    """Return advice on how values in this range become images."""
    first, last = _likely_range(low, high, is_float)
    ends = [f"{value:.10g}" for value in (low, high, first, last)]  # all digits of a 32-bit number
    start = f"({key}.astype('float64') + {-first:.10g})" if first else key  # never above 0; a signed type would wrap
    factor = "255" if last - first == 1 else f"(255 / {last - first:.10g})"
    exact = f"({start} * {factor}).round().astype('uint8')"
    return f"its values go from {ends[0]} to {ends[1]}: give --pixel-range {ends[2]} {ends[3]}, or save {exact}"


def _likely_range(low: float, high: float, is_float: bool) -> tuple[float, float]:
    """Return the likely range's ends: those of a usual number of bits if it begins at 0, else the values' own."""
    if is_float and low >= 0 and high <= 1:
        return 0, 1
    if low >= 0:
        return 0, next((2**bits - 1 for bits in BITS if high <= 2**bits - 1), high)
    if is_float and low >= -1 and high <= 1:
        return -1, 1
    return low, high if high > low else low + 1


def label_advice(key: str, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> str:
    """Return advice on how labels of another kind become whole numbers; "" where none is known."""
    if len(shape) == 2 and shape[1] > 1:
        return f": for one column per class, save {key}.argmax(axis=1)"
    if dtype.kind == "f":
        return f": if all are whole numbers, save {key}.astype('int32')"
    if dtype.kind in "US":
        return ": save numpy.unique(y_train, return_inverse=True)[1]; for y_test use numpy.searchsorted"
    return ""
