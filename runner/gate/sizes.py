"""How far apart two fingerprints or losses are, and the middle of several such figures."""

from __future__ import annotations

import math
from collections.abc import Sequence

from workloads.records.evidence import Fingerprint


def middle(values: Sequence[float]) -> float:
    """The median; of an even number of values the upper of two."""
    return sorted(values)[len(values) // 2]


def lower_middle(values: Sequence[float]) -> float:
    """The median; of an even number of values the lower of two: of two frameworks one cannot widen its own bound. 0 of
    none.
    """
    return sorted(values)[(len(values) - 1) // 2] if values else 0.0


def diverged(losses: Sequence[float | None]) -> bool:
    """Whether one is no number, or above twice the first."""
    return any(loss is None or losses[0] is None or loss > 2 * losses[0] for loss in losses)


def relative(loss: float | None, expected: float | None) -> float:
    """0 where neither is a number: None stands for what JSON cannot write."""
    if loss is None or expected is None:
        return 0.0 if loss is expected else math.inf
    return abs(loss - expected) / max(abs(expected), 1e-3)


def apart(fingerprint: Fingerprint, expected: Fingerprint, floor: float) -> float:
    """The size of a difference, relative to the expected norm: the larger of what the norms and what the projections
    (in the mean square) say of it.
    """
    if None in (*fingerprint, *expected):
        return 0.0 if list(fingerprint) == list(expected) else math.inf
    moved = [number - other for number, other in zip(fingerprint, expected, strict=False)]
    projected = math.sqrt(sum(move * move for move in moved[1:]) / len(moved[1:]))
    return max(abs(moved[0]), projected) / max(expected[0], floor)
