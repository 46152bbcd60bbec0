"""The gate: marks trials `unverified` if their frameworks did not compute the same thing.

A trial's evidence (`workloads.records.evidence`) is compared with the referee's, if the referee is quick, and otherwise
with the other frameworks'. Its first losses are compared with those of other frameworks at the same batch size. Its
middle and its end are compared with what the referee computes from the same weights.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from runner.environments.code import code_digest
from runner.environments.definition import digest_interpreter
from runner.gate import trial_end
from runner.gate.probes import ask_probe
from runner.gate.rivals import (
    Disagreement,
    Group,
    build_unrounded_truth,
    choose_rivals,
    describe_batches,
    find_disagreements,
    find_framework,
    find_group,
    name_compared,
)
from runner.gate.rounding import (
    Launchers,
    Pair,
    compute_loss_growth,
    compute_loss_shifts,
    disturb_weights,
    join_probes,
    join_truths,
    may_be_kink,
    take_other_images,
)
from runner.gate.source_proof import SourceProofs
from runner.gate.tolerances import Truth, compare_losses, find_difference
from runner.gate.trial_end import REFEREE_MULTIPLY_ADDS, TOO_LARGE
from runner.launch import Launcher, LaunchFailed, Local
from runner.project import Project
from runner.results.assemble import judge_disturbance
from workloads.networks import find_trained
from workloads.records.build import DEFAULT, FLOAT64, REDUCED
from workloads.records.check_name import JUDGE, LATE_NAMES, NO_LONGER_MADE, CheckName
from workloads.records.evidence import PROBE_STEPS, Evidence
from workloads.records.job import ROOMS, Installation, Kind, TrialSpec
from workloads.records.result import Check, TrialResult
from workloads.records.status import COMPLETED, Status
from workloads.spec import Workload
from workloads.weights import DISTURBANCES

REFEREE = "numpy"
REFEREE_TIMEOUT_S = 300.0


class Gate:
    """Gathers the evidence of frameworks and of the referee, each once per group, and judges trials by it."""

    def __init__(self, results: Path, project: Project, launchers: Launchers | None = None) -> None:
        """Prepare the gate. `launchers` are the frameworks that can be asked what rounding does to a flagged trial."""
        self.project = project
        self.results = results
        self.launchers = launchers or {}
        self.disturbed_truths: set[Group] = set()
        self.others: dict[str, tuple[TrialSpec, Evidence] | None] = {}  # by probe: with other images, and the answer
        self.pairs: dict[str, Pair | None] = {}  # by probe: the evidence, and the evidence from disturbed weights
        self.truths: dict[Group, Truth | str] = {}
        self.given: dict[str, dict[str, Any]] = {}
        self.silent: dict[str, str] = {}  # why a framework's probe gave nothing, in this run
        self.proofs = SourceProofs(results, self.launchers)

    def launcher(self, spec: TrialSpec) -> Launcher | None:
        """Return the launcher of the trial's framework; None if that, as the trial had it, cannot be asked."""
        return self.launchers.get((spec.cell.framework, spec.installation))

    def gather(self, spec: TrialSpec, launcher: Launcher | None) -> dict[str, Any]:
        """Return the evidence of the trial's framework from a separate worker; empty if it gave none. Without a
        launcher, return that of an earlier run, if there is one.
        """
        if spec.task.own_code:
            return {}  # compared with nothing
        name = spec.probe_id
        if name not in self.given:
            self.given[name] = {}  # also where it dies: not asked again for each batch size
            try:
                self.given[name] = self._probe(spec, launcher)
            except LaunchFailed as error:
                if launcher is not None:
                    self.silent[name] = str(error)
        return self.given[name]

    def judge(self, trials: Iterable[TrialResult]) -> list[TrialResult]:
        """Return the same trials, each with its verdict among its checks, and status `unverified` if it differs."""
        trials = list(trials)
        groups: dict[Group, list[TrialResult]] = defaultdict(list)
        for trial in filter(self._can_be_judged, trials):
            groups[find_group(trial.spec)].append(trial)
        return [self._verdict(t, groups[find_group(t.spec)]) if self._can_be_judged(t) else t for t in trials]

    def _verdict(self, trial: TrialResult, judged: list[TrialResult]) -> TrialResult:
        made_anew = (CheckName.GATE, CheckName.SOURCE, *LATE_NAMES, *NO_LONGER_MADE)
        before = [check for check in trial.checks if check.name not in made_anew]
        if trial.status == Status.UNVERIFIED and len(before) == len(trial.checks):
            return trial  # for another reason
        if not trial.evidence:
            silent = self._silent(trial)
            checks = [*before, Check(CheckName.GATE, False, silent)]
            return replace(trial, status=Status.UNVERIFIED, reason=silent, checks=checks)
        workload = self._workload(trial.spec)
        rivals = choose_rivals(trial, [other for other in judged if other.evidence])
        truth = self._truth(trial.spec)
        if not isinstance(truth, Truth) and trial.spec.task.precision in REDUCED:
            rivals, truth = [], f"{truth}, and no other framework shows what {trial.spec.task.precision} rounds off"
        differing, against = self._differing(trial, rivals, truth, workload.draws)
        late = [*self.proofs.check(trial), *trial_end.check_end(trial, workload)]
        doubt = "" if isinstance(truth, Truth) else f"; without the referee: {truth}"
        if differing:
            differs = f"differs from {', '.join(name for name, _ in differing)}: {differing[0][1]}"
            checks = [*before, *late, Check(CheckName.GATE, False, differs, tuple(against))]
            return replace(trial, status=Status.UNVERIFIED, reason=differs, checks=checks)
        held = name_compared(against) if against else "nothing to compare with"
        held += "" if against or trial.spec.task.precision in REDUCED else ": no other framework"
        status, reason = _undisputed(trial)
        failed = [check for check in late if not (check.passed or trial_end.is_ours(trial, check))]
        if status is Status.CONTENDED:  # other processes may cause what is left after a window
            failed = [check for check in failed if check.name != CheckName.NOTHING_LEFT]
        if failed:
            status, reason = Status.UNVERIFIED, failed[0].detail
        checks = [*before, *late, Check(CheckName.GATE, bool(against), held + doubt, tuple(against))]
        return replace(trial, status=status, reason=reason, checks=checks)

    def _differing(
        self, trial: TrialResult, rivals: list[TrialResult], truth: Truth | str, draws: bool
    ) -> tuple[list[Disagreement], list[str]]:
        """Return who differs from the trial and how, and the names of all that it was compared with.

        Losses are compared unless the network draws masks. Without the referee the rivals' majority decides.
        """
        differing: list[Disagreement] = []
        if isinstance(truth, Truth):
            against, rounding = [JUDGE], truth.loss_rounding
            if detail := self._differs(trial):
                differing.append(("the referee", detail))
            rivals = [rival for rival in rivals if not self._differs(rival)]
        else:
            against, rounding = [find_framework(rival) for rival in rivals], []
            differing += self._outvoted(trial, rivals)
        if not differing and not draws:
            same = [rival for rival in rivals if describe_batches(rival.spec) == describe_batches(trial.spec)]
            differing += self._outvoted_in_losses(trial, same, rounding)
            against += [find_framework(rival) for rival in same if find_framework(rival) not in against]
        return differing, against

    def _differs(self, trial: TrialResult) -> str | None:
        """Return how the trial differs from the referee, which must have answered."""
        truth, evidence = self._truth(trial.spec), Evidence.from_json(trial.evidence)
        assert isinstance(truth, Truth)
        if not find_difference(evidence, truth):
            return None
        truth = self._widened(trial.spec, truth)
        difference = find_difference(evidence, truth)
        if difference and may_be_kink(evidence, truth):
            with suppress(LaunchFailed):
                return self._differs_with_other_images(trial.spec, evidence, truth)
        return difference

    def _differs_with_other_images(self, spec: TrialSpec, evidence: Evidence, truth: Truth) -> str | None:
        """Return how as many more probes differ, too: a fault is in all of them. Raises LaunchFailed."""
        name = spec.probe_id
        if name not in self.others:
            self.others[name] = None  # also where it fails: not asked again in this run
            other = take_other_images(spec, self.results)
            self.others[name] = other, Evidence.from_json(self._probe(other, self.launcher(spec)))
        if (asked := self.others[name]) is None:
            raise LaunchFailed("its framework gave no further evidence")
        other, answer = asked
        more = self._truth(other)
        if not isinstance(more, Truth):
            raise LaunchFailed(more)
        more = self._widened(other, more)
        return find_difference(join_probes(evidence, answer), join_truths(truth, more))

    def _widened(self, spec: TrialSpec, truth: Truth) -> Truth:
        """Return the truth with the effect of rounding, if the referee answers. It is measured only for a flagged
        trial, and widens the tolerances of its whole group.
        """
        if find_group(spec) not in self.disturbed_truths:
            self.disturbed_truths.add(find_group(spec))  # also where it fails: not asked again in this run
            with suppress(LaunchFailed):
                specs = [disturb_weights(spec, self.results, number) for number in range(DISTURBANCES)]
                answers = [self._ask_referee(each, each.task.precision) for each in specs]
                truth = replace(truth, disturbed=tuple((truth.expected, answer) for answer in answers))
                self.truths[find_group(spec)] = truth
        return truth

    def _outvoted(self, trial: TrialResult, rivals: list[TrialResult]) -> list[Disagreement]:
        """Compare the frameworks' answers to the probe, without a referee."""
        evidence = Evidence.from_json(trial.evidence)

        def differing(pairs: tuple[Pair, ...]) -> list[Disagreement]:
            return find_disagreements(
                rivals, lambda rival: find_difference(evidence, replace(build_unrounded_truth(rival), disturbed=pairs))
            )

        before = differing(())
        pairs = self._pairs((trial, *rivals)) if before else ()
        return differing(pairs) if len(pairs) > 1 else before

    def _pairs(self, trials: Iterable[TrialResult]) -> tuple[Pair, ...]:
        """Return the pair of each trial's framework, as far as these can be asked."""
        return tuple(pair for trial in trials if (pair := self._pair(trial)))

    def _pair(self, trial: TrialResult) -> Pair | None:
        """Return the trial's evidence from its weights and from disturbed ones; None without a launcher's answer."""
        name = trial.spec.probe_id
        if name not in self.pairs:
            try:
                spec = disturb_weights(trial.spec, self.results, 0)
                answer = self._probe(spec, self.launcher(trial.spec))
                self.pairs[name] = Evidence.from_json(trial.evidence), Evidence.from_json(answer)
            except LaunchFailed:
                self.pairs[name] = None
        return self.pairs[name]

    def _outvoted_in_losses(
        self, trial: TrialResult, same: list[TrialResult], rounding: list[float]
    ) -> list[Disagreement]:
        """Compare the first losses of trials that got the same batches: all if the probe's rounding is known."""
        growth: Sequence[float] = ()
        if len(rounding) == PROBE_STEPS and trial.spec.task.precision not in REDUCED:
            growth = compute_loss_growth(trial.epochs, trial.spec.rule, PROBE_STEPS, len(trial.first_losses))

        def differing(moved: Sequence[tuple[float, ...]]) -> list[Disagreement]:
            how = (rounding, moved, trial.spec.task.precision, growth)
            return find_disagreements(same, lambda rival: compare_losses(trial.first_losses, rival.first_losses, *how))

        before = differing(())
        if not before:
            return []
        truth = self._truth(trial.spec)
        pairs = self._widened(trial.spec, truth).disturbed if isinstance(truth, Truth) else self._pairs((trial, *same))
        return differing(compute_loss_shifts(pairs, growth)) if len(pairs) > 1 else before

    def _can_be_judged(self, trial: TrialResult) -> bool:
        """True if the trial's status can be judged and its workload still exists."""
        return trial.status in COMPLETED and find_trained(trial.spec, self.results) is not None

    def _workload(self, spec: TrialSpec) -> Workload:
        """Return the workload of a trial that can be judged."""
        workload = find_trained(spec, self.results)
        assert workload is not None
        return workload

    def _silent(self, trial: TrialResult) -> str:
        """Return why its framework gave no evidence; an earlier run's verdict reports it for the probes of that run."""
        earlier = [check.detail for check in trial.checks if check.name == CheckName.GATE]
        if earlier and trial.spec.probe_id not in self.silent:
            return earlier[0]
        reason = self.silent.get(trial.spec.probe_id, f"see the logs in {self.results / ROOMS[Kind.PROBE]}")
        return f"its framework's probe gave no evidence: {reason}"

    def _truth(self, spec: TrialSpec) -> Truth | str:
        """Return the truth of the trial's group, or why there is none."""
        key = find_group(spec)
        if key not in self.truths:
            self.truths[key] = TOO_LARGE
            if self._workload(spec).multiply_adds <= REFEREE_MULTIPLY_ADDS:
                try:
                    exact, rounded = (self._ask_referee(spec, each) for each in (FLOAT64, spec.task.precision))
                    self.truths[key] = Truth(exact, rounded, precision=spec.task.precision)
                except LaunchFailed as error:
                    self.truths[key] = str(error)
        return self.truths[key]

    def _ask_referee(self, spec: TrialSpec, precision: str) -> Evidence:
        """Ask the referee in this Python, which has everything it needs. Raises LaunchFailed if it gave nothing."""
        environment = f"{digest_interpreter()}-{code_digest(self.project, REFEREE)}"
        referee = replace(
            spec,
            cell=replace(spec.cell, framework=REFEREE),
            task=replace(spec.task, profile=DEFAULT, precision=precision, feed="host", deterministic=False),
            placement=replace(spec.placement, device="cpu", memory_limit_bytes=None, control_group=False),
            installation=Installation("here", environment),
            timeout_s=REFEREE_TIMEOUT_S,
        )
        return Evidence.from_json(self._probe(referee, Local(sys.executable, {}, self.project)))

    def _probe(self, spec: TrialSpec, launcher: Launcher | None) -> dict[str, Any]:
        """Return the evidence of a worker that does nothing else, kept in the results folder. Raises LaunchFailed."""
        evidence: dict[str, Any] = ask_probe(spec, self.results, launcher)["evidence"]
        return evidence


def _undisputed(trial: TrialResult) -> tuple[Status, str | None]:
    """Return (status, reason) of a trial without disagreements."""
    if trial.status is Status.CONTENDED:  # by what figures may not show: blocks, results of earlier versions
        return trial.status, trial.reason
    return judge_disturbance(trial.spec, trial.figures, trial.checks)
