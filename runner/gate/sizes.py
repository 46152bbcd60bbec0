"""Distances of fingerprints, losses or lists of names, and the middle of several such figures."""

from __future__ import annotations

import math
from collections.abc import Sequence

from workloads.records.evidence import Fingerprint


def find_median(values: Sequence[float]) -> float:
    """Return the median; the upper of two for an even number of values."""
    return sorted(values)[len(values) // 2]


def find_lower_median(values: Sequence[float]) -> float:
    """Return the median; the lower of two for an even number, so none of two widens its bound; 0 for no values."""
    return sorted(values)[(len(values) - 1) // 2] if values else 0.0


def has_diverged(losses: Sequence[float | None]) -> bool:
    """True if one is not a number, or above twice the first."""
    return any(loss is None or losses[0] is None or loss > 2 * losses[0] for loss in losses)


def compare(loss: float | None, expected: float | None) -> float:
    """Return the relative difference; 0 if neither is a number: None stands for what JSON cannot write."""
    if loss is None or expected is None:
        return 0.0 if loss is expected else math.inf
    return abs(loss - expected) / max(abs(expected), 1e-3)


def measure_gap(fingerprint: Fingerprint, expected: Fingerprint, floor: float) -> float:
    """Return the size of a difference, relative to the expected norm: the larger of the norms' difference and of the
    projections' (in the mean square).
    """
    if None in (*fingerprint, *expected):
        return 0.0 if list(fingerprint) == list(expected) else math.inf
    moved = [number - other for number, other in zip(fingerprint, expected, strict=False)]
    projected = math.sqrt(sum(move * move for move in moved[1:]) / len(moved[1:]))
    return max(abs(moved[0]), projected) / max(expected[0], floor)


def compare_names(names: Sequence[str], expected: Sequence[str]) -> str:
    """Return how the names, or else their order, differ from those expected; empty if they do not."""
    if missing := [name for name in expected if name not in names]:
        return f"named differently: {missing[0]} is missing ({len(missing)} of {len(expected)})"
    if unknown := [name for name in names if name not in expected]:
        return f"named differently: the network has no {unknown[0]} ({len(unknown)} of {len(names)})"
    first = next((pair for pair in zip(names, expected, strict=True) if pair[0] != pair[1]), None)
    return f"in a different order: {first[0]} is where {first[1]} belongs" if first else ""
