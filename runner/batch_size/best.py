"""Find the fastest batch size, or the one with the least energy per image: the smallest within TOLERATED of the best.

First comes a ladder of single trials (`ladder.py`). Then the sizes that may be the best are repeated in blocks. Each
block tries each size once in random order, so that a slow change of the machine affects all of them alike. A size is
compared with every other size of its blocks by the t-interval of the logarithms' differences. It is within the
tolerance if all intervals say so, and worse if one does. The intervals are checked after every block, so "worse" counts
only if the block before said it too. "Within" needs no such care, because several intervals all have to say it. How
often both are wrong: docs/guide/batch-size.md.

A size that fails in FAILURES blocks is left out. No other size is then worse because of it, and none is called within
the tolerance unless its pairs with that size say so. A trial that other processes disturbed is no failure.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from runner.batch_size.ladder import choose_candidates, climb_ladder
from workloads.records.batch_answers import Best, Ratio, SizePoint, SizeVerdict
from workloads.statistics import Verdict, decide, estimate_mean, mean_interval
from workloads.words import format_count

TOLERATED = 0.02  # share of the best figure
FEWEST = 3  # blocks before the intervals are first checked
LIMIT = 12  # blocks
HOPELESS = 0.04  # stop if even LIMIT blocks would leave intervals wider than plus or minus this share
FAILURES = 2  # blocks without a figure after which a size is left out
VERDICTS = {Verdict.WITHIN: SizeVerdict.WITHIN, Verdict.WORSE: SizeVerdict.WORSE}  # all else is uncertain

Measure = Callable[[int], float | None]  # batch size -> its figure from one new trial; None if the trial gives none
Block = Mapping[int, float]  # batch size -> logarithm of the figure; higher is better


class Disturbed(Exception):
    """Other processes disturbed a trial and its retries: it has no figure, and that is no fault of its batch size."""


def find_best_size(
    measure: Measure, largest: int, *, better: Literal[1, -1] = 1, smallest: int = 1, seed: int = 0, limit: int = LIMIT
) -> Best:
    """Return the best batch size from `smallest` to `largest`.

    `better` is 1 where a higher figure is better, and -1 where a lower one is. `limit` is the number of blocks. Each
    call of `measure` is a trial. It may raise Disturbed. Their order depends only on `seed` and the figures. Raises
    ValueError for a figure that is not above 0, and whatever else `measure` raises.
    """
    if largest < smallest:
        return Best(None, f"there is no batch size from {smallest} to {largest}")
    trials = _Trials(measure, better)
    ladder = climb_ladder(trials.measure_once, smallest, largest)
    if not ladder:
        return Best(None, f"none of {format_count(trials.count, 'trial')} gave a figure", trials=trials.count)
    contest = Contest(choose_candidates(ladder), limit)
    drawn = random.Random(seed)
    while contest.goes_on:
        order = contest.running
        drawn.shuffle(order)
        block = {size: figure for size in order if (figure := trials.measure_once(size)) is not None}
        contest.enter(block, trials.disturbed)
    return contest.answer(trials)


def _logarithm(size: int, figure: float) -> float:
    if not 0 < figure < math.inf:
        raise ValueError(f"batch size {size}: a figure of {figure}, which is not above 0")
    return math.log(figure)


@dataclass
class _Trials:
    """Trials that were run, in their order."""

    measure: Measure
    better: int
    figures: dict[int, list[float]] = field(default_factory=dict)
    count: int = 0  # including failed trials
    disturbed: set[int] = field(default_factory=set)  # sizes whose last trial other processes disturbed

    def measure_once(self, size: int) -> float | None:
        """Run one more trial and return the logarithm of its figure; higher is better. None if the trial gave no
        figure.
        """
        self.count += 1
        self.disturbed.discard(size)
        try:
            figure = self.measure(size)
        except Disturbed:
            self.disturbed.add(size)
            return None
        if figure is None:
            return None
        logarithm = self.better * _logarithm(size, figure)
        self.figures.setdefault(size, []).append(figure)
        return logarithm

    def points(self) -> tuple[SizePoint, ...]:
        """Return the mean figure of the blocks for each size, or the single figure of a size that was in no block.

        A mean leaves out the first figure. Sizes were chosen by it, so a good first figure is partly luck.
        """
        points = []
        for size, figures in sorted(self.figures.items()):
            of_blocks = figures[1:] or figures
            if len(of_blocks) >= FEWEST:
                points.append(SizePoint(size, *mean_interval(of_blocks), len(of_blocks)))
            else:
                points.append(SizePoint(size, statistics.fmean(of_blocks), None, None, len(of_blocks)))
        return tuple(points)


class Contest:
    """Candidate sizes measured in blocks, and what the blocks say about each."""

    def __init__(self, candidates: Collection[int], limit: int = LIMIT) -> None:
        self.candidates, self.limit = sorted(candidates), limit
        self.blocks: list[Block] = []
        self.out: dict[int, Ratio] = {}  # those found to be worse; no further block tries them
        self.failures = dict.fromkeys(self.candidates, 0)
        self.look = self._compare()  # comparison of the running sizes

    @property
    def running(self) -> list[int]:
        """Sizes that the next block tries."""
        return [size for size in self.candidates if size not in self.out and self.failures[size] < FAILURES]

    @property
    def left_out(self) -> list[int]:
        """Sizes that failed too often."""
        return [size for size in self.candidates if self.failures[size] >= FAILURES]

    def enter(self, block: Block, disturbed: Collection[int] = ()) -> None:
        """Add one more block; a size that is missing from it failed in it, unless its trial was disturbed."""
        left_out = self.left_out
        for size in self.running:
            self.failures[size] += size not in block and size not in disturbed
        self.blocks.append(block)
        if self.left_out != left_out:
            self._take_back()
        before, self.look = self.look, self._compare()
        worse = {
            size: ratio
            for size, ratio in self.look.items()
            if ratio.verdict is SizeVerdict.WORSE and size in before and before[size].verdict is SizeVerdict.WORSE
        }
        if worse:
            self.out |= worse
            self.look = self._compare()

    def _take_back(self) -> None:
        """Let sizes run again that were worse than a size that is left out now, and than no other."""
        others = [size for size in self.candidates if size not in self.left_out]
        again = {size: _compared(size, others, self.blocks) for size in self.out}
        self.out = {size: ratio for size, ratio in again.items() if ratio.verdict is SizeVerdict.WORSE}
        self.look = {}

    def _compare(self) -> dict[int, Ratio]:
        """Compare each running size with the other running sizes. The last running size is compared with the worse
        ones.
        """
        others = self.running if len(self.running) > 1 else [*self.out, *self.running]
        return {size: _compared(size, others, self.blocks) for size in self.running}

    @property
    def proven(self) -> int | None:
        """The smallest size that is within the tolerance according to its intervals."""
        return next((size for size, ratio in self.look.items() if ratio.verdict is SizeVerdict.WITHIN), None)

    @property
    def undecided(self) -> list[Ratio]:
        """Sizes that could still be the answer. A size that is "worse" for the first time is undecided."""
        proven = self.proven
        return [ratio for size, ratio in self.look.items() if proven is None or size < proven]

    @property
    def hopeless(self) -> bool:
        """True if the trials spread so much that the blocks up to the limit would decide nothing."""
        count = len(self.blocks)
        return bool(self.undecided) and all(_hopeless(ratio, count, self.limit) for ratio in self.undecided)

    @property
    def goes_on(self) -> bool:
        """True if another block is needed."""
        return bool(self.undecided) and len(self.blocks) < self.limit and not self.hopeless

    def ratios(self) -> list[Ratio]:
        """Return the ratio of every candidate, sorted by batch size. The best is one of the running sizes."""
        leader = max(self.look, key=lambda size: self.look[size].ratio, default=None)
        ratios = dict(self.out)
        for size in set(self.candidates) - ratios.keys():
            ratio = self.look.get(size) or _compared(size, self.running, self.blocks)  # it is left out
            claims = [ratio, _compared(size, self.left_out, self.blocks)] if size in self.look else []
            within = bool(claims) and all(each.verdict is SizeVerdict.WITHIN for each in claims)
            verdict = SizeVerdict.WITHIN if within else SizeVerdict.UNCERTAIN
            ratios[size] = replace(ratio, verdict=SizeVerdict.BEST if size == leader else verdict)
        return [ratios[size] for size in sorted(ratios)]

    def answer(self, trials: _Trials) -> Best:
        """Return the smallest proven size, or else the best by its mean. The reason names the sizes that may be as
        good, and those without enough figures.
        """
        ratios, proven = self.ratios(), self.proven
        leader = next((ratio.batch_size for ratio in ratios if ratio.verdict is SizeVerdict.BEST), None)
        if leader is None or (proven is None and not any(len(block) > 1 for block in self.blocks)):
            disturbed = "other processes disturbed so many trials that no block has the figures of two sizes"
            reason = disturbed if leader else "every size failed when it was tried again"
            return Best(None, reason, trials.points(), tuple(ratios), trials.count)
        reasons = [_describe_left_out(ratio) for ratio in ratios if ratio.batch_size in self.left_out]
        if unknown := trials.disturbed - trials.figures.keys():
            reasons.append(f"other processes disturbed every trial of {', '.join(map(str, sorted(unknown)))}")
        if proven is None:
            others = ", ".join(str(size) for size in self.running if size != leader)
            reasons.append(f"the best by its mean; not significantly different: {others}")
        else:
            smaller = [ratio for ratio in ratios if ratio.batch_size < proven and ratio.batch_size in self.look]
            reasons += [f"may be smaller still: {_describe_ratio(ratio)}" for ratio in smaller]
        if reasons:
            spread = ": trials vary too much for more blocks to decide" if self.hopeless else ""
            reasons.append(f"after {format_count(len(self.blocks), 'block')}{spread}")
        answer = leader if proven is None else proven
        return Best(answer, "; ".join(reasons) or None, trials.points(), tuple(ratios), trials.count)


def _describe_left_out(ratio: Ratio) -> str:
    failed = f"{ratio.batch_size} failed when it was tried again"
    if not ratio.pairs:
        return failed
    interval = "" if ratio.low is None or ratio.high is None else f" [{100 * ratio.low:.1f}, {100 * ratio.high:.1f}]"
    share = f"{100 * ratio.ratio:.1f} %{interval} of the best of the others"
    return f"{failed} (it had {share} in {format_count(ratio.pairs, 'pair')})"


def _describe_ratio(ratio: Ratio) -> str:
    if ratio.low is None or ratio.high is None:
        return f"{ratio.batch_size} has only {format_count(ratio.pairs, 'pair')} of trials"
    return f"{ratio.batch_size} has {100 * ratio.low:.1f} to {100 * ratio.high:.1f} % of the best"


def _hopeless(ratio: Ratio, blocks: int, limit: int) -> bool:
    """True if `limit` blocks that spread like those so far would not decide it."""
    if ratio.low is None or ratio.high is None:
        return False
    half = math.log(ratio.high / ratio.low) / 2 * math.sqrt(blocks / limit)
    return half > HOPELESS and abs(math.log(ratio.ratio / (1 - TOLERATED))) < half


def _compared(size: int, others: Collection[int], blocks: Sequence[Block]) -> Ratio:
    """Return the ratio of a size to the best of the others, with an interval.

    None of the others is known to be the best, so ratio, lower end and upper end are the lowest over all of them. The
    interval of size / max(others) = min(size / other) follows Hsu (1984, Annals of Statistics 12: 1136-1144). The lower
    end needs no correction for the number of others, because each of them has to allow it. The upper end does.
    """
    differences = [
        [block[size] - block[other] for block in blocks if size in block and other in block]
        for other in others
        if other != size
    ]
    if not differences:
        return Ratio(size, SizeVerdict.WITHIN, 1.0, None, None, 0)
    pairs = min(map(len, differences))
    means = [statistics.fmean(each) for each in differences if each]
    ratio = math.exp(min(means, default=0.0))
    if pairs < FEWEST:
        return Ratio(size, SizeVerdict.UNCERTAIN, ratio, None, None, pairs)
    low = math.exp(min(mean_interval(each)[1] for each in differences))
    high = math.exp(min(estimate_mean(each).upper_end(len(differences)) for each in differences))
    verdict = decide(low, high, margin=(1 - TOLERATED, math.inf))
    return Ratio(size, VERDICTS.get(verdict, SizeVerdict.UNCERTAIN), ratio, low, high, pairs)
