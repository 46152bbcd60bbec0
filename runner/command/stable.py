"""--until-stable: repeats go on until every cell's mean speed is known well enough, or a limit is reached.

A cell is one framework at one batch size. Because the interval is looked at after every repeat, the cells that stop
early are those whose first repeats happened to agree, and their intervals are too narrow. Against it: FEWEST repeats at
least, and one more once the interval is narrow enough, with which it must still be. What is left is COVERAGE_PERCENT.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from workloads.records.disturbance import withheld
from workloads.records.figures import SPEED
from workloads.records.intervals import mean_interval
from workloads.records.job import ON_DEMAND
from workloads.records.result import TrialResult
from workloads.records.status import Status

FEWEST = 5
LIMIT = 10
TOLERATED = 0.02  # half-width of the 95 % interval of the mean of images/s, as a share of the mean
# How often that interval of a cell that ended as stable holds the true mean: {spread of its repeats, %: (lowest,
# highest)} over limits of 6, 10 and 20; tests/reports/simulate_verdicts.py. At 7 % one cell in 80 or fewer ends so.
COVERAGE_PERCENT = {1: (94, 96), 3: (73, 94), 7: (38, 63)}

PASSING = (Status.OK, Status.CONTENDED)  # other processes come and go: they end no cell

STABLE_FILE, SCHEMA_VERSION = "stable.json", 1

Key = tuple[str, int]  # framework, batch size


@dataclass(frozen=True)
class Cell:
    """Speeds in images/s, of its repeats that ended ok."""

    key: Key
    speeds: tuple[float, ...]
    stopped: str | None  # how its latest repeat ended where that was not ok: such a cell asks for no more

    @property
    def reach(self) -> float | None:
        """Half-width of the mean's interval, as a share of the mean; None where there are too few repeats."""
        return _reach(self.speeds)

    @property
    def stable(self) -> bool:
        """Whether the interval was narrow enough before the latest repeat, and is so with it."""
        return all(reach is not None and reach <= TOLERATED for reach in (_reach(self.speeds[:-1]), self.reach))

    @property
    def ended(self) -> str:
        """Why there are no more repeats."""
        if self.stopped is not None:
            return f"stopped: {self.stopped}"
        return "stable" if self.stable else "limit reached"

    def to_json(self) -> dict[str, Any]:
        """For run.json; `half_width` is a share of the mean, null with too few repeats."""
        framework, batch_size = self.key
        known = {"repeats": len(self.speeds), "half_width": self.reach, "ended": self.ended}
        return {"framework": framework, "batch_size": batch_size, **known}

    def line(self) -> str:
        """How it ended, the interval's half-width in percent, and after how many repeats."""
        framework, batch_size = self.key
        width = f"±{100 * self.reach:.1f} %" if self.reach is not None else "no interval"
        count = f"{len(self.speeds)} repeat{'' if len(self.speeds) == 1 else 's'}"
        if self.stopped is not None:
            return f"{framework} batch {batch_size}: {self.ended}; {width} after {count} that ended ok"
        end = f" after {count}, {width}" if self.stable else f", {width} after {count}"
        return f"{framework} batch {batch_size}: {self.ended}{end}"


def _reach(speeds: Sequence[float]) -> float | None:
    if len(speeds) < FEWEST:
        return None
    mean, low, _ = mean_interval(speeds)
    return (mean - low) / mean


def worth() -> str:
    """What a narrow interval that was waited for is worth."""
    parts = [
        f"{low} to {high} % where repeats spread by {spread} %" for spread, (low, high) in COVERAGE_PERCENT.items()
    ]
    return f"\N{PLUS-MINUS SIGN} of a stable cell holds the true mean, by simulation, in {', '.join(parts)}"


def cells(results: list[TrialResult]) -> list[Cell]:
    """Of all repeats of each, in the order of framework and batch size."""
    repeats: dict[Key, list[TrialResult]] = defaultdict(list)
    for result in sorted(results, key=lambda r: (r.spec.cell.framework, r.spec.cell.batch_size, r.spec.draw.repeat)):
        if result.spec.cell.allocator == ON_DEMAND:
            repeats[result.spec.cell.framework, result.spec.cell.batch_size].append(result)
    return [_cell(key, trials) for key, trials in repeats.items()]


def _cell(key: Key, trials: list[TrialResult]) -> Cell:
    speeds = [t.figures[SPEED.name].value for t in trials if t.status in PASSING and not withheld(t, SPEED)]
    last = trials[-1]
    stopped = None if last.status in PASSING else f"{last.status.replace('_', ' ')} in repeat {last.spec.draw.repeat}"
    return Cell(key, tuple(speed for speed in speeds if speed is not None), stopped)


def wanted(results: list[TrialResult]) -> set[Key]:
    """Cells of the next repeat: at each batch size at which one wants it, all, so that they meet the same machine.

    Those that stopped are left out: out of memory comes again, and what failed is tried again by the next run.
    """
    running = [cell for cell in cells(results) if cell.stopped is None]
    sizes = {cell.key[1] for cell in running if not cell.stable}
    return {cell.key for cell in running if cell.key[1] in sizes}


def further(results: list[TrialResult], stored: list[TrialResult]) -> list[TrialResult]:
    """Of the stored, those that differ from `results` in their repeat alone."""
    run = [(result.spec.setting, result.spec.draw.first_seed) for result in results]
    return [result for result in stored if (result.spec.setting, result.spec.draw.first_seed) in run]


def to_json(cells: list[Cell], limit: int) -> dict[str, Any]:
    """As it is stored for the report."""
    settings = {"schema_version": SCHEMA_VERSION, "tolerated": TOLERATED, "limit": limit}
    coverage = {str(spread): list(ends) for spread, ends in COVERAGE_PERCENT.items()}
    return settings | {"coverage_percent": coverage, "cells": [cell.to_json() for cell in cells]}


def follow(
    results: list[TrialResult],
    repeats: int,
    limit: int,
    run_repeats: Callable[[range, Collection[Key]], list[TrialResult]],
) -> list[TrialResult]:
    """All results, once every cell is stable or has stopped, or `limit` repeats are there; `repeats` have been run.

    `results` has what an earlier run stored beyond those, too; it comes back from `run_repeats` as it is.
    """
    by_id = {result.spec.id: result for result in results}
    while repeats < limit and (keys := wanted(list(by_id.values()))):
        by_id |= {result.spec.id: result for result in run_repeats(range(repeats, repeats + 1), keys)}
        repeats += 1
    return list(by_id.values())
