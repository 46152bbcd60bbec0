"""Define what custom data sets share: images are surveyed once, decoded once, and stored at one size.

Many pictures are processed in several processes, with a progress bar.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from runner.machine import allotment
from workloads import lifeline
from workloads.datasets import DataError, Images, Labels
from workloads.layers import Shape
from workloads.records.job import Fit, PixelRange

SplitName = Literal["train", "test"]
SPLITS: tuple[SplitName, ...] = ("train", "test")
Place = tuple[SplitName, int]  # an image: its number in its split
Size = tuple[int, int]  # rows, columns


@dataclass(frozen=True)
class ImageChoices:
    """Options for reading custom images."""

    test_folder: str | None = None  # of a folder of images
    pixel_range: PixelRange | None = None


@dataclass(frozen=True)
class Survey:
    """Findings of the first reading, without decoding."""

    content: str  # digest of all images and their classes
    sizes: frozenset[Size]  # of the images that can be read
    unreadable: dict[Place, str]  # with the reason
    checksums: dict[Place, str] = field(default_factory=dict)  # sha256 of the files of pictures that can be read


@dataclass(frozen=True)
class Filled:
    """Findings of decoding."""

    failed: dict[Place, str]  # could not be decoded, with the reason
    faded: dict[Place, str]  # lost nearly all contrast, with what happened to the values

    def __or__(self, other: Filled) -> Filled:
        """Return both findings together."""
        return Filled(self.failed | other.failed, self.faded | other.faded)


@dataclass(frozen=True)
class OwnImages(ABC):
    """A folder or an array file of images. `notes` say what was not read."""

    name: str
    labels: dict[SplitName, Labels]  # of all images, including those that cannot be decoded
    classes: int
    drawn_test: bool
    notes: tuple[str, ...]
    pixel_range: PixelRange | None = field(default=None, kw_only=True)  # values that become 0 and 255
    test_folder: str = field(default="", kw_only=True)  # of a folder whose test split is not in test/

    @abstractmethod
    def survey(self, console: Console) -> Survey:
        """Read all of it once."""

    @abstractmethod
    def fill(self, places: dict[Place, str], arrays: dict[SplitName, Path], fit: Fit, console: Console) -> Filled:
        """Write these images, in their order, into .npy files (n, *shape). `places` gives each picture's sha256.

        Raises DataError for a file that is not the one that was surveyed.
        """

    @abstractmethod
    def described(self, place: Place) -> str:
        """The image's name, on one line."""

    @property
    def made_by_pillow(self) -> bool:
        """True if Pillow is needed whatever size the network takes: to decode images, or to enlarge copies."""
        return True

    def class_name(self, label: int) -> str:
        """Name of the class that has this label."""
        return str(label)

    def is_copy(self, place: Place) -> bool:
        """True if the image is a copy of another one, made because the user asked for copies."""
        return False

    def listed(self, reasons: dict[Place, str]) -> list[str]:
        """Return each image with the reason why it cannot be decoded."""
        return [f"{self.described(place)} ({reason})" for place, reason in reasons.items()]


NAMES_SHOWN = 10


def shown(name: str) -> str:
    """Return a name as one line of text, whatever bytes it has."""
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def listed(names: Sequence[object]) -> str:
    """Return the first names, and how many more there are."""
    more = f", and {len(names) - NAMES_SHOWN:,} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(map(str, names[:NAMES_SHOWN])) + more


def need_pillow(what: str) -> None:
    """Raises DataError where Pillow is not installed, as in a container image."""
    if importlib.util.find_spec("PIL") is None:
        raise DataError(f"{what}: this container has no Pillow; run outside it, or give images of that size")


def choose_stored_size(sizes: Iterable[Size], target: Shape, fit: Fit) -> Size:
    """Return the size at which pictures of these sizes are stored for a network that takes `target`.

    `target` is (rows, columns, channels). The stored size is no larger than that, and no larger than the largest
    picture needs. The network's first layer enlarges smaller pictures, so "crop" and "pad" keep the target's
    proportions.
    """
    if fit == "stretch":
        rows, columns = (max(sides) for sides in zip(*sizes, strict=True))
        return min(rows, target[0]), min(columns, target[1])
    narrower = min if fit == "crop" else max
    scale = min(1.0, max(narrower(rows / target[0], columns / target[1]) for rows, columns in sizes))
    return max(1, round(target[0] * scale)), max(1, round(target[1] * scale))


def fit_to_shape(images: Images, shape: Shape, fit: Fit) -> Images:
    """Convert (n, h, w, c) to (n, *shape); grey is repeated over the channels. Pillow is imported only if needed."""
    if images.shape[1:] == (*shape[:2], 1):
        images = images.repeat(shape[2], axis=3)
    if images.shape[1:] == shape:
        return images
    need_pillow(f"images of {images.shape[1:]} for {shape}")
    from runner.data import pictures  # a container image has no Pillow

    return pictures.fit_images(images, shape, fit)


def reserve(path: Path, shape: Shape) -> None:
    """Create a .npy file of zeros, all of it allocated on the disk. Raises OSError.

    Writing to a mapped file that the disk cannot hold would end the process.
    """
    try:
        array = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=shape)
        del array
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, max(1, path.stat().st_size))
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def open_rows(array: Path) -> Images:
    """Return the images of a .npy file, mapped for writing."""
    return np.lib.format.open_memmap(array, mode="r+")


def digest(*parts: Any) -> str:
    """Return the digest of these values as JSON."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


CHUNK = 32  # pictures per task
FEW = 200  # with fewer pictures, other processes take longer to start than to work

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def build_picture_bar(console: Console) -> Progress:
    """Return a progress bar for pictures, or for the images of an array."""
    return Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
                    console=console, transient=True, disable=not console.is_terminal)  # fmt: skip


def work_in_order(
    work: Callable[[Sequence[Item]], list[Answer]], items: Sequence[Item], title: str, console: Console
) -> list[Answer]:
    """Return what `work` answers for each item; it gets some of them at a time.

    Raises what `work` raises, and DataError where a process died.
    """
    chunks = [items[start : start + CHUNK] for start in range(0, len(items), CHUNK)]
    answers: list[Answer] = []
    pool = None
    if len(items) >= FEW:  # "spawn", because the progress bar has a thread, which a fork would not copy
        pool = ProcessPoolExecutor(allotment.count_threads(), get_context("spawn"), _of_the_runner, (os.getpid(),))
    with build_picture_bar(console) as progress:
        task = progress.add_task(title, total=len(items))
        try:
            for each in pool.map(work, chunks) if pool else map(work, chunks):
                answers += each
                progress.advance(task, len(each))
        except BrokenProcessPool as error:
            raise DataError(f"{title}: a process died, from lack of memory or a damaged picture") from error
        finally:
            if pool:
                pool.shutdown(cancel_futures=True)
    return answers


def _of_the_runner(runner: int) -> None:
    """Leave Ctrl-C to the runner, which ends its processes; they end with it in any case."""
    lifeline.die_with_parent(runner)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
