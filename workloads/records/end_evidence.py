"""The gate's second probe, at a trial's end: the framework's answers from the weights it then has.

The worker saves the questions and the answers; the referee recomputes them from the same weights; only the difference
between the two is kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..spec import Workload
from .build import REDUCED
from .job import TrialSpec
from .outstanding import Outstanding
from .record import Record, Word

END_FILE = "end_probe.npz"  # in the trial's folder, until the referee has read it
MIDDLE_FILE = "middle_probe.npz"  # the same, for the updates that were followed in the trial's middle
EVALUATION_FILE = "evaluation-{epoch}.npz"  # the same: `logits` (n, outputs) of the whole test split after this epoch
EVALUATED_FILE = "evaluated_weights.npz"  # the same: the weights of the last evaluation
MOST_EVALUATED = 64  # images of the test split whose logits the referee recomputes
EVALUATION_MULTIPLY_ADDS = 2 * 10**9  # for all of those, but for FEWEST_EVALUATED
FEWEST_EVALUATED = 4
DRAWN_BATCHES = 2  # at least this many batches of the test split are drawn, besides the last, which may be smaller
# Limits for one step, for its batch: above the first the referee follows only the last layer's gradient, which needs
# only the forward pass; above the second it does not follow the step at all.
BACKWARD_MULTIPLY_ADDS, FORWARD_MULTIPLY_ADDS = 6 * 10**8, 6 * 10**9
LARGE_PARAMETERS = 10**7  # above this, weights are saved once, and no update is compared with the referee
# After those steps, each of at most IDLE_BATCH images, fewer for a large workload: does every one change the weights?
IDLE_STEPS, IDLE_BATCH = 12, 32
# Finally one call of CALL_ROWS steps, each of at most CALL_BATCH images, with a single step before it, from which the
# referee learns what momentum keeps. It shows which batches are trained, in which order: few images show that, too.
# Adam's and RMSprop's state cannot be learned from one step: no call is made with them.
CALL, CALL_ROWS, CALL_BATCH = "call", 4, 16  # its name in END_FILE; a power of two, as a trial's calls have
CALL_RULES = ("sgd", "momentum", "nesterov")
CALL_PARTS = (1.0, 0.5, 0.25, 0.5)  # of the last rate, for each row, if the trial's rates differ
CALL_PARAMETERS = 10**6  # above this, no further copies of the weights are made
# Before all of this, one step of as many images as an idle one. From it the referee learns what momentum kept of the
# trial's last update, and goes back over that to the weights at which its loss was reported.
LAST = "last"  # its name in END_FILE
IDLE_LOSS = 0.01  # with less to learn a step may change nothing that float32 can hold
# At most this many of the trial's own updates in its middle are followed, with this much work for the referee: half a
# second of a core. A whole gradient is three passes of its batch. Above, an update is only checked for changing
# weights.
MIDDLE_STEPS, MIDDLE_MULTIPLY_ADDS, WHOLE_PASSES = 3, 24 * 10**8, 3
SHOWN_AT_ONCE = ("sgd", "nesterov", "rmsprop")  # of two steps, the first one's gradient is needed or enough


class Missing(Word):
    """The reason why there is no evidence of a trial's end."""

    WORKER = "worker"  # the framework did not answer
    REFEREE = "referee"  # it failed, or the workload is too large for it
    RUNNER = "runner"  # it was killed before the framework had answered
    MEMORY = "memory"  # our probe ran out of it, under a limit or killed by the kernel: not the framework's fault


@dataclass(frozen=True)
class Difference:
    """Relative difference between the framework and the referee, None if one of them is not a number.

    `rounding` is the difference between the referee in float32 and in float64, 0 if it was not needed. `resolution` is
    the most that keeping weights in float32 may add. If an update is undone, it is what a value on a kink may add. It
    is 0 if it was not needed. One that is not a number counts as 0.
    """

    apart: float | None
    rounding: float = 0.0
    resolution: float = 0.0


@dataclass(frozen=True)
class EndStep:
    """One step of the probe. `update` is of the parameter that differs most; None if none could be recomputed."""

    batch_size: int
    partial: bool
    loss: Difference
    update: Difference | None = None
    parameter: str | None = None
    whole: bool = True  # all parameters were compared with the referee; else those of the last layer


@dataclass(frozen=True)
class EndCall:
    """One call of `rows` steps. `loss` is of the `row`, counted from 1, that differs most; `update` is of the
    parameter whose change by the whole call differs most.
    """

    rows: int
    batch_size: int
    row: int
    loss: Difference
    update: Difference
    parameter: str


@dataclass(frozen=True)
class DropoutMasks:
    """One Dropout's output in training mode, at nonzero inputs: the number of `values` and the share of zeros.
    `scale` is the median of output over input of the others; None if all are zero. A StochasticDepth's `values` are
    whole images, and `zeros` the share of them that lost a value.
    """

    layer: str
    values: int
    zeros: float
    scale: float | None


@dataclass(frozen=True)
class Digests:
    """SHA-256 of what one moment's differences were computed from: the weights around the followed steps, the images
    that were asked about, and the framework's answers.
    """

    weights: str
    images: str
    answers: str


@dataclass(frozen=True)
class TrialMiddle:
    """Some of the trial's own updates, drawn by the worker, after `updates` others; `reason` if the framework did
    not answer. Fields as in `TrialEnd`.
    """

    epoch: int  # from 0
    updates: int
    reason: str | None = None
    images: int = 0
    evaluation: Difference | None = None
    steps: tuple[EndStep, ...] = ()
    asked_steps: int = 0
    idle_steps: int = 0
    digests: Digests | None = None


@dataclass(frozen=True)
class LastEvaluation:
    """Evidence of the evaluation after the last epoch: the logits of some of its images, drawn after it was made."""

    images: int
    difference: Difference


@dataclass(frozen=True)
class TrialEnd(Record):
    """Evidence of a trial's end. `evaluation`, of `images`, and `steps` are empty if `missing` says why."""

    outstanding: Outstanding | None
    missing: Missing | None = None
    reason: str | None = None
    images: int = 0
    evaluation: Difference | None = None
    steps: tuple[EndStep, ...] = ()
    asked_steps: int = 0  # of IDLE_STEPS, those with something left to learn
    idle_steps: int = 0  # how many of those changed no weight
    call: EndCall | None = None  # None if none was made, as in trials of earlier versions
    middle: TrialMiddle | None = None  # the same
    masks: tuple[DropoutMasks, ...] = ()  # for every Masked layer that follows another; the same
    digests: Digests | None = None  # None in trials of earlier versions
    last_evaluation: LastEvaluation | None = None  # the same, and where its weights were not saved
    last: Difference | None = None  # of the loss of the trial's last update; the same, and where it is unknown


def evaluated_images(workload: Workload) -> int:
    """Number of logits that the referee recomputes."""
    most = EVALUATION_MULTIPLY_ADDS // max(1, workload.multiply_adds)
    return min(MOST_EVALUATED, max(FEWEST_EVALUATED, most))


def drawn_images(generator: np.random.Generator, split: int, batch_size: int, most: int) -> list[NDArray[np.int64]]:
    """Return indices of up to `most` images of the test split: of some drawn batches, and always of the last one,
    which may be smaller. There is one array per batch, in the order of an evaluation.
    """
    *others, last = range(0, split, batch_size)
    of_last = min(split - last, -(-most // 2) if others else most)
    count = min(len(others), max(DRAWN_BATCHES, -(-(most - of_last) // batch_size)))
    firsts = [*sorted(generator.choice(others, count, replace=False)), last] if others else [last]
    of_others = [len(each) for each in np.array_split(np.arange(most - of_last), count)] if others else []
    return [
        first + np.sort(generator.choice(size, min(size, share), replace=False))
        for first, share in zip(firsts, [*of_others, of_last], strict=True)
        for size in [min(batch_size, split - first)]
    ]


def draw_evaluated(generator: np.random.Generator, split: int, batch_size: int, most: int) -> NDArray[np.int64]:
    """Return indices of up to `most` images of an evaluation. A quarter of them, at least one, are from its last batch,
    which may be smaller. The others are from the batches before.
    """
    last = (split - 1) // batch_size * batch_size
    of_last = min(split - last, max(1, most // 4)) if last else min(split, most)
    others = generator.choice(last, min(last, most - of_last), replace=False)
    return np.sort(np.concatenate([others, last + generator.choice(split - last, of_last, replace=False)]))


def steps_before_evaluation(followed: int) -> int:
    """Return the number of followed steps before logits are computed. This lies between two steps: an evaluation that
    changes the optimizer's state then shows in the second.
    """
    return min(1, max(0, followed - 1))


def follows_whole_gradient(workload: Workload, batch_size: int) -> bool:
    """True if the referee computes the last step's gradient of every layer, not only of the last."""
    return workload.multiply_adds * batch_size <= BACKWARD_MULTIPLY_ADDS


def idle_batch(workload: Workload, batch_size: int) -> int:
    """Return the images in each of the IDLE_STEPS: together they take no longer than a few steps of the trial."""
    return min(batch_size, IDLE_BATCH, max(2, BACKWARD_MULTIPLY_ADDS // max(1, workload.multiply_adds)))


def makes_call(workload: Workload, rule: str, batch_size: int, devices: int) -> bool:
    """True if the probe makes a call of several steps that the referee can follow."""
    return (
        rule in CALL_RULES
        and devices == 1
        and not workload.draws
        and workload.parameter_count <= CALL_PARAMETERS
        and follows_whole_gradient(workload, idle_batch(workload, batch_size))
    )


def goes_back(workload: Workload, spec: TrialSpec, images: int) -> bool:
    """True if the referee can go back over the trial's last update, of so many images: only momentum's weights show the
    weights before them. BatchNorm, augmented images and fewer digits than float32 leave more doubt than an error makes.
    """
    rule = spec.task.optimizer
    return (
        rule.name == "momentum"
        and rule.momentum > 0
        and spec.task.augment == "none"
        and spec.task.precision not in REDUCED
        and not workload.statistic_shapes()
        and makes_call(workload, rule.name, spec.cell.batch_size, spec.placement.devices)
        and 2 * workload.multiply_adds * images <= FORWARD_MULTIPLY_ADDS
    )


def middle_steps(workload: Workload, rule: str, batch_size: int) -> int:
    """Number of consecutive updates in a trial's middle that the referee follows, all but the first in full."""
    one_pass = max(1, workload.multiply_adds * batch_size)
    whole = WHOLE_PASSES if follows_whole_gradient(workload, batch_size) else 1
    first = whole if rule in SHOWN_AT_ONCE else 1
    costs = [(first + whole * others) * one_pass for others in range(MIDDLE_STEPS)]
    return 0 if workload.draws else sum(cost <= MIDDLE_MULTIPLY_ADDS for cost in costs)


def step_sizes(
    workload: Workload, split: int, batch_size: int, last_batch: str, part: int | None = None
) -> tuple[int, ...]:
    """Return the batches of the probe's steps: three full ones, and a partial one if the trial's epochs end with one.

    Only those that the referee can follow are returned: none if masks are drawn, one for a large workload, with only
    its loss. If an update of all parts is too much for it, the update has as many parts as it can follow, at least two.
    """
    rest, full = split % batch_size if last_batch == "keep" else 0, batch_size
    if part is not None:
        full = min(full, part * max(2, FORWARD_MULTIPLY_ADDS // max(1, workload.multiply_adds * part)))
    sizes = [
        size
        for size in (full, full, full, rest)
        if size and not workload.draws and workload.multiply_adds * size <= FORWARD_MULTIPLY_ADDS
    ]
    return tuple(sizes if workload.parameter_count <= LARGE_PARAMETERS else sizes[:1])
