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
from adapters.numpy.end_updates import ALL, CLEAR, FLOAT32, SMALL_CHANGE, SMALL_LOSS, loss_apart, norm, spacing, surplus
from adapters.numpy.layers import sequence
from adapters.numpy.passes import Array, Parameters
from workloads.datasets import Images, Labels
from workloads.records.end_evidence import BACKWARD_MULTIPLY_ADDS, CALL, LAST, Difference, EndCall
from workloads.spec import OptimizerSpec, Workload

# A value on a kink (ReLU, pooling) may change a step's gradient: by 6e-3 in one of the steps of correct frameworks that
# docs/evidence/gate-margins.md counts. What this part of the gradient does to the last loss is allowed.
KINKS = 0.05


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
    return FollowedCall(adapter.train(order[1:], rates, call.part), adapter.weights())


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
    _, gradients = call.built(0, precision).accumulate(call.images[batch], call.labels[batch], call.part)
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
        noise = CLEAR * len(losses) * norm(spacing(between[key])) + FLOAT32 * norm(found)
        resolution = max(noise / size, float(max(exact.losses) < SMALL_LOSS))
        rounded = norm(quick.weights[key].astype(np.float64) - exact.weights[key]) / size
        updates[key] = Difference(norm(found - change) / size, rounded, resolution)
    worst = max(updates, key=lambda key: surplus(updates[key]), default=ALL)
    loss = Difference(by_row[row], rounding)
    return EndCall(len(losses), order.shape[1], row + 1, loss, updates[worst], worst)


def images_at_once(workload: Workload) -> int:
    """Number of images that pass at once: patches of more would not fit in a cache, or in a small memory."""
    return max(1, BACKWARD_MULTIPLY_ADDS // max(1, workload.multiply_adds))


def last_losses(last: SavedCall, precision: str) -> tuple[float, float]:
    """Return the loss of the trial's last update at the weights that it started from, and the same if the gradient of
    the step after it were larger by KINKS.
    """
    now, after, rule, gradients = last.weights(0), last.weights(1), last.rule, _gradients(last, precision)
    kept = {key: now[key] + (now[key].astype(np.float64) - after[key]) / rule.momentum for key in gradients}
    rate = rule.learning_rate / rule.momentum
    before, bent = ({key: kept[key] - rate * times * gradients[key] for key in kept} for times in (1, 1 + KINKS))
    return _loss(last, before, precision), _loss(last, bent, precision)


def _loss(last: SavedCall, weights: Parameters, precision: str) -> float:
    """Return the loss of the last update's images at these weights."""
    adapter, batch, mean = Adapter(precision), last.saved[f"{LAST}/batch"][0], 0.0
    adapter.build(last.workload, last.rule, weights, 0)
    for piece in parts(batch, images_at_once(last.workload)):
        logits, _ = sequence(
            last.workload.layers, adapter.rescaled(last.images[piece]), adapter.new_pass(training=True)
        )
        mean += LOSSES[last.workload.loss](logits, last.labels[piece])[0] * len(piece) / len(batch)
    return mean


def last_difference(last: SavedCall, exact: tuple[float, float], quick: tuple[float, float]) -> Difference:
    """Return the difference of the reported loss from the more exact answer; the quick answer gives the rounding."""
    expected, bent = exact
    reported = float(last.saved[f"{LAST}/loss"][0])
    return Difference(loss_apart(reported, expected), loss_apart(quick[0], expected), loss_apart(bent, expected))
