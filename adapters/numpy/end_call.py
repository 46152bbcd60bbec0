"""One call of several steps at a trial's end, followed by the referee from the weights before it.

The step before the call is a call of one step, and reveals what momentum keeps. With W0 and W1 the weights around it, r
its rate, m the momentum and g its gradient, W1 = W0 - r v (momentum) or W1 = W0 - r (g + m v) (nesterov).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from adapters.numpy.adapter import Adapter
from adapters.numpy.end_updates import ALL, CLEAR, FLOAT32, SMALL_CHANGE, SMALL_LOSS, loss_apart, norm, spacing, surplus
from adapters.numpy.passes import Array, Parameters
from workloads.datasets import Images, Labels
from workloads.records.end_evidence import CALL, Difference, EndCall
from workloads.spec import OptimizerSpec, Workload


@dataclass(frozen=True)
class SavedCall:
    """The worker's record of the call, and what is needed to follow it."""

    workload: Workload
    rule: OptimizerSpec  # at the rate of the step before the call
    part: int | None
    images: Images
    labels: Labels
    saved: Mapping[str, Array]

    def weights(self, number: int) -> Parameters:
        """Return the weights before the single step (0), between that and the call (1), after the call (2)."""
        prefix = f"{CALL}/weights/{number}/"
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
    batch = call.saved[f"{CALL}/order"][0]
    _, gradients = call.built(0, precision).accumulate(call.images[batch], call.labels[batch], call.part)
    own = {key: gradients[key].astype(np.float64) + rule.weight_decay * before[key] for key in trained}
    return {key: (steps[key] - own[key]) / rule.momentum for key in trained}


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
