"""What differs between two frameworks' evidence for the gate, and by how much it may.

The tolerances are for float32; all that they rest on was seen on CPUs, over draws of weights and images, optimizers and
instruction sets: docs/tolerances.md has the distributions, the rate of false alarms and the power. What the conformance
suite allows is in tests/conformance/settings.py.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from operator import attrgetter

from runner.gate.sizes import apart, diverged, lower_middle, middle, other_names, relative
from workloads.records.bounds import compare_with_allowed
from workloads.records.build import BFLOAT16, DIGITS, FLOAT16, FLOAT32, REDUCED
from workloads.records.evidence import EVALUATED_STEPS, PROBE_STEPS, Evidence, Fingerprint


class Kind(StrEnum):
    """The quantities that are compared, each with what is said where one differs."""

    OUTPUTS = "first layer that differs: {key}, its output by {size}"
    LOSS = "every layer's output agrees, the loss of step 1 differs by {size}"
    GRADIENTS = "outputs and loss agree, the gradient of {key} differs by {size}"
    UNTRAINED = "training agrees, the logits in evaluation mode, before any step, differ by {size}"
    UPDATES = "the first gradients agree, what {steps} changed in {key} differs by {size}"
    LOSSES = "the first gradients agree, the loss of step {key} differs by {size}"
    EVALUATION = "{steps} of training agree, the logits in evaluation mode after them differ by {size}"


# Each relative: of outputs, gradients, updates and logits to the expected norm, of losses to the expected loss. What
# right adapters do is in docs/tolerances.md.
OUTPUTS = 1e-4
LOSSES = 1e-4
# From the fourth loss on.
LATE, LATE_LOSSES = 4, 5e-3
# Behind the probe's steps a trial's first losses may differ by as much more as rounding may have grown since
# (`drift.growth_of_losses`); from where that is more than this, they are not compared.
MOST_LOSSES = 0.03
GRADIENTS = 1e-4
UPDATES = 3e-4
LATE_UPDATES = 1e-2  # from the same step on
EVALUATION = 3e-4
# Where rounding weighs more (deep networks, optimizers that divide by small numbers): this many times what it does to
# the very same quantity of the referee, which is the difference between the referee in float32 and in float64.
# Of a trial in fewer digits, the difference between the referee in those and in float64.
ROUNDINGS = 20
# And there one rounding is allowed at least.
ROUNDOFF = {precision: 2.0**-digits for precision, digits in DIGITS.items()}
# A precision whose outputs are off by less than this part of what rounding to it makes (in the geometric mean) was not
# computed in. TF32 is left out: a GPU's libraries choose for each product whether they use it.
TOO_EXACT, HELD_TO_IT = 0.1, (BFLOAT16, FLOAT16)
# Where that is not enough, weights are disturbed (runner/gate/disturbed.py), and this many times what the disturbance
# does to the very same quantity is allowed.
DISTURBANCES = 3
# Gradients are held against a tenth of all gradients' norm where they are smaller, updates likewise: a bias in front of
# BatchNorm has none but rounding, and where a sum over the batch cancels, rounding is that of its terms.
SMALL_GRADIENT = 0.1
# A parameter whose gradient is rounding to this part, or below this part of all, moves as rounding will: Adam makes a
# whole step of it.
UNDETERMINED, UNDETERMINED_OF_ALL = 1e-2, 1e-5
REDUCED_UNDETERMINED = 0.5  # the same in a precision of fewer digits, which rounds most gradients to some percent
# Weights after a step are rounded to float32, so a small change of a large weight is not known better than this many
# times their half unit in the last place.
UNITS, HALF_UNIT = 4, 2.0**-24
SMALL = 1e-6  # a norm below which nothing is told apart


@dataclass(frozen=True)
class Truth:
    """The referee's evidence, and what rounding to the trial's precision did to the same.

    `disturbed`: evidence from the trial's weights and the same from disturbed ones: the referee's, each in the trial's
    precision, or that of each framework.
    """

    expected: Evidence  # in float64
    rounded: Evidence  # in the trial's precision
    disturbed: tuple[tuple[Evidence, Evidence], ...] = ()
    precision: str = FLOAT32

    @property
    def loss_rounding(self) -> list[float]:
        """Relative, of the loss of each step; of several probes the middle one's."""
        pairs = zip(self.rounded.probes, self.expected.probes, strict=False)
        by_probe = [list(map(relative, rounded.losses, expected.losses)) for rounded, expected in pairs]
        return [middle(step) for step in zip(*by_probe, strict=False)]


@dataclass(frozen=True)
class Deviation:
    """One quantity beside the referee's, in that one of the probes in which they are closest."""

    kind: Kind
    key: str  # a layer, a parameter, or the number of a loss
    steps: int  # of training before it
    apart: float
    allowed: float

    @property
    def ratio(self) -> float:
        """Above 1 it is more than may be."""
        return self.apart / self.allowed if self.apart > self.allowed or math.isfinite(self.allowed) else 0.0

    def __str__(self) -> str:
        size = compare_with_allowed(self.apart, self.allowed)
        steps = f"{self.steps} step{'s' * (self.steps != 1)}"
        return self.kind.value.format(key=self.key, steps=steps, size=size)


@dataclass(frozen=True)
class _Gap:
    """How far one quantity of one probe is from the referee's, all relative to its scale."""

    apart: float
    rounding: float  # of the referee
    allowed: float  # whatever rounding does
    disturbed: tuple[float, ...] = ()  # by how much a disturbance moved it, in each of `Truth.disturbed`


_Quantity = tuple[Kind, str, int]


def difference(evidence: Evidence, truth: Truth) -> str | None:
    """The first thing that differs by more than it may, from the input to the loss and back; None if nothing does."""
    for probe, expected in zip(evidence.probes, truth.expected.probes, strict=False):
        other = other_names(list(probe.outputs), list(expected.outputs))
        if other:
            return f"outputs are {other}"
        other = other_names(sorted(probe.gradients), sorted(expected.gradients))
        if other:
            return f"gradients are {other}"
    found = deviations(evidence, truth)
    if wrong := next((str(deviation) for deviation in found if deviation.ratio > 1), None):
        return wrong
    if (
        truth.precision in HELD_TO_IT
        and (share := share_of_rounding(found, deviations(truth.rounded, truth))) < TOO_EXACT
    ):
        return f"outputs are off by {share:.0e} of what {truth.precision} rounds: they were computed in more digits"
    return None


def share_of_rounding(found: Sequence[Deviation], rounded: Sequence[Deviation]) -> float:
    """How far the layers' outputs are off, as a part of what rounding makes of the referee's: the geometric mean."""
    pairs = zip(found, rounded, strict=True)
    shares = [one.apart / other.apart for one, other in pairs if one.kind is Kind.OUTPUTS and other.apart > 0]
    return math.exp(sum(math.log(max(share, SMALL)) for share in shares) / len(shares)) if shares else 1.0


def deviations(evidence: Evidence, truth: Truth) -> list[Deviation]:
    """Of every quantity, in the order in which they are computed: its smallest difference over the probes.

    What a right framework does to one draw of images (a value on the other side of a kink) it does not do to all; what
    a wrong one does, it does to all. Evidence of fewer probes is held against as many.
    """
    probes = list(zip(evidence.probes, truth.expected.probes, truth.rounded.probes, strict=False))
    by_who = [list(zip(given.probes, moved.probes, strict=False)) for given, moved in truth.disturbed]
    disturbed = [pairs for pairs in by_who if len(pairs) >= len(probes)]  # less is in evidence stored before
    gaps: dict[_Quantity, list[_Gap]] = defaultdict(list)
    for number, probe in enumerate(probes):
        for quantity, gap in _compared(*probe, [pairs[number] for pairs in disturbed], truth.precision):
            gaps[quantity].append(gap)
    return [_closest(quantity, by_probe, truth.precision) for quantity, by_probe in gaps.items()]


def _closest(quantity: _Quantity, gaps: list[_Gap], precision: str) -> Deviation:
    rounding = max(ROUNDOFF.get(precision, 0.0), ROUNDINGS * middle([gap.rounding for gap in gaps]))
    by_who = [middle(moved) for moved in zip(*(gap.disturbed for gap in gaps), strict=False)]
    rounding = max(rounding, DISTURBANCES * lower_middle(by_who))
    by_ratio = sorted(
        (Deviation(*quantity, gap.apart, max(gap.allowed, rounding)) for gap in gaps), key=attrgetter("ratio")
    )
    return by_ratio[-1] if math.isinf(by_ratio[-1].ratio) else by_ratio[0]  # what is no number is no rounding


_Pairs = Sequence[tuple[Evidence, Evidence]]


def _compared(
    evidence: Evidence, expected: Evidence, rounded: Evidence, pairs: _Pairs, precision: str
) -> Iterator[tuple[_Quantity, _Gap]]:
    """Every quantity of one probe."""

    def gap(field: str, key: str | None, allowed: float, floor: float = SMALL) -> _Gap:
        def read(each: Evidence) -> Fingerprint:
            value = getattr(each, field)
            fingerprint: Fingerprint = value if key is None else value[key]
            return fingerprint

        value, truth, other = map(read, (evidence, expected, rounded))
        moved = _moved(pairs, read, floor)
        return _Gap(apart(value, truth, floor), apart(other, truth, floor), allowed, moved)

    for layer in expected.outputs:
        yield (Kind.OUTPUTS, layer, 0), gap("outputs", layer, OUTPUTS)
    rounding = [relative(*pair) for pair in zip(rounded.losses, expected.losses, strict=False)]
    moved = [tuple(steps) for steps in zip(*(_losses_moved(*pair) for pair in pairs), strict=False)]
    first = _Gap(relative(evidence.loss, expected.loss), rounding[0], LOSSES, moved[0] if moved else ())
    yield (Kind.LOSS, "1", 0), first
    floor = max(SMALL, SMALL_GRADIENT * (expected.gradient_norm or 0.0))
    for key in reversed(expected.gradients):  # as they are computed
        yield (Kind.GRADIENTS, key, 0), gap("gradients", key, GRADIENTS, floor)
    yield (Kind.UNTRAINED, "", 0), gap("untrained_evaluation", None, OUTPUTS)
    yield from _compared_updates(evidence, expected, rounded, pairs, precision)
    for step, loss in _compared_losses(evidence.losses, expected.losses, rounding, moved):
        yield (Kind.LOSSES, str(step), step - 1), loss
    if not diverged(expected.losses[:EVALUATED_STEPS]):
        yield (Kind.EVALUATION, "", EVALUATED_STEPS), gap("evaluation", None, EVALUATION)


def _moved(pairs: _Pairs, read: Callable[[Evidence], Fingerprint | None], floor: float) -> tuple[float, ...]:
    """By how much the disturbance moved one quantity; without pairs that lack it."""
    values = [(read(moved), read(given)) for given, moved in pairs]
    return tuple(apart(moved, given, floor) for moved, given in values if moved and given)


def _losses_moved(given: Evidence, moved: Evidence) -> list[float]:
    return list(map(relative, moved.losses, given.losses))


def _compared_updates(
    evidence: Evidence, expected: Evidence, rounded: Evidence, pairs: _Pairs, precision: str
) -> Iterator[tuple[_Quantity, _Gap]]:
    """What steps changed in everything trained and in running statistics, as far as there is something to compare."""
    most = REDUCED_UNDETERMINED if precision in REDUCED else UNDETERMINED
    unknown = {key for key in expected.gradients if _undetermined(key, expected, rounded, most)}
    for steps in expected.updates:
        if (number := int(steps)) > 1 and diverged(expected.losses[:number]):
            return
        changes = [each.updates.get(steps, {}) for each in (evidence, expected, rounded)]
        for keys in (reversed(expected.gradients), (key for key in changes[1] if key not in expected.gradients)):
            kept = [key for key in keys if all(key in change for change in changes)]
            whole = math.hypot(*(changes[1][key][0] or 0.0 for key in kept))
            for key in kept:
                change, truth, other = (each[key] for each in changes)
                floor = max(SMALL_GRADIENT * whole, HALF_UNIT * (expected.sizes.get(key) or 0.0), 1e-30)
                scale = max(truth[0] or 0.0, floor)
                units = UNITS * HALF_UNIT * math.sqrt(number) * (expected.sizes.get(key) or 0.0) / scale
                allowed = max(UPDATES if number < LATE else LATE_UPDATES, units)
                if key not in unknown:
                    moved = _moved(pairs, partial(_update_of, steps, key), floor)
                    gap = _Gap(apart(change, truth, floor), apart(other, truth, floor), allowed, moved)
                    yield (Kind.UPDATES, key, number), gap


def _update_of(steps: str, key: str, evidence: Evidence) -> Fingerprint | None:
    return evidence.updates.get(steps, {}).get(key)


def _undetermined(key: str, expected: Evidence, rounded: Evidence, most: float) -> bool:
    norm = expected.gradients[key][0] or 0.0
    moved = apart(rounded.gradients[key], expected.gradients[key], 1e-30)
    return moved > most or norm <= UNDETERMINED_OF_ALL * (expected.gradient_norm or 0.0)


def losses_differ(
    losses: Sequence[float | None],
    expected: Sequence[float | None],
    rounding: Sequence[float] = (),
    disturbed: Sequence[tuple[float, ...]] = (),
    precision: str = FLOAT32,
    growth: Sequence[float] = (),
) -> str | None:
    """The first loss that differs by more than it may in this precision; `rounding` is what it moved by step,
    relatively, `disturbed` by how much disturbed weights did, in each framework. `growth`: times the last rounding,
    how much that of each later step may be; steps beyond are not compared.
    """
    for step, gap in _compared_losses(losses, expected, rounding or [0.0] * PROBE_STEPS, disturbed, growth):
        if (deviation := _closest((Kind.LOSSES, str(step), step - 1), [gap], precision)).ratio > 1:
            return f"the loss of step {step} differs by {compare_with_allowed(deviation.apart, deviation.allowed)}"
    return None


def _compared_losses(
    losses: Sequence[float | None],
    expected: Sequence[float | None],
    rounding: Sequence[float],
    disturbed: Sequence[tuple[float, ...]],
    growth: Sequence[float] = (),
) -> Iterator[tuple[int, _Gap]]:
    """A run that diverges amplifies rounding without bound: it is compared until a loss is no number or above twice the
    first, and at least two steps far (the second shows one update). Steps whose rounding nobody knows are not.
    """
    grown = [*[1.0] * len(rounding), *growth]
    known = [*rounding, *(rounding[-1] * times for times in growth if rounding)]
    steps = zip(losses, expected, known, grown, strict=False)
    for step, (loss, other, moved, times) in enumerate(steps, start=1):
        if step > 2 and diverged(expected[:step]):
            return
        if step > len(rounding) and max(LATE_LOSSES * times, ROUNDINGS * moved) > MOST_LOSSES:
            return
        allowed = LATE_LOSSES * times if step >= LATE else LOSSES
        yield step, _Gap(relative(loss, other), moved, allowed, disturbed[step - 1] if step <= len(disturbed) else ())
