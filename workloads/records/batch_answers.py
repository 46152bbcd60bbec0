"""The answers of `python -m runner batch-size`, as they are stored in RESULTS/batch-size.json.

An answer is a batch size, or None with the reason. Folders are below the results folder.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .record import Word
from .size_answers import Best as Best
from .size_answers import LargestSpeed as LargestSpeed
from .size_answers import Ratio as Ratio
from .size_answers import SizePoint as SizePoint
from .size_answers import SizeVerdict as SizeVerdict
from .status import Status

ANSWERS_FILE, SCHEMA_VERSION = "batch-size.json", 1
HOST_LIMIT_FILE = "host-limit.json"  # beside it: the limit that the first search of a results folder found
NEAR = 0.05  # of the answer: the sizes around it that are reported with it


class Limit(Word):
    """Bound of the memory."""

    GPU = "gpu-memory"
    CONTAINER = "container"
    GROUP = "control-group"  # the requested limit, by a control group of the worker
    ASKED = "memory-limit"  # the requested limit, by RLIMIT_DATA
    HOST = "host-memory"


LIMIT_NAMES = {
    Limit.GPU: "all of the GPU's memory",
    Limit.CONTAINER: "the container's limit",
    Limit.GROUP: "a control group",
    Limit.ASKED: "a limit of private memory (RLIMIT_DATA)",
    Limit.HOST: "a limit of private memory (RLIMIT_DATA) within the machine's free memory",
}


class Fit(Word):
    """Result of a trial of steps alone, about memory."""

    FITS = "fits"
    TOO_LARGE = "too-large"  # it ended by running out of memory, and by nothing else
    UNKNOWN = "unknown"  # a crash, a time limit: no answer


@dataclass(frozen=True)
class Tried:
    """One trial of steps alone, in a separate process."""

    batch_size: int
    fit: Fit
    folder: str
    peak_bytes: int | None  # as counted by the limit
    lifted: bool = False  # under a higher limit: if it fits, the limit is what ended those before it
    reason: str | None = None  # of a trial that ended neither well nor by memory


@dataclass(frozen=True)
class Largest:
    """The largest size that fits: both trials of it fitted, both of one more ran out of memory."""

    batch_size: int | None  # 0: not even one image
    reason: str | None  # why there is none; or, if it fitted twice, why one more is not proven not to fit
    limit: Limit
    limit_bytes: int
    fits: tuple[str, ...] = ()  # folders of its trials
    fails: tuple[str, ...] = ()  # of the trials of one more
    around: tuple[Tried, ...] = ()  # sizes tried near them, since memory may not grow with the batch size
    tried: tuple[Tried, ...] = ()  # the whole search with both proofs, in order; without `around`
    speed: LargestSpeed | None = None
    speed_reason: str | None = None  # why it is unknown; None, too, if it was not looked for

    @property
    def larger_that_fit(self) -> tuple[int, ...]:
        """Sizes above the answer that fitted in one trial: memory does not grow with the batch size there."""
        return tuple(sorted(each.batch_size for each in self.around if self._fits_above(each)))

    @property
    def failed_otherwise(self) -> dict[int, str]:
        """Return {batch size: the last reason} of sizes below the answer that neither fitted nor met a limit."""
        below = [each for each in self.tried if each.batch_size < (self.batch_size or 0)]
        ended = {each.batch_size: each.reason or "" for each in below if each.fit is Fit.UNKNOWN}
        told = {each.batch_size for each in below if each.fit is not Fit.UNKNOWN}
        return {size: reason for size, reason in ended.items() if size not in told}

    @property
    def counts_around(self) -> dict[int, tuple[int, int]]:
        """Return {batch size: (trials that fitted, trials under the limit)} of sizes within NEAR of the answer."""
        size = self.batch_size
        if size is None:
            return {}
        trials = [each for each in (*self.tried, *self.around) if not each.lifted]
        near = [each for each in trials if abs(each.batch_size - size) <= max(1, NEAR * size)]
        return {
            other: (sum(each.fit is Fit.FITS for each in same), len(same))
            for other in sorted({each.batch_size for each in near})
            if (same := [each for each in near if each.batch_size == other])
        }

    @property
    def evidence(self) -> str:
        """The counts around the answer as text: "646 fits (3 of 3), 647 failed 1 of 3, 648 fitted once"."""
        return ", ".join(_describe_tries(size, *counts) for size, counts in self.counts_around.items())

    def _fits_above(self, trial: Tried) -> bool:
        return self.batch_size is not None and trial.fit is Fit.FITS and trial.batch_size > self.batch_size


def _describe_tries(size: int, fitted: int, trials: int) -> str:
    if fitted == trials == 1:
        return f"{size:,} fitted once"
    if fitted == trials:
        return f"{size:,} fits ({fitted} of {trials})"
    return f"{size:,} failed once" if trials == 1 else f"{size:,} failed {trials - fitted} of {trials}"


@dataclass(frozen=True)
class NoisePoint:
    """The gradient noise scale at fixed weights."""

    progress: float  # part of the training's steps that are done, 0 ... 1
    squared_gradient: float  # |G|^2, unbiased; negative if it is lost in the noise
    trace: float  # S, of the covariance of one example's gradient
    noise_scale: float | None  # B_simple = S / |G|^2
    low: float | None  # its 95 % interval
    high: float | None
    at_least: float | None  # if |G|^2 is lost in the noise: the noise scale is more than this
    steps: int  # estimates averaged
    small_batch: int
    large_batch: int


class Caution(Word):
    """A kind of layer that disturbs the estimate, or that may."""

    BATCH_NORM = "batch-norm"
    DROPOUT = "dropout"
    OWN_CODE = "own-code"  # its layers are unknown


@dataclass(frozen=True)
class Noise:
    """Noise along a training; `finder` is the published method over the same training, with moving weights.

    Every framework measures at weights that one of them has trained; only that one has the finder's figures.
    """

    points: tuple[NoisePoint, ...] = ()
    noise_scale: float | None = None  # pooled over the points
    low: float | None = None
    high: float | None = None
    at_least: float | None = None  # as a point's
    finder: float | None = None  # None, too, if it or an average |G|^2 of it is not positive
    finder_negative: int = 0  # its windows in which |G|^2 was negative, of `finder_windows`
    finder_windows: int = 0
    reason: str | None = None
    cautions: tuple[Caution, ...] = ()
    trained_by: str | None = None  # the framework that trained these weights
    apart: float | None = None  # relative difference of a typical batch's squared norm from theirs; None: it is theirs
    apart_mean: float | None = None  # the same of the mean of all batches
    agrees: bool | None = None  # True if that is within rounding
    folder: str | None = None  # of the worker that measured


@dataclass(frozen=True)
class Reached:
    """A target accuracy at one batch size, in one repeat."""

    batch_size: int
    repeat: int
    learning_rate: float | None  # the highest of its steps
    epochs: float | None  # the first after which the target is reached; None: not reached, or no figures
    train_s: float | None  # of these epochs, without evaluation
    energy_j: float | None  # of these epochs' training
    accuracy: float | None  # after the last epoch
    folder: str  # "" of a published figure
    status: Status | None = None  # of the training; None: a published figure, or stored by an earlier version


@dataclass(frozen=True)
class Target:
    """The batch size that reaches a target accuracy soonest, and the one that does with the least energy."""

    accuracy: float  # 0 ... 1
    batch_size: int | None
    reason: str | None  # why there is none, or the sizes from which it cannot be separated
    reached: tuple[Reached, ...] = ()  # by batch size and repeat
    least_energy: int | None = None
    energy_reason: str | None = None


class Holds(Word):
    """Result of comparing a published claim with our trials."""

    HOLDS = "holds"
    DOES_NOT = "does-not-hold"
    UNCERTAIN = "cannot-be-told"  # as results have it


@dataclass(frozen=True)
class Trained:
    """Training at a found size compared with the size in use: "so many times faster at equal quality"."""

    batch_size: int
    in_use: int
    speed_up: float | None  # time of an epoch at the size in use over that at the found size
    speed_up_low: float | None
    speed_up_high: float | None
    accuracy_change: float | None  # found minus in use, 0 ... 1
    accuracy_low: float | None
    accuracy_high: float | None
    repeats: int
    verdict: Holds


@dataclass(frozen=True)
class MicroBatches:
    """A requested global batch in parts: one update after `parts` batches of `batch_size`, the last of them smaller."""

    global_batch: int
    parts: int
    batch_size: int


@dataclass(frozen=True)
class Judged:
    """Result of an ordinary trial at a found batch size: a whole training, with the gate and all other checks."""

    batch_size: int
    status: Status
    reason: str | None  # why it did not pass; if it passed, what could not be compared
    folder: str


@dataclass(frozen=True)
class Answers:
    """Answers of one framework; None for questions not asked."""

    framework: str
    memory: tuple[SizePoint, ...] = ()  # highest bytes as counted by the limit, by batch size
    largest: Largest | None = None
    fastest: Best | None = None
    least_energy: Best | None = None
    noise: Noise | None = None
    target: Target | None = None
    trained: tuple[Trained, ...] = ()
    split: MicroBatches | None = None
    version: str | None = None  # of the framework, as its trials reported it; None: none did
    judged: tuple[Judged, ...] = ()  # by batch size; missing ones were not trained
    devices: int = 1  # each trains on a batch of that size: an update has so many times its images


@dataclass(frozen=True)
class BatchAnswers:
    """Content of the file."""

    schema_version: int
    conditions: dict[str, Any]  # machine, task and placement
    in_use: int  # the batch size that others are compared with
    frameworks: tuple[Answers, ...] = field(default=())
