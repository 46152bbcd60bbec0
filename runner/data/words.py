"""Format names and numbers of images, and advice for arrays that hold something else."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.words import counted

NAMES_SHOWN = 10


def shown(name: str) -> str:
    """Return a name as one line of text, whatever bytes it has."""
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def images_of(count: int) -> str:
    """Return a number of images as text."""
    return counted(count, "image")


def listed(names: Sequence[object]) -> str:
    """Return the first names, and how many more there are."""
    more = f", and {len(names) - NAMES_SHOWN:,} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(map(str, names[:NAMES_SHOWN])) + more


BITS = (1, 8, 10, 12, 14, 16)  # bits per value that devices write


def range_advice(key: str, low: float, high: float, is_float: bool) -> str:
    """Return advice on how values in this range become images."""
    first, last = _likely_range(low, high, is_float)
    start = key if first == 0 else f"({key} - {first:g})" if first > 0 else f"({key} + {-first:g})"
    factor = "255" if last - first == 1 else f"(255 / {last - first:g})"
    exact = f"({start} * {factor}).round().astype('uint8')"
    return f"its values go from {low:g} to {high:g}: say --pixel-range {first:g} {last:g}, or save {exact}"


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
        return f": one column a class becomes {key}.argmax(axis=1)"
    if dtype.kind == "f":
        return f": {key}.astype('int32') where all of them are whole"
    if dtype.kind in "US":
        return ": numpy.unique(y_train, return_inverse=True)[1], and numpy.searchsorted for y_test"
    return ""


def shift_advice(labels: NDArray[Any], outputs: int) -> str:
    """Return advice to subtract an offset if labels then fit the network's outputs; "" if they would not."""
    low, high = int(labels.min()), int(labels.max())
    if not low > 0 or high - low >= outputs:
        return ""
    return f"; its labels are {low} to {high}: subtract {low} so that they are 0 to {high - low}"
