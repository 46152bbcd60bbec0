"""Differences between two frameworks' evidence for the gate, and the tolerance of each.

The tolerances are for float32. They rest on measurements on CPUs, over draws of weights and images, optimizers and
instruction sets. The distributions, the rate of false alarms and the power are in docs/reference/tolerances.md. The
tolerances of the conformance suite are in tests/conformance/settings.py.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from operator import attrgetter

from runner.gate.sizes import compare, compare_names, find_lower_median, find_median, has_diverged, measure_gap
from workloads.records.build import BFLOAT16, DIGITS, FLOAT16, FLOAT32, REDUCED
from workloads.records.evidence import EVALUATED_STEPS, PROBE_STEPS, Evidence, Fingerprint
from workloads.words import compare_with_allowed


class DeviationKind(StrEnum):
    """The quantities that are compared, each with the message for a difference."""

    OUTPUTS = "first layer that differs: {key}, its output by {size}"
    LOSS = "every layer's output agrees, the loss of step 1 differs by {size}"
    GRADIENTS = "outputs and loss agree, the gradient of {key} differs by {size}"
    UNTRAINED = "training agrees, the logits in evaluation mode, before any step, differ by {size}"
    UPDATES = "the first gradients agree, the change of {key} over {steps} differs by {size}"
    LOSSES = "the first gradients agree, the loss of step {key} differs by {size}"
    EVALUATION = "{steps} of training agree, the logits in evaluation mode after them differ by {size}"


# All are relative: outputs, gradients, updates and logits to the expected norm, losses to the expected loss. Results of
# correct adapters are in docs/reference/tolerances.md.
OUTPUTS = 1e-4
LOSSES = 1e-4
# From the fourth loss on.
LATE, LATE_LOSSES = 4, 5e-3
# After the probe's steps, the tolerance of a trial's first losses grows as rounding may have since
# (`rounding.compute_loss_growth`). Once it exceeds this, losses are not compared.
MOST_LOSSES = 0.03
GRADIENTS = 1e-4
UPDATES = 3e-4
LATE_UPDATES = 1e-2  # from the same step on
EVALUATION = 3e-4
# Rounding matters more in deep networks and for optimizers that divide by small numbers. The tolerance is then this
# many times the rounding of the same quantity of the referee: its difference between float32 and float64. For a trial
# in reduced precision, it is the referee's difference between that precision and float64.
ROUNDINGS = 20
# In that case at least one rounding is allowed.
ROUNDOFF = {precision: 2.0**-digits for precision, digits in DIGITS.items()}
# If outputs are off by less than this part of the rounding error of a precision (geometric mean), they were not
# computed in it. TF32 is left out: a GPU's libraries choose for each product whether they use it.
TOO_EXACT, HELD_TO_IT = 0.1, (BFLOAT16, FLOAT16)
# If that is not enough, this many times the effect of disturbed weights (runner/gate/rounding.py) is allowed.
DISTURBANCES = 3
# Smaller gradients are compared with a tenth of all gradients' norm, updates likewise. A bias before BatchNorm has a
# gradient of rounding only, and if a sum over the batch cancels, its rounding is that of its terms.
SMALL_GRADIENT = 0.1
# A parameter whose gradient is rounding to this part, or below this part of all, moves as rounding does: Adam makes a
# whole step of it.
UNDETERMINED, UNDETERMINED_OF_ALL = 1e-2, 1e-5
REDUCED_UNDETERMINED = 0.5  # the same in a precision of fewer digits, which rounds most gradients to some percent
# Weights after a step are rounded to float32, so a small change of a large weight is known only to this many times
# their half unit in the last place.
UNITS, HALF_UNIT = 4, 2.0**-24
SMALL = 1e-6  # a floor of norms: smaller arrays cannot be separated


@dataclass(frozen=True)
class Truth:
    """The referee's evidence, and the effect of rounding to the trial's precision on it.

    `disturbed` holds pairs of evidence from the trial's weights and from disturbed ones. They are the referee's, each
    in the trial's precision, or those of each framework. `widest`: the largest effect of rounding in any probe counts,
    in place of the middle one, and a parameter's changes are not compared if one probe leaves them undetermined.
    """

    expected: Evidence  # in float64
    rounded: Evidence  # in the trial's precision
    disturbed: tuple[tuple[Evidence, Evidence], ...] = ()
    precision: str = FLOAT32
    widest: bool = False

    @property
    def loss_rounding(self) -> list[float]:
        """Relative rounding of the loss of each step; the middle one over several probes."""
        pairs = zip(self.rounded.probes, self.expected.probes, strict=False)
        by_probe = [list(map(compare, rounded.losses, expected.losses)) for rounded, expected in pairs]
        return [find_median(step) for step in zip(*by_probe, strict=False)]


@dataclass(frozen=True)
class Deviation:
    """One quantity compared with the referee's, in the probe in which the two are closest."""

    kind: DeviationKind
    key: str  # a layer, a parameter, or the number of a loss
    steps: int  # of training before it
    apart: float
    allowed: float

    @property
    def ratio(self) -> float:
        """Difference over tolerance; above 1 it is not allowed."""
        return self.apart / self.allowed if self.apart > self.allowed or math.isfinite(self.allowed) else 0.0

    def __str__(self) -> str:
        size = compare_with_allowed(self.apart, self.allowed)
        steps = f"{self.steps} step{'s' * (self.steps != 1)}"
        return self.kind.value.format(key=self.key, steps=steps, size=size)


@dataclass(frozen=True)
class ScaledGap:
    """The difference of one quantity of one probe from the referee's, relative to its scale."""

    apart: float
    rounding: float  # of the referee
    allowed: float  # independent of rounding
    disturbed: tuple[float, ...] = ()  # its movement under a disturbance, in each of `Truth.disturbed`


Quantity = tuple[DeviationKind, str, int]
_Pairs = Sequence[tuple[Evidence, Evidence]]


def find_difference(evidence: Evidence, truth: Truth) -> str | None:
    """Return the first difference above its tolerance, from the input to the loss and back; None if there is none."""
    if misnamed := find_misnamed(evidence, truth):
        return misnamed
    found = compute_deviations(evidence, truth)
    if wrong := next((str(deviation) for deviation in found if deviation.ratio > 1), None):
        return wrong
    if (
        truth.precision in HELD_TO_IT
        and (share := compute_rounding_share(found, compute_deviations(truth.rounded, truth))) < TOO_EXACT
    ):
        return f"outputs are off by {share:.0e} of what {truth.precision} rounds: they were computed in more digits"
    return None


def find_misnamed(evidence: Evidence, truth: Truth) -> str | None:
    """Return how names of outputs, gradients or weights differ: no more can then be compared. None if they do not."""
    for probe, expected in zip(evidence.probes, truth.expected.probes, strict=False):
        if other := compare_names(list(probe.outputs), list(expected.outputs)):
            return f"outputs are {other}"
        if other := compare_names(sorted(probe.gradients), sorted(expected.gradients)):
            return f"gradients are {other}"
        for steps in expected.updates:
            changed = probe.updates.get(steps)  # evidence of earlier versions has none
            if changed is not None and (other := compare_names(sorted(changed), sorted(expected.updates[steps]))):
                return f"weights are {other}"
    return None


def compute_rounding_share(found: Sequence[Deviation], rounded: Sequence[Deviation]) -> float:
    """Return the error of the layers' outputs as a part of the referee's rounding: the geometric mean."""
    pairs = zip(found, rounded, strict=True)
    shares = [one.apart / other.apart for one, other in pairs if one.kind is DeviationKind.OUTPUTS and other.apart > 0]
    return math.exp(sum(math.log(max(share, SMALL)) for share in shares) / len(shares)) if shares else 1.0


def compute_deviations(evidence: Evidence, truth: Truth) -> list[Deviation]:
    """Return the smallest difference over the probes of every quantity, in the order in which they are computed.

    An accident of rounding (a value on the other side of a kink) affects one draw of images of a correct framework. A
    fault affects all draws. Evidence of fewer probes is compared with as many.
    """
    probes = list(zip(evidence.probes, truth.expected.probes, truth.rounded.probes, strict=False))
    by_who = [list(zip(given.probes, moved.probes, strict=False)) for given, moved in truth.disturbed]
    disturbed = [pairs for pairs in by_who if len(pairs) >= len(probes)]  # evidence of earlier versions has fewer
    gaps: dict[Quantity, list[ScaledGap]] = defaultdict(list)
    for number, probe in enumerate(probes):
        for quantity, gap in compare_quantities(*probe, [pairs[number] for pairs in disturbed], truth.precision):
            gaps[quantity].append(gap)
    unknown = set[str]()
    for _, expected, rounded in probes if truth.widest else ():
        unknown |= _list_undetermined(expected, rounded, truth.precision)
    return [
        choose_closest(quantity, by_probe, truth.precision, truth.widest)
        for quantity, by_probe in gaps.items()
        if quantity[0] is not DeviationKind.UPDATES or quantity[1] not in unknown
    ]


def choose_closest(quantity: Quantity, gaps: list[ScaledGap], precision: str, widest: bool = False) -> Deviation:
    """Return the smallest of the same quantity's gaps over the probes, with what is allowed; `widest` as in Truth."""
    rounding = max(ROUNDOFF.get(precision, 0.0), ROUNDINGS * find_median([gap.rounding for gap in gaps]))
    if widest:
        finite = [gap.rounding for gap in gaps if math.isfinite(gap.rounding)]
        rounding = max(rounding, DISTURBANCES * max(finite, default=0.0))
    by_who = [find_median(moved) for moved in zip(*(gap.disturbed for gap in gaps), strict=False)]
    rounding = max(rounding, DISTURBANCES * find_lower_median(by_who))
    by_ratio = sorted(
        (Deviation(*quantity, gap.apart, max(gap.allowed, rounding)) for gap in gaps), key=attrgetter("ratio")
    )
    return by_ratio[-1] if math.isinf(by_ratio[-1].ratio) else by_ratio[0]  # not a number is not rounding


def compare_quantities(
    evidence: Evidence, expected: Evidence, rounded: Evidence, pairs: _Pairs, precision: str
) -> Iterator[tuple[Quantity, ScaledGap]]:
    """Yield every quantity of one probe."""

    def gap(field: str, key: str | None, allowed: float, floor: float = SMALL) -> ScaledGap:
        def read(each: Evidence) -> Fingerprint:
            value = getattr(each, field)
            fingerprint: Fingerprint = value if key is None else value[key]
            return fingerprint

        value, truth, other = map(read, (evidence, expected, rounded))
        moved = _measure_movements(pairs, read, floor)
        return ScaledGap(measure_gap(value, truth, floor), measure_gap(other, truth, floor), allowed, moved)

    for layer in expected.outputs:
        yield (DeviationKind.OUTPUTS, layer, 0), gap("outputs", layer, OUTPUTS)
    rounding = [compare(*pair) for pair in zip(rounded.losses, expected.losses, strict=False)]
    moved = [tuple(steps) for steps in zip(*(_losses_moved(*pair) for pair in pairs), strict=False)]
    first = ScaledGap(compare(evidence.loss, expected.loss), rounding[0], LOSSES, moved[0] if moved else ())
    yield (DeviationKind.LOSS, "1", 0), first
    floor = max(SMALL, SMALL_GRADIENT * (expected.gradient_norm or 0.0))
    for key in reversed(expected.gradients):  # as they are computed
        yield (DeviationKind.GRADIENTS, key, 0), gap("gradients", key, GRADIENTS, floor)
    yield (DeviationKind.UNTRAINED, "", 0), gap("untrained_evaluation", None, OUTPUTS)
    yield from _compared_updates(evidence, expected, rounded, pairs, precision)
    for step, loss in _compared_losses(evidence.losses, expected.losses, rounding, moved):
        yield (DeviationKind.LOSSES, str(step), step - 1), loss
    if not has_diverged(expected.losses[:EVALUATED_STEPS]):
        yield (DeviationKind.EVALUATION, "", EVALUATED_STEPS), gap("evaluation", None, EVALUATION)


def _measure_movements(
    pairs: _Pairs, read: Callable[[Evidence], Fingerprint | None], floor: float
) -> tuple[float, ...]:
    """Return the movement of one quantity under the disturbance; pairs that lack the quantity are left out."""
    values = [(read(moved), read(given)) for given, moved in pairs]
    return tuple(measure_gap(moved, given, floor) for moved, given in values if moved and given)


def _losses_moved(given: Evidence, moved: Evidence) -> list[float]:
    return list(map(compare, moved.losses, given.losses))


def _compared_updates(
    evidence: Evidence, expected: Evidence, rounded: Evidence, pairs: _Pairs, precision: str
) -> Iterator[tuple[Quantity, ScaledGap]]:
    """Yield the changes that steps made in everything trained and in running statistics, if comparable."""
    unknown = _list_undetermined(expected, rounded, precision)
    for steps in expected.updates:
        if (number := int(steps)) > 1 and has_diverged(expected.losses[:number]):
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
                    moved = _measure_movements(pairs, partial(_update_of, steps, key), floor)
                    gap = ScaledGap(measure_gap(change, truth, floor), measure_gap(other, truth, floor), allowed, moved)
                    yield (DeviationKind.UPDATES, key, number), gap


def _update_of(steps: str, key: str, evidence: Evidence) -> Fingerprint | None:
    return evidence.updates.get(steps, {}).get(key)


def _list_undetermined(expected: Evidence, rounded: Evidence, precision: str) -> set[str]:
    """Return the parameters whose changes a probe leaves undetermined."""
    most = REDUCED_UNDETERMINED if precision in REDUCED else UNDETERMINED
    return {key for key in expected.gradients if _undetermined(key, expected, rounded, most)}


def _undetermined(key: str, expected: Evidence, rounded: Evidence, most: float) -> bool:
    norm = expected.gradients[key][0] or 0.0
    moved = measure_gap(rounded.gradients[key], expected.gradients[key], 1e-30)
    return moved > most or norm <= UNDETERMINED_OF_ALL * (expected.gradient_norm or 0.0)


def compare_losses(
    losses: Sequence[float | None],
    expected: Sequence[float | None],
    rounding: Sequence[float] = (),
    disturbed: Sequence[tuple[float, ...]] = (),
    precision: str = FLOAT32,
    growth: Sequence[float] = (),
) -> str | None:
    """Return the first loss whose difference is above its tolerance in this precision. `rounding` is the relative
    rounding by step, `disturbed` the movement under disturbed weights, in each framework. `growth` is the factor by
    which each later step may exceed the last rounding; steps beyond it are not compared.
    """
    # The probe of a large network makes fewer steps. Without a referee, rounding of the later ones is unknown.
    rounding = rounding or [0.0] * (len(disturbed) or PROBE_STEPS)
    for step, gap in _compared_losses(losses, expected, rounding, disturbed, growth):
        if (deviation := choose_closest((DeviationKind.LOSSES, str(step), step - 1), [gap], precision)).ratio > 1:
            return f"the loss of step {step} differs by {compare_with_allowed(deviation.apart, deviation.allowed)}"
    return None


def _compared_losses(
    losses: Sequence[float | None],
    expected: Sequence[float | None],
    rounding: Sequence[float],
    disturbed: Sequence[tuple[float, ...]],
    growth: Sequence[float] = (),
) -> Iterator[tuple[int, ScaledGap]]:
    """Yield the losses to compare. A run that diverges amplifies rounding without bound. It is compared until a loss
    is not a number or above twice the first, but for at least two steps: the second shows one update. Steps of
    unknown rounding are left out.
    """
    grown = [*[1.0] * len(rounding), *growth]
    known = [*rounding, *(rounding[-1] * times for times in growth if rounding)]
    steps = zip(losses, expected, known, grown, strict=False)
    for step, (loss, other, moved, times) in enumerate(steps, start=1):
        if step > 2 and has_diverged(expected[:step]):
            return
        seen = disturbed[step - 1] if step <= len(disturbed) else ()
        widest = max(LATE_LOSSES * times, ROUNDINGS * moved, DISTURBANCES * find_lower_median(seen))
        if step > len(rounding) and widest > MOST_LOSSES:
            return
        yield step, ScaledGap(compare(loss, other), moved, LATE_LOSSES * times if step >= LATE else LOSSES, seen)
