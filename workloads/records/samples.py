"""The sampler's files in a trial's folder: how to read them, and the window that they are cut to.

samples.csv is polled at 10 Hz; driver_samples.csv holds the driver's own samples, at its own times. All times are those
of the monotonic clock; an empty cell is a value that the machine did not give.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .columns import COLUMNS, LARGEST
from .events import Event
from .files import read_bytes

OPTIONAL = ("package_energy_uj", "throttled_s")  # columns that older samples lack
NEVER_EMPTY = ("t_ns", "epoch_us")
SHOWN = 60  # characters shown of a wrong cell

Samples = dict[str, NDArray[np.float64]]


def read_samples(path: Path, columns: tuple[str, ...] = COLUMNS) -> Samples:
    """Return columns as float arrays, NaN if a cell is empty or a column of OPTIONAL is missing.

    A last row that a kill cut short is left out. A missing file has no rows. Raises ValueError, one line, for one that
    cannot be read, for a cell that is not a number and for a missing column.
    """
    content = read_bytes(path)
    if content is None:
        return {name: np.empty(0) for name in columns}
    return parse_samples(content, columns, path.name)


def parse_samples(content: bytes, columns: tuple[str, ...] = COLUMNS, name: str = "samples.csv") -> Samples:
    """Parse a file's content like `read_samples`; no cell is quoted. Raises ValueError with `name` and the line."""
    head, *rows = [line.removesuffix(b"\r").split(b",") for line in content.split(b"\n")[:-1]] or [[]]
    if not head:
        return {column: np.empty(0) for column in columns}
    places = _places(head, columns, name)
    for number, row in enumerate(rows, start=2):
        if len(row) != len(head):
            raise ValueError(f"{name}: line {number}: {len(row)} cells, the first line has {len(head)}")
    samples = {column: np.full(len(rows), np.nan) for column in columns}
    for column, place in places.items():
        samples[column] = _numbers([row[place] for row in rows], name, column)
    return samples


def _places(head: list[bytes], columns: tuple[str, ...], name: str) -> dict[str, int]:
    """Return {column: its index}, with those of OPTIONAL that exist. Raises ValueError."""
    places = {}
    for column in columns:
        count = head.count(column.encode())
        if count > 1 or (not count and column not in OPTIONAL):
            raise ValueError(f"{name}: line 1: {count or 'no'} column{'s' * (count > 1)} {column}")
        if count:
            places[column] = head.index(column.encode())
    return places


def _numbers(cells: list[bytes], name: str, column: str) -> NDArray[np.float64]:
    """Return the values, NaN for an empty cell. Raises ValueError."""
    values = np.empty(len(cells))
    for place, cell in enumerate(cells):
        try:
            values[place] = float(cell) if cell else np.nan
        except ValueError as error:
            text = ascii(cell.decode("utf-8", "replace"))[:SHOWN]
            raise ValueError(f"{name}: line {place + 2}: {column} is not a number: {text}") from error
    wrong = np.abs(values) > LARGEST if column not in NEVER_EMPTY else ~(np.abs(values) <= LARGEST)
    if wrong.any():
        place = int(np.argmax(wrong))
        text = ascii(cells[place].decode("ascii"))[:SHOWN]
        raise ValueError(f"{name}: line {place + 2}: {column} is {text}, which is impossible")
    return values


Segment = tuple[float, float]  # its edges in ns of the monotonic clock; the device was synchronised at both


@dataclass(frozen=True)
class SteadyWindow:
    """The window; `segments` are in order, at least one; no two overlap."""

    segments: tuple[Segment, ...]

    @staticmethod
    def read(events: Mapping[str, dict[str, Any]]) -> SteadyWindow | None:
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
