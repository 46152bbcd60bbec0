"""Times at which the sampler takes its rows: ten per second, each at a random moment of its tenth.

A power may swing with the worker's steps, at about the sampler's rate. Regular readings would then all fall at nearly
the same point of a step, and their mean would be that point's.
"""

from __future__ import annotations

import random
import zlib

from workloads.records.samples import PERIOD_S


def seed_of(name: str) -> int:
    """Return the seed for the trial of this name: repeats differ, and the same trial is sampled at the same moments."""
    return zlib.crc32(name.encode())


class Schedule:
    """Moments in seconds of the monotonic clock, one in each period since the start."""

    def __init__(self, seed: int, started_s: float) -> None:
        """The first moment lies in the period that begins now."""
        self.started_s = started_s
        self._random = random.Random(seed)
        self._number = -1

    def next_s(self, now_s: float) -> float:
        """Return the moment of the next row, `now_s` if it has passed; fully missed periods are left out."""
        self._number = max(self._number + 1, int((now_s - self.started_s) // PERIOD_S))
        return max(now_s, self.started_s + (self._number + self._random.random()) * PERIOD_S)
