"""What the measurement of our own weight is made of: stretches of the same work, with the instruments and without."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

SEGMENTS_FILE = "segments.json"


@dataclass(frozen=True)
class Segment:
    """One stretch, synchronised at both edges. Times in seconds, `sampler_cpu_s` is the sampler's processor time."""

    instruments: bool  # whether the sampler ran and events were written
    images: int
    wall_s: float
    sampler_cpu_s: float
    foreign_cpu_percent: float  # what others than worker and sampler took of the worker's cores; to 10 ms and core


DISTURBED_PERCENT = 10.0  # a segment of 0.2 s is known to 5 % or so

Pair = tuple[Segment, Segment]


def disturbance(pair: Pair) -> float:
    """Foreign CPU %, the larger of the two: others disturb both kinds alike, so the choice favours neither."""
    return max(segment.foreign_cpu_percent for segment in pair)


def in_pairs(segments: list[Segment]) -> list[Pair]:
    """Neighbours: one with the instruments, one without, whichever came first. Raises ValueError for anything else."""
    pairs = list(zip(segments[::2], segments[1::2], strict=True))
    if any(one.instruments == other.instruments for one, other in pairs):
        raise ValueError("a pair of segments is one with the instruments and one without")
    return pairs


def read_segments(path: Path) -> list[Segment]:
    """In the order in which they were measured. Raises ValueError, one line, for what is none of a worker's."""
    try:
        segments = [Segment(**segment) for segment in json.loads(path.read_text(encoding="utf-8"))["segments"]]
        if not all(map(_possible, segments)):
            raise ValueError("a segment that nobody can have measured")
    except OSError as error:
        raise ValueError(f"{path.name}: cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{path.name}: {type(error).__name__}: {error}"[:300]) from error
    return segments


def _possible(segment: Segment) -> bool:
    """Raises TypeError for what is no number."""
    counted = type(segment.instruments) is bool and type(segment.images) is int and 0 < segment.images < 2**53
    return (
        counted
        and 0 < segment.wall_s < 1e9
        and 0 <= segment.sampler_cpu_s < 1e9
        and -1e9 < segment.foreign_cpu_percent < 1e9  # busy time comes in ticks: a little below 0 is nobody
    )
