"""The largest batch size that fits, by trials: the search alone, which knows nothing of processes or frameworks.

The next size is guessed from how far the memory of those that fitted is from the limit, and from what really happened:
where the guess is wrong, its weight is lost, and the bracket between a size that fits and one that does not is halved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from workloads.records.batch_answers import Fit, Largest, Limit, Tried
from workloads.records.memory_line import fit_line

MOST = 2**20  # what fits at this size is not searched further
GUESS_ERROR = 0.02  # of the distance that is extrapolated, usual for the line of a counting process
UNKNOWN_ERROR = 0.5  # of a guess from nothing
CLOSE = 0.9  # of the largest size that was counted: a trial from there on knows better
APART = 1.2  # sizes of trials: from there on their memory says more of an image's than the counting process
STEEP = 0.25  # of the counting process's bytes an image: a trial's are no less, whatever two of them say
LARGER = 0.2  # of the largest size: below, memory is not yet a line
STEP_BACK = 0.05  # of a size that fits only sometimes; doubled each time
TRIALS = 2  # of the answer at least, and of one more
ABOVE = 4  # times an untold size: how far above it one that fits is looked for
NO_LINE = 0.0, 0.0, 1  # of `_line`
UNTOLD = 4  # sizes, at most, of which no trial says whether they fit: the answer is then looked for below

Attempt = Callable[[int], Tried]


class NoAnswer(Exception):
    """A trial that ended otherwise than by memory; the message is the reason."""


@dataclass(frozen=True)
class Bound:
    """What the memory is held against."""

    limit: Limit
    limit_bytes: int

    @property
    def trials(self) -> int:
        """How many trials of the answer must fit. A control group counts pages as they are touched, so chance decides
        more there.
        """
        return TRIALS + (self.limit in (Limit.GROUP, Limit.CONTAINER))


@dataclass
class Search:
    """What has been tried. `counted`: {batch size: peak bytes} as a counting process told, of what the limit counts."""

    attempt: Attempt
    bound: Bound
    counted: Mapping[int, float]
    lifted: Attempt | None
    ends_at: int | None = None  # the size at which that process ran out of memory
    tried: list[Tried] = field(default_factory=list)
    fits: int = 0  # the largest that does, 0 before any
    too_large: int | None = None  # the smallest that the limit ended
    untold: dict[int, Tried] = field(default_factory=dict)  # sizes of which no trial says whether they fit: the last

    @property
    def fails(self) -> int | None:
        """The smallest size above `fits` that does not fit, or is untold. A larger size that fits lifts an untold
        one: what failed there was not the memory.
        """
        untold = (size for size in self.untold if size > self.fits)
        return min((*untold, *filter(None, [self.too_large])), default=None)

    def ask(self, size: int) -> Fit:
        """What one more trial says. One that ends otherwise is tried once more, and where that does not say it either,
        with the limit lifted: what runs then, or runs out even then, has ended by the limit. Raises NoAnswer where that
        is not known of more than UNTOLD sizes.
        """
        trial = self._noted(self.attempt(size))
        if trial.fit is Fit.UNKNOWN:
            trial = self._noted(self.attempt(size))
        fit = Fit.TOO_LARGE if trial.fit is Fit.UNKNOWN and self._ends_by_limit(size) else trial.fit
        if fit is Fit.UNKNOWN:
            self.untold[size] = trial
            if len(self.untold) > UNTOLD:
                raise self.no_answer(size)
        elif fit is Fit.TOO_LARGE:
            self.too_large = size if self.too_large is None else min(size, self.too_large)
        elif self.too_large is None or size < self.too_large:
            self.fits = max(size, self.fits)
        return fit

    def no_answer(self, size: int) -> NoAnswer:
        """Of a size that is untold."""
        last = self.untold[size]
        why = f" ({last.reason})" if last.reason else ""
        return NoAnswer(
            f"batch size {size}: two trials ended neither well nor by memory, the last in {last.folder}{why}"
        )

    def _noted(self, trial: Tried) -> Tried:
        self.tried.append(trial)
        return trial

    def _ends_by_limit(self, size: int) -> bool:
        """Whether the same trial fits where the limit is lifted, for that is all that differs; or runs out of memory
        even there.
        """
        if self.lifted is not None and not any(each.lifted for each in self._of(size)):
            self._noted(replace(self.lifted(size), lifted=True))
        return self._is_limited(size)

    def _is_limited(self, size: int) -> bool:
        """Whether a trial with the limit lifted says that the limit ends the others."""
        return any(each.lifted and each.fit is not Fit.UNKNOWN for each in self._of(size))

    def _of(self, size: int) -> list[Tried]:
        return [each for each in self.tried if each.batch_size == size]

    def fitted(self, size: int) -> list[Tried]:
        """Its trials that fitted."""
        return [each for each in self._of(size) if each.fit is Fit.FITS and not each.lifted]

    def failed(self, size: int) -> list[Tried]:
        """Its trials that the limit ended."""
        ends = (Fit.TOO_LARGE, Fit.UNKNOWN) if self._is_limited(size) else (Fit.TOO_LARGE,)
        return [each for each in self._of(size) if each.fit in ends and not each.lifted]

    def bracket(self) -> None:
        """Until `fits` + 1 = `fails`, and that is no untold size above which another fits. Raises NoAnswer."""
        while True:
            while self.fails is None or self.fails - self.fits > 1:
                if self.fits >= MOST:
                    raise NoAnswer(f"batch size {self.fits} fits; no larger one is looked for")
                self.ask(self.next_size())
            if self.fails not in self.untold or not self._passes(self.fails):
                return

    def _passes(self, untold: int) -> bool:
        """True if a larger size fits, so that no memory failed at this one: well above it, else the next that says
        anything. Where the one well above says nothing either, one more is tried. Raises NoAnswer.
        """
        far, near = ABOVE * untold, untold + 1
        if self._is_open(far) and self.ask(far) is Fit.FITS:
            return True
        while near in self.untold or self._is_open(near):
            if near not in self.untold and self.ask(near) is Fit.FITS:
                return True
            if far in self.untold:
                return False
            near += 1
        return False

    def _is_open(self, size: int) -> bool:
        return size not in self.untold and (self.too_large is None or size < self.too_large)

    def settle(self) -> int | None:
        """Until `fits` has fitted often enough, and `fails` failed twice; the smallest size that did both, if any.

        Where a size does both, the answer is a smaller one that fits twice: the sizes between are not searched, for
        chance would decide. Raises NoAnswer.
        """
        if self.fails in self.untold:
            raise self.no_answer(self.fails)
        unsettled = None
        back = STEP_BACK
        while self.fits and len(self.fitted(self.fits)) < self.bound.trials:
            if self.ask(self.fits) is Fit.TOO_LARGE:
                unsettled = self.fits if self.fitted(self.fits) else unsettled
                self.fits, back = self._below(self.fits, back), 2 * back
        while unsettled is None and self.fails is not None and len(self.failed(self.fails)) < TRIALS:
            unsettled = self.fails if self.ask(self.fails) is Fit.FITS else None
        return unsettled

    def _below(self, size: int, back: float) -> int:
        """One that has fitted, not far below; else so much smaller."""
        known = [each.batch_size for each in self.tried if each.fit is Fit.FITS and not self.failed(each.batch_size)]
        least = min(size - 1, math.floor(size * (1 - back)))
        return max((each for each in known if least <= each < size), default=max(0, least))

    def beside(self, size: int) -> list[int]:
        """Where memory that does not grow with the batch size may show, of sizes that were not tried."""
        above = {8 * (size // 8 + 1), 64 * (size // 64 + 1), math.ceil(1.05 * size), math.ceil(1.25 * size)}
        return sorted({size - 1, *above} - {each.batch_size for each in self.tried} - {-1, 0, size})

    @cached_property
    def _counted_line(self) -> tuple[float, float, int]:
        return _line(self.counted)

    def next_size(self) -> int:
        """Between `fits` and `fails`: where the answer is as likely above as below.

        Its likelihood falls with the distance from the guess as 1 / (scale + distance): few trials
        confirm a good guess, and a bad one costs no more than about twice a bisection. Behind a size that was untold
        the guess is worth nothing: what is known and that size are halved as powers.
        """
        if self.fails is not None and self.tried[-1].batch_size in self.untold:
            known = max(1, self.fits, *(size for size in self.counted if size < self.fails))
            return min(max(round(math.sqrt(known * self.fails)), self.fits + 1), self.fails - 1)
        guess, scale = self.guess()
        if (
            self.fails is None
        ):  # as far beyond the guess as it lies ahead, and farther the more often that was too short
            beyond = max(guess - self.fits, scale) * 4 ** sum(each.fit is Fit.FITS for each in self.tried)
            high = min(max(guess, self.fits + 1) + beyond, MOST + 1)
        else:
            high = self.fails - 0.5
        middle = (_rank(self.fits + 0.5, guess, scale) + _rank(high, guess, scale)) / 2
        last = MOST if self.fails is None else self.fails - 1
        return min(max(round(_of_rank(middle, guess, scale)), self.fits + 1), last)

    def guess(self) -> tuple[float, float]:
        """(the largest size that the memory measured so far leaves room for, how far that may be off)."""
        peaks = {t.batch_size: float(t.peak_bytes) for t in self.tried if t.fit is Fit.FITS and t.peak_bytes}
        apart = max(peaks, default=0) >= APART * min(peaks, default=1)
        measured = _line(peaks) if apart or not self._counted_line[0] else NO_LINE
        slope, noise, span = measured if measured[0] > STEEP * self._counted_line[0] else self._counted_line
        known = peaks if peaks and max(peaks) >= max(self.counted, default=0) * CLOSE else self.counted
        last = max(known, default=0)
        if slope:
            distance = (self.bound.limit_bytes - known[last]) / slope
            far = max(1.0, abs(distance) / span)  # the slope's own error grows with what is extrapolated
            guess, scale = last + distance, max(0.5, GUESS_ERROR * abs(distance), far * noise / slope)
        else:
            guess, scale = 2.0 * max(last, self.fits) + 1, max(1.0, self.fits)
        ceiling = self.ends_at
        if ceiling is not None and self.fits < ceiling and (self.fails is None or self.fails > last):
            room = max(0.5, (ceiling - last) / 4)
            guess, scale = (
                (min(max(guess, last), ceiling - 1), min(scale, room)) if slope else ((last + ceiling) / 2, room)
            )
        return guess, scale


def largest(
    attempt: Attempt,
    bound: Bound,
    counted: Mapping[int, float],
    ends_at: int | None = None,
    lifted: Attempt | None = None,
    look_around: bool = True,
) -> Largest:
    """The search, with both proofs. `attempt` makes one trial of a size; `lifted` the same with the limit lifted, None
    where it cannot be. `counted`, `ends_at`: as of `Search`. Without `look_around`, nothing beside the answer is tried.
    """
    search = Search(attempt, bound, counted, lifted, ends_at)
    try:
        search.bracket()
        unsettled = search.settle()
    except NoAnswer as error:
        known = f"{search.fits} fits" if search.fits else "none is known to fit"
        known += "" if search.too_large is None else f", {search.too_large} does not"
        return Largest(None, f"{error}; {known}", bound.limit, bound.limit_bytes, tried=tuple(search.tried))
    size = search.fits
    reason = None if unsettled is None else f"batch size {unsettled} fits in one trial and not in another"
    return Largest(
        size,
        reason,
        bound.limit,
        bound.limit_bytes,
        fits=tuple(each.folder for each in search.fitted(size)),
        fails=tuple(each.folder for each in search.failed(size + 1)),
        around=tuple(attempt(each) for each in search.beside(size)) if look_around else (),
        tried=tuple(search.tried),
    )


def _line(points: Mapping[int, float]) -> tuple[float, float, int]:
    """(bytes per sample, how far the points lie from that line, from the smallest to the largest size), of the larger
    sizes; NO_LINE where they do not grow enough for one.
    """
    last = max(points, default=0)
    used = {size: value for size, value in points.items() if size >= last * LARGER}
    if len(used) < 2:
        used = dict(points)
    line = fit_line(used) if len(used) > 1 else None
    if line is None:
        return NO_LINE
    noise, span = max(abs(value - line.at(size)) for size, value in used.items()), max(used) - min(used)
    return (line.per_sample_bytes, noise, span) if line.per_sample_bytes * span > max(noise, 1) else NO_LINE


def _rank(size: float, guess: float, scale: float) -> float:
    """Integral of the likelihood from the guess to a size."""
    return math.copysign(math.log1p(abs(size - guess) / scale), size - guess)


def _of_rank(rank: float, guess: float, scale: float) -> float:
    return guess + math.copysign(scale * math.expm1(abs(rank)), rank)
