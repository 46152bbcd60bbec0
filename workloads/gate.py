"""The gate's probe: what a framework computes, in a process of its own, before its first trial, so that it can be
compared: nothing of it is in what a trial measures.

Its evidence is small enough to store: an array is told by two numbers that see a changed value as well as a changed
place.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

PROBE_BATCH = 4
PROBE_STEPS = 5
EVALUATED_STEPS = 2  # all that a workload of more than LARGE multiply-adds an image is trained, for the gate's time
LARGE = 10**7
_NOISE = np.random.Generator(np.random.PCG64(2020)).standard_normal(4093)  # prime: fits no axis

Fingerprint = tuple[float, float]


def fingerprint(array: NDArray[Any]) -> Fingerprint:
    """(Euclidean norm, projection on a fixed noise): an error e moves the second by about |e|, wherever it is.

    Places that are a multiple of the noise's length apart share a value of it: errors there may cancel.
    """
    values = np.asarray(array, np.float32).ravel()
    whole = len(values) // len(_NOISE) * len(_NOISE)
    rows, rest = values[:whole].reshape(-1, len(_NOISE)), values[whole:]
    projection = rows.sum(axis=0, dtype=np.float64) @ _NOISE + rest @ _NOISE[: len(rest)]
    return math.sqrt(np.square(values).sum(dtype=np.float64)), float(projection)


@dataclass(frozen=True)
class Evidence:
    """What one framework made of the probe: PROBE_BATCH images of the training split, the trial's own weights and
    optimizer, no dropout. `evaluation` is of the logits after EVALUATED_STEPS, with BatchNorm's running statistics;
    `untrained_evaluation` is of the trial's own model before its first step, with dropout where it has any.
    """

    loss: float
    gradient_norm: float
    outputs: dict[str, Fingerprint]  # of every layer, in the order of computation
    gradients: dict[str, Fingerprint]  # of every parameter, in the order of the layers
    losses: list[float]  # of PROBE_STEPS steps, of EVALUATED_STEPS where the workload is large
    evaluation: Fingerprint
    untrained_evaluation: Fingerprint

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> Evidence:
        """None, for what is no number, stays None."""
        return Evidence(**data)
