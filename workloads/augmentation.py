"""Flips and crops of the training images, drawn once for every image and epoch, the same for every framework.

"flip-crop" pads the image with zeros, an eighth of each side wide. It cuts out a piece as large as the image, whose
corner is (down, right), and mirrors it left to right if `flip` is 1. Each is drawn evenly, from the trial's seed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .datasets import Images
from .layers import Shape

Draws = NDArray[Any]  # (epochs + 1, n, 3): flip, down, right; unsigned
CHUNK = 1024  # images that are augmented at once, at most: their margins take memory
STREAM = 14  # part of the seed: the order's draws use another


def margins(shape: Shape) -> tuple[int, int]:
    """Return (rows, columns) of zeros on each side of an image (h, w, c)."""
    return shape[0] // 8, shape[1] // 8


def draw(epochs: int, count: int, shape: Shape, seed: int) -> Draws:
    """Draw (epochs, count, 3) for images of (h, w, c)."""
    generator = np.random.Generator(np.random.PCG64([seed, STREAM]))
    rows, columns = margins(shape)
    drawn = [generator.integers(0, most + 1, (epochs, count)) for most in (1, 2 * rows, 2 * columns)]
    return np.stack(drawn, axis=-1).astype(np.min_scalar_type(max(1, 2 * rows, 2 * columns)))


def augmented(images: Images, draws: Draws) -> Images:
    """Return (n, h, w, c) augmented by `draws` (n, 3); a copy."""
    count, height, width, channels = images.shape
    rows, columns = margins(images.shape[1:])
    padded = np.zeros((count, height + 2 * rows, width + 2 * columns, channels), images.dtype)
    padded[:, rows : rows + height, columns : columns + width] = images
    by_image, by_row, by_column, by_channel = padded.strides
    pieces = np.lib.stride_tricks.as_strided(
        padded,
        (count, 2 * rows + 1, 2 * columns + 1, height, width, channels),
        (by_image, by_row, by_column, by_row, by_column, by_channel),
    )
    flip, down, right = draws.T.astype(np.intp)
    cropped: Images = pieces[np.arange(count), down, right]
    turned = np.flatnonzero(flip)
    cropped[turned] = cropped[turned, :, ::-1]
    return cropped


@dataclass
class Cost:
    """Seconds that augmenting took since the last call of `taken`."""

    seconds: float = 0.0

    def taken(self) -> float:
        """Return the seconds and start counting again from 0."""
        seconds, self.seconds = self.seconds, 0.0
        return seconds


class Augmented:
    """The training images as one epoch sees them: images are augmented when they are read.

    For adapters it replaces an array of (n, h, w, c): `images[batch]`, with an index of any shape, or all of them at
    once as `np.asarray(images)`.
    The images may be larger than the memory.
    """

    def __init__(self, images: Images, draws: Draws, cost: Cost) -> None:
        self.images, self.draws, self.cost = images, draws, cost
        self.shape, self.dtype, self.ndim = images.shape, images.dtype, images.ndim
        self.size, self.nbytes = images.size, images.nbytes

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, chosen: Any) -> Images:
        images, draws = np.asarray(self.images[chosen]), self.draws[chosen]
        began_s = time.perf_counter()
        answer = augmented(images.reshape(-1, *self.shape[1:]), draws.reshape(-1, draws.shape[-1]))
        self.cost.seconds += time.perf_counter() - began_s
        return answer.reshape(images.shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("augmented images are always a copy")
        whole = np.empty(self.shape, self.dtype)
        for first in range(0, len(self), CHUNK):
            whole[first : first + CHUNK] = self[first : first + CHUNK]
        return whole if dtype is None else whole.astype(dtype)
