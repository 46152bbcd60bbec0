"""One batch size against the line through its neighbours in its group, an image for an image.

Of each round the logarithm of seconds an image is taken; the line goes through the next smaller and the next larger
size of the group, and its height at the size less what was measured there is by how much that is faster. A process says
one thing: the trimmed mean over its rounds, for a few blocks that others disturbed are no news. Rounds of one process
are not independent; processes are: the interval is Student's t over them.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from workloads.records.blocks import Block, Phase

from ..comparing.estimates import ONE_REPEAT, Estimate, Group, Shift, of_mean
from ..order import ERROR, holm
from .stored import Measurement, Process

# Of the rounds, at either end. A disturbed block is always a slow one, and a size has two neighbours: with 10 % alone
# blocks of which one in thirty took half as long again made 0.2 % of nothing.
TRIMMED = 0.25
SMALLEST_ERROR = 1e-9  # of processes that agree in every digit
MARGIN_PERCENT = 1.0  # what is less is no reason to choose a batch size by

Round = dict[int, Block]


@dataclass(frozen=True)
class Contrast:
    """`p` is corrected; NaN where there is no estimate, for one process has no interval."""

    framework: str
    phase: Phase
    size: int
    neighbours: tuple[int, int]
    rounds: int  # of all processes
    group: tuple[int, ...]
    values: tuple[float, ...]  # of each process: logarithm of how many times as fast as the line
    shift: Shift  # their mean
    estimate: Estimate | None
    detectable: float = math.nan  # logarithm: the smallest that 80 % of such runs would find
    p: float = math.nan

    @property
    def processes(self) -> int:
        """How many there are."""
        return len(self.values)

    @property
    def percents(self) -> tuple[float, float, float]:
        """(value, low, high): so many % faster an image than the line; NaN where there is no interval."""
        ends = self.estimate.interval if self.estimate else (math.nan, math.nan)
        value, low, high = (percent(each) for each in (self.shift.value, *ends))
        return value, low, high

    @property
    def verdict(self) -> str:
        """ "faster", "slower", "within 1 %" where the interval is, else "cannot be told"."""
        return verdict(self.p, self.percents)


def verdict(p: float, percents: tuple[float, float, float]) -> str:
    """By the corrected p first, then by the interval."""
    value, low, high = percents
    if p <= ERROR:
        return "faster" if value > 0 else "slower"
    if low > -MARGIN_PERCENT and high < MARGIN_PERCENT:
        return f"within {MARGIN_PERCENT:g} %"
    return "cannot be told"


def percent(logarithm: float) -> float:
    """Faster by so many %."""
    return 100 * math.expm1(logarithm)


def neighbours(group: Sequence[int]) -> dict[int, tuple[int, int]]:
    """{batch size: the next smaller and the next larger one} of those that have both."""
    sizes = sorted(group)
    return {size: (low, high) for low, size, high in zip(sizes, sizes[1:], sizes[2:], strict=False)}


def above_line(of_round: Round, size: int, beside: tuple[int, int]) -> float:
    """Logarithm of the line's seconds an image over those measured."""
    low, high = beside
    share = (size - low) / (high - low)
    logs = {each: math.log(of_round[each].image_s) for each in (low, size, high)}
    return (1 - share) * logs[low] + share * logs[high] - logs[size]


def trimmed(values: Sequence[float]) -> float:
    """Their mean without TRIMMED at either end."""
    from scipy import stats  # type: ignore[import-untyped]  # here: its import takes longer than all tables

    return float(stats.trim_mean(values, TRIMMED))


def of_process(process: Process, phase: Phase, value: Callable[[Round], float]) -> float:
    """What a process says of something that each of its rounds tells."""
    return trimmed([value(of_round) for of_round in process.rounds[phase]])


def of_processes(values: Sequence[float]) -> Shift:
    """Their mean and spread."""
    value = statistics.fmean(values)
    if len(values) < 2:
        return Shift(value, untested=ONE_REPEAT)
    return Shift(value, (Group("paired", len(values), max(statistics.variance(values), SMALLEST_ERROR**2)),))


def of_measurement(measurement: Measurement, tested: Callable[[int], Collection[str]]) -> list[Contrast]:
    """Of every batch size with neighbours of which `tested` names a kind; p is corrected within a framework."""
    every = []
    for framework in measurement.frameworks:
        found: list[Contrast] = []
        mine = [process for process in measurement.processes if process.framework == framework]
        for group in sorted({process.group for process in mine}):
            same = [process for process in mine if process.group == group]
            for size, beside in neighbours(group).items():
                if tested(size):
                    found += [_contrast(same, framework, phase, size, beside) for phase in Phase]
        every += corrected(found)
    return every


def _contrast(
    processes: Sequence[Process], framework: str, phase: Phase, size: int, beside: tuple[int, int]
) -> Contrast:
    values = [of_process(each, phase, lambda of_round: above_line(of_round, size, beside)) for each in processes]
    rounds = sum(len(process.rounds[phase]) for process in processes)
    shift, group = of_processes(values), processes[0].group
    estimate = of_mean([shift]) if shift.groups else None
    return Contrast(framework, phase, size, beside, rounds, group, tuple(values), shift, estimate)


def corrected(contrasts: Sequence[Contrast]) -> list[Contrast]:
    """With p after Holm over all of them, and the smallest effect that the strictest of these tests would find."""
    tested = [each.estimate for each in contrasts if each.estimate]
    p_values = iter(holm([estimate.p_apart for estimate in tested]))
    return [
        replace(each, p=next(p_values), detectable=each.estimate.detectable(2 * len(tested))) if each.estimate else each
        for each in contrasts
    ]
