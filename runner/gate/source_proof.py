"""Prove that an imported network is the user's model: the source's own module is one more voter of the gate's probe.

It answers for the same images, labels and weights as each framework's version of the network. Tolerances are those of
the issue's bar, tighter than the gate's. The two frameworks' rounding may exceed them in a deep network; then the
effect of disturbed weights is measured, as the gate does for a flagged trial.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from runner.gate.probes import ask_probe
from runner.gate.rounding import Launchers, Pair, disturb_weights
from runner.gate.sizes import compare, measure_gap
from runner.gate.source_facts import SourceAnswer, find_mismatch, find_no_number, find_other_names
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
from runner.launch import LaunchFailed, Local
from workloads import weights
from workloads.networks import find_trained
from workloads.records.build import DEFAULT, FLOAT32, column_of
from workloads.records.check_name import CheckName
from workloads.records.evidence import SOURCE_STEPS, Evidence, Fingerprint, fingerprint
from workloads.records.job import Installation, TrialSpec
from workloads.records.network import OwnCode
from workloads.records.result import Check, TrialResult
from workloads.records.source_map import DRAWN, SOURCE, SourceFacts, SourceMap
from workloads.spec import Workload

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


@dataclass(frozen=True)
class Proof:
    """One framework's version of an imported network compared with its source."""

    forward: float  # relative differences: of the logits in evaluation mode before any step
    gradients: float  # of all together
    updates: float  # of what SOURCE_STEPS updates changed, all together, relative to that change
    difference: str | None  # the first that is not allowed
    loss: float = math.inf
    weights: float = math.inf  # the same as `updates`, relative to the weights
    widest: float = math.inf  # the largest of all quantities, as a share of what this project's bar allows
    disturbed: str = ""  # the framework whose rounding was measured and allowed, because the bar did not hold

    def __str__(self) -> str:
        updates = f"three updates {self.updates:.0e} of their change"
        beyond = f" (beyond the usual bound; rounding measured in {self.disturbed} allows it)" if self.disturbed else ""
        return f"forward {self.forward:.0e}, gradients {self.gradients:.0e}, {updates}{beyond}"


def is_provable(spec: TrialSpec) -> bool:
    """True for a trial of an imported network in full precision; a reduced one rounds more than the proof allows."""
    return SOURCE in spec.inputs and spec.task.precision == FLOAT32 and spec.task.own_code is None


def ask_as(spec: TrialSpec, framework: str, installation: Installation, code: OwnCode | None = None) -> TrialSpec:
    """Return the trial as its question is put to another framework; `code` makes the source's own model."""
    task = replace(spec.task, own_code=code, profile=DEFAULT, feed="host", deterministic=False)
    return replace(spec, cell=replace(spec.cell, framework=framework), task=task, installation=installation)


class SourceProofs:
    """The answers of sources, each asked once, and the proofs of trials."""

    def __init__(self, results: Path, launchers: Launchers) -> None:
        """Ask nothing yet; `launchers` are the frameworks that can be asked."""
        self.results, self.launchers = results, launchers
        self.answers: dict[str, SourceAnswer | str] = {}
        self.pairs: dict[str, Pair | None] = {}  # by probe; None if its framework has not answered
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
        asked = ask_as(spec, name, installation, source.code)
        if asked.probe_id not in self.answers:
            self.answers[asked.probe_id] = self._ask(asked, source)
        return self.answers[asked.probe_id]

    def _ask(self, asked: TrialSpec, source: SourceMap) -> SourceAnswer | str:
        launcher = self.launchers[asked.cell.framework, asked.installation]
        if isinstance(launcher, Local):
            launcher = launcher.for_model_code  # it may load the weights that the import loaded
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
        found = strict = compare_with_source(evidence, answer.evidence)
        if any(each.ratio > 1 for each in found) and (pair := self._ask_disturbed(spec, evidence)):
            found = compare_with_source(evidence, answer.evidence, (pair,))
        widest = max((each.ratio for each in strict), default=math.inf)
        disturbed = "" if found is strict else spec.cell.framework
        return replace(summarise(evidence, answer, found), widest=widest, disturbed=disturbed)

    def _initial(self, spec: TrialSpec) -> dict[str, Fingerprint]:
        """Return the fingerprints of the trial's weights; each file is read once."""
        file = spec.inputs["weights"]
        if file.sha256 not in self.initial:
            loaded = weights.load(self.results / file.path)
            self.initial[file.sha256] = {key: fingerprint(array) for key, array in loaded.items()}
        return self.initial[file.sha256]

    def _ask_disturbed(self, spec: TrialSpec, evidence: Evidence) -> Pair | None:
        """Return the evidence of the trial's framework, and its evidence from disturbed weights; None without that.

        Another framework's evidence is no measure of this one's rounding.
        """
        if spec.probe_id not in self.pairs:
            launcher = self.launchers.get((spec.cell.framework, spec.installation))
            try:
                event = ask_probe(disturb_weights(spec, self.results, 0), self.results, launcher)
                self.pairs[spec.probe_id] = evidence, Evidence.from_json(event["evidence"])
            except LaunchFailed:
                self.pairs[spec.probe_id] = None
        return self.pairs[spec.probe_id]


def compare_with_source(evidence: Evidence, source: Evidence, pairs: Sequence[Pair] = ()) -> list[Deviation]:
    """Return the smallest difference over the probes of every quantity, in the order in which they are computed.

    `pairs` allow what rounding does. A pair of fewer probes allows nothing, nor does an effect that is not finite.
    """
    compared = list(zip(evidence.probes, source.probes, strict=False))
    by_pair = [list(zip(given.probes, disturbed.probes, strict=False)) for given, disturbed in pairs]
    usable = [probes for probes in by_pair if len(probes) >= len(compared)]
    gaps: dict[Quantity, list[ScaledGap]] = defaultdict(list)
    for number, (each, expected) in enumerate(compared):
        disturbed = [probes[number] for probes in usable]
        for quantity, gap in compare_quantities(each, expected, expected, disturbed, FLOAT32):
            strict, usual = STRICT[quantity[0]]
            allowed = strict if gap.allowed <= usual else gap.allowed
            effects = tuple(effect if math.isfinite(effect) else 0.0 for effect in gap.disturbed)
            gaps[quantity].append(replace(gap, allowed=allowed, disturbed=effects))
    return [choose_closest(quantity, by_probe, FLOAT32) for quantity, by_probe in gaps.items()]


def summarise(evidence: Evidence, answer: SourceAnswer, found: Sequence[Deviation]) -> Proof:
    """Return the proof of what was found."""
    wrong = next((each for each in found if each.ratio > 1), None)
    if not found:
        return Proof(math.inf, math.inf, math.inf, "the source answered no probe")
    forward = next((each.apart for each in found if each.kind is DeviationKind.UNTRAINED), math.inf)
    pairs = list(zip(evidence.probes, answer.evidence.probes, strict=False))
    gradients = min(measure_all(each.gradients, other.gradients) for each, other in pairs)
    changes = [(each.updates[str(SOURCE_STEPS)], other.updates[str(SOURCE_STEPS)], other) for each, other in pairs]
    updates = min(measure_all(change, expected) for change, expected, _ in changes)
    weights = min(measure_all(change, expected, other.sizes.values()) for change, expected, other in changes)
    loss = min(compare(each.loss, other.loss) for each, other in pairs)
    said = None
    if wrong is not None:
        place = answer.source.name_place(wrong.key.split("/")[0])
        said = f"{wrong}; in the source it is {place}" if place else str(wrong)
    return Proof(forward, gradients, updates, said, loss, weights)


def measure_all(
    given: dict[str, Fingerprint], expected: dict[str, Fingerprint], sizes: Iterable[float] | None = None
) -> float:
    """Return the norm of all differences together, relative to that of all `sizes`, or of all that is expected."""
    keys = list(_known(given, expected))
    whole = math.hypot(*(sizes if sizes is not None else (expected[key][0] for key in keys)))
    gaps = (measure_gap(given[key], expected[key], SMALL) * max(expected[key][0], SMALL) for key in keys)
    return math.hypot(*gaps) / max(whole, SMALL)


def _known(given: dict[str, Fingerprint], expected: dict[str, Fingerprint]) -> Iterator[str]:
    return (key for key in expected if key in given and None not in (*given[key], *expected[key]))
