"""Expected and actual change of a step of the probe at a trial's end, without knowing the optimizer's state.

For plain SGD one step is enough. For momentum, two steps eliminate its state v before them. With W the weights, g the
gradients of two steps, r the rate, m the momentum:
    momentum  W1 = W0 - r (m v + g0),  W2 = W1 - r (m (m v + g0) + g1)  =>  W2 - W1 - m (W1 - W0) = -r g1
    nesterov  with a = m v + g0:  W1 = W0 - r (g0 + m a),  W2 = W1 - r (g1 + m (m a + g1))
                                                   =>  W2 - W1 - m (W1 - W0) = -r ((1 + m) g1 - m g0)
Weight decay in the gradient is part of g. Adam's second moment, unknown, scales the change of each weight but cannot
reverse it. The first is eliminated as above, and AdamW's decay is known. RMSprop has only the second: one step is
enough.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from adapters.numpy.passes import Array, Parameters
from workloads.records.end_evidence import Difference
from workloads.spec import OptimizerSpec

SMALL_CHANGE = 1e-3  # smaller changes are compared with this part of all changes' norm
ROUNDED_OFF = 2.0**-22  # what a few operations in float32 round off, relatively
CLEAR = 4  # times the rounding: above that the direction of a weight's change is known
FAINT = 0.1  # of the rate: the least that such rules change a weight by at the end of training
SEEN_SHARE = 0.5  # of all gradients: if float32 could hold a FAINT change for fewer, the update is not judged
CLEAR_SHARE = 0.01  # of all gradients: if fewer weights change clearly, none does
# Below this loss, the remainder is the difference of a probability and 1, which float32 rounds, and Adam divides almost
# nothing by its memory of larger gradients. Such an update is not judged.
SMALL_LOSS = 0.01
DOUBTFUL = 1e-4  # below this, float64 is not computed
LEAST_LOSS = 0.05  # differences of smaller losses are relative to this
ALL = "all parameters"


@dataclass(frozen=True)
class Step:
    """One step's arithmetic; `statistics` are the new running statistics. Empty if it could not be followed."""

    loss: float
    gradients: Parameters
    statistics: Parameters


def update_differences(
    rules: Sequence[OptimizerSpec],
    weights: list[Parameters],
    exact: list[Step],
    quick: list[Step],
    number: int,
    taken: int,
) -> dict[str, Difference]:
    """Return {parameter: difference of its change by step `number`}; empty if it cannot be determined.

    `rules` are the rule at each step's rate, `weights` those before each step and after the last; `taken` updates were
    made before the first.
    """
    rule, earlier = rules[number], rules[max(0, number - 1)]
    if not weights[number + 1] or (number == 0 and rule.name not in ("sgd", "rmsprop")):
        return {}
    if len({each.learning_rate for each in rules}) > 1 and 0 in (rule.learning_rate, earlier.learning_rate):
        return {}
    if rule.name in ("adam", "adamw", "rmsprop"):
        if not exact[number].gradients:  # for a large batch only the last layer's, which may have no parameters
            return {}
        return {ALL: _turned((earlier, rule), weights, exact[number], quick[number], number, taken)}
    if rule.weight_decay:
        exact, quick = (_decayed(rule, steps, weights) for steps in (exact, quick))
    memory = 0.0 if rule.name == "sgd" else rule.momentum
    if rule.learning_rate != earlier.learning_rate:
        memory *= rule.learning_rate / earlier.learning_rate  # it keeps gradients, not changes
    expected, rounded = (_expected(rule, steps, number, weights[number]) for steps in (exact, quick))
    floor = SMALL_CHANGE * math.sqrt(sum(norm(change) ** 2 for change in expected.values()))
    by_key = {}
    for key, change in expected.items():
        now, after = (each[key].astype(np.float64) for each in weights[number : number + 2])
        kept = memory * (now - weights[number - 1][key]) if memory and key in exact[number].gradients else 0.0
        size = max(norm(change), floor, 1e-30)
        noise = norm(spacing(now)) + ROUNDED_OFF * (norm(after - now) + norm(np.asarray(kept)))
        apart = norm(after - now - kept - change) / size
        resolution = max(noise / size, float(exact[number].loss < SMALL_LOSS))
        by_key[key] = Difference(apart, norm(rounded[key] - change) / size, resolution)
    return by_key


def _expected(rule: OptimizerSpec, steps: list[Step], number: int, before: Parameters) -> Parameters:
    """Return the change that a step should make, except what momentum keeps of the step before."""
    step = steps[number]
    changes = {key: after.astype(np.float64) - before[key] for key, after in step.statistics.items()}
    for key, gradient in step.gradients.items():
        if rule.name != "nesterov":
            changes[key] = -rule.learning_rate * gradient.astype(np.float64)
        elif key in steps[number - 1].gradients:
            earlier = steps[number - 1].gradients[key].astype(np.float64)
            changes[key] = -rule.learning_rate * ((1 + rule.momentum) * gradient - rule.momentum * earlier)
    return changes


def _decayed(rule: OptimizerSpec, steps: list[Step], weights: list[Parameters]) -> list[Step]:
    """Return the steps with the decay in the gradients, if they could be followed."""
    return [
        replace(step, gradients={key: g + rule.weight_decay * before[key] for key, g in step.gradients.items()})
        for step, before in zip(steps, weights[: len(steps)], strict=True)
    ]


def _turned(
    rules: tuple[OptimizerSpec, OptimizerSpec],
    weights: list[Parameters],
    step: Step,
    quick: Step,
    number: int,
    taken: int,
) -> Difference:
    """Return the part of the gradient, by absolute value, whose weights were changed against it; 1 if nothing
    changed. A parameter of which no weight changed counts as changed against it. Rounding is the part that turns
    between the two precisions.
    """
    rule = rules[-1]
    kept = 0.0 if rule.name == "rmsprop" else rule.beta1
    decays = [each.learning_rate * each.weight_decay if each.name == "adamw" else 0.0 for each in rules]
    rates = [
        _adams_rate(each, taken + number + later) if kept else each.learning_rate for later, each in enumerate(rules)
    ]
    clear = against = total = rounded = seen = 0.0
    for key, gradient in step.gradients.items():
        w1, w2 = (each[key].astype(np.float64) for each in weights[number : number + 2])
        change = (w1 - w2 - decays[1] * w1) / rates[1]
        if kept:
            w0 = weights[number - 1][key].astype(np.float64)
            change -= kept * (w0 - w1 - decays[0] * w0) / rates[0]
        sizes, least = np.abs(gradient), CLEAR * 2 * spacing(w1) / rates[1]
        known = np.abs(change) > least
        turned = known & (change * gradient < 0)
        if np.array_equal(w1, w2):  # it is not trained: a change that float32 could hold is missing
            known = turned = least < FAINT
        seen += float(sizes[least < FAINT].sum())
        total += float(sizes.sum())
        rounded += float(sizes[gradient * quick.gradients[key] < 0].sum())
        clear += float(sizes[known].sum())
        against += float(sizes[turned].sum())
    apart = against / clear if clear > CLEAR_SHARE * total else 1.0
    untold = step.loss < SMALL_LOSS or seen < SEEN_SHARE * total
    return Difference(apart, rounded / total if total else 0.0, float(untold))


def _adams_rate(rule: OptimizerSpec, steps: int) -> float:
    return rule.learning_rate * math.sqrt(1 - rule.beta2**steps) / (1 - rule.beta1**steps)


def loss_apart(loss: float, expected: float) -> float:
    """Return the difference relative to the expected loss; a loss below LEAST_LOSS counts as that."""
    return abs(loss - expected) / max(abs(expected), LEAST_LOSS)


def surplus(difference: Difference) -> float:
    """Return how much the difference exceeds rounding of the weights; infinite if it is not a number."""
    more = math.inf if difference.apart is None else difference.apart - difference.resolution
    return math.inf if math.isnan(more) else more


def norm(array: Array) -> float:
    """Return the Euclidean norm, in float64."""
    return float(np.linalg.norm(np.asarray(array, np.float64)))


def spacing(weights: Array) -> Array:
    """Return the spacing of neighbouring float32 numbers at each of these."""
    return np.spacing(np.abs(weights).astype(np.float32)).astype(np.float64)
