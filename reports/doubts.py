"""Find reasons to doubt the value of a cell, which become its footnotes."""

from __future__ import annotations

import math
from enum import Enum, auto

from workloads.records.check_name import CheckName
from workloads.records.checks import FEWEST_SAMPLES, SHORTEST_S, THROTTLED_PERCENT
from workloads.records.figures import (
    CALL_MEDIAN,
    CALL_P95,
    CPU_BUSY,
    CPU_QUOTA,
    CPU_USAGE,
    DIVERGED_STEP,
    FOREIGN_CPU,
    FOREIGN_CPU_EPOCHS,
    SPEED,
    STEP_TIME,
    Figure,
    FigureSpec,
    Method,
    read_value,
)
from workloads.records.result import TrialResult

TOLERATED_PERCENT = 10.0  # of the cores, taken by other processes
NOISY_ABOVE_PERCENT = 3.0
SPEEDS = (SPEED, STEP_TIME)
# Deliberate waiting in a framework cannot be proven; its signs are reported with the speed. None of 765 published
# trials on CPUs exceeds either bound: the 95th percentile of a trial's calls is at most 2.0 times their median, and
# usage at least 1.2 times that of one busy thread.
UNEVEN_ABOVE, IDLE_BELOW = 2.5, 0.8


class Doubt(Enum):
    """A reason to doubt the value of a cell."""

    DISTURBED = auto()
    SHORT = auto()
    STALLED = auto()
    THROTTLED = auto()
    QUOTA = auto()
    DIVERGED = auto()
    NOISY = auto()
    CHUNKED = auto()
    UNEVEN = auto()
    IDLE = auto()


DOUBTS_IN_WORDS = {
    Doubt.DISTURBED: f"disturbed: other processes took more than {TOLERATED_PERCENT:g} % of the cores in the {{span}}",
    Doubt.SHORT: f"short window: less than {SHORTEST_S:g} s or {FEWEST_SAMPLES} samples of the usage",
    Doubt.STALLED: "stalled: the worker stopped for a part of the steady window",
    Doubt.THROTTLED: f"throttled: a CPU quota withheld more than {THROTTLED_PERCENT:g} % of the cores' time",
    Doubt.QUOTA: "a share of the CPU quota, which is below the cores allotted",
    Doubt.DIVERGED: "diverged: the loss of step {step:.0f} is not a number",
    Doubt.NOISY: "noisy: coefficient of variation {cv_percent:.1f} %",
    Doubt.CHUNKED: "the sum of the allocator's chunks, each up to twice the requested size: too high, and different "
    "from run to run",
    Doubt.UNEVEN: f"uneven: one call in 20 took more than {UNEVEN_ABOVE:g} times the median call",
    Doubt.IDLE: f"idle: CPU usage below {100 * IDLE_BELOW:g} % of the usage of one busy thread",
}


def find_doubts(known: list[tuple[TrialResult, Figure]], spec: FigureSpec, cv_percent: float) -> dict[Doubt, str]:
    """Return the reasons to doubt the value of these trials, each with its sentence."""
    results = [result for result, _ in known]
    foreign = [read_foreign_percent(result, spec) or 0.0 for result in results]
    steps = [step for result in results if (step := read_value(result.figures, DIVERGED_STEP)) is not None]
    span = "steady window" if spec.windowed else "epochs"
    failed = {check.name for result in results for check in result.checks if not check.passed}
    doubted = {
        Doubt.DISTURBED: spec.timed and any(share > TOLERATED_PERCENT for share in foreign),
        Doubt.SHORT: spec.windowed and CheckName.LONG_ENOUGH in failed,
        Doubt.STALLED: spec.windowed and CheckName.NO_STALL in failed,
        Doubt.THROTTLED: spec.windowed and CheckName.NOT_THROTTLED in failed,
        Doubt.QUOTA: spec in (CPU_USAGE, CPU_BUSY)
        and any(
            (read_value(result.figures, CPU_QUOTA) or math.inf) < result.spec.placement.threads for result in results
        ),
        Doubt.DIVERGED: bool(steps),
        Doubt.NOISY: spec.timed and cv_percent > NOISY_ABOVE_PERCENT,
        Doubt.CHUNKED: any(figure.method is Method.CHUNKS for _, figure in known),
    }
    of_its_own = spec in SPEEDS and not doubted[Doubt.DISTURBED]
    doubted[Doubt.UNEVEN] = of_its_own and any(map(_is_uneven, results))
    doubted[Doubt.IDLE] = of_its_own and any(map(_is_idle, results))
    return {
        doubt: DOUBTS_IN_WORDS[doubt].format(step=min(steps, default=0), cv_percent=cv_percent, span=span)
        for doubt, is_doubted in doubted.items()
        if is_doubted
    }


def _is_uneven(result: TrialResult) -> bool:
    median, most = read_value(result.figures, CALL_MEDIAN), read_value(result.figures, CALL_P95)
    return median is not None and most is not None and most > UNEVEN_ABOVE * median


def _is_idle(result: TrialResult) -> bool:
    """True if a trial on a CPU used little of it. A framework that waits for a GPU needs no core."""
    placement, usage = result.spec.placement, read_value(result.figures, CPU_USAGE)
    return placement.device_kind == "cpu" and usage is not None and usage < IDLE_BELOW * 100 / placement.threads


def read_foreign_percent(result: TrialResult, spec: FigureSpec) -> float | None:
    """Share of the cores that other processes took while this figure was measured; None if unknown.

    Older results have no separate share for the epochs, so the steady window's is used.
    """
    in_window, in_epochs = (read_value(result.figures, share) for share in (FOREIGN_CPU, FOREIGN_CPU_EPOCHS))
    return in_window if spec.windowed or in_epochs is None else in_epochs
