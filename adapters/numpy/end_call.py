"""One call of several steps at a trial's end, followed by the referee from the weights before it; and the trial's last
update, over which it goes back.

The step before the call is a call of one step, and reveals what momentum keeps. With W0 and W1 the weights around it, r
its rate, m the momentum and g its gradient, W1 = W0 - r v (momentum) or W1 = W0 - r (g + m v) (nesterov).

In the same way the step after the trial's last update reveals what momentum u kept of that: W1 = W0 - r (m u + g), so
the last update started from W0 + r u. There its loss must be the reported one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from adapters.base import parts
from adapters.numpy.adapter import LOSSES, Adapter
from adapters.numpy.end_updates import (
    ALL,
    CLEAR,
    DOUBTFUL,
    ROUNDED_OFF,
    SMALL_CHANGE,
    SMALL_LOSS,
    loss_apart,
    norm,
    spacing,
    surplus,
)
from adapters.numpy.layers import sequence
from adapters.numpy.passes import Array, Parameters
from workloads.datasets import Images, Labels
from workloads.records.build import FLOAT32, FLOAT64, REDUCED
from workloads.records.end_evidence import BACKWARD_MULTIPLY_ADDS, CALL, LAST, Difference, EndCall
from workloads.spec import OptimizerSpec, Workload

# A value on a kink (ReLU, pooling) may change a step's gradient: by 6e-3 in one of the steps of correct frameworks that
# docs/evidence/gate-margins.md counts. What this part of the gradient does to the last loss is allowed.
KINKS = 0.05
# Images of so many multiply-adds, and at least this few, pass at once: 32 of osu-cnn. A batch of 128 then takes 0.7 of
# the time that it takes as a whole.
CACHED_MULTIPLY_ADDS, FEWEST_AT_ONCE = 15 * 10**7, 8


@dataclass(frozen=True)
class SavedCall:
    """The worker's record of the call, or of the step after the last update, and what is needed to follow it."""

    where: str  # CALL or LAST
    workload: Workload
    rule: OptimizerSpec  # at the rate of the step before the call
    part: int | None
    images: Images
    labels: Labels
    saved: Mapping[str, Array]

    def weights(self, number: int) -> Parameters:
        """Return the weights before the single step (0), between that and the call (1), after the call (2)."""
        prefix = f"{self.where}/weights/{number}/"
        return {key.removeprefix(prefix): array for key, array in self.saved.items() if key.startswith(prefix)}

    def built(self, number: int, precision: str) -> Adapter:
        """Return the referee with these weights."""
        adapter = Adapter(precision)
        adapter.load(self.images, self.labels)
        adapter.build(self.workload, self.rule, self.weights(number), 0)
        return adapter


@dataclass(frozen=True)
class FollowedCall:
    """The referee's losses of the call's rows, and its weights and statistics after them."""

    losses: Array
    weights: Parameters


def follow(call: SavedCall, precision: str) -> FollowedCall:
    """Follow the call in this precision."""
    adapter = call.built(1, precision)
    if call.rule.momentum and call.rule.name != "sgd":
        velocity = _velocity(call, precision)
        adapter.optimizer.first = {key: array.astype(adapter.dtype) for key, array in velocity.items()}
    order, rates = call.saved[f"{CALL}/order"], call.saved.get(f"{CALL}/rates")
    part = images_of_part(call.workload, precision, call.part)
    return FollowedCall(adapter.train(order[1:], rates, part), adapter.weights())


def _velocity(call: SavedCall, precision: str) -> Parameters:
    """Return what momentum keeps of the step before the call."""
    rule, before, between = call.rule, call.weights(0), call.weights(1)
    trained = call.workload.parameter_shapes()
    steps = {key: (before[key].astype(np.float64) - between[key]) / rule.learning_rate for key in trained}
    if rule.name == "momentum":
        return steps
    own = _gradients(call, precision)
    return {key: (steps[key] - own[key]) / rule.momentum for key in trained}


def _gradients(call: SavedCall, precision: str) -> Parameters:
    """Return the gradients of the single step, with the weight decay."""
    batch, before = call.saved[f"{call.where}/order"][0], call.weights(0)
    part = images_of_part(call.workload, precision, call.part)
    _, gradients = call.built(0, precision).accumulate(call.images[batch], call.labels[batch], part)
    decay = call.rule.weight_decay
    return {key: gradient.astype(np.float64) + decay * before[key] for key, gradient in gradients.items()}


def call_difference(call: SavedCall, exact: FollowedCall, quick: FollowedCall) -> EndCall:
    """Return the framework's difference from the more exact answer; the quick answer gives the rounding."""
    losses, order = call.saved[f"{CALL}/losses"], call.saved[f"{CALL}/order"]
    by_row = [loss_apart(*map(float, pair)) for pair in zip(losses, exact.losses, strict=True)]
    row = int(np.argmax([np.inf if np.isnan(apart) else apart for apart in by_row]))
    rounding = max(loss_apart(*map(float, pair)) for pair in zip(quick.losses, exact.losses, strict=True))
    between, after = call.weights(1), call.weights(2)
    changes = {key: exact.weights[key].astype(np.float64) - between[key] for key in exact.weights}
    floor = SMALL_CHANGE * float(np.sqrt(sum(norm(change) ** 2 for change in changes.values())))
    updates = {}
    for key, change in changes.items():
        size, found = max(norm(change), floor, 1e-30), after[key].astype(np.float64) - between[key]
        noise = CLEAR * len(losses) * norm(spacing(between[key])) + ROUNDED_OFF * norm(found)
        resolution = max(noise / size, float(max(exact.losses) < SMALL_LOSS))
        rounded = norm(quick.weights[key].astype(np.float64) - exact.weights[key]) / size
        updates[key] = Difference(norm(found - change) / size, rounded, resolution)
    worst = max(updates, key=lambda key: surplus(updates[key]), default=ALL)
    loss = Difference(by_row[row], rounding)
    return EndCall(len(losses), order.shape[1], row + 1, loss, updates[worst], worst)


def images_at_once(workload: Workload) -> int:
    """Number of images that pass at once, if the result does not depend on it. The values of more than CACHED would
    leave the cache. Those of more than a whole gradient's limit would not fit in a small memory.
    """
    most, cached = (limit // max(1, workload.multiply_adds) for limit in (BACKWARD_MULTIPLY_ADDS, CACHED_MULTIPLY_ADDS))
    return max(1, min(most, max(cached, FEWEST_AT_ONCE)))


def images_of_part(workload: Workload, precision: str, part: int | None) -> int | None:
    """Return the number of images in each part of a gradient.

    If the result depends on it (BatchNorm, or fewer digits than float32), this is the part size of the update itself,
    `part` (None: all images).
    """
    return part if workload.statistic_shapes() or precision in REDUCED else images_at_once(workload)


def last_difference(last: SavedCall) -> Difference:
    """Return the difference of the loss that was reported for the trial's last update. It is computed in
    float32. If that leaves a doubt, it is computed in float64, with the effect of KINKS.
    """
    reported, quick = float(last.saved[f"{LAST}/loss"][0]), _last_loss(last, FLOAT32)
    found = Difference(loss_apart(reported, quick))
    if surplus(found) <= DOUBTFUL:
        return found
    exact = _last_loss(last, FLOAT64)
    rounding, kinks = (loss_apart(each, exact) for each in (quick, _last_loss(last, FLOAT64, 1 + KINKS)))
    return Difference(loss_apart(reported, exact), rounding, kinks)


def _last_loss(last: SavedCall, precision: str, times: float = 1) -> float:
    """Return the loss of the trial's last update at the weights that it started from.

    These weights are computed back from the weights after it, with `times` times the gradient of the step after it.
    """
    now, after, rule = last.weights(0), last.weights(1), last.rule
    before: Parameters = {}
    for key, gradient in _gradients(last, precision).items():
        step = now[key].astype(np.float64) - after[key] - rule.learning_rate * times * gradient
        before[key] = now[key] + step / rule.momentum
    adapter, batch, mean = Adapter(precision), last.saved[f"{LAST}/batch"][0], 0.0
    adapter.build(last.workload, rule, before, 0)
    for piece in parts(batch, images_at_once(last.workload)):
        images, run = adapter.rescaled(last.images[piece]), adapter.new_pass(training=True)
        logits, _ = sequence(last.workload.layers, images, run)
        mean += LOSSES[last.workload.loss](logits, last.labels[piece])[0] * len(piece) / len(batch)
    return mean
