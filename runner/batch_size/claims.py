"""Judge the benefit of a larger batch size: training at a found size compared with the size in use.

The published claim is "3 to 4 times faster at equal quality". It holds if both 95 % intervals agree with it. That of an
epoch's speed-up must be at LEAST_SPEED_UP or above, and that of the change of accuracy above -TOLERATED_LOSS. The claim
does not hold if either interval is wholly on the other side. In all other cases it is uncertain. Trials are paired by
repeat: the trials of a repeat share initial weights and order of the images. How often the verdict errs:
docs/guide/batch-size.md.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from runner.batch_size.target import FEWEST, MEASURED
from workloads.records.batch_answers import Holds, Trained
from workloads.records.result import TrialResult
from workloads.statistics import accuracy_step, mean_interval

LEAST_SPEED_UP = 3.0
TOLERATED_LOSS = 0.01  # of accuracy, 0 ... 1


def trained(results: Iterable[TrialResult], in_use: int, found: int) -> Trained:
    """Compare one framework's trials at these two batch sizes; other sizes are ignored.

    Raises ValueError where they differ in more than batch size and repeat.
    """
    chosen = [
        result
        for result in results
        if result.status in MEASURED and result.epochs and result.spec.cell.batch_size in (in_use, found)
    ]
    alike = {
        (r.spec.cell.framework, r.spec.task, r.spec.passes, r.spec.placement, r.spec.draw.first_seed) for r in chosen
    }
    if len(alike) > 1:
        raise ValueError("the trials differ in more than batch size and repeat")
    by_repeat = {(result.spec.cell.batch_size, result.spec.draw.repeat): result for result in chosen}
    pairs = [
        (by_repeat[in_use, repeat], result)
        for (size, repeat), result in sorted(by_repeat.items())
        if size == found and (in_use, repeat) in by_repeat
    ]
    return _compared(pairs, in_use, found)


def _compared(pairs: Sequence[tuple[TrialResult, TrialResult]], in_use: int, found: int) -> Trained:
    if not pairs:
        nothing = (None,) * 6
        return Trained(found, in_use, *nothing, 0, Holds.CANNOT_BE_TOLD)
    task = pairs[0][0].spec.task
    speed_ups = [math.log(epoch_s(before) / epoch_s(after)) for before, after in pairs]
    changes = [after.epochs[-1].test_accuracy - before.epochs[-1].test_accuracy for before, after in pairs]
    speed_up, speed_low, speed_high = _interval(speed_ups)
    change, low, high = _interval(changes, accuracy_step(task.dataset, task.source) / 100)
    ratio, ratio_low, ratio_high = (None if end is None else math.exp(end) for end in (speed_up, speed_low, speed_high))
    verdict = holds((ratio_low, ratio_high), (low, high))
    return Trained(found, in_use, ratio, ratio_low, ratio_high, change, low, high, len(pairs), verdict)


def epoch_s(result: TrialResult) -> float:
    """Return the mean training time of an epoch.

    The first epoch, which includes the first step, is left out if there are more.
    """
    return statistics.fmean(epoch.train_s for epoch in result.epochs[1:] or result.epochs)


def _interval(values: Sequence[float], least_spread: float = 0.0) -> tuple[float, float | None, float | None]:
    """Return (mean, low, high). The spread is assumed to be at least `least_spread`."""
    if len(values) < FEWEST:
        return statistics.fmean(values), None, None
    return mean_interval(values, least_spread)


def holds(speed_up: tuple[float | None, float | None], change: tuple[float | None, float | None]) -> Holds:
    """Return the verdict from the ends of the intervals."""
    (speed_low, speed_high), (low, high) = speed_up, change
    if speed_low is None or speed_high is None or low is None or high is None:
        return Holds.CANNOT_BE_TOLD
    if speed_low >= LEAST_SPEED_UP and low > -TOLERATED_LOSS:
        return Holds.HOLDS
    if speed_high < LEAST_SPEED_UP or high < -TOLERATED_LOSS:
        return Holds.DOES_NOT
    return Holds.CANNOT_BE_TOLD
