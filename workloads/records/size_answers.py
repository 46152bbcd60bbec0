"""Figures of batch sizes, compared with the best: parts of the answers of `python -m runner batch-size`."""

from __future__ import annotations

from dataclasses import dataclass

from .record import Word


@dataclass(frozen=True)
class SizePoint:
    """A figure at one batch size: the mean over trials, with its interval if there are enough."""

    batch_size: int
    mean: float
    low: float | None
    high: float | None
    trials: int


class SizeVerdict(Word):
    """Result of comparing a batch size with the best one."""

    BEST = "best"
    WITHIN = "within"  # not worse by more than the tolerance
    WORSE = "worse"  # by more than that
    UNCERTAIN = "cannot-be-told"  # as results have it


@dataclass(frozen=True)
class Ratio:
    """A batch size's figure over the best one's, by pairs of trials; below 1 is worse. The best's is over the next."""

    batch_size: int
    verdict: SizeVerdict
    ratio: float
    low: float | None  # None: too few pairs for an interval
    high: float | None
    pairs: int


@dataclass(frozen=True)
class LargestSpeed:
    """Images/s at the largest size, and the best that was measured at it or below."""

    images_per_s: float  # mean of the trials that searched
    best_batch_size: int
    best_images_per_s: float  # the same
    compared: Ratio  # of the largest over the best, by pairs; WORSE: more than 20 % below

    @property
    def words(self) -> str:
        """The comparison as a clause."""
        speed = f"{self.images_per_s:,.0f} images/s there"
        if self.compared.verdict is SizeVerdict.BEST:
            return f"{speed}, the best measured"
        best = f"the best measured, {self.best_images_per_s:,.0f} at {self.best_batch_size:,}"
        ratio = self.compared
        if ratio.low is None or ratio.high is None:
            return f"{speed}, {100 * ratio.ratio:.0f} % of {best} (single trials)"
        share = f"{100 * ratio.ratio:.0f} % [{100 * ratio.low:.0f}, {100 * ratio.high:.0f}] of {best}"
        return f"{speed}, {share}" + f": train at {self.best_batch_size:,}" * self.falls

    @property
    def falls(self) -> bool:
        """True if it is more than 20 % below the best, by its interval."""
        return self.compared.verdict is SizeVerdict.WORSE


@dataclass(frozen=True)
class Best:
    """The smallest batch size that is within the tolerance of the best."""

    batch_size: int | None
    reason: str | None  # why there is none, or the sizes from which it cannot be separated
    points: tuple[SizePoint, ...] = ()  # by batch size
    ratios: tuple[Ratio, ...] = ()
    trials: int = 0
