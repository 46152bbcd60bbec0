"""How far two frameworks' epochs may be apart: training amplifies rounding, update by update, until all is chaos.

Bounds are by the number of updates made, above the most that right frameworks were seen to drift (docs/gate.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from runner.gate.tolerances import diverged
from workloads import schedules
from workloads.records.result import Epoch
from workloads.schedules import Rates
from workloads.spec import OptimizerSpec

# Of a training loss, relative: how far apart it may be before any update, and after how many updates ten times that,
# where the learning rate, of all updates that momentum makes of one gradient, is 0.1; of those that divide by the
# gradient's size 0.001.
START = {"sgd": 1e-4, "momentum": 1e-5, "nesterov": 1e-5, "adam": 1e-4, "adamw": 1e-4, "rmsprop": 1e-4}
TENFOLD = {"sgd": 10.0, "momentum": 10.0, "nesterov": 8.0, "adam": 5.0, "adamw": 5.0, "rmsprop": 3.0}
TENFOLD_RATE = {"sgd": 0.1, "momentum": 0.1, "nesterov": 0.1, "adam": 0.001, "adamw": 0.001, "rmsprop": 0.001}
SLOWEST = 60.0  # updates for a factor of ten, however small the rate
NORMALISED = 100  # times that, where BatchNorm divides by the deviation of a batch
TEST_LOSS = 10  # times that: it is of one moment, a training loss the mean of an epoch
ACCURACY = 0.02  # beyond that: images whose two best logits are next to each other
CHAOS = 0.03  # where rounding may have grown to this, nothing is compared any more
SMALL_LOSS = 0.05  # differences of smaller losses are relative to this


@dataclass(frozen=True)
class Drift:
    """One quantity of one epoch (from 0) in two runs, after so many updates."""

    epoch: int
    updates: int
    quantity: str
    apart: float
    allowed: float

    def __str__(self) -> str:
        return f"the {self.quantity} of epoch {self.epoch + 1} differs by {self.apart:.1e} (allowed {self.allowed:.0e})"


def allowed_training_loss(rule: OptimizerSpec, normalised: bool, updates: int, rates: Rates | None = None) -> float:
    """Relative, of the mean of an epoch that ends after so many updates; `rates` are all of them, where they differ."""
    of_one = rule.learning_rate if rates is None else rates[:updates].astype(np.float64)
    every = of_one / (1 - rule.momentum) if rule.name in ("momentum", "nesterov") else of_one
    tenfolds = np.maximum(1 / SLOWEST, every / (TENFOLD[rule.name] * TENFOLD_RATE[rule.name]))
    grown = updates * float(tenfolds) if rates is None else float(tenfolds.sum())
    return START[rule.name] * (NORMALISED if normalised else 1) * float(10.0 ** min(100.0, grown))


def differences(
    epochs: Sequence[Epoch], other: Sequence[Epoch], rule: OptimizerSpec, normalised: bool
) -> Iterator[Drift]:
    """All that can be compared, from the first epoch on; losses relative, accuracies as fractions of the test split.

    Ends where rounding may have become chaos, or a run diverges: a loss that is no number, or above the first.
    """
    updates = 0
    rates = schedules.rates(rule, sum(epoch.steps for epoch in epochs)) if rule.changes_rate else None
    for number, (left, right) in enumerate(zip(epochs, other, strict=False)):
        updates += left.steps
        allowed = allowed_training_loss(rule, normalised, updates, rates)
        if allowed > CHAOS or any(diverged(_losses(run[: number + 1])) for run in (epochs, other)):
            return
        yield Drift(number, updates, "training loss", _relative(left.train_loss, right.train_loss), allowed)
        allowed *= TEST_LOSS
        if allowed <= CHAOS:
            yield Drift(number, updates, "test loss", _relative(left.test_loss, right.test_loss), allowed)
            apart = abs(left.test_accuracy - right.test_accuracy)
            yield Drift(number, updates, "test accuracy", apart, ACCURACY + allowed)


def drifted(epochs: Sequence[Epoch], other: Sequence[Epoch], rule: OptimizerSpec, normalised: bool) -> Drift | None:
    """The first that is further apart than it may be."""
    drifts = differences(epochs, other, rule, normalised)
    return next((drift for drift in drifts if not drift.apart <= drift.allowed), None)


def _losses(epochs: Sequence[Epoch]) -> list[float | None]:
    return [loss for epoch in epochs for loss in (epoch.train_loss, epoch.test_loss)]


def _relative(loss: float | None, other: float | None) -> float:
    assert loss is not None and other is not None  # neither has diverged
    return abs(loss - other) / max(abs(loss), abs(other), SMALL_LOSS)
