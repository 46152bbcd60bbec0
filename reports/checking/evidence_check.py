"""Judge the gate's evidence of stored trials again, without a framework, from the probes stored with them.

Written independently of the runner, as `recompute` is, and coarser than its gate. Differences beyond MARGIN times the
gate's bounds in every draw of images cannot have passed. Layers' outputs, the loss and gradients of the first step are
judged. Of one framework alone, the first update is computed again from the gradient.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from workloads.records import files as numbered
from workloads.records import validation
from workloads.records.build import FLOAT64, REDUCED
from workloads.records.check_name import JUDGE, CheckName
from workloads.records.end_evidence import Difference, TrialEnd, TrialMiddle
from workloads.records.events import Event
from workloads.records.evidence import Evidence, Fingerprint
from workloads.records.files import EVENTS_FILE, JOB_FILE
from workloads.records.job import AUGMENTATION, ROOMS, Job, Kind, TrialSpec
from workloads.records.result import TrialResult
from workloads.records.stored_events import read_events

MARGIN = 10.0
# As in docs/reference/tolerances.md: relative, and multiples of the float32 rounding of the referee's answer.
FIRST_STEP, ROUNDINGS, SMALL_GRADIENT = 1e-4, 20, 0.1
UPDATES, UNITS = 3e-4, 4 * 2.0**-24  # of a first update, and of the weights that it is rounded with
# Of an imported network and its source: layers' outputs; loss, gradients and the change by three updates.
SOURCE_FORWARD, SOURCE_TRAINING, SOURCE_STEPS = 1e-5, 1e-4, "3"
END_LOSSES, END_EVALUATION, LAST_LOSS, END_ROUNDINGS = 5e-4, 1e-4, 2e-3, 5
PROBED_INPUTS = ("train_images", "train_labels", "order", "network", AUGMENTATION, "weights")
REFEREE = "numpy"


@dataclass(frozen=True)
class StoredProbe:
    """A probe's answer, with the trial that it was made for; its inputs name weights and images by digest."""

    folder: Path
    spec: TrialSpec
    evidence: dict[str, Any]


class Probes:
    """Probes of a results folder, each read once."""

    def __init__(self, results: Path) -> None:
        """Read the probes. One that cannot be read, or is of another version, is left out."""
        room = results / ROOMS[Kind.PROBE]
        found = map(read_probe, sorted(room.iterdir()) if room.is_dir() else ())
        self._every = [probe for probe in found if probe is not None]
        self._answers: dict[tuple[Any, ...], Evidence | None] = {}  # by precision and question
        self._referees = [probe for probe in self._every if probe.spec.cell.framework == REFEREE]

    def list_answers(self, spec: TrialSpec) -> list[StoredProbe]:
        """Return the answers of the trial's framework, including earlier ones."""
        return [probe for probe in self._every if _job_id(probe.folder) == spec.probe_id]

    def referee(self, spec: TrialSpec, precision: str) -> Evidence | None:
        """Return the referee's answer from the same weights and images in this precision; None if there is none."""
        asked = (precision, *_question(spec))
        if asked not in self._answers:
            answers = [
                probe.evidence
                for probe in self._referees
                if (probe.spec.task.precision, *_question(probe.spec)) == asked
            ]
            self._answers[asked] = Evidence.from_json(validation.restore_nan(answers[-1])) if answers else None
        return self._answers[asked]

    def source(self, spec: TrialSpec) -> Evidence | None:
        """Return the answer of the module that the trial's network was imported from; None if there is none."""
        asked = _question(spec)
        found = [each for each in self._every if each.spec.task.own_code and _question(each.spec) == asked]
        return Evidence.from_json(validation.restore_nan(found[-1].evidence)) if found else None

    def disturbed(self, spec: TrialSpec) -> bool:
        """True if the referee also answered from disturbed weights: then the gate allowed more, and only it knows how
        much.
        """
        return any(_differs_in_weights(spec, probe.spec) for probe in self._referees)

    def has_disturbed_answer(self, spec: TrialSpec) -> bool:
        """True if the trial's own framework answered from disturbed weights: then the proof may have allowed more."""
        own = (probe.spec for probe in self._every if probe.spec.cell.framework == spec.cell.framework)
        return any(not each.task.own_code and _differs_in_weights(spec, each) for each in own)


def find_differences(result: TrialResult, probes: Probes) -> Iterator[str]:
    """Yield a line if evidence differs from its probe's, or a verdict is not one that the evidence allows."""
    answers = probes.list_answers(result.spec)
    if result.evidence and answers and all(probe.evidence != result.evidence for probe in answers):
        yield (
            f"evidence: it differs from that in {answers[0].folder.parent.name}/{answers[0].folder.name}/{EVENTS_FILE}"
        )
    passed = {check.name for check in result.checks if check.passed}
    gate = [check for check in result.checks if check.name == CheckName.GATE]
    if result.evidence and CheckName.GATE in passed:
        yield from _first_update(result)
        if JUDGE in gate[0].against:
            yield from _first_step(result, probes)
    if result.evidence and CheckName.SOURCE in passed:
        yield from _source(result, probes)
    if result.end:
        yield from _end(validation.build_record(result.end, TrialEnd, "end"), passed)


def _first_step(result: TrialResult, probes: Probes) -> Iterator[str]:
    if result.spec.task.precision in REDUCED or probes.disturbed(result.spec):
        return  # only the gate knows how far rounding goes
    expected = probes.referee(result.spec, FLOAT64)
    rounded = probes.referee(result.spec, result.spec.task.precision)
    if expected is None or rounded is None:
        return
    evidence = Evidence.from_json(validation.restore_nan(result.evidence))
    draws = [_excesses(*draw) for draw in zip(evidence.probes, expected.probes, rounded.probes, strict=False)]
    for name in draws[0] if draws else ():
        least = min(draw.get(name, math.inf) for draw in draws)
        if least > MARGIN:
            yield (
                f"{CheckName.GATE}: stored: passed; judged again, {name} differs from the referee's by {least:.0f} "
                "times what is allowed"
            )
            return


def _source(result: TrialResult, probes: Probes) -> Iterator[str]:
    """Compare an imported network with its source once more, by the probes of both."""
    if probes.has_disturbed_answer(result.spec):
        return  # only the gate knows how far rounding goes
    expected = probes.source(result.spec)
    if expected is None:
        yield f"{CheckName.SOURCE}: stored: passed; its source's answer is not in {ROOMS[Kind.PROBE]}/"
        return
    evidence = Evidence.from_json(validation.restore_nan(result.evidence))
    draws = [_source_excesses(*draw) for draw in zip(evidence.probes, expected.probes, strict=False)]
    for name in draws[0] if draws else ():
        least = min(draw.get(name, math.inf) for draw in draws)
        if least > MARGIN:
            yield (
                f"{CheckName.SOURCE}: stored: passed; judged again, {name} differs from the source's by {least:.0f} "
                "times what is allowed"
            )
            return


def _source_excesses(evidence: Evidence, expected: Evidence) -> dict[str, float]:
    """Return {quantity: its difference from the source's, in multiples of what is allowed}."""
    floor, found = SMALL_GRADIENT * expected.gradient_norm, {}
    for name, fingerprint in expected.outputs.items():
        found[f"outputs of {name}"] = _apart(evidence.outputs.get(name), fingerprint, 0.0) / SOURCE_FORWARD
    untrained = _apart(evidence.untrained_evaluation, expected.untrained_evaluation, 0.0)
    found["the evaluation before any step"] = untrained / SOURCE_FORWARD
    found["the loss"] = abs(evidence.loss - expected.loss) / max(abs(expected.loss), 1e-3) / SOURCE_TRAINING
    found = {name: math.inf if math.isnan(value) else value for name, value in found.items()}  # of no training yet
    for key, fingerprint in expected.gradients.items():
        found[f"the gradient of {key}"] = _apart(evidence.gradients.get(key), fingerprint, floor) / SOURCE_TRAINING
    changes, theirs = (each.updates.get(SOURCE_STEPS, {}) for each in (evidence, expected))
    whole = math.hypot(*(theirs[key][0] for key in expected.gradients if key in theirs))
    for key in (key for key in expected.gradients if key in theirs):
        least = max(SMALL_GRADIENT * whole, 1e-30)
        rounding = 2 * UNITS * expected.sizes.get(key, 0.0) / max(theirs[key][0], least)
        found[f"the change of {key}"] = _apart(changes.get(key), theirs[key], least) / max(SOURCE_TRAINING, rounding)
    return {name: value for name, value in found.items() if not math.isnan(value)}


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
    evidence = Evidence.from_json(validation.restore_nan(result.evidence))
    draws = [_update_excesses(probe, rate) for probe in evidence.probes]
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


def _excesses(evidence: Evidence, expected: Evidence, rounded: Evidence) -> dict[str, float]:
    """Return {quantity: its difference from the referee's, in multiples of what is allowed}."""
    floor = SMALL_GRADIENT * expected.gradient_norm
    found = {}
    for what, floor_of in (("outputs", 0.0), ("gradients", floor)):
        mine, exact, near = (getattr(each, what) for each in (evidence, expected, rounded))
        for key in exact:
            apart, rounding = _apart(mine.get(key), exact[key], floor_of), _apart(near.get(key), exact[key], floor_of)
            found[f"{what} of {key}"] = apart / max(FIRST_STEP, ROUNDINGS * rounding)
    scale = max(abs(expected.loss), 1e-3)
    rounding = abs(rounded.loss - expected.loss) / scale
    found["the loss"] = abs(evidence.loss - expected.loss) / scale / max(FIRST_STEP, ROUNDINGS * rounding)
    return {name: value for name, value in found.items() if not math.isnan(value)}


def _apart(values: Fingerprint | None, expected: Fingerprint, floor: float) -> float:
    """Difference relative to the expected norm, or to `floor` if that is larger; infinite without values."""
    if values is None:
        return math.inf
    gaps = [value - other for value, other in zip(values, expected, strict=False)]
    projected = math.sqrt(sum(gap * gap for gap in gaps[1:]) / max(1, len(gaps) - 1))
    return max(abs(gaps[0]), projected) / max(expected[0], floor, 1e-6)


def _end(end: TrialEnd, passed: set[str]) -> Iterator[str]:
    if end.digests and end.middle and end.middle.digests and CheckName.END_UPDATES in passed:
        for name, digest in asdict(end.digests).items():
            if digest == getattr(end.middle.digests, name):
                yield f"evidence: the {name} of its end equal those of its middle"
    evaluation = end.last_evaluation.difference if end.last_evaluation else None
    for name, found, bound in (
        (CheckName.LAST_EVALUATION, evaluation, END_EVALUATION),
        (CheckName.LAST_LOSS, end.last, LAST_LOSS),
    ):
        if name in passed and found and (worst := _worst([found], bound)) > MARGIN:
            yield f"{name}: stored: passed; judged again, it differs by {worst:.0f} times what is allowed"
    for moment, names in (
        (end, (CheckName.END_EVALUATION, CheckName.END_LOSSES)),
        (end.middle, (CheckName.MIDDLE, CheckName.MIDDLE)),
    ):
        if moment is not None:
            yield from _moment(moment, names, passed)


def _moment(end: TrialEnd | TrialMiddle, names: tuple[CheckName, CheckName], passed: set[str]) -> Iterator[str]:
    losses = [step.loss for step in end.steps]
    rounding = max((loss.rounding for loss in losses), default=0.0)
    evaluation = [end.evaluation] if end.evaluation else []
    for name, found, base in (
        (names[0], evaluation, END_EVALUATION),
        (names[1], [replace(loss, rounding=rounding) for loss in losses], END_LOSSES),
    ):
        if name in passed and (worst := _worst(found, base)) > MARGIN:
            yield f"{name}: stored: passed; judged again, it differs by {worst:.0f} times what is allowed"


def _worst(found: Sequence[Difference], base: float) -> float:
    """Largest difference in multiples of what is allowed; infinite if one is not a number."""
    allowed = (max(base, END_ROUNDINGS * each.rounding) + each.resolution for each in found)
    return max(
        (math.inf if each.apart is None else each.apart / most for each, most in zip(found, allowed, strict=True)),
        default=0.0,
    )


def read_probe(folder: Path) -> StoredProbe | None:
    """Read the probe in a folder; None for one that cannot be read, or is of another version."""
    try:
        job = Job.from_json(validation.read(folder / JOB_FILE, dict[str, Any]) or {})
        events = read_events(folder / EVENTS_FILE)
    except (ValueError, TypeError, AttributeError):
        return None
    probed = [event["evidence"] for event in events if event["event"] == Event.PROBED]
    if not probed or job.trial.probe_id != _job_id(folder):
        return None
    return StoredProbe(folder, job.trial, probed[-1])


def _job_id(folder: Path) -> str:
    named = numbered.NUMBERED.fullmatch(folder.name)
    return named["id"] if named else folder.name


def _question(spec: TrialSpec) -> tuple[Any, ...]:
    """Return what a probe's answer depends on, except for the framework and the precision."""
    digests = tuple(spec.inputs[name].sha256 if name in spec.inputs else "" for name in PROBED_INPUTS)
    return spec.task.workload, spec.task.optimizer, spec.task.accumulate > 1, *digests


def _differs_in_weights(spec: TrialSpec, other: TrialSpec) -> bool:
    *asked, weights = _question(spec)
    *others, theirs = _question(other)
    return asked == others and weights != theirs
