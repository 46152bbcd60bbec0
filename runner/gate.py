"""The gate: trials whose frameworks did not compute the same thing are marked `unverified`.

A trial's evidence (`workloads.gate`) is held against the referee's, where the referee is quick, and else against the
other frameworks'; its first losses against those of other frameworks at the same batch size.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from runner import environments
from runner.assemble import read_events
from runner.evidence import Truth, difference, losses_differ
from runner.launch import LaunchFailed, run_worker
from workloads.catalogue import WORKLOADS
from workloads.gate import PROBE_BATCH, Evidence
from workloads.trial import EVENTS_FILE, TRIAL_FILE, Check, Event, Status, TrialResult, TrialSpec, write_json

GATE = "computes what the others compute"
REFEREE = "numpy"
REFEREE_FOLDER = "referee"
REFEREE_MULTIPLY_ADDS = 10**9  # of one image: above, the referee takes more than a minute for each repeat
REFEREE_TIMEOUT_S = 300.0

Group = tuple[Any, ...]
Told = tuple[str, str]  # (whom it differs from, in what)


def group(spec: TrialSpec) -> Group:
    """Trials of one group probed the same workload, weights, images and optimizer."""
    probed = ("train_images", "train_labels", "order", "weights")
    hashes = tuple(spec.inputs[name].sha256 for name in probed if name in spec.inputs)
    return (spec.workload, tuple(asdict(spec.optimizer).items()), hashes)


class Gate:
    """Judges the trials of one results folder; the referee is asked once for each group."""

    def __init__(self, results: Path) -> None:
        self.results = results
        self.truths: dict[Group, Truth | str] = {}

    def judge(self, trials: Iterable[TrialResult]) -> list[TrialResult]:
        """The same trials, each with its verdict among its checks, and status `unverified` where it differs."""
        trials = list(trials)
        groups: dict[Group, list[TrialResult]] = defaultdict(list)
        for trial in trials:
            if can_be_judged(trial):
                groups[group(trial.spec)].append(trial)
        return [self._verdict(t, groups[group(t.spec)]) if can_be_judged(t) else t for t in trials]

    def _verdict(self, trial: TrialResult, judged: list[TrialResult]) -> TrialResult:
        before = [check for check in trial.checks if check.name != GATE]
        if trial.status == Status.UNVERIFIED and len(before) == len(trial.checks):
            return trial  # for a reason of its own
        rivals = rivals_of(trial, judged)
        evidence, truth = Evidence.from_json(trial.evidence), self._truth(trial.spec)
        told: list[Told] = []
        if isinstance(truth, Truth):
            asked, rounding = ["the referee"], truth.loss_rounding
            told += [("the referee", found)] if (found := difference(evidence, truth)) else []
            rivals = [rival for rival in rivals if not difference(Evidence.from_json(rival.evidence), truth)]
        else:
            asked, rounding = [rival.spec.framework for rival in rivals], []
            told += outvoted(rivals, lambda rival: difference(evidence, unrounded(rival)))
        if not told and not WORKLOADS[trial.spec.workload].draws:
            same = [rival for rival in rivals if rival.spec.batch_size == trial.spec.batch_size]
            told += outvoted(same, lambda rival: losses_differ(trial.first_losses, rival.first_losses, rounding))
            asked += [rival.spec.framework for rival in same if rival.spec.framework not in asked]
        doubt = "" if isinstance(truth, Truth) else f"; without the referee: {truth}"
        if told:
            reason = f"differs from {', '.join(name for name, _ in told)}: {told[0][1]}"
            check, status = Check(GATE, False, reason), Status.UNVERIFIED
        else:
            held = f"held against {', '.join(asked)}" if asked else "nothing to hold it against: no other framework"
            check, status, reason = Check(GATE, bool(asked), held + doubt), Status.OK, None
        return replace(trial, status=status, reason=reason, checks=[*before, check])

    def _truth(self, spec: TrialSpec) -> Truth | str:
        """Of the trial's group; or why there is none."""
        key = group(spec)
        if key not in self.truths:
            self.truths[key] = "the workload is too large for it"
            if WORKLOADS[spec.workload].multiply_adds <= REFEREE_MULTIPLY_ADDS:
                try:
                    exact, rounded = (ask_referee(spec, profile, self.results) for profile in ("float64", "default"))
                    self.truths[key] = Truth(exact, rounded)
                except LaunchFailed as error:
                    self.truths[key] = str(error)
        return self.truths[key]


def unrounded(trial: TrialResult) -> Truth:
    """The trial itself as the truth, where nobody can tell what rounding does."""
    evidence = Evidence.from_json(trial.evidence)
    return Truth(evidence, evidence)


def can_be_judged(trial: TrialResult) -> bool:
    return bool(trial.evidence) and trial.status in (Status.OK, Status.UNVERIFIED)


def rivals_of(trial: TrialResult, judged: list[TrialResult]) -> list[TrialResult]:
    """One trial of each other framework in the trial's group: of the same batch size, if there is one."""
    found: dict[str, TrialResult] = {}
    for other in judged:
        if other.spec.framework == trial.spec.framework:
            continue
        if other.spec.framework not in found or other.spec.batch_size == trial.spec.batch_size:
            found[other.spec.framework] = other
    return list(found.values())


def outvoted(rivals: list[TrialResult], differs: Callable[[TrialResult], str | None]) -> list[Told]:
    """The rivals that differ, if half of all or more agree with none of it; one against one, both are in doubt."""
    told = [(rival.spec.framework, found) for rival in rivals if (found := differs(rival))]
    return told if 2 * len(told) > len(rivals) else []


def ask_referee(spec: TrialSpec, profile: str, results: Path) -> Evidence:
    """The referee's evidence for the trial's group, from a worker of its own; kept below the results folder."""
    environment = f"{environments.digest_here()}-{environments.digest_code(REFEREE)}"
    own = replace(
        spec,
        study=REFEREE_FOLDER,
        framework=REFEREE,
        batch_size=PROBE_BATCH,
        epochs=0,  # nothing but the gate
        profile=profile,
        feed="host",
        device="cpu",
        window_s=0.0,
        timeout_s=REFEREE_TIMEOUT_S,
        isolation="here",
        environment=environment,
    )
    folder = (results / REFEREE_FOLDER / own.id).resolve()
    if not (found := _finished(folder)):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / EVENTS_FILE).unlink(missing_ok=True)
        write_json(folder / TRIAL_FILE, own.to_json())
        run_worker(folder, own, sys.executable, {})
        found = _finished(folder)
    if not found:
        raise LaunchFailed(f"the referee gave no evidence (see {folder})")
    return Evidence.from_json(found)


def _finished(folder: Path) -> dict[str, Any]:
    events = {event["event"]: event for event in read_events(folder / EVENTS_FILE)}
    return events[Event.BUILT]["evidence"] if Event.FINISHED in events else {}
