"""Compare one batch size, per image, with the line through its neighbours in its group.

Each round uses the logarithm of the seconds per image. The line goes through the next smaller and the next larger size
of the group. Its height at the size, minus the measured logarithm, is how much faster the size is. Each process gives
one value: the trimmed mean over its rounds, so that a few disturbed blocks have no effect. Rounds of one process are
not independent, but processes are: the interval is Student's t over them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from workloads.records.blocks import Block, Phase
from workloads.shifts import Shift, estimate_together, shift_values
from workloads.statistics import Estimate, Verdict, decide, holm, trimmed_mean

from .stored import Measurement, Process

# Share of the rounds trimmed at either end. A disturbed block is always slow, and a size has two neighbours. With 10 %,
# disturbance alone (one block in thirty 1.5 times as slow) produced an effect of 0.2 %.
TRIMMED = 0.25
SMALLEST_ERROR = 1e-9  # of processes that agree in every digit
MARGIN_PERCENT = 1.0  # smaller differences are no reason to choose a batch size
WORDS = {
    Verdict.BETTER: "faster",
    Verdict.WORSE: "slower",
    Verdict.WITHIN: f"within {MARGIN_PERCENT:g} %",
    Verdict.UNDECIDED: "cannot be told",
}

Round = dict[int, Block]


@dataclass(frozen=True)
class Contrast:
    """Contrast of one batch size. `p` is corrected; it is NaN without an estimate: one process has no interval."""

    framework: str
    phase: Phase
    size: int
    neighbours: tuple[int, int]
    rounds: int  # of all processes
    group: tuple[int, ...]
    values: tuple[float, ...]  # per process: logarithm of the speed relative to the line
    shift: Shift  # their mean
    estimate: Estimate | None
    detectable: float = math.nan  # logarithm: the smallest effect that 80 % of such runs would find
    p: float = math.nan

    @property
    def processes(self) -> int:
        """Number of processes."""
        return len(self.values)

    @property
    def percents(self) -> tuple[float, float, float]:
        """Percentages (value, low, high) by which it is faster per image than the line; NaN without an interval."""
        ends = self.estimate.interval if self.estimate else (math.nan, math.nan)
        value, low, high = (percent(each) for each in (self.shift.value, *ends))
        return value, low, high

    @property
    def verdict(self) -> Verdict:
        """Verdict; BETTER is faster."""
        return judge(self.p, self.percents)


def judge(p: float, percents: tuple[float, float, float]) -> Verdict:
    """Decide by the corrected p first, then by the interval."""
    value, low, high = percents
    found = decide(value, value, p=p)
    return decide(low, high, margin=(-MARGIN_PERCENT, MARGIN_PERCENT), p=p) if found is Verdict.UNDECIDED else found


def percent(logarithm: float) -> float:
    """Convert a logarithm into % faster."""
    return 100 * math.expm1(logarithm)


def neighbours(group: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Map {batch size: (next smaller, next larger)} for the sizes that have both."""
    sizes = sorted(group)
    return {size: (low, high) for low, size, high in zip(sizes, sizes[1:], sizes[2:], strict=False)}


def above_line(of_round: Round, size: int, beside: tuple[int, int]) -> float:
    """Logarithm of the line's seconds per image divided by the measured ones."""
    low, high = beside
    share = (size - low) / (high - low)
    logs = {each: math.log(of_round[each].image_s) for each in (low, size, high)}
    return (1 - share) * logs[low] + share * logs[high] - logs[size]


def of_process(process: Process, phase: Phase, value: Callable[[Round], float]) -> float:
    """Return the trimmed mean of `value` over the rounds of a process."""
    return trimmed_mean([value(of_round) for of_round in process.rounds[phase]], TRIMMED)


def of_processes(values: Sequence[float]) -> Shift:
    """Return the mean and spread of the processes' values."""
    return shift_values(values, SMALLEST_ERROR)


def of_measurement(measurement: Measurement, tested: Collection[int]) -> list[Contrast]:
    """Compute the contrasts of every batch size that has neighbours and is in `tested`.

    p is corrected within a framework.
    """
    every = []
    for framework in measurement.frameworks:
        found: list[Contrast] = []
        mine = [process for process in measurement.processes if process.framework == framework]
        for group in sorted({process.group for process in mine}):
            same = [process for process in mine if process.group == group]
            for size, beside in neighbours(group).items():
                if size in tested:
                    found += [_contrast(same, framework, phase, size, beside) for phase in Phase]
        every += corrected(found)
    return every


def _contrast(
    processes: Sequence[Process], framework: str, phase: Phase, size: int, beside: tuple[int, int]
) -> Contrast:
    values = [of_process(each, phase, lambda of_round: above_line(of_round, size, beside)) for each in processes]
    rounds = sum(len(process.rounds[phase]) for process in processes)
    shift, group = of_processes(values), processes[0].group
    estimate = estimate_together([shift]) if shift.sides else None
    return Contrast(framework, phase, size, beside, rounds, group, tuple(values), shift, estimate)


def corrected(contrasts: Sequence[Contrast]) -> list[Contrast]:
    """Add p values by Holm over all contrasts, and the smallest effect that the strictest test would find."""
    tested = [each.estimate for each in contrasts if each.estimate]
    p_values = iter(holm([estimate.p_apart for estimate in tested]))
    return [
        replace(each, p=next(p_values), detectable=each.estimate.detectable(2 * len(tested))) if each.estimate else each
        for each in contrasts
    ]
