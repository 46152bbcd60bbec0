"""Bring pixel values to 8 bits, and measure how much contrast they keep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.datasets import Images
from workloads.records.job import PixelRange

TAIL_PERCENT = 1  # of the pixels at either end of an extent: a few hot or dead ones are not contrast
LEAST_PART = 8  # contrast is lost if less than 1 / LEAST_PART of it is left
LEVELS = 255  # most contrast that an image of 8 bits can keep


@dataclass(frozen=True)
class Extent:
    """Range of a channel's pixel values, without the tails; `levels` is the distance of its ends."""

    low: float
    high: float
    levels: float

    def lost_in(self, stored: Extent) -> str:
        """Describe what happened to the values; "" if enough of their contrast is left."""
        if LEAST_PART * stored.levels >= min(self.levels, LEVELS):
            return ""
        return f"values from {self.low:g} to {self.high:g} became {stored.low:g} to {stored.high:g}"


def convert_to_bytes(values: NDArray[Any], pixel_range: PixelRange) -> Images:
    """Map the range's ends to 0 and 255, and values between them linearly; values outside are clipped."""
    low, high = pixel_range
    parts = (values.astype(np.float64) - low) / (high - low)
    return np.rint(np.clip(parts, 0, 1) * LEVELS).astype(np.uint8)


def compute_extent(values: NDArray[Any]) -> Extent:
    """Return the extent of the channel (last axis) with the most contrast."""
    channels = values.reshape(-1, values.shape[-1]).T
    if values.dtype.kind in "fi":  # the number of levels is unknown, so existing values are counted
        distinct = [np.unique(channel, return_counts=True) for channel in channels]
    else:
        distinct = [_counted(channel) for channel in channels]
    return find_widest(distinct, counts_levels=values.dtype.kind == "f")


def compute_histogram_extent(counts: list[int]) -> Extent:
    """Return the extent of the channel with the most contrast, from 256 counts per channel, as Pillow gives them."""
    return find_widest([(np.arange(256), np.asarray(each)) for each in np.reshape(counts, (-1, 256))])


def find_widest(channels: list[tuple[NDArray[Any], NDArray[Any]]], counts_levels: bool = False) -> Extent:
    """Return the extent of the channel with the most contrast; channels are (sorted values, count of each)."""
    extents = []
    for values, counts in channels:
        below = np.cumsum(counts)
        first, last = np.searchsorted(below, below[-1] * np.array([TAIL_PERCENT, 100 - TAIL_PERCENT]) / 100)
        low, high = float(values[first]), float(values[last])
        extents.append(Extent(low, high, float(last - first) if counts_levels else high - low))
    return max(extents, key=lambda extent: extent.levels)


def _counted(channel: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Count whole numbers from 0; those of more than 16 bits by sorting."""
    if channel.dtype.itemsize > 2:
        return np.unique(channel, return_counts=True)
    counts = np.bincount(channel)
    return np.arange(len(counts)), counts
