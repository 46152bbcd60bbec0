"""What differs between two frameworks' evidence for the gate, and by how much it may.

The tolerances are for float32; all that they rest on was seen on CPUs. What the conformance suite allows is in
tests/conformance/settings.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from workloads.gate import EVALUATED_STEPS, PROBE_STEPS, Evidence, Fingerprint

# Each relative: of outputs, gradients and logits to the expected norm, of losses to the expected loss. Seen for osu-cnn
# on a CPU: outputs 1e-6, losses 4e-6 within five steps, gradients 3e-6. A GPU's convolutions round differently again.
OUTPUTS = 1e-4
LOSSES = 1e-4
# From the fourth loss on; seen with right adapters: 1e-3, in 2 of 150 draws of weights under Adam, at step 5.
LATE, LATE_LOSSES = 4, 5e-3
GRADIENTS = 1e-4
EVALUATION = 3e-4
# Where rounding weighs more, in deep networks and under optimizers that divide by small numbers: this many times the
# most that it does to the referee, which is the difference between the referee in float32 and in float64. Seen: twice.
ROUNDINGS = 5
# Gradients are held against a thousandth of all gradients' norm where they are smaller: a bias in front of BatchNorm
# has none but rounding.
SMALL_GRADIENT = 1e-3
SMALL = 1e-6  # a norm below which nothing is told apart


@dataclass(frozen=True)
class Truth:
    """The referee's evidence, and what rounding to float32 did to the same."""

    expected: Evidence  # in float64
    rounded: Evidence  # in float32

    def rounding(self, of: Callable[[Evidence], dict[str, Fingerprint]], floor: float) -> float:
        """The most that any of these moved, relative to its norm."""
        rounded = of(self.rounded)
        return max(_apart(rounded[key], value, floor) for key, value in of(self.expected).items())

    @property
    def loss_rounding(self) -> list[float]:
        """Relative, of the loss of each step."""
        pairs = zip(self.rounded.losses, self.expected.losses, strict=False)
        return [_relative(rounded, expected) for rounded, expected in pairs]


def difference(found: Evidence, truth: Truth) -> str | None:
    """The first thing that differs by more than it may, from the input to the loss and back; None if nothing does."""
    return next(_differences(found, truth), None)


def _differences(found: Evidence, truth: Truth) -> Iterator[str]:
    expected, rounded = truth.expected, truth.rounded
    if list(found.outputs) != list(expected.outputs) or found.gradients.keys() != expected.gradients.keys():
        yield "it has other layers or parameters"
        return
    moved = truth.rounding(lambda evidence: evidence.outputs, SMALL)
    for layer, output in expected.outputs.items():
        if told := _excess(found.outputs[layer], output, OUTPUTS, moved, SMALL):
            yield f"first layer that differs: {layer}, its output by {told}"
    if told := losses_differ([found.loss], [expected.loss], truth.loss_rounding):
        yield f"every layer's output agrees, {told}"
    floor = max(SMALL, SMALL_GRADIENT * (expected.gradient_norm or 0.0))
    moved = truth.rounding(lambda evidence: evidence.gradients, floor)
    for key in reversed(expected.gradients):  # as they are computed
        if told := _excess(found.gradients[key], expected.gradients[key], GRADIENTS, moved, floor):
            yield f"outputs and loss agree, the gradient of {key} differs by {told}"
    moved = _apart(rounded.untrained_evaluation, expected.untrained_evaluation, SMALL)
    if told := _excess(found.untrained_evaluation, expected.untrained_evaluation, OUTPUTS, moved, SMALL):
        yield f"training agrees, the logits in evaluation mode, before any step, differ by {told}"
    if told := losses_differ(found.losses, expected.losses, truth.loss_rounding):
        yield f"the first gradients agree, {told}"
    if _diverged(expected.losses[:EVALUATED_STEPS]):
        return
    moved = _apart(rounded.evaluation, expected.evaluation, SMALL)
    if told := _excess(found.evaluation, expected.evaluation, EVALUATION, moved, SMALL):
        yield f"{EVALUATED_STEPS} steps of training agree, the logits in evaluation mode after them differ by {told}"


def losses_differ(
    found: Sequence[float | None], expected: Sequence[float | None], rounding: Sequence[float] = ()
) -> str | None:
    """The first loss that differs by more than it may; `rounding` is what it moved by step, relatively.

    A run that diverges amplifies rounding without bound: it is compared until a loss is no number or above twice the
    first, and at least two steps far (the second shows one update). Steps whose rounding nobody knows are not.
    """
    for step, (loss, other, moved) in enumerate(
        zip(found, expected, rounding or [0.0] * PROBE_STEPS, strict=False), start=1
    ):
        if step > 2 and _diverged(expected[:step]):
            return None
        allowed = max(LATE_LOSSES if step >= LATE else LOSSES, ROUNDINGS * moved)
        apart = _relative(loss, other)
        if apart > allowed:
            return f"the loss of step {step} differs by {apart:.1e} (allowed {allowed:.0e})"
    return None


def _diverged(losses: Sequence[float | None]) -> bool:
    return any(loss is None or losses[0] is None or loss > 2 * losses[0] for loss in losses)


def _relative(found: float | None, expected: float | None) -> float:
    """0 where neither is a number: None stands for what JSON cannot write."""
    if found is None or expected is None:
        return 0.0 if found is expected else math.inf
    return abs(found - expected) / max(abs(expected), 1e-3)


def _apart(found: Fingerprint, expected: Fingerprint, floor: float) -> float:
    """The larger of two differences, of norms and of projections, relative to the expected norm."""
    values = (*found, *expected)
    if None in values:
        return 0.0 if list(found) == list(expected) else math.inf
    return max(abs(found[0] - expected[0]), abs(found[1] - expected[1])) / max(expected[0], floor)


def _excess(found: Fingerprint, expected: Fingerprint, allowed: float, rounding: float, floor: float) -> str | None:
    """How far apart, where that is more than allowed."""
    allowed, apart = max(allowed, ROUNDINGS * rounding), _apart(found, expected, floor)
    return f"{apart:.1e} (allowed {allowed:.0e})" if apart > allowed else None
