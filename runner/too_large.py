"""Batch sizes that need not be tried, because a smaller one of the same framework ran out of memory."""

from __future__ import annotations

from collections.abc import Iterable

from workloads.records.job import TrialSpec
from workloads.records.result import TrialResult
from workloads.records.status import Status

FITS = (Status.OK, Status.DIVERGED, Status.CONTENDED, Status.UNVERIFIED)  # it came to its end
Way = tuple[str, str]  # everything that decides which sizes fit: TrialSpec.memory_id, the allocator's policy


class TooLarge:
    """Batch sizes that fit or do not, learned from trials of one task, placement, memory limit and installation."""

    def __init__(self, results: Iterable[TrialResult]) -> None:
        self.ran_out: dict[Way, TrialResult] = {}  # of each the smallest
        self.fits: dict[Way, int] = {}  # the largest batch size
        for result in results:
            self.learn(result)

    def learn(self, result: TrialResult) -> None:
        """Learn from this trial which sizes fit."""
        way, size = _way(result.spec), result.spec.cell.batch_size
        if result.status is Status.OUT_OF_MEMORY:
            smallest = self.ran_out.setdefault(way, result)
            if size < smallest.spec.cell.batch_size:
                self.ran_out[way] = result
        elif result.status in FITS:
            self.fits[way] = max(size, self.fits.get(way, 0))

    def reason(self, spec: TrialSpec) -> str | None:
        """Return why this trial need not be run; None if nothing smaller ran out, or something as large fits."""
        way, size = _way(spec), spec.cell.batch_size
        smaller = self.ran_out.get(way)
        if smaller is None or not smaller.spec.cell.batch_size < size or self.fits.get(way, 0) >= size:
            return None
        return (
            f"batch size {smaller.spec.cell.batch_size} ran out of memory ({smaller.reason}); --try-all runs this one"
        )


def _way(spec: TrialSpec) -> Way:
    return spec.memory_id, spec.cell.allocator
