"""Search for the largest batch size that fits, by trials. This module knows nothing of processes or frameworks.

The next size is guessed from the memory of the sizes that fitted, and from what really happened. Where the guess is
wrong, it loses its weight. The bracket between a size that fits and one that does not is then halved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from workloads.records.batch_answers import Fit, Largest, Limit, Tried
from workloads.records.memory_line import fit_line

MOST = 2**20  # if this size fits, no larger one is searched
GUESS_ERROR = 0.02  # of the extrapolated distance; usual for the line of a counting process
CLOSE = 0.9  # of the largest counted size: from here on a trial knows better
APART = 1.2  # ratio of trial sizes above which their memory says more about an image's need than the counting process
STEEP = 0.25  # of the counting process's bytes per image: a trial needs no less, whatever two trials say
LARGER = 0.2  # of the largest size: below it, memory is not yet a line
STEP_BACK = 0.05  # of a size that fits only sometimes; doubled each time
TRIALS = 2  # of the answer at least, and of the next size
ABOVE = 4  # times an uncertain size: how far above it to look for a size that fits
NO_LINE = 0.0, 0.0, 1  # result of `_line` without a line
UNTOLD = 4  # most undecided sizes; an undecided size bounds the search from above

Attempt = Callable[[int], Tried]


class NoAnswer(Exception):
    """A trial ended, but not by memory; the message is the reason."""


@dataclass(frozen=True)
class Bound:
    """Memory limit that sizes are compared with."""

    limit: Limit
    limit_bytes: int

    @property
    def trials(self) -> int:
        """Number of trials of the answer that must fit; chance decides more where pages count as they are touched."""
        return TRIALS + (self.limit in (Limit.GROUP, Limit.CONTAINER))


@dataclass
class SearchState:
    """State of the search: what has been tried.

    `counted` is {batch size: peak bytes} of what the limit counts, as reported by a counting process.
    """

    attempt: Attempt
    bound: Bound
    counted: Mapping[int, float]
    lifted: Attempt | None
    ends_at: int | None = None  # size at which that process ran out of memory
    tried: list[Tried] = field(default_factory=list)
    fits: int = 0  # the largest size that fits, 0 before any
    too_large: int | None = None  # the smallest size that the limit ended
    untold: dict[int, Tried] = field(default_factory=dict)  # last trial of each size that no trial decides

    @property
    def fails(self) -> int | None:
        """The smallest size above `fits` that does not fit or is undecided.

        A larger size that fits clears an undecided one: memory was not what failed there.
        """
        untold = (size for size in self.untold if size > self.fits)
        return min((*untold, *filter(None, [self.too_large])), default=None)

    def ask(self, size: int) -> Fit:
        """Run one more trial and return whether it fits.

        A trial that ended for another reason than memory is repeated once. If that is undecided too, the limit is
        lifted. If the trial then runs, or runs out of memory even then, the limit had ended it. Raises NoAnswer where
        more than UNTOLD sizes stay undecided, or where one does that had been tried before.
        """
        again = bool(self._list_tries(size))
        trial = self._noted(self.attempt(size))
        if trial.fit is Fit.UNKNOWN:
            trial = self._noted(self.attempt(size))
        fit = Fit.TOO_LARGE if trial.fit is Fit.UNKNOWN and self._ends_by_limit(size) else trial.fit
        if fit is Fit.UNKNOWN:
            self.untold[size] = trial
            if again or len(self.untold) > UNTOLD:
                raise self.no_answer(size)
        elif fit is Fit.TOO_LARGE:
            self.too_large = size if self.too_large is None else min(size, self.too_large)
        elif self.too_large is None or size < self.too_large:
            self.fits = max(size, self.fits)
        return fit

    def no_answer(self, size: int) -> NoAnswer:
        """Return the error for an undecided size."""
        last = self.untold[size]
        why = f" ({last.reason})" if last.reason else ""
        return NoAnswer(
            f"batch size {size}: two trials failed for reasons other than memory, the last in {last.folder}{why}"
        )

    def _noted(self, trial: Tried) -> Tried:
        self.tried.append(trial)
        return trial

    def _ends_by_limit(self, size: int) -> bool:
        """True if the same trial fits with the limit lifted, or runs out of memory even there.

        Nothing else differs, so the limit ended the trial.
        """
        if self.lifted is not None and not any(each.lifted for each in self._list_tries(size)):
            self._noted(replace(self.lifted(size), lifted=True))
        return self._is_limited(size)

    def _is_limited(self, size: int) -> bool:
        """True if a trial with the limit lifted shows that the limit ends the others."""
        return any(each.lifted and each.fit is not Fit.UNKNOWN for each in self._list_tries(size))

    def _list_tries(self, size: int) -> list[Tried]:
        return [each for each in self.tried if each.batch_size == size]

    def fitted(self, size: int) -> list[Tried]:
        """Return the trials of this size that fitted."""
        return [each for each in self._list_tries(size) if each.fit is Fit.FITS and not each.lifted]

    def failed(self, size: int) -> list[Tried]:
        """Return the trials of this size that the limit ended."""
        ends = (Fit.TOO_LARGE, Fit.UNKNOWN) if self._is_limited(size) else (Fit.TOO_LARGE,)
        return [each for each in self._list_tries(size) if each.fit in ends and not each.lifted]

    def bracket(self) -> None:
        """Try sizes until `fits` + 1 = `fails`, and no larger size fits if `fails` is undecided. Raises NoAnswer."""
        while True:
            while self.fails is None or self.fails - self.fits > 1:
                if self.fits >= MOST:
                    raise NoAnswer(f"batch size {self.fits} fits; no larger one is searched for")
                self.ask(self.next_size())
            if self.fails not in self.untold or not self._passes(self.fails):
                return

    def _passes(self, untold: int) -> bool:
        """True if a larger size fits, so that memory was not what failed at this one.

        First a size well above it is tried, then the next one that decides anything. Where the one well above is
        undecided too, one more is tried. Raises NoAnswer.
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
        """Repeat trials until `fits` has fitted often enough and `fails` has failed twice.

        Returns the smallest size that did both, if any. In that case the answer is a smaller size that fits twice. The
        sizes between are not searched, because chance would decide. Raises NoAnswer.
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
        """Return a size not far below that has fitted, or else a size smaller by the share `back`."""
        known = [each.batch_size for each in self.tried if each.fit is Fit.FITS and not self.failed(each.batch_size)]
        least = min(size - 1, math.floor(size * (1 - back)))
        return max((each for each in known if least <= each < size), default=max(0, least))

    @cached_property
    def _counted_line(self) -> tuple[float, float, int]:
        return _line(self.counted)

    def next_size(self) -> int:
        """Return a size between `fits` and `fails` such that the answer is as likely above it as below.

        The likelihood falls with the distance from the guess as 1 / (scale + distance). Few trials confirm a good
        guess, and a bad one costs at most about twice a bisection. After an undecided size the guess is not used. The
        next size is then the geometric mean of what is known and that size.
        """
        if self.fails is not None and self.tried[-1].batch_size in self.untold:
            known = max(1, self.fits, *(size for size in self.counted if size < self.fails))
            return min(max(round(math.sqrt(known * self.fails)), self.fits + 1), self.fails - 1)
        guess, scale = self.guess()
        if self.fails is None:  # as far beyond the guess as it is ahead, and farther the more often that was too short
            beyond = max(guess - self.fits, scale) * 4 ** sum(each.fit is Fit.FITS for each in self.tried)
            high = min(max(guess, self.fits + 1) + beyond, MOST + 1)
        else:
            high = self.fails - 0.5
        middle = (_rank(self.fits + 0.5, guess, scale) + _rank(high, guess, scale)) / 2
        last = MOST if self.fails is None else self.fails - 1
        return min(max(round(_of_rank(middle, guess, scale)), self.fits + 1), last)

    def guess(self) -> tuple[float, float]:
        """Return (the largest size that the measured memory leaves space for, how far that may be off)."""
        peaks = {t.batch_size: float(t.peak_bytes) for t in self.tried if t.fit is Fit.FITS and t.peak_bytes}
        apart = max(peaks, default=0) >= APART * min(peaks, default=1)
        measured = _line(peaks) if apart or not self._counted_line[0] else NO_LINE
        slope, noise, span = measured if measured[0] > STEEP * self._counted_line[0] else self._counted_line
        known = peaks if peaks and max(peaks) >= max(self.counted, default=0) * CLOSE else self.counted
        last = max(known, default=0)
        if slope:
            distance = (self.bound.limit_bytes - known[last]) / slope
            far = max(1.0, abs(distance) / span)  # the slope's own error grows with the extrapolated distance
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


def find_largest(
    attempt: Attempt,
    bound: Bound,
    counted: Mapping[int, float],
    ends_at: int | None = None,
    lifted: Attempt | None = None,
) -> Largest:
    """Search for the largest size, with proofs that it fits and that the next one fails.

    `attempt` makes one trial of a size. `lifted` does the same with the limit lifted; it is None where that is
    impossible. `counted` and `ends_at` are as in `Search`.
    """
    search = SearchState(attempt, bound, counted, lifted, ends_at)
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
        tried=tuple(search.tried),
    )


def list_sizes_around(answer: Largest) -> list[int]:
    """Return untried sizes at which memory that does not grow with the batch size may show."""
    size = answer.batch_size
    if size is None:
        return []
    above = {8 * (size // 8 + 1), 64 * (size // 64 + 1), math.ceil(1.05 * size), math.ceil(1.25 * size)}
    return sorted({size - 1, *above} - {each.batch_size for each in answer.tried} - {-1, 0, size})


def _line(points: Mapping[int, float]) -> tuple[float, float, int]:
    """Return (bytes per sample, largest distance of a point from that line, span of the sizes) for the larger sizes.

    Returns NO_LINE where the points do not grow enough for a line.
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
    """Return the integral of the likelihood from the guess to a size."""
    return math.copysign(math.log1p(abs(size - guess) / scale), size - guess)


def _of_rank(rank: float, guess: float, scale: float) -> float:
    return guess + math.copysign(scale * math.expm1(abs(rank)), rank)
