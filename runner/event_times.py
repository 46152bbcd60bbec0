"""Compare the times that a worker gives its events with the times when the runner saw them in the file."""

from __future__ import annotations

import json
import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

EARLY_S = 0.3  # a time this much before the look that saw nothing yet is compared with the worker's processor time


@dataclass(frozen=True)
class Growth:
    """A look at which the file was larger than at the previous one; ns of the monotonic clock."""

    size_bytes: int
    after_ns: int  # just before the look that saw nothing of it
    by_ns: int


@dataclass(frozen=True)
class EventLooks:
    """The time that an event claims, and the two looks between which it was written; ns of the monotonic clock."""

    t_ns: int
    after_ns: int
    by_ns: int

    @property
    def apart_s(self) -> float:
        """Seconds by which the time lies outside of the looks: negative before them, 0.0 between them."""
        return (min(0, self.t_ns - self.after_ns) + max(0, self.t_ns - self.by_ns)) / 1e9


class EventTimes:
    """Looks at the size of an events file now and then: each event was written between two looks.

    A worker's clock is the kernel's, so an event with another time was given a false one.
    """

    def __init__(self, path: Path) -> None:
        """Start to watch; existing content belongs to another worker."""
        self.path, self.growths = path, list[Growth]()
        self.seen_ns = time.monotonic_ns()
        self.size_bytes = self.before_bytes = self._size()

    def _size(self) -> int:
        with suppress(OSError):
            return self.path.stat().st_size
        return 0

    def look(self) -> None:
        """Look at the file; call it at any time, as often as you like."""
        began_ns = time.monotonic_ns()
        size_bytes = self._size()
        if size_bytes != self.size_bytes:
            self.growths.append(Growth(size_bytes, self.seen_ns, time.monotonic_ns()))
            self.size_bytes = size_bytes
        self.seen_ns = began_ns

    def apart_s(self) -> float | None:
        """Return the largest deviation, in s, of an event's time from the looks around it. It is negative before
        them, 0.0 if no event deviates, None without an event.
        """
        return max((looks.apart_s for looks in self._looks()), key=abs, default=None)

    def doubtful(self) -> tuple[EventLooks, ...]:
        """Return the events with times later than the runner saw them, or earlier by more than EARLY_S."""
        return tuple(looks for looks in self._looks() if looks.apart_s > 0 or looks.apart_s < -EARLY_S)

    def _looks(self) -> Iterator[EventLooks]:
        sizes, end_bytes, before_ns = [growth.size_bytes for growth in self.growths], 0, 0
        for line in self._content().split(b"\n")[:-1]:  # text after the last line end was cut short
            end_bytes += len(line) + 1
            index, t_ns = bisect_left(sizes, end_bytes), time_of(line, before_ns)
            if end_bytes > self.before_bytes and index < len(sizes) and t_ns is not None:
                growth = self.growths[index]
                yield EventLooks(t_ns, growth.after_ns, growth.by_ns)
            before_ns = t_ns or before_ns

    def _content(self) -> bytes:
        with suppress(OSError):
            return self.path.read_bytes()
        return b""


def time_of(line: bytes, before_ns: int = 0) -> int | None:
    """Return the time that an event's line claims; None without one, which the reader of the file reports.

    The end of a window's last segment counts, if that began after the event before, at `before_ns`: the line is written
    at once after it.
    """
    with suppress(ValueError, RecursionError):
        event = json.loads(line)
        if isinstance(event, dict) and type(event.get("t_ns")) is int:
            return min([int(event["t_ns"]), *_segment_ends(event.get("segments"), before_ns)])
    return None


def _segment_ends(segments: object, before_ns: int) -> list[int]:
    match segments:
        case [*_, [int(start_ns), int(end_ns)]] if start_ns >= before_ns:
            return [end_ns]
    return []
