"""The gate's second probe, at a trial's end: what the framework still does with the weights that it then has.

The worker saves what it was asked and what it answered; the referee, from the same weights, recomputes it; what is kept
is how far apart the two are.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..spec import Workload
from .record import Record
from .word import Word

END_FILE = "end_probe.npz"  # in the trial's folder, until the referee has read it
MOST_EVALUATED = 64  # images of the test split whose logits the referee recomputes
EVALUATION_MULTIPLY_ADDS = 2 * 10**9  # for all of those, but for FEWEST_EVALUATED
FEWEST_EVALUATED = 4
# Of one step, for its batch: above the first the referee follows the gradient to the last layer alone, which needs no
# more than the forward pass; above the second it does not follow the step at all.
BACKWARD_MULTIPLY_ADDS, FORWARD_MULTIPLY_ADDS = 6 * 10**8, 6 * 10**9
LARGE_PARAMETERS = 10**7  # above, weights are saved once, and no update is held against the referee
# Behind those steps, each of IDLE_BATCH images at most, fewer of a large workload: does every one change the weights?
IDLE_STEPS, IDLE_BATCH = 12, 32
IDLE_LOSS = 0.01  # with less to learn a step may change nothing that float32 can hold


class Missing(Word):
    """Why there is no evidence of a trial's end."""

    WORKER = "worker"  # the framework did not answer
    REFEREE = "referee"  # it failed, or the workload is too large for it
    RUNNER = "runner"  # it was killed before the framework had answered
    MEMORY = "memory"  # our probe ran out of it, under a limit or by the kernel's hand: the framework is not to blame


@dataclass(frozen=True)
class Difference:
    """Between the framework and the referee: relative, None where one of them is no number.

    `rounding`: the same between the referee in float32 and in float64, 0 where nobody had to ask; `resolution`: what
    keeping weights in float32 may make of it at most.
    """

    apart: float | None
    rounding: float = 0.0
    resolution: float = 0.0


@dataclass(frozen=True)
class EndStep:
    """One step of the probe. `update` is of the parameter that differs most; None where none could be recomputed."""

    batch_size: int
    partial: bool
    loss: Difference
    update: Difference | None = None
    parameter: str | None = None
    whole: bool = True  # all parameters were held against the referee; else those of the last layer


@dataclass(frozen=True)
class Outstanding:
    """Two copies of the weights, one after the other, as soon as a segment of the window had ended; seconds of each,
    summed over the segments.

    `cpu` is the process's own processor time. What the first takes longer than the second was still to be done.
    """

    first_s: float
    second_s: float
    first_cpu_s: float
    second_cpu_s: float


@dataclass(frozen=True)
class TrialEnd(Record):
    """What is known of a trial's end. `evaluation`, of `images`, and `steps` are empty where `missing` says why."""

    outstanding: Outstanding | None
    missing: Missing | None = None
    reason: str | None = None
    images: int = 0
    evaluation: Difference | None = None
    steps: tuple[EndStep, ...] = ()
    asked_steps: int = 0  # of IDLE_STEPS, those with something left to learn
    idle_steps: int = 0  # of those, how many left every weight as it was


def evaluated_images(workload: Workload) -> int:
    """How many logits the referee recomputes."""
    most = EVALUATION_MULTIPLY_ADDS // max(1, workload.multiply_adds)
    return min(MOST_EVALUATED, max(FEWEST_EVALUATED, most))


def follows_whole_gradient(workload: Workload, batch_size: int) -> bool:
    """Whether the referee computes the last step's gradient of every layer, not of the last alone."""
    return workload.multiply_adds * batch_size <= BACKWARD_MULTIPLY_ADDS


def idle_batch(workload: Workload, batch_size: int) -> int:
    """Images in each of the IDLE_STEPS: together they take no longer than a few steps of the trial."""
    return min(batch_size, IDLE_BATCH, max(2, BACKWARD_MULTIPLY_ADDS // max(1, workload.multiply_adds)))


def step_sizes(
    workload: Workload, split: int, batch_size: int, last_batch: str, part: int | None = None
) -> tuple[int, ...]:
    """The batches of the probe's steps: three full ones, and a partial one where the trial's epochs end with such.

    Those that the referee can follow: none where masks are drawn; of a large workload one, whose loss alone is told.
    Where an update of all parts is too much for it, it has as many parts as are not, two at least.
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
