"""Estimate the shift from A to B of one quantity: for a cell from its repeats, for a framework over its cells.

Values are compared on a scale on which noise is additive: ratios by logarithms, accuracies in percentage points. A
cell's spread is pooled over all batch sizes of its framework and side, or its own if that is larger. Batch sizes may
differ in noise, and noise must not look like a change. A framework's mean over its batch sizes needs no such
assumption: its variance is the sum of the cells' variances (Welch's t, degrees of freedom after Satterthwaite).

If each side holds several runs, a value is the mean of one run. All cells of a run may be fast or slow together, so a
framework's mean is then taken within each run, and runs are compared.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from workloads.statistics import LEAST_SPREAD, Estimate, estimate_mean, pool

ONE_REPEAT = "cannot be tested: one repeat on a side"
ONE_RUN = "cannot be tested: one run on a side"
NO_RATIO = "unknown: a value is not above 0, so there is no ratio"


@dataclass(frozen=True)
class Shift:
    """Shift of one cell, B minus A: logarithm of the ratio, or percentage points.

    `sides`: estimates of the means of A and B, or of the "paired" differences. If empty, `untested` says why. `runs`:
    for each side the mean of each run, by its number, if runs are compared.
    """

    value: float
    sides: Mapping[str, Estimate] = field(default_factory=dict)
    untested: str = ""
    runs: Mapping[str, Mapping[int, float]] = field(default_factory=dict)


def shift_ratio(a: Sequence[float], b: Sequence[float], paired: bool = False) -> Shift:
    """Return the shift of the geometric means, b over a; `paired`: a[i] and b[i] are of the same repeat."""
    if min(*a, *b) <= 0:
        return Shift(math.nan, untested=NO_RATIO)
    return shift_points([math.log(x) for x in a], [math.log(x) for x in b], paired, LEAST_SPREAD)


def shift_runs(a: Mapping[int, Sequence[float]], b: Mapping[int, Sequence[float]]) -> Shift:
    """Return the shift of the geometric means, b over a. Runs are compared, not their repeats."""
    if min(value for side in (a, b) for values in side.values() for value in values) <= 0:
        return Shift(math.nan, untested=NO_RATIO)
    runs = {
        name: {run: statistics.fmean(map(math.log, values)) for run, values in side.items()}
        for name, side in (("A", a), ("B", b))
    }
    shift = shift_points([*runs["A"].values()], [*runs["B"].values()], False, LEAST_SPREAD)
    return replace(shift, runs=runs) if shift.sides else replace(shift, untested=ONE_RUN)


def shift_points(a: Sequence[float], b: Sequence[float], paired: bool, least_spread: float) -> Shift:
    """Return the shift of the means, b minus a; `paired`: a[i] and b[i] had the same inputs."""
    if paired:
        return shift_values([y - x for x, y in zip(a, b, strict=True)], least_spread)
    return _shift(statistics.fmean(b) - statistics.fmean(a), {"A": a, "B": b}, least_spread)


def shift_values(values: Sequence[float], least_spread: float) -> Shift:
    """Return the mean of the values, each of them the difference of a pair."""
    return _shift(statistics.fmean(values), {"paired": values}, least_spread)


def _shift(value: float, sides: Mapping[str, Sequence[float]], least_spread: float) -> Shift:
    if min(map(len, sides.values())) < 2:
        return Shift(value, untested=ONE_REPEAT)
    return Shift(value, {side: estimate_mean(values, least_spread) for side, values in sides.items()})


def estimate_cells(shifts: Sequence[Shift]) -> list[Estimate]:
    """Estimate the cells of one framework with their shared spread, or a cell's own if that is larger.

    Three repeats say little about a spread, so it is pooled over the batch sizes. Cells of a run may be fast or slow
    together: if runs are compared, the shared spread keeps the degrees of freedom of the runs.
    """
    pooled: dict[str, tuple[float, float]] = {}  # {side: (variance of one repeat, its degrees of freedom)}
    for side in {side for shift in shifts for side in shift.sides}:
        alike = [shift.sides[side] for shift in shifts if side in shift.sides]
        variance, freedom = pool(alike)
        pooled[side] = variance, max(each.freedom for each in alike) if any(s.runs for s in shifts) else freedom
    return [_estimate_cell(shift, pooled) for shift in shifts]


def _estimate_cell(shift: Shift, pooled: Mapping[str, tuple[float, float]]) -> Estimate:
    shared = [(pooled[side][0] / each.n, pooled[side][1]) for side, each in shift.sides.items()]
    variance = max(sum(part for part, _ in shared), sum(each.error**2 for each in shift.sides.values()))
    return Estimate(shift.value, math.sqrt(variance), _satterthwaite(shared))


def estimate_together(shifts: Sequence[Shift]) -> Estimate:
    """Estimate the mean over the cells of one framework, from the cells' own spreads; runs are compared as wholes."""
    if not all(shift.runs for shift in shifts):
        return _estimate_separate(shifts)
    means: dict[str, list[float]] = {}
    for side in shifts[0].runs:  # a run's value is its mean over the cells; it must have all of them
        common = set.intersection(*(set(shift.runs[side]) for shift in shifts))
        means[side] = [statistics.fmean(shift.runs[side][run] for shift in shifts) for run in sorted(common)]
    if min(map(len, means.values())) >= 2:
        return _estimate_separate([shift_points(means["A"], means["B"], False, LEAST_SPREAD)])
    alone = [_estimate_separate([shift]) for shift in shifts]
    return Estimate(  # for any correlation the error is no larger
        statistics.fmean(one.value for one in alone),
        statistics.fmean(one.error for one in alone),
        min(one.freedom for one in alone),
    )


def _estimate_separate(shifts: Sequence[Shift]) -> Estimate:
    parts = [(each.error**2, each.freedom) for shift in shifts for each in shift.sides.values()]
    error = math.sqrt(sum(variance for variance, _ in parts)) / len(shifts)
    return Estimate(statistics.fmean(shift.value for shift in shifts), error, _satterthwaite(parts))


def _satterthwaite(parts: Sequence[tuple[float, float]]) -> float:
    """Degrees of freedom of a sum of (variance, degrees of freedom); NIST/SEMATECH e-Handbook, 1.3.5.3."""
    return sum(part for part, _ in parts) ** 2 / sum(part**2 / freedom for part, freedom in parts)
