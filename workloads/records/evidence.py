"""The gate's probe: a framework's computations, in a separate process, before its first trial, so that frameworks can
be compared. It adds nothing to what a trial measures.

Its evidence is small enough to store. An array is represented by a few numbers that react to a changed value as well as
to a moved one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..spec import OptimizerSpec
from .record import Record

PROBE_BATCH = 4
BATCHES = (PROBE_BATCH, 3, 4, 4, 4)  # images of each step: a batch that is not full comes early
ACCUMULATED = (7, PROBE_BATCH, 7, 7, 7)  # the same for updates in parts of PROBE_BATCH: the last part is smaller
PROBE_STEPS = len(BATCHES)
CALLS = (1, 1, 3)  # steps in each call of `train`: a trial's calls have several, too
# The same for an imported network, whose source is compared after three updates, however large it is.
SOURCE_CALLS, SOURCE_STEPS = (1, 1, 1, 2), 3
EVALUATED_STEPS = 2  # training steps for a workload of more than LARGE multiply-adds per image, to save the gate's time
LARGE = 10**7
# Repetitions of everything, each with other images. If a value falls on the other side of a kink (ReLU, max pooling) or
# a sum cancels, rounding is amplified: in one of some hundred draws of images, not in all of them.
PROBES, LARGE_PROBES = 3, 2
# Parts of the learning rate, by step, if the trial changes it. They are not the trial's own: the first of these may be
# so small that an update is rounding, and all batch sizes share the probe.
RATE_PARTS = (1.0, 0.5, 1.0, 0.25, 0.5)
PROJECTIONS = 4  # enough that the size of a difference is never underrated by much
_NOISE = np.random.Generator(np.random.PCG64(2020)).standard_normal((PROJECTIONS, 4093))  # prime: fits no axis

Fingerprint = Sequence[float]  # null in JSON, for a value that is not a number, stays None


def fingerprint(array: NDArray[Any]) -> Fingerprint:
    """Return (Euclidean norm, projections on fixed noises): an error e moves each of these by about |e|, wherever it
    is.

    Positions that are a multiple of the noise's length apart share a value of it: errors there may cancel.
    """
    values = np.asarray(array, np.float32).ravel()
    length = _NOISE.shape[1]
    whole = len(values) // length * length
    sums = values[:whole].reshape(-1, length).sum(axis=0, dtype=np.float64)
    sums[: len(values) - whole] += values[whole:]
    norm = math.sqrt(np.square(values).sum(dtype=np.float64))
    return tuple(float(f"{value:.10g}") for value in (norm, *(_NOISE @ sums)))


def probe_rates(optimizer: OptimizerSpec, first: int, steps: int = 1) -> NDArray[np.float32] | None:
    """Return the rates given to `train` for `steps` steps of the probe, starting at step `first`, counted from 1."""
    if not optimizer.changes_rate:
        return None
    return np.array([optimizer.learning_rate * part for part in RATE_PARTS[first - 1 : first - 1 + steps]], np.float32)


@dataclass(frozen=True)
class Evidence(Record):
    """One framework's answer to the probe: PROBE_BATCH images of the training split, the trial's weights and optimizer,
    no dropout. `evaluation` is of the logits after EVALUATED_STEPS, with BatchNorm's running statistics.
    `untrained_evaluation` is of the trial's model before its first step, with dropout if it has any.

    Evidence of earlier versions lacks the fields that have a default.
    """

    loss: float
    gradient_norm: float
    outputs: dict[str, Fingerprint]  # of every layer, in the order of computation
    gradients: dict[str, Fingerprint]  # of every parameter, in the order of the layers
    losses: list[float]  # of PROBE_STEPS steps, of EVALUATED_STEPS if the workload is large
    evaluation: Fingerprint
    untrained_evaluation: Fingerprint
    # {steps: {key: its change}}, for everything trained and for running statistics; after each call
    updates: dict[str, dict[str, Fingerprint]] = field(default_factory=dict)
    sizes: dict[str, float] = field(default_factory=dict)  # norms of the weights with which the updates are rounded
    again: list[Evidence] = field(default_factory=list)  # the same from other images

    @property
    def probes(self) -> list[Evidence]:
        """This evidence and the same from other images."""
        return [self, *self.again]
