"""Compare the speed at the largest batch size with the best measured one: throughput may fall long before memory ends.

Single figures say whether it may have fallen. Only pairs of trials, in turn, decide: the t-interval of the logarithms'
differences lies below the share that is tolerated, or above it. There is one look at it, after all pairs.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence

from runner.batch_size.best import VERDICTS
from workloads.records.batch_answers import LargestSpeed, Ratio, SizeVerdict
from workloads.statistics import decide, ratio_interval

FALLEN = 0.2  # of the best speed: a larger loss is a warning
CLOSE = 0.1  # of the best speed: single figures no farther below it are not compared in pairs
PAIRS, FEWEST = 4, 3  # pairs that are tried, and that an interval needs
SMALLER = (2, 4, 16)  # the answer is divided by these, unless a size from a quarter of that up to it was measured

Measure = Callable[[int], float | None]  # batch size -> images/s of one new trial; None if the trial gives none


def compare_speed(measure: Measure, answer: int, known: Mapping[int, Sequence[float]]) -> LargestSpeed | None:
    """Return the speed at `answer` and how it compares with the best; None if no trial at it has a speed.

    `known` are the speeds of trials that have run, by batch size. Each call of `measure` is a trial.
    """
    speeds = {size: list(each) for size, each in known.items() if each and size <= answer}
    parts = [answer // part for part in SMALLER]
    missing = [most for most in parts if not any(most // 4 < size <= most for size in speeds)]
    missing = sorted({size for size in missing if size}) + ([] if answer in speeds else [answer])
    for size in missing:
        if (speed := measure(size)) is not None:
            speeds[size] = [speed]
    if answer not in speeds:
        return None
    means = {size: statistics.fmean(each) for size, each in speeds.items()}
    best = max(sorted(means), key=lambda size: means[size])
    ratio = means[answer] / means[best]
    compared = Ratio(answer, SizeVerdict.UNCERTAIN, ratio, None, None, 0)
    if best == answer:
        compared = Ratio(answer, SizeVerdict.BEST, 1.0, None, None, 0)
    elif ratio < 1 - CLOSE:
        compared = _paired(measure, answer, best, compared)
    return LargestSpeed(means[answer], best, means[best], compared)


def _paired(measure: Measure, answer: int, best: int, single: Ratio) -> Ratio:
    """Return the ratio of both sizes' speeds by new pairs of trials; `single`, by single figures, if too many fail.

    The figures by which the best was chosen are not used: a good one is partly luck.
    """
    logarithms = []
    for number in range(PAIRS):
        order = (answer, best) if number % 2 else (best, answer)
        pair = {size: measure(size) for size in order}
        here, there = pair[answer], pair[best]
        if here and there:
            logarithms.append(math.log(here / there))
    if len(logarithms) < FEWEST:
        return single
    ratio, low, high = ratio_interval(logarithms)
    verdict = decide(low, high, margin=(1 - FALLEN, math.inf))
    return Ratio(answer, VERDICTS.get(verdict, SizeVerdict.UNCERTAIN), ratio, low, high, len(logarithms))
