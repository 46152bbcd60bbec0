"""Prove that an imported network is the user's model: the source's own module is one more voter of the gate's probe.

It answers for the same images, labels and weights as each framework's version of the network. Tolerances are those of
the issue's bar, tighter than the gate's. The two frameworks' rounding may exceed them in a deep network; then the
effect of disturbed weights is measured, as the gate does for a flagged trial.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from runner.gate.probes import ask_probe
from runner.gate.rounding import Launchers, Pair, disturb_weights
from runner.gate.sizes import measure_gap
from runner.gate.tolerances import (
    EVALUATION,
    GRADIENTS,
    LOSSES,
    OUTPUTS,
    SMALL,
    UPDATES,
    Deviation,
    DeviationKind,
    Quantity,
    ScaledGap,
    choose_closest,
    compare_quantities,
)
from runner.launch import LaunchFailed
from workloads import weights
from workloads.layers import Masked, StochasticDepth
from workloads.networks import find_trained
from workloads.records.build import DEFAULT, FLOAT32, column_of
from workloads.records.check_name import CheckName
from workloads.records.evidence import SOURCE_STEPS, Evidence, Fingerprint, fingerprint
from workloads.records.job import TrialSpec
from workloads.records.result import Check, TrialResult
from workloads.records.source_map import DRAWN, SOURCE, Mask, SourceFacts, SourceMap
from workloads.spec import Workload
from workloads.words import compare_with_allowed

FORWARD, TRAINING = 1e-5, 1e-4  # allowed: logits and layers' outputs; loss, gradients and updates. Relative, by norms
# {quantity: (what is allowed here, what the gate allows)}; where the gate allows more than that, it has a reason.
STRICT = {
    DeviationKind.OUTPUTS: (FORWARD, OUTPUTS),
    DeviationKind.UNTRAINED: (FORWARD, OUTPUTS),
    DeviationKind.LOSS: (TRAINING, LOSSES),
    DeviationKind.LOSSES: (TRAINING, LOSSES),
    DeviationKind.GRADIENTS: (TRAINING, GRADIENTS),
    DeviationKind.UPDATES: (TRAINING, UPDATES),
    DeviationKind.EVALUATION: (TRAINING, EVALUATION),
}
UNREADABLE = (OSError, KeyError, TypeError, AttributeError, ValueError)  # raised by a foreign file
SAME_WEIGHT = 1e-6  # a copied tensor differs by nothing, its fingerprint by the order of a sum


@dataclass(frozen=True)
class SourceAnswer:
    """The source's evidence, what its module says of itself, and the map by which both have our names."""

    evidence: Evidence
    facts: SourceFacts
    source: SourceMap


@dataclass(frozen=True)
class Proof:
    """One framework's version of an imported network compared with its source."""

    forward: float  # relative differences: of the logits in evaluation mode before any step
    gradients: float  # of all together
    updates: float  # of what SOURCE_STEPS updates changed, all together
    difference: str | None  # the first that is not allowed

    def __str__(self) -> str:
        return f"forward {self.forward:.0e}, gradients {self.gradients:.0e}, three updates {self.updates:.0e}"


def is_provable(spec: TrialSpec) -> bool:
    """True for a trial of an imported network in full precision; a reduced one rounds more than the proof allows."""
    return SOURCE in spec.inputs and spec.task.precision == FLOAT32 and spec.task.own_code is None


class SourceProofs:
    """The answers of sources, each asked once, and the proofs of trials."""

    def __init__(self, results: Path, launchers: Launchers) -> None:
        """Ask nothing yet; `launchers` are the frameworks that can be asked."""
        self.results, self.launchers = results, launchers
        self.answers: dict[str, SourceAnswer | str] = {}
        self.pairs: dict[str, Pair | None] = {}
        self.initial: dict[str, dict[str, Fingerprint]] = {}  # of the network's own weights, by their file's sha256

    def ask(self, spec: TrialSpec) -> SourceAnswer | str:
        """Return the source's answer to the trial's probe, or the reason why there is none."""
        try:
            source = SourceMap.read(self.results / spec.inputs[SOURCE].path)
        except UNREADABLE as error:
            return f"the map of its tensors cannot be read: {' '.join(str(error).split())}"
        own = source.code.framework
        places = [key for key in self.launchers if column_of(key[0]).framework == own]
        if not places:
            return f"its own framework, {own}, cannot be started in this run: name it with --framework, too"
        name, installation = min(places, key=lambda place: (place[0] != own, place[0]))
        cell = replace(spec.cell, framework=name)
        task = replace(spec.task, own_code=source.code, profile=DEFAULT, feed="host", deterministic=False)
        asked = replace(spec, cell=cell, task=task, installation=installation)
        if asked.probe_id not in self.answers:
            self.answers[asked.probe_id] = self._ask(asked, source)
        return self.answers[asked.probe_id]

    def _ask(self, asked: TrialSpec, source: SourceMap) -> SourceAnswer | str:
        launcher = self.launchers[asked.cell.framework, asked.installation]
        try:
            event = ask_probe(asked, self.results, launcher)
            facts = SourceFacts.from_json(event["source"])
            return SourceAnswer(Evidence.from_json(event["evidence"]), facts, source)
        except LaunchFailed as error:
            return str(error)
        except UNREADABLE as error:
            return f"its answer cannot be read: {type(error).__name__}: {' '.join(str(error).split())}"

    def check(self, trial: TrialResult) -> list[Check]:
        """Return the check of an imported network, which fails if its source has never answered; none for others."""
        workload = find_trained(trial.spec, self.results)
        if not trial.evidence or workload is None or not is_provable(trial.spec):
            return []
        answer = self.ask(trial.spec)
        if isinstance(answer, str):  # what was found before stays: its framework may not be in this run
            before = [check for check in trial.checks if check.name == CheckName.SOURCE]
            return before or [Check(CheckName.SOURCE, False, f"it was not compared with its source: {answer}")]
        proof = self.prove(trial.spec, Evidence.from_json(trial.evidence), answer, workload)
        return [Check(CheckName.SOURCE, proof.difference is None, proof.difference or str(proof))]

    def prove(self, spec: TrialSpec, evidence: Evidence, answer: SourceAnswer, workload: Workload) -> Proof:
        """Return the proof. What rounding does is measured only where something differs."""
        initial = {} if answer.source.initial == DRAWN else self._initial(spec)
        wrong = find_no_number(answer.evidence) or find_mismatch(answer, workload, initial)
        wrong = wrong or find_other_names(evidence, answer.evidence)
        if wrong:
            return Proof(math.inf, math.inf, math.inf, wrong)
        found = compare_with_source(evidence, answer.evidence)
        if any(each.ratio > 1 for each in found) and (pair := self._pair(spec, evidence)):
            found = compare_with_source(evidence, answer.evidence, (pair,))
        return summarise(evidence, answer, found)

    def _initial(self, spec: TrialSpec) -> dict[str, Fingerprint]:
        """Return the fingerprints of the trial's weights; each file is read once."""
        file = spec.inputs["weights"]
        if file.sha256 not in self.initial:
            loaded = weights.load(self.results / file.path)
            self.initial[file.sha256] = {key: fingerprint(array) for key, array in loaded.items()}
        return self.initial[file.sha256]

    def _pair(self, spec: TrialSpec, evidence: Evidence) -> Pair | None:
        """Return the framework's evidence from the trial's weights and from disturbed ones; None if it gives none."""
        if spec.probe_id not in self.pairs:
            self.pairs[spec.probe_id] = None
            launcher = self.launchers.get((spec.cell.framework, spec.installation))
            try:
                event = ask_probe(disturb_weights(spec, self.results, 0), self.results, launcher)
                self.pairs[spec.probe_id] = evidence, Evidence.from_json(event["evidence"])
            except LaunchFailed:
                pass
        return self.pairs[spec.probe_id]


def find_no_number(source: Evidence) -> str | None:
    """Return why nothing can be compared with the answer; None if it can. Two answers without numbers would agree."""
    for each in source.probes:
        if not (each.losses and each.untrained_evaluation and str(SOURCE_STEPS) in each.updates):
            return "the source's answer lacks losses, logits or updates"
        if not all(map(_is_number, (each.loss, each.losses[0], *each.untrained_evaluation))):
            return "the source's own loss or logits are no numbers"
    return None


def _is_number(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def find_mismatch(answer: SourceAnswer, workload: Workload, initial: dict[str, Fingerprint]) -> str | None:
    """Return how counts, masks or initial weights differ from the source's; None if they do not.

    `initial` are the network's own weights; none if both got the same ones.
    """
    facts = answer.facts
    if facts.parameters != workload.parameter_count:
        return f"it trains {workload.parameter_count:,} parameters, the source {facts.parameters:,}"
    if wrong := find_other_mask(workload, facts.masks, answer.source.places):
        return wrong
    for key in initial and workload.weight_shapes():
        if key not in facts.weights:
            return f"no tensor of the source is {key}"
        apart = measure_gap(initial[key], facts.weights[key], SMALL)
        if apart > SAME_WEIGHT:
            size = compare_with_allowed(apart, SAME_WEIGHT)
            return f"first weight that differs before any step: {name_both(key, answer.source)}, by {size}"
    return None


def find_other_mask(workload: Workload, masks: Sequence[Mask], places: Mapping[str, str]) -> str | None:
    """Return the first mask whose rate, or whose extent, is another in the source; None if there is none.

    `places` are the source's modules by layer.
    """
    ours = [layer for layer, _ in workload.walk() if isinstance(layer, Masked) and layer.rate > 0]
    masks = sort_masks(masks, [places.get(layer.name, "") for layer in ours])
    for number in range(max(len(ours), len(masks))):
        layer = ours[number] if number < len(ours) else None
        mask = masks[number] if number < len(masks) else None
        if layer is None and mask is not None:
            rate = f"with probability {mask.rate:g}"
            return f"the source drops each {mask.covers} {rate} in {mask.name}, the network does not"
        if layer is None:
            continue
        covers = "image" if isinstance(layer, StochasticDepth) else "value"
        own = f"{layer.name} drops each {covers} with probability {layer.rate:g}"
        if mask is None:
            return f"{own}, the source does not"
        if mask.covers != covers or not math.isclose(mask.rate, layer.rate, rel_tol=1e-6):
            return f"{own}, the source's {mask.name} each {mask.covers} with probability {mask.rate:g}"
    return None


def sort_masks(masks: Sequence[Mask], modules: Sequence[str]) -> list[Mask]:
    """Return the masks in the order of these modules if all are known: branches may be called in another order."""
    left, found = list(masks), list[Mask]()
    if "" in modules or any(mask.name not in modules for mask in masks):
        return left
    for module in modules:
        if mask := next((mask for mask in left if mask.name == module), None):
            found.append(mask)
            left.remove(mask)
    return found + left


def find_other_names(evidence: Evidence, source: Evidence) -> str | None:
    """Return the first name that one of the two lacks; None if there is none."""
    for each, other in zip(evidence.probes, source.probes, strict=False):
        if missing := [key for key in each.gradients if key not in other.gradients]:
            return f"no tensor of the source is {missing[0]}"
        if missing := [key for key in other.gradients if key not in each.gradients]:
            return f"the network has no {missing[0]}, the source has"
        if missing := [name for name in other.outputs if name not in each.outputs]:
            return f"the network has no layer {missing[0]}, the source has"
        if missing := [steps for steps in other.updates if steps not in each.updates]:
            return f"the network has not answered with {missing[0]} updates, the source has"
    return None


def compare_with_source(evidence: Evidence, source: Evidence, pairs: Sequence[Pair] = ()) -> list[Deviation]:
    """Return the smallest difference over the probes of every quantity, in the order in which they are computed."""
    gaps: dict[Quantity, list[ScaledGap]] = defaultdict(list)
    for number, (each, expected) in enumerate(zip(evidence.probes, source.probes, strict=False)):
        moved = [(given.probes[number], other.probes[number]) for given, other in pairs]
        for quantity, gap in compare_quantities(each, expected, expected, moved, FLOAT32):
            strict, usual = STRICT[quantity[0]]
            gaps[quantity].append(replace(gap, allowed=strict if gap.allowed <= usual else gap.allowed))
    return [choose_closest(quantity, by_probe, FLOAT32) for quantity, by_probe in gaps.items()]


def summarise(evidence: Evidence, answer: SourceAnswer, found: Sequence[Deviation]) -> Proof:
    """Return the proof of what was found."""
    wrong = next((each for each in found if each.ratio > 1), None)
    if not found:
        return Proof(math.inf, math.inf, math.inf, "the source answered no probe")
    forward = next((each.apart for each in found if each.kind is DeviationKind.UNTRAINED), math.inf)
    pairs = list(zip(evidence.probes, answer.evidence.probes, strict=False))
    gradients = min(measure_all(each.gradients, other.gradients) for each, other in pairs)
    steps = str(SOURCE_STEPS)
    updates = min(measure_all(each.updates[steps], other.updates[steps]) for each, other in pairs)
    said = None
    if wrong is not None:
        place = answer.source.name_place(wrong.key.split("/")[0])
        said = f"{wrong}; in the source it is {place}" if place else str(wrong)
    return Proof(forward, gradients, updates, said)


def measure_all(given: dict[str, Fingerprint], expected: dict[str, Fingerprint]) -> float:
    """Return the norm of all differences together, relative to the norm of all that is expected."""
    keys = list(_known(given, expected))
    whole = math.hypot(*(expected[key][0] for key in keys))
    moved = (measure_gap(given[key], expected[key], SMALL) * max(expected[key][0], SMALL) for key in keys)
    return math.hypot(*moved) / max(whole, SMALL)


def _known(given: dict[str, Fingerprint], expected: dict[str, Fingerprint]) -> Iterator[str]:
    return (key for key in expected if key in given and None not in (*given[key], *expected[key]))


def name_both(key: str, source: SourceMap) -> str:
    """Return our name of a weight, and the source's."""
    names: dict[str, Any] = {each.key: each.source_name for each in source.parameters}
    return f"{key} (in the source {names[key]})" if key in names else key
