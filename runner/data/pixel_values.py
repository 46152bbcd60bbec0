"""Values of pixels: brought to 8 bits, and how much contrast they keep on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.datasets import Images
from workloads.records.job import PixelRange

TAIL_PERCENT = 1  # of the pixels at either end of an extent: a few hot or dead ones are no contrast
LEAST_PART = 8  # contrast is lost where less than this part of it is left
LEVELS = 255  # more contrast than this no image of 8 bits can keep


@dataclass(frozen=True)
class Extent:
    """From which value to which a channel's pixels go, without the tails; `levels` is how far apart they are."""

    low: float
    high: float
    levels: float

    def lost_in(self, stored: Extent) -> str:
        """Say what became of the values; "" where enough of their contrast is left."""
        if LEAST_PART * stored.levels >= min(self.levels, LEVELS):
            return ""
        return f"values from {self.low:g} to {self.high:g} became {stored.low:g} to {stored.high:g}"


def in_bytes(values: NDArray[Any], pixel_range: PixelRange) -> Images:
    """Map the range's ends to 0 and 255, and all between them linearly; what lies outside becomes the nearer end."""
    low, high = pixel_range
    parts = (values.astype(np.float64) - low) / (high - low)
    return np.rint(np.clip(parts, 0, 1) * LEVELS).astype(np.uint8)


def extent_of(values: NDArray[Any]) -> Extent:
    """Extent of the channel, the last axis, with the most contrast."""
    channels = values.reshape(-1, values.shape[-1]).T
    if values.dtype.kind in "fi":  # of no known number of levels: as many as there are
        distinct = [np.unique(channel, return_counts=True) for channel in channels]
    else:
        distinct = [_counted(channel) for channel in channels]
    return widest(distinct, counts_levels=values.dtype.kind == "f")


def extent_of_histogram(counts: list[int]) -> Extent:
    """Extent of the channel with the most contrast; 256 counts a channel, as Pillow gives them."""
    return widest([(np.arange(256), np.asarray(each)) for each in np.reshape(counts, (-1, 256))])


def widest(channels: list[tuple[NDArray[Any], NDArray[Any]]], counts_levels: bool = False) -> Extent:
    """The channel with the most contrast, of (values in their order, how often each is there)."""
    extents = []
    for values, counts in channels:
        below = np.cumsum(counts)
        first, last = np.searchsorted(below, below[-1] * np.array([TAIL_PERCENT, 100 - TAIL_PERCENT]) / 100)
        low, high = float(values[first]), float(values[last])
        extents.append(Extent(low, high, float(last - first) if counts_levels else high - low))
    return max(extents, key=lambda extent: extent.levels)


def _counted(channel: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Count whole numbers from 0; of more than 16 bits by sorting."""
    if channel.dtype.itemsize > 2:
        return np.unique(channel, return_counts=True)
    counts = np.bincount(channel)
    return np.arange(len(counts)), counts
