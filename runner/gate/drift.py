"""Allowed differences between two frameworks' epochs: training amplifies rounding, update by update, until all is
chaos.

Bounds depend on the number of updates made and are above the largest drift seen in correct frameworks (docs/gate.md).
They are wider if disturbed weights drifted further in the same trial.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from runner.gate.sizes import diverged, lower_middle
from workloads import schedules
from workloads.records.result import Epoch
from workloads.schedules import Rates
from workloads.spec import OptimizerSpec
from workloads.words import compare_with_allowed

# Relative differences of a training loss: the bound before any update, and the number of updates that multiply it by
# ten. TENFOLD holds at a learning rate of 0.1, summed over all updates that momentum makes of one gradient, or of 0.001
# for rules that divide by the gradient's size.
START = {"sgd": 1e-4, "momentum": 1e-5, "nesterov": 1e-5, "adam": 1e-4, "adamw": 1e-4, "rmsprop": 1e-4}
TENFOLD = {"sgd": 10.0, "momentum": 10.0, "nesterov": 8.0, "adam": 5.0, "adamw": 5.0, "rmsprop": 3.0}
TENFOLD_RATE = {"sgd": 0.1, "momentum": 0.1, "nesterov": 0.1, "adam": 0.001, "adamw": 0.001, "rmsprop": 0.001}
SLOWEST = 60.0  # updates for a factor of ten, however small the rate
NORMALISED = 100  # times that, because BatchNorm divides by the deviation of a batch
TEST_LOSS = 10  # times that: it is of one moment, while a training loss is the mean of an epoch
ACCURACY = 0.02  # in addition to that: images whose two best logits are close
CHAOS = 0.03  # once rounding may have grown to this, nothing is compared
SMALL_LOSS = 0.05  # differences of smaller losses are relative to this
DISTURBANCES = 5  # times the drift seen under disturbed weights


@dataclass(frozen=True)
class Drift:
    """One quantity of one epoch (from 0) in two runs, after this many updates."""

    epoch: int
    updates: int
    quantity: str
    apart: float
    allowed: float

    def __str__(self) -> str:
        size = compare_with_allowed(self.apart, self.allowed)
        return f"the {self.quantity} of epoch {self.epoch + 1} differs by {size}"


@dataclass(frozen=True)
class Moved:
    """The largest movement of a trial up to the end of an epoch under a disturbance of the weights."""

    loss: float  # relative; a tenth for the test loss, whose tolerance is TEST_LOSS times larger
    accuracy: float


def moved(epochs: Sequence[Epoch], disturbed: Sequence[Sequence[Epoch]]) -> list[Moved]:
    """Return the movement for each epoch that every disturbed training has; unbounded from where one diverges."""
    most, known = Moved(0.0, 0.0), []
    for number, parts in enumerate(zip(epochs, *disturbed, strict=False) if disturbed else ()):
        trial, *others = parts
        if any(diverged(_losses(run[: number + 1])) for run in (epochs, *disturbed)):
            most = Moved(math.inf, 1.0)
        for other in others if math.isfinite(most.loss) else ():
            test_loss = _relative(other.test_loss, trial.test_loss) / TEST_LOSS
            loss = max(most.loss, _relative(other.train_loss, trial.train_loss), test_loss)
            most = Moved(loss, max(most.accuracy, abs(other.test_accuracy - trial.test_accuracy)))
        known.append(most)
    return known


def middle_moved(by_framework: Sequence[Sequence[Moved]]) -> list[Moved]:
    """Return the frameworks' middle movement for each epoch, so that none widens its own bound; empty for one."""
    if len(by_framework) < 2:
        return []
    return [
        Moved(lower_middle([each.loss for each in epoch]), lower_middle([each.accuracy for each in epoch]))
        for epoch in zip(*by_framework, strict=False)
    ]


def compared_epochs(epochs: Sequence[Epoch], rule: OptimizerSpec, normalised: bool) -> int:
    """Count the epochs before rounding may have become chaos, judged by the number of updates."""
    ends, rates = accumulate(epoch.steps for epoch in epochs), _rates(rule, epochs)
    return sum(allowed_training_loss(rule, normalised, updates, rates) <= CHAOS for updates in ends)


def _rates(rule: OptimizerSpec, epochs: Sequence[Epoch]) -> Rates | None:
    """Return the rates of every update, if they differ."""
    return schedules.rates(rule, sum(epoch.steps for epoch in epochs)) if rule.changes_rate else None


def allowed_training_loss(rule: OptimizerSpec, normalised: bool, updates: int, rates: Rates | None = None) -> float:
    """Return the relative tolerance for the mean of an epoch that ends after this many updates; `rates` are all
    rates, if they differ.
    """
    tenfolds = _tenfolds(rule, rates)
    grown = updates * float(tenfolds[0]) if rates is None else float(tenfolds[:updates].sum())
    return START[rule.name] * (NORMALISED if normalised else 1) * float(10.0 ** min(100.0, grown))


def _tenfolds(rule: OptimizerSpec, rates: Rates | None) -> NDArray[np.float64]:
    """Powers of ten by which rounding may grow with each update; one for all updates if `rates` is None."""
    of_one = np.array([rule.learning_rate] if rates is None else rates, np.float64)
    every = of_one / (1 - rule.momentum) if rule.name in ("momentum", "nesterov") else of_one
    return np.maximum(1 / SLOWEST, every / (TENFOLD[rule.name] * TENFOLD_RATE[rule.name]))


def growth_of_losses(epochs: Sequence[Epoch], rule: OptimizerSpec, known: int, losses: int) -> list[float]:
    """Return the factor by which rounding of each later loss up to `losses` may exceed that of step `known`."""
    tenfolds = np.resize(_tenfolds(rule, _rates(rule, epochs)), losses)
    return [float(10.0 ** min(100.0, grown)) for grown in np.cumsum(tenfolds[known - 1 : losses - 1])]


def differences(
    epochs: Sequence[Epoch],
    other: Sequence[Epoch],
    rule: OptimizerSpec,
    normalised: bool,
    disturbed: Sequence[Moved] = (),
) -> Iterator[Drift]:
    """Yield everything that can be compared, from the first epoch on; losses relative, accuracies as fractions of the
    test split. `disturbed` is the effect of a disturbance of the weights on each epoch, if known.

    Ends once rounding may have become chaos, or a run diverges: a loss that is not a number, or above the first.
    """
    updates = 0
    rates = _rates(rule, epochs)
    for number, (left, right) in enumerate(zip(epochs, other, strict=False)):
        updates += left.steps
        seen = disturbed[number] if number < len(disturbed) else Moved(0.0, 0.0)
        allowed = max(allowed_training_loss(rule, normalised, updates, rates), DISTURBANCES * seen.loss)
        if allowed > CHAOS or any(diverged(_losses(run[: number + 1])) for run in (epochs, other)):
            return
        yield Drift(number, updates, "training loss", _relative(left.train_loss, right.train_loss), allowed)
        allowed *= TEST_LOSS
        if allowed <= CHAOS:
            yield Drift(number, updates, "test loss", _relative(left.test_loss, right.test_loss), allowed)
            apart = abs(left.test_accuracy - right.test_accuracy)
            allowed = max(ACCURACY + allowed, DISTURBANCES * seen.accuracy)
            yield Drift(number, updates, "test accuracy", apart, allowed)


def drifted(
    epochs: Sequence[Epoch],
    other: Sequence[Epoch],
    rule: OptimizerSpec,
    normalised: bool,
    disturbed: Sequence[Moved] = (),
) -> Drift | None:
    """Return the first difference above its tolerance."""
    drifts = differences(epochs, other, rule, normalised, disturbed)
    return next((drift for drift in drifts if not drift.apart <= drift.allowed), None)


def _losses(epochs: Sequence[Epoch]) -> list[float | None]:
    return [loss for epoch in epochs for loss in (epoch.train_loss, epoch.test_loss)]


def _relative(loss: float | None, other: float | None) -> float:
    assert loss is not None and other is not None  # neither has diverged
    return abs(loss - other) / max(abs(loss), abs(other), SMALL_LOSS)
