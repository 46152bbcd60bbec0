"""The steady window, from a worker's events: one segment of training, or several with evaluations between."""

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
    """The window; `segments` are in order, at least one; no two overlap."""

    segments: tuple[Segment, ...]

    @staticmethod
    def of(events: Mapping[str, dict[str, Any]]) -> SteadyWindow | None:
        """Return the window in the last events of each name; None if the trial did not reach the end of its window."""
        if Event.WINDOW_ENDED not in events:
            return None
        return SteadyWindow(tuple((start, end) for start, end in events[Event.WINDOW_ENDED]["segments"]))

    @property
    def edges(self) -> Segment:
        """Start of the first and end of the last segment."""
        return self.segments[0][0], self.segments[-1][1]

    @property
    def seconds(self) -> float:
        """Seconds of all segments together."""
        return float(sum(end - start for start, end in self.segments)) / 1e9

    def holds(self, times_ns: NDArray[np.float64], period_s: float) -> NDArray[np.bool_]:
        """Select the readings that describe only a segment: one at t describes the `period_s` before t."""
        held = np.zeros(len(times_ns), bool)
        for start, end in self.segments:
            held |= (times_ns >= start + period_s * 1e9) & (times_ns <= end)
        return held
