"""The fastest batch size, or the one of least energy an image: the smallest that is within TOLERATED of the best.

First a ladder of single trials: powers of four up to the bound, and the bound; then the powers of two beside every size
that may still be the best. Between powers of two nothing is looked for: where the neighbours of the best are worse by
d, the best of all sizes is better than the best power of two by d / 4 at most (of a parabola over the logarithm).

Then repeated trials of the sizes that are left, in blocks: each size once, in an order drawn at random, so that a slow
change of the machine meets all of them alike. A size is held against every other one of its blocks by the t-interval of
the logarithms' differences: it is within where all of these say so, worse where one does. Because the intervals are
looked at after every block, "worse" counts once the block before said it, too; "within" needs no such care, for all of
several intervals have to say it. How often both err all the same: docs/batch-size.md.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from workloads.records.batch_answers import Best, Compared, Point, Ratio
from workloads.records.intervals import CONFIDENCE_PERCENT, mean_interval, reach
from workloads.words import counted

TOLERATED = 0.02  # of the best figure
NEAR = 0.2  # sizes whose single figure is worse than the best by more than that get no second trial
FEWEST = 3  # blocks before the first look
LIMIT = 12  # blocks
HOPELESS = 0.04  # no more blocks where even all of them would leave intervals of plus or minus more than that
FAILURES = 2  # blocks in which a size gave no figure, and is left out from then on

Measure = Callable[[int], float | None]  # batch size -> its figure by one new trial; None where that gives none
Block = Mapping[int, float]  # batch size -> logarithm of the figure, the higher the better


def best(
    measure: Measure, largest: int, *, better: Literal[1, -1] = 1, smallest: int = 1, seed: int = 0, limit: int = LIMIT
) -> Best:
    """Over `smallest` ... `largest`. `better`: 1 where a higher figure is, -1 where a lower one is. `limit`: of blocks.

    Each call of `measure` is a trial; they come in an order that depends on `seed` and the figures alone. Raises
    ValueError for a figure that is not above 0, and what `measure` raises.
    """
    if largest < smallest:
        return Best(None, f"there is no batch size from {smallest} to {largest}")
    trials = _Trials(measure, better)
    ladder = _ladder(trials, smallest, largest)
    if not ladder:
        return Best(None, f"none of {counted(trials.count, 'trial')} gave a figure", trials=trials.count)
    contest = Contest(_candidates(ladder), limit)
    drawn = random.Random(seed)
    while contest.goes_on:
        order = contest.running
        drawn.shuffle(order)
        block = {size: figure for size in order if (figure := trials.of(size)) is not None}
        contest.enter(block)
    return contest.answer(trials)


def _logarithm(size: int, figure: float) -> float:
    if not 0 < figure < math.inf:
        raise ValueError(f"batch size {size}: a figure of {figure}, which is not above 0")
    return math.log(figure)


@dataclass
class _Trials:
    """Those that were run, in their order."""

    measure: Measure
    better: int
    figures: dict[int, list[float]] = field(default_factory=dict)
    count: int = 0  # failed ones included

    def of(self, size: int) -> float | None:
        """One more; the logarithm, the higher the better."""
        self.count += 1
        figure = self.measure(size)
        if figure is None:
            return None
        logarithm = self.better * _logarithm(size, figure)
        self.figures.setdefault(size, []).append(figure)
        return logarithm

    def points(self) -> tuple[Point, ...]:
        """The mean of the blocks; of sizes that were in none, the single figure. The first of more is left out: sizes
        were chosen by it, so it is the luckier the better it is.
        """
        points = []
        for size, figures in sorted(self.figures.items()):
            of_blocks = figures[1:] or figures
            if len(of_blocks) >= FEWEST:
                points.append(Point(size, *mean_interval(of_blocks), len(of_blocks)))
            else:
                points.append(Point(size, statistics.fmean(of_blocks), None, None, len(of_blocks)))
        return tuple(points)


def _ladder(trials: _Trials, smallest: int, largest: int) -> dict[int, float]:
    """{batch size: logarithm} of those that gave a figure: powers of four, and the powers of two beside near ones."""
    powers = [2**power for power in range(largest.bit_length()) if smallest <= 2**power <= largest]
    sizes = sorted({*powers, smallest, largest})
    first = [size for size in sizes if size not in powers or size.bit_length() % 2 or size == powers[-1]]
    known = {size: trials.of(size) for size in first}
    while missing := _beside(sizes, known):
        known |= {size: trials.of(size) for size in missing}
    return {size: figure for size, figure in known.items() if figure is not None}


def _beside(sizes: Sequence[int], known: Mapping[int, float | None]) -> list[int]:
    """Those not tried yet that lie next to a near one, or next to one that failed."""
    near = _near({size: figure for size, figure in known.items() if figure is not None})
    open_ended = {*near, *(size for size, figure in known.items() if figure is None)}
    return [
        size
        for place, size in enumerate(sizes)
        if size not in known and open_ended.intersection(sizes[max(0, place - 1) : place + 2])
    ]


def _near(figures: Mapping[int, float]) -> list[int]:
    """Those whose single figure says that they may be within TOLERATED, and a trial's noise beyond."""
    least = max(figures.values(), default=0.0) + math.log(1 - NEAR)
    return [size for size, figure in sorted(figures.items()) if figure >= least]


def _candidates(ladder: Mapping[int, float]) -> list[int]:
    """The near ones; of one that stands alone its neighbours, too: no single trial decides."""
    near, sizes = _near(ladder), sorted(ladder)
    if len(near) > 1:
        return near
    place = sizes.index(near[0])
    return sizes[max(0, place - 1) : place + 2]


class Contest:
    """Candidates in blocks: what the blocks say of each."""

    def __init__(self, candidates: Collection[int], limit: int = LIMIT) -> None:
        self.candidates, self.limit = sorted(candidates), limit
        self.blocks: list[Block] = []
        self.out: dict[int, Ratio] = {}  # those that are worse, as it turned out; in no block any more
        self.failures = dict.fromkeys(self.candidates, 0)
        self.look = self._compare()  # at those that are running

    @property
    def running(self) -> list[int]:
        """Those that the next block tries."""
        return [size for size in self.candidates if size not in self.out and self.failures[size] < FAILURES]

    def enter(self, block: Block) -> None:
        """One more block; a size that it lacks failed in it."""
        for size in self.running:
            self.failures[size] += size not in block
        self.blocks.append(block)
        before, self.look = self.look, self._compare()
        worse = {
            size: ratio for size, ratio in self.look.items() if ratio.verdict is before[size].verdict is Compared.WORSE
        }
        if worse:
            self.out |= worse
            self.look = self._compare()

    def _compare(self) -> dict[int, Ratio]:
        """Each that is running against the others that are; the last of all against those that were worse."""
        others = self.running if len(self.running) > 1 else [*self.out, *self.running]
        return {size: _compared(size, others, self.blocks) for size in self.running}

    @property
    def proven(self) -> int | None:
        """The smallest that is within the tolerance, as the intervals have it."""
        return next((size for size, ratio in self.look.items() if ratio.verdict is Compared.WITHIN), None)

    @property
    def undecided(self) -> list[Ratio]:
        """Those that could be the answer; "worse" for the first time is not decided."""
        proven = self.proven
        return [ratio for size, ratio in self.look.items() if proven is None or size < proven]

    @property
    def hopeless(self) -> bool:
        """Whether the trials spread so much that the blocks up to the limit would decide nothing."""
        count = len(self.blocks)
        return bool(self.undecided) and all(_hopeless(ratio, count, self.limit) for ratio in self.undecided)

    @property
    def goes_on(self) -> bool:
        """Whether another block is wanted."""
        return bool(self.undecided) and len(self.blocks) < self.limit and not self.hopeless

    def ratios(self) -> list[Ratio]:
        """Of every candidate, by batch size; one of those running is the best."""
        leader = max(self.look, key=lambda size: self.look[size].ratio, default=None)
        ratios = dict(self.out)
        for size in set(self.candidates) - ratios.keys():
            ratio = self.look.get(size) or _compared(size, self.running, self.blocks)  # it failed
            told = ratio.verdict if size in self.look else Compared.CANNOT_BE_TOLD
            verdict = Compared.CANNOT_BE_TOLD if told is Compared.WORSE else told
            ratios[size] = replace(ratio, verdict=Compared.BEST if size == leader else verdict)
        return [ratios[size] for size in sorted(ratios)]

    def answer(self, trials: _Trials) -> Best:
        """The smallest that is proven, else the best by its mean; the reason names those it cannot be told from."""
        ratios, proven = self.ratios(), self.proven
        leader = next((ratio.batch_size for ratio in ratios if ratio.verdict is Compared.BEST), None)
        if leader is None:
            return Best(None, "every size failed when it was tried again", trials.points(), tuple(ratios), trials.count)
        reasons = []
        if proven is None:
            others = ", ".join(str(size) for size in self.running if size != leader)
            reasons.append(f"the best by its mean, but {others} cannot be told from it")
        else:
            smaller = [ratio for ratio in ratios if ratio.batch_size < proven and ratio.batch_size not in self.out]
            reasons += [f"may be smaller still: {_in_words(ratio)}" for ratio in smaller]
        if reasons:
            spread = ": trials spread too much for more to tell" if self.hopeless else ""
            reasons.append(f"after {counted(len(self.blocks), 'block')}{spread}")
        answer = leader if proven is None else proven
        return Best(answer, "; ".join(reasons) or None, trials.points(), tuple(ratios), trials.count)


def _in_words(ratio: Ratio) -> str:
    if ratio.low is None or ratio.high is None:
        return f"{ratio.batch_size} failed when it was tried again"
    return f"{ratio.batch_size} has {100 * ratio.low:.1f} to {100 * ratio.high:.1f} % of the best"


def _hopeless(ratio: Ratio, blocks: int, limit: int) -> bool:
    """Whether as many blocks as `limit` would not decide it, if they went on as before."""
    if ratio.low is None or ratio.high is None:
        return False
    half = math.log(ratio.high / ratio.low) / 2 * math.sqrt(blocks / limit)
    return half > HOPELESS and abs(math.log(ratio.ratio / (1 - TOLERATED))) < half


def _compared(size: int, others: Collection[int], blocks: Sequence[Block]) -> Ratio:
    """Over the best of the others, of which none is known to be it: the lowest ratio, lower end and upper end of all.

    The interval of size / max(others) = min(size / other), after Hsu (1984, Annals of Statistics 12: 1136-1144): the
    lower end needs no correction for the number of others, for each of them has to allow it; the upper end does.
    """
    differences = [
        [block[size] - block[other] for block in blocks if size in block and other in block]
        for other in others
        if other != size
    ]
    if not differences:
        return Ratio(size, Compared.WITHIN, 1.0, None, None, 0)
    pairs = min(map(len, differences))
    means = [statistics.fmean(each) for each in differences if each]
    ratio = math.exp(min(means, default=0.0))
    if pairs < FEWEST:
        return Ratio(size, Compared.CANNOT_BE_TOLD, ratio, None, None, pairs)
    low = math.exp(min(mean_interval(each)[1] for each in differences))
    high = math.exp(min(_upper_end(each, len(differences)) for each in differences))
    verdict = Compared.CANNOT_BE_TOLD
    if low >= 1 - TOLERATED:
        verdict = Compared.WITHIN
    elif high < 1 - TOLERATED:
        verdict = Compared.WORSE
    return Ratio(size, verdict, ratio, low, high, pairs)


def _upper_end(values: Sequence[float], comparisons: int) -> float:
    """Of the interval of the mean as one of so many, after Bonferroni."""
    percent = 100 - (100 - CONFIDENCE_PERCENT) / comparisons
    return statistics.fmean(values) + reach(len(values), statistics.stdev(values), percent)
