"""Estimate the shift from A to B of one quantity: for a cell from its repeats, for a framework over its cells.

Speed, memory, usage, energy: the ratio B/A of geometric means, by logarithms, because their noise is relative.
Accuracy: the difference B - A in percentage points, paired by repeat if both had the same inputs. A seed's effect on
both then cancels. On these scales noise is additive, and a loss is a shift in the worse direction.

Three repeats of a cell say little about its spread. The spread is therefore pooled over all batch sizes of the same
framework and side (the root of their mean variance). A cell's own spread is used if it is larger, because batch sizes
may differ in noise, and noise must not look like a change. A framework's mean over its batch sizes needs no such
assumption: its variance is the sum of the cells' variances (Welch's t, degrees of freedom after Satterthwaite).

If each side holds several runs, a value is the mean of one run. All cells of a run may be fast or slow together.
Correlated cells give no more information on their shared spread than one cell, so it keeps the degrees of freedom of
the runs. A framework's mean is then taken within each run, and runs are compared.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from workloads.records.intervals import CONFIDENCE_PERCENT

from ..order import ERROR
from ..spread import LEAST_SPREAD

POWER = 0.8
ONE_REPEAT = "cannot be tested: one repeat on a side"
ONE_RUN = "cannot be tested: one run on a side"
NO_RATIO = "cannot be told: a value is not above 0, so there is no ratio"


@dataclass(frozen=True)
class Group:
    """Two or more repeats of one cell. `side` is "A", "B", or "paired" for differences; `variance` is that of one
    repeat.
    """

    side: str
    n: int
    variance: float


@dataclass(frozen=True)
class Shift:
    """Shift of one cell, B minus A: logarithm of the ratio, or percentage points.

    If `groups` is empty, `untested` says why. `runs`: for each side the mean of each run, by its number, if runs are
    compared.
    """

    value: float
    groups: tuple[Group, ...] = ()
    untested: str = ""
    runs: Mapping[str, Mapping[int, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Estimate:
    """A shift with its standard error, and the degrees of freedom of that error."""

    value: float
    error: float
    freedom: float

    def reach(self, probability: float) -> float:
        """Return how far Student's t of this probability lies above 0."""
        # Imported here because the import takes as long as a whole report.
        from scipy import special  # type: ignore[import-untyped]

        return float(special.stdtrit(self.freedom, probability)) * self.error

    @property
    def interval(self) -> tuple[float, float]:
        """Interval (low, high) of CONFIDENCE_PERCENT, in the unit of `value`."""
        reach = self.reach((1 + CONFIDENCE_PERCENT / 100) / 2)
        return self.value - reach, self.value + reach

    @property
    def p_above(self) -> float:
        """Probability of so high a value by chance if the true shift is not above 0."""
        from scipy import special

        return float(special.stdtr(self.freedom, -self.value / self.error))

    @property
    def p_apart(self) -> float:
        """Probability of a value so far from 0, on either side, by chance if the true shift is 0."""
        return 2 * min(self.p_above, self.times(-1).p_above)

    def times(self, sign: int) -> Estimate:
        """Return the shift multiplied by `sign`, 1 or -1."""
        return Estimate(sign * self.value, self.error, self.freedom)

    @property
    def at_most(self) -> float:
        """One-sided upper bound: in a share ERROR of all comparisons the true shift is above it."""
        return self.value + self.reach(1 - ERROR)

    def detectable(self, tests: int) -> float:
        """Smallest true shift that a share POWER of such comparisons finds, as one of so many tests."""
        return self.reach(1 - ERROR / tests) + self.reach(POWER)


def of_ratio(a: Sequence[float], b: Sequence[float], paired: bool = False) -> Shift:
    """Return the shift of the geometric means, b over a; `paired`: a[i] and b[i] are of the same repeat."""
    if min(*a, *b) <= 0:
        return Shift(math.nan, untested=NO_RATIO)
    logs = [math.log(x) for x in a], [math.log(x) for x in b]
    return (_of_pairs if paired else _of_independent)(*logs, LEAST_SPREAD)


def of_runs(a: Mapping[int, Sequence[float]], b: Mapping[int, Sequence[float]]) -> Shift:
    """Return the shift of the geometric means, b over a. Runs are compared, not their repeats."""
    if min(value for side in (a, b) for values in side.values() for value in values) <= 0:
        return Shift(math.nan, untested=NO_RATIO)
    runs = {
        name: {run: statistics.fmean(map(math.log, values)) for run, values in side.items()}
        for name, side in (("A", a), ("B", b))
    }
    shift = _of_independent([*runs["A"].values()], [*runs["B"].values()], LEAST_SPREAD)
    return replace(shift, runs=runs) if shift.groups else replace(shift, untested=ONE_RUN)


def of_points(a: Sequence[float], b: Sequence[float], paired: bool, least_spread: float) -> Shift:
    """Return the shift of the means, b minus a, in percentage points; `paired`: a[i] and b[i] had the same inputs.

    `least_spread`: the share of one test image, in points.
    """
    return (_of_pairs if paired else _of_independent)(a, b, least_spread)


def _of_pairs(a: Sequence[float], b: Sequence[float], least_spread: float) -> Shift:
    steps = [y - x for x, y in zip(a, b, strict=True)]
    return _shift(statistics.fmean(steps), {"paired": steps}, least_spread)


def _of_independent(a: Sequence[float], b: Sequence[float], least_spread: float) -> Shift:
    return _shift(statistics.fmean(b) - statistics.fmean(a), {"A": a, "B": b}, least_spread)


def _shift(value: float, sides: dict[str, Sequence[float]], least_spread: float) -> Shift:
    """Return the shift with the spread of each side, at least `least_spread`, if all have repeats."""
    if min(map(len, sides.values())) < 2:
        return Shift(value, untested=ONE_REPEAT)
    groups = []
    for side, values in sides.items():
        mean = statistics.fmean(values)
        variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
        groups.append(Group(side, len(values), max(variance, least_spread**2)))
    return Shift(value, tuple(groups))


def of_cells(shifts: Sequence[Shift]) -> list[Estimate]:
    """Estimate the cells of one framework with their shared spread, or a cell's own if that is larger."""
    pooled: dict[str, tuple[float, int]] = {}  # {side: (variance of one repeat, its degrees of freedom)}
    groups = [group for shift in shifts for group in shift.groups]
    of_runs_alone = any(shift.runs for shift in shifts)
    for side in {group.side for group in groups}:
        alike = [group for group in groups if group.side == side]
        freedom = sum(group.n - 1 for group in alike)
        known = max(group.n - 1 for group in alike) if of_runs_alone else freedom
        pooled[side] = sum((group.n - 1) * group.variance for group in alike) / freedom, known
    return [_of_cell(shift, pooled) for shift in shifts]


def _of_cell(shift: Shift, pooled: dict[str, tuple[float, int]]) -> Estimate:
    shared = [(pooled[group.side][0] / group.n, pooled[group.side][1]) for group in shift.groups]
    variance = max(sum(part for part, _ in shared), sum(group.variance / group.n for group in shift.groups))
    return Estimate(shift.value, math.sqrt(variance), _satterthwaite(shared))


def of_mean(shifts: Sequence[Shift]) -> Estimate:
    """Estimate the mean over the cells of one framework."""
    return _of_mean_run(shifts) if all(shift.runs for shift in shifts) else _of_own_spreads(shifts)


def _of_own_spreads(shifts: Sequence[Shift]) -> Estimate:
    parts = [(group.variance / group.n, group.n - 1) for shift in shifts for group in shift.groups]
    error = math.sqrt(sum(variance for variance, _ in parts)) / len(shifts)
    return Estimate(statistics.fmean(shift.value for shift in shifts), error, _satterthwaite(parts))


def _of_mean_run(shifts: Sequence[Shift]) -> Estimate:
    """Estimate the mean over runs that have all cells; each run's value is its mean over the cells."""
    means: dict[str, list[float]] = {}
    for side in shifts[0].runs:
        common = set.intersection(*(set(shift.runs[side]) for shift in shifts))
        means[side] = [statistics.fmean(shift.runs[side][run] for shift in shifts) for run in sorted(common)]
    if min(map(len, means.values())) >= 2:
        return _of_own_spreads([_of_independent(means["A"], means["B"], LEAST_SPREAD)])
    alone = [_of_own_spreads([shift]) for shift in shifts]
    return Estimate(  # for any correlation the error is no larger
        statistics.fmean(one.value for one in alone),
        statistics.fmean(one.error for one in alone),
        min(one.freedom for one in alone),
    )


def _satterthwaite(parts: Sequence[tuple[float, int]]) -> float:
    """Degrees of freedom of a sum of (variance, degrees of freedom); NIST/SEMATECH e-Handbook, 1.3.5.3."""
    return sum(part for part, _ in parts) ** 2 / sum(part**2 / freedom for part, freedom in parts)
