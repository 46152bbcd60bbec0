"""Judge the gate's evidence of stored trials again, without a framework, from the probes stored with them.

Written independently of the runner, as `recompute` is, and coarser than its gate. Differences beyond MARGIN times the
gate's bounds in every draw of images cannot have passed. Layers' outputs, the loss and gradients of the first step are
judged. Of one framework alone, the first update is computed again from the gradient.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from workloads.records import validation
from workloads.records.build import FLOAT64, REDUCED
from workloads.records.check_name import CheckName
from workloads.records.evidence import Evidence, Fingerprint
from workloads.records.files import EVENTS_FILE
from workloads.records.job import ROOMS, Kind
from workloads.records.result import TrialResult

from . import end_check
from .end_check import MARGIN
from .stored_probes import Probes

# As in docs/reference/tolerances.md: relative, and multiples of the float32 rounding of the referee's answer.
FIRST_STEP, ROUNDINGS, SMALL_GRADIENT = 1e-4, 20, 0.1
UPDATES, UNITS = 3e-4, 4 * 2.0**-24  # of a first update, and of the weights that it is rounded with
# Of an imported network and its source: layers' outputs; loss, gradients and the change by three updates.
SOURCE_FORWARD, SOURCE_TRAINING, SOURCE_STEPS = 1e-5, 1e-4, "3"
DISTURBANCES = 3  # times what disturbed weights moved
LOSS, OUTPUTS, GRADIENTS = "the loss", "outputs of {}", "the gradient of {}"  # the quantities that are compared
UNTRAINED, CHANGES = "the evaluation before any step", "the change of {}"
BY_SOURCE = {UNTRAINED: SOURCE_FORWARD, OUTPUTS: SOURCE_FORWARD}  # others: SOURCE_TRAINING
Gaps = dict[tuple[str, str], float]  # relative difference of each of them, of a layer or parameter


def find_differences(result: TrialResult, probes: Probes) -> Iterator[str]:
    """Yield a line if evidence differs from its probe's, or a verdict is not one that the evidence allows."""
    answers = probes.list_answers(result.spec)
    if result.evidence and answers and all(probe.evidence != result.evidence for probe in answers):
        yield (
            f"evidence: it differs from that in {answers[0].folder.parent.name}/{answers[0].folder.name}/{EVENTS_FILE}"
        )
    passed = {check.name for check in result.checks if check.passed}
    if result.evidence and CheckName.GATE in passed:
        yield from _first_update(result)
        yield from _first_step(result, probes)
    if result.evidence and CheckName.SOURCE in passed:
        yield from _source(result, probes)
    yield from end_check.find_differences(result)


def _first_step(result: TrialResult, probes: Probes) -> Iterator[str]:
    """Compare with the referee's answers, as far as they are stored. Like the gate, allow more by its answers from
    disturbed weights, and look at other images, too, if it asked about them.
    """
    spec, precision = result.spec, result.spec.task.precision
    if precision in REDUCED:
        return  # only the gate knows how far rounding goes
    asked = [(spec, _read(result)), *((each.spec, each.read()) for each in probes.list_with_other_images(spec))]
    apart, rounding, moved = list[Gaps](), list[Gaps](), list[Gaps]()
    for given, evidence in asked:
        expected, rounded = probes.referee(given, FLOAT64), probes.referee(given, precision)
        if expected is not None and rounded is not None:
            apart += _compare(evidence, expected)
            rounding += _compare(rounded, expected)
            moved += [gaps for other in probes.list_disturbed(given) for gaps in _compare(other, expected)]
    allowed = {
        what: max(FIRST_STEP, ROUNDINGS * _largest(what, rounding), DISTURBANCES * _largest(what, moved))
        for what in (apart[0] if apart else ())
    }
    yield from _judge(CheckName.GATE, "the referee", apart, allowed)


def _source(result: TrialResult, probes: Probes) -> Iterator[str]:
    """Compare an imported network with its source once more, by the probes of both. Like the proof, allow more by its
    framework's answers from disturbed weights.
    """
    expected, evidence = probes.source(result.spec), _read(result)
    if expected is None:
        yield f"{CheckName.SOURCE}: stored: passed; its source's answer is not in {ROOMS[Kind.PROBE]}/"
        return
    apart = _compare_with_source(evidence, expected)
    moved = [g for other in probes.list_own_disturbed(result.spec) for g in _compare_with_source(other, evidence)]
    units = [_rounding_of_change(each) for each in expected.probes]
    allowed = {
        what: max(BY_SOURCE.get(what[0], SOURCE_TRAINING), _largest(what, units), DISTURBANCES * _largest(what, moved))
        for what in (apart[0] if apart else ())
    }
    yield from _judge(CheckName.SOURCE, "the source", apart, allowed)


def _read(result: TrialResult) -> Evidence:
    return Evidence.from_json(validation.restore_nan(result.evidence))


def _largest(what: tuple[str, str], draws: Iterable[Gaps]) -> float:
    """Return the largest finite difference of this quantity in any draw; what is not finite allows nothing."""
    return max((draw[what] for draw in draws if math.isfinite(draw.get(what, math.nan))), default=0.0)


def _judge(check: CheckName, whom: str, apart: Sequence[Gaps], allowed: Gaps) -> Iterator[str]:
    """Yield a line for the first quantity that differs by more than MARGIN times what is allowed in every draw."""
    for (what, key), most in allowed.items():
        times = min(draw.get((what, key), math.inf) for draw in apart) / most
        if times > MARGIN:
            how = f"{what.format(key)} differs from {whom}'s by {times:.0f} times what is allowed"
            yield f"{check}: stored: passed; judged again, {how}"
            return


def _first_update(result: TrialResult) -> Iterator[str]:
    """Compare the loss and the first update of each draw with its own loss and gradient: W1 = W0 - rate x gradient.

    Updates in parts are of other images than the gradient.
    """
    task = result.spec.task
    if task.precision in REDUCED or task.accumulate > 1:
        return
    rate = 0.0  # of no update that could be computed
    if task.optimizer.name in ("sgd", "momentum", "nesterov") and not task.optimizer.weight_decay:
        ahead = task.optimizer.momentum if task.optimizer.name == "nesterov" else 0.0
        rate = task.optimizer.learning_rate * (1 + ahead)
    draws = [_update_excesses(probe, rate) for probe in _read(result).probes]
    for name in draws[0]:
        least = min(draw.get(name, math.inf) for draw in draws)
        if least > MARGIN:
            what = f"{name} is off by {least:.0f} times what is allowed"
            yield f"{CheckName.GATE}: stored: passed; computed again, {what}"
            return


def _update_excesses(probe: Evidence, rate: float) -> dict[str, float]:
    """Return {quantity: its difference from what follows from others, in multiples of what is allowed}."""
    norm = math.hypot(*(gradient[0] for gradient in probe.gradients.values()))
    found = {
        "the norm of all gradients": abs(norm - probe.gradient_norm) / max(norm, 1e-30) / FIRST_STEP,
        "the loss of step 1": abs(probe.losses[0] - probe.loss) / max(abs(probe.loss), 1e-3) / FIRST_STEP,
    }
    changes = probe.updates.get("1", {})
    for key, gradient in probe.gradients.items():
        if rate and key in changes:
            expected = [rate * gradient[0], *(-rate * value for value in gradient[1:])]
            floor = max(SMALL_GRADIENT * rate * norm, 1e-30)
            allowed = UPDATES + UNITS * probe.sizes.get(key, 0.0) / max(expected[0], floor)
            found[f"the first update of {key}"] = _apart(changes[key], expected, floor) / allowed
    return found


def _compare(evidence: Evidence, expected: Evidence) -> list[Gaps]:
    """Return the differences of layers' outputs, gradients and loss from those expected, in each draw of images."""
    return [_compare_draw(*draw) for draw in zip(evidence.probes, expected.probes, strict=False)]


def _compare_draw(evidence: Evidence, expected: Evidence) -> Gaps:
    floor, found = SMALL_GRADIENT * expected.gradient_norm, Gaps()
    for key, output in expected.outputs.items():
        found[OUTPUTS, key] = _apart(evidence.outputs.get(key), output, 0.0)
    for key, gradient in expected.gradients.items():
        found[GRADIENTS, key] = _apart(evidence.gradients.get(key), gradient, floor)
    found[LOSS, ""] = abs(evidence.loss - expected.loss) / max(abs(expected.loss), 1e-3)
    return {what: value for what, value in found.items() if not math.isnan(value)}


def _compare_with_source(evidence: Evidence, expected: Evidence) -> list[Gaps]:
    """Return the differences of layers' outputs, loss, gradients and three updates, in each draw of images."""
    return [_compare_source_draw(*draw) for draw in zip(evidence.probes, expected.probes, strict=False)]


def _compare_source_draw(evidence: Evidence, expected: Evidence) -> Gaps:
    found = Gaps()
    for name, output in expected.outputs.items():
        found[OUTPUTS, name] = _apart(evidence.outputs.get(name), output, 0.0)
    found[UNTRAINED, ""] = _apart(evidence.untrained_evaluation, expected.untrained_evaluation, 0.0)
    found[LOSS, ""] = abs(evidence.loss - expected.loss) / max(abs(expected.loss), 1e-3)
    found = {what: math.inf if math.isnan(value) else value for what, value in found.items()}  # of no training yet
    for key, gradient in expected.gradients.items():
        found[GRADIENTS, key] = _apart(evidence.gradients.get(key), gradient, SMALL_GRADIENT * expected.gradient_norm)
    changed, (theirs, least) = evidence.updates.get(SOURCE_STEPS, {}), _changes(expected)
    for key, change in theirs.items():
        found[CHANGES, key] = _apart(changed.get(key), change, least)
    return {what: value for what, value in found.items() if not math.isnan(value)}


def _changes(expected: Evidence) -> tuple[dict[str, Fingerprint], float]:
    """Return what three updates changed of each parameter, and the least norm that a change is compared with."""
    changed = expected.updates.get(SOURCE_STEPS, {})
    theirs = {key: changed[key] for key in expected.gradients if key in changed}
    return theirs, max(SMALL_GRADIENT * math.hypot(*(change[0] for change in theirs.values())), 1e-30)


def _rounding_of_change(expected: Evidence) -> Gaps:
    """Return how much of each parameter's change is lost as weights before and after it are rounded."""
    theirs, least = _changes(expected)
    return {
        (CHANGES, key): 2 * UNITS * expected.sizes.get(key, 0.0) / max(change[0], least)
        for key, change in theirs.items()
    }


def _apart(values: Fingerprint | None, expected: Fingerprint, floor: float) -> float:
    """Difference relative to the expected norm, or to `floor` if that is larger; infinite without values."""
    if values is None:
        return math.inf
    gaps = [value - other for value, other in zip(values, expected, strict=False)]
    projected = math.sqrt(sum(gap * gap for gap in gaps[1:]) / max(1, len(gaps) - 1))
    return max(abs(gaps[0]), projected) / max(expected[0], floor, 1e-6)
