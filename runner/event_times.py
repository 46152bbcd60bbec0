"""The times that a worker gives its events, compared with when the runner saw them in the file."""

from __future__ import annotations

import json
import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Growth:
    """A look at which the file was larger than at the one before; ns of the monotonic clock."""

    size_bytes: int
    after_ns: int  # just before the look that saw nothing of it
    by_ns: int


class EventTimes:
    """Looks at the size of an events file now and then: each event was written between two looks.

    A worker's clock is the kernel's own, so an event that says another time was given a false one.
    """

    def __init__(self, path: Path) -> None:
        """What is there already is another worker's."""
        self.path, self.growths = path, list[Growth]()
        self.seen_ns = time.monotonic_ns()
        self.size_bytes = self.before_bytes = self._size()

    def _size(self) -> int:
        with suppress(OSError):
            return self.path.stat().st_size
        return 0

    def look(self) -> None:
        """At any time, as often as you like."""
        began_ns = time.monotonic_ns()
        size_bytes = self._size()
        if size_bytes != self.size_bytes:
            self.growths.append(Growth(size_bytes, self.seen_ns, time.monotonic_ns()))
            self.size_bytes = size_bytes
        self.seen_ns = began_ns

    def apart_s(self) -> float | None:
        """Seconds by which the time of one event lies outside of the looks around it, of the one that is off most:
        negative before them, 0.0 where none is off. None without an event.
        """
        return max(self._each_apart_s(), key=abs, default=None)

    def _each_apart_s(self) -> Iterator[float]:
        sizes, end_bytes = [growth.size_bytes for growth in self.growths], 0
        for line in self._content().split(b"\n")[:-1]:  # what is behind the last end of a line was cut short
            end_bytes += len(line) + 1
            index, t_ns = bisect_left(sizes, end_bytes), time_of(line)
            if end_bytes > self.before_bytes and index < len(sizes) and t_ns is not None:
                growth = self.growths[index]
                yield (min(0, t_ns - growth.after_ns) + max(0, t_ns - growth.by_ns)) / 1e9

    def _content(self) -> bytes:
        with suppress(OSError):
            return self.path.read_bytes()
        return b""


def time_of(line: bytes) -> int | None:
    """The `t_ns` of an event's line; None of one that has none, which whoever reads the file says."""
    with suppress(ValueError, RecursionError):
        event = json.loads(line)
        if isinstance(event, dict) and type(event.get("t_ns")) is int:
            return int(event["t_ns"])
    return None
