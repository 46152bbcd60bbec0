"""The steady window, as a worker's events tell it: one segment of training, or several with evaluations between."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .events import Event

Segment = tuple[float, float]  # its edges in ns of the monotonic clock; the device was synchronised at both


@dataclass(frozen=True)
class SteadyWindow:
    """`segments` in their order, one at least; no two overlap."""

    segments: tuple[Segment, ...]

    @staticmethod
    def of(events: Mapping[str, dict[str, Any]]) -> SteadyWindow | None:
        """Window by the last events of each name; None where the trial did not get to the end of its window."""
        if Event.WINDOW_ENDED not in events:
            return None
        return SteadyWindow(tuple((start, end) for start, end in events[Event.WINDOW_ENDED]["segments"]))

    @property
    def edges(self) -> Segment:
        """Edges of the first and of the last segment."""
        return self.segments[0][0], self.segments[-1][1]

    @property
    def seconds(self) -> float:
        """Seconds of all segments together."""
        return float(sum(end - start for start, end in self.segments)) / 1e9

    def holds(self, times_ns: NDArray[np.float64], period_s: float) -> NDArray[np.bool_]:
        """Which readings describe a segment alone: one at t describes the `period_s` before t."""
        held = np.zeros(len(times_ns), bool)
        for start, end in self.segments:
            held |= (times_ns >= start + period_s * 1e9) & (times_ns <= end)
        return held
