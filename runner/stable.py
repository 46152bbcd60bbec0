"""Handle --until-stable: repeats go on until every cell's mean speed is known well enough, or a limit is reached.

A cell is one framework at one batch size. The interval is checked after every repeat, so cells that stop early are
those whose first repeats happened to agree. Their intervals are too narrow. Two rules counter this: at least FEWEST
repeats, and one more repeat after which the interval must still be narrow enough. COVERAGE_PERCENT gives the remaining
error.

The interval assumes that repeats are independent. Where they are correlated it is too narrow. So repeats are run in
rounds over all cells (`plan.plan_trials`). A cell or a run whose speeds drift in the order of their starts is not
stable. With few repeats such a test detects little; CORRELATED_PERCENT gives the remaining error.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from workloads.records.disturbance import is_withheld
from workloads.records.figures import SPEED
from workloads.records.job import ON_DEMAND
from workloads.records.result import TrialResult
from workloads.records.status import FINDINGS, Status
from workloads.statistics import mean_interval, neighbour_score, trend_score
from workloads.words import format_count

FEWEST = 5
LIMIT = 10
TOLERATED = 0.02  # half-width of the 95 % interval of the mean of images/s, as a share of the mean
# How often the interval of a stable cell contains the true mean: {spread of its repeats, %: (lowest, highest)} over
# limits of 6, 10 and 20; tests/benchmarks/simulate_verdicts.py. At 7 %, at most one cell in 80 ends as stable.
COVERAGE_PERCENT = {1: (94, 96), 3: (73, 94), 7: (38, 63)}
# The same for spreads of 1 and 3 % with correlated neighbouring repeats: {autocorrelation: (lowest, highest)}.
CORRELATED_PERCENT = {0.3: (61, 89), 0.7: (46, 58)}
# Error rate of each of the two tests for drift on independent series: similar neighbours, and a trend either way.
DRIFT_ERROR = 0.05
ALIKE, TREND = (statistics.NormalDist().inv_cdf(1 - error) for error in (DRIFT_ERROR, DRIFT_ERROR / 2))

PASSING = (Status.OK, Status.CONTENDED)  # other processes come and go, so they end no cell

STABLE_FILE, SCHEMA_VERSION = "stable.json", 1

Key = tuple[str, int]  # framework, batch size


@dataclass(frozen=True)
class CellSpeeds:
    """Speeds in images/s of the cell's repeats that ended ok, in the order of their starts."""

    key: Key
    speeds: tuple[float, ...]
    stopped: str | None  # how its latest repeat ended if that was not ok: such a cell gets no more repeats
    run_drifts: bool = False  # the speeds of all cells of the run together

    @property
    def reach(self) -> float | None:
        """Half-width of the mean's interval, as a share of the mean; None where there are too few repeats."""
        return _reach(self.speeds)

    @property
    def narrow(self) -> bool:
        """True if the interval was narrow enough before the latest repeat, and still is with it."""
        return all(reach is not None and reach <= TOLERATED for reach in (_reach(self.speeds[:-1]), self.reach))

    @property
    def drifts(self) -> bool:
        """True if its repeats are correlated in their order."""
        return has_drift([self.speeds])

    @property
    def stable(self) -> bool:
        """True if its speed is known well enough, and no drift contradicts the interval's assumptions."""
        return self.narrow and not self.drifts and not self.run_drifts

    @property
    def ended(self) -> str:
        """Reason why there are no more repeats."""
        if self.stopped is not None:
            return f"stopped: {self.stopped}"
        if self.stable:
            return "stable"
        why = ", its speed drifts" if self.drifts else ", the run drifts" if self.run_drifts else ""
        return f"limit reached{why}"

    def to_json(self) -> dict[str, Any]:
        """Return the cell for run.json; `half_width` is a share of the mean, null with too few repeats."""
        framework, batch_size = self.key
        known = {"repeats": len(self.speeds), "half_width": self.reach, "ended": self.ended, "drifts": self.drifts}
        return {"framework": framework, "batch_size": batch_size, **known}

    def line(self) -> str:
        """Return one line: how it ended, the interval's half-width in percent, and the number of repeats."""
        framework, batch_size = self.key
        width = f"±{100 * self.reach:.1f} %" if self.reach is not None else "no interval"
        count = format_count(len(self.speeds), "repeat")
        if self.stopped is not None:
            return f"{framework} batch {batch_size}: {self.ended}; {width} after {count} that ended ok"
        end = f" after {count}, {width}" if self.stable else f", {width} after {count}"
        return f"{framework} batch {batch_size}: {self.ended}{end}"


def _reach(speeds: Sequence[float]) -> float | None:
    if len(speeds) < FEWEST:
        return None
    mean, low, _ = mean_interval(speeds)
    return (mean - low) / mean


def has_drift(series: Sequence[Sequence[float]]) -> bool:
    """True if these series drift: each value is similar to the next one of its series, or all of them have a trend.

    Scores are summed over the series (Stouffer), so an effect shared by many cells is seen with few repeats of each.
    Series shorter than FEWEST are left out.
    """
    long = [values for values in series if len(values) >= FEWEST]
    if not long:
        return False
    alike, trend = (math.fsum(map(score, long)) / math.sqrt(len(long)) for score in (neighbour_score, trend_score))
    return alike > ALIKE or abs(trend) > TREND


def describe_coverage() -> str:
    """Return a sentence on how often the interval of a stable cell contains the true mean."""
    parts = [
        f"{low} to {high} % where repeats spread by {spread} %" for spread, (low, high) in COVERAGE_PERCENT.items()
    ]
    parts += [
        f"{low} to {high} % at an autocorrelation of {correlation:g}"
        for correlation, (low, high) in CORRELATED_PERCENT.items()
    ]
    return f"\N{PLUS-MINUS SIGN} of a stable cell contains the true mean, by simulation, in {', '.join(parts)}"


def collect_cells(results: list[TrialResult]) -> list[CellSpeeds]:
    """Return each cell with all its repeats, in the order of framework and batch size."""
    every = _cells(results)
    drifts = has_drift([cell.speeds for cell in every])
    return [replace(cell, run_drifts=drifts) for cell in every]


def _cells(results: list[TrialResult]) -> list[CellSpeeds]:
    repeats: dict[Key, list[TrialResult]] = defaultdict(list)
    for result in sorted(results, key=lambda r: (r.spec.cell.framework, r.spec.cell.batch_size, r.spec.draw.repeat)):
        if result.spec.cell.allocator == ON_DEMAND:
            repeats[result.spec.cell.framework, result.spec.cell.batch_size].append(result)
    return [_cell(key, trials) for key, trials in repeats.items()]


def _cell(key: Key, trials: list[TrialResult]) -> CellSpeeds:
    in_order = sorted(trials, key=lambda trial: trial.started_at)
    speeds = [t.figures[SPEED.name].value for t in in_order if t.status in PASSING and not is_withheld(t, SPEED)]
    last = trials[-1]
    stopped = None if last.status in PASSING else f"{last.status.replace('_', ' ')} in repeat {last.spec.draw.repeat}"
    return CellSpeeds(key, tuple(speed for speed in speeds if speed is not None), stopped)


def find_unstable_cells(results: list[TrialResult]) -> set[Key]:
    """Return the cells of the next repeat: all cells of each batch size that has an unstable cell.

    Running all of them lets them meet the same machine. Stopped cells are left out: out of memory happens again, and
    the next run retries what failed.
    """
    running = [cell for cell in collect_cells(results) if cell.stopped is None]
    sizes = {cell.key[1] for cell in running if not cell.stable}
    return {cell.key for cell in running if cell.key[1] in sizes}


def find_further_repeats(results: list[TrialResult], stored: list[TrialResult]) -> list[TrialResult]:
    """Return the stored results that differ from `results` only in their repeat, without those that are run again."""
    stored = [each for each in stored if each.status in FINDINGS or each.status is Status.CONTENDED]
    run = [(result.spec.setting, result.spec.draw.first_seed) for result in results]
    return [result for result in stored if (result.spec.setting, result.spec.draw.first_seed) in run]


def to_json(cells: list[CellSpeeds], limit: int) -> dict[str, Any]:
    """Return the cells as they are stored for the report."""
    settings: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "tolerated": TOLERATED, "limit": limit}
    coverage = {str(spread): list(ends) for spread, ends in COVERAGE_PERCENT.items()}
    correlated = {str(correlation): list(ends) for correlation, ends in CORRELATED_PERCENT.items()}
    settings |= {"coverage_percent": coverage, "correlated_percent": correlated}
    return settings | {"run_drifts": any(cell.run_drifts for cell in cells), "cells": [c.to_json() for c in cells]}


def follow(
    results: list[TrialResult],
    repeats: int,
    limit: int,
    run_repeats: Callable[[range, Collection[Key]], list[TrialResult]],
) -> list[TrialResult]:
    """Run repeats until every cell is stable or has stopped, or until there are `limit` repeats; return all results.

    `repeats` is the number already run. `results` includes what an earlier run stored beyond those; `run_repeats`
    returns it unchanged.
    """
    by_id = {result.spec.id: result for result in results}
    while repeats < limit and (keys := find_unstable_cells(list(by_id.values()))):
        by_id |= {result.spec.id: result for result in run_repeats(range(repeats, repeats + 1), keys)}
        repeats += 1
    return list(by_id.values())
