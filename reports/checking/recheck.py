"""Repeat the checks of stored results and recompute their figures, from result.json, events.jsonl and samples.csv."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path

from workloads.networks import find_trained
from workloads.records.check_name import MADE_AGAIN, OF_OWN_CODE, CheckName
from workloads.records.checks import check_clocks, check_figures, check_samples, is_as_asked
from workloads.records.events import Events, add_evaluations
from workloads.records.figures import WINDOW
from workloads.records.files import EVENTS_FILE, METER_FILE, OTHER_SAMPLES_FILE, SAMPLES_FILE
from workloads.records.job import TrialSpec
from workloads.records.own_checks import check_own_code
from workloads.records.reported import check_processes, check_threads
from workloads.records.result import Check, TrialResult
from workloads.records.samples import Samples, read_samples
from workloads.records.status import Status
from workloads.records.stored import read_meter
from workloads.records.stored_events import read_events

from ..attempts import trial_id
from ..load import BLOCKS, Stored
from ..neighbours import rounds_of
from . import (
    answers_check,
    evidence_check,
    plausibility,
    recompute,
    recompute_attempt,
    recompute_sampled,
    recompute_training,
    sessions,
)
from .recompute_attempt import check_order
from .stored_probes import Probes

PASSED = {True: "passed", False: "failed"}


def check_trials(stored: Stored, folder: Path) -> list[str]:
    """List the findings in the results that can be read; `folder` is the one that they were read from."""
    findings = check_order(stored.attempts.values())
    seen: dict[str, list[str]] = {}
    shown = list(zip(stored.results, stored.folders, strict=True))
    findings += recompute_training.compare_trials(shown)
    findings += sessions.compare_sessions(stored, shown)
    findings += answers_check.find_differences(stored, folder)
    others = (
        (attempt.result, attempt.folder)
        for each in stored.attempts.values()
        for place, attempt in enumerate(each.every)
        if attempt.result is not None and place != each.shown
    )
    probes = Probes(folder)
    for result, trial_dir in (*shown, *others):
        findings += [f"{trial_dir}: {line}" for line in evidence_check.find_differences(result, probes)]
        findings += [f"{trial_dir}: {line}" for line in check_trial(result, trial_dir, trial_dir in stored.folders)]
        with suppress(OSError):  # the check of the trial says so
            content = (trial_dir / SAMPLES_FILE).read_bytes()
            if content.count(b"\n") > 1:  # more than its header
                seen.setdefault(hashlib.sha256(content).hexdigest(), []).append(trial_dir.name)
    findings += [
        f"{folder}: {SAMPLES_FILE} is the same in {', '.join(names)}: one of them was not measured"
        for names in seen.values()
        if len(names) > 1
    ]
    return findings


def _misplaced(result: TrialResult, trial_dir: Path) -> list[str]:
    """List faults of the folder: of another trial, or of blocks whose rounds cannot be read."""
    findings = []
    if result.spec.id != trial_id(trial_dir):
        findings.append(f"its spec is that of {result.spec.id}: changed after the run, or in the wrong folder")
    if trial_dir.parent.name == BLOCKS and result.status is Status.OK:
        try:
            rounds_of(trial_dir)
        except ValueError as error:
            findings.append(str(error))
    return findings


def check_trial(result: TrialResult, trial_dir: Path, shown: bool = True) -> list[str]:
    """List the faults of one trial.

    These are figures that differ from its files, checks that fail, and stored verdicts that differ from repeated ones.
    For an attempt that is not `shown`, a check that failed and is stored so is no finding.
    """
    findings = [*_misplaced(result, trial_dir), *recompute_attempt.find_status_faults(result)]
    workload = find_trained(result.spec, trial_dir.parent.parent)
    repeated = check_figures(result.spec, workload, result.figures, result.epochs)
    repeated += check_threads(result.spec, result.facts)
    try:
        repeated += check_clocks(result.figures, read_meter(trial_dir / METER_FILE).get("clocks", []))
    except ValueError as error:
        findings.append(str(error))
    try:
        events, samples = read_events(trial_dir / EVENTS_FILE), read_samples(trial_dir / SAMPLES_FILE)
        if any(check.name in OF_OWN_CODE for check in result.checks):  # trials of earlier versions have none
            attempt = recompute_attempt.read_attempt(trial_dir)
            repeated += check_own_code(result.spec, add_evaluations(events, attempt.evaluations))
        segments = recompute.list_segments(events)
        if segments:
            edges = segments[0][0], segments[-1][1]
            repeated += check_samples(edges, samples) + check_processes(result.spec, result.figures, edges, samples)
        others = [
            read_samples(trial_dir / OTHER_SAMPLES_FILE.format(number))
            for number, _ in enumerate(result.spec.placement.others, start=1)
        ]
        findings += _recomputed(result, trial_dir, events, samples, others)
    except (ValueError, ArithmeticError) as error:
        findings.append(f"its files cannot be read: {error}")
        repeated += [check for check in result.checks if check.name not in {other.name for other in repeated}]
    else:
        window = result.figures.get(WINDOW.name)
        if not segments and window is not None and window.value is not None:
            findings.append(f"the result has a steady window of {window.value:.2f} s, {EVENTS_FILE} has none")
    return findings + _differences(result.spec, result.checks, repeated, shown)


def _recomputed(
    result: TrialResult, trial_dir: Path, events: Events, samples: Samples, others: list[Samples]
) -> list[str]:
    """List each figure, epoch or count that differs from the trial's files. Raises ValueError."""
    results, attempt = trial_dir.parent.parent, recompute_attempt.read_attempt(trial_dir)
    events = add_evaluations(events, attempt.evaluations)
    workload, window = find_trained(result.spec, results), recompute.list_segments(events)
    told = recompute_training.recompute_figures(result, events, window, workload)
    told |= recompute_attempt.collect_memory(result, events, attempt, workload)
    told |= recompute_sampled.collect_sampled(result, events, samples, window)
    return [
        *recompute.find_differences(result, events, samples, others, told),
        *recompute_training.find_differences(result, events, window, workload),
        *recompute_attempt.find_differences(result, attempt),
        *recompute_attempt.compare_account(result, attempt, results),
        *plausibility.find_impossible(result, events, samples, trial_dir),
    ]


# Failed checks that are no fault of a trial: its batch was asked for; its end could not be compared by us.
NO_FAULT = (CheckName.IN_SPLIT, CheckName.END_ANSWERED)


def _differences(spec: TrialSpec, stored: list[Check], repeated: list[Check], shown: bool) -> list[str]:
    """Compare stored checks with repeated ones.

    Lists checks that fail, and those whose stored verdict differs from the repeated one. Failed checks of a trial that
    is not `shown`, windows as short and batches as large as asked for, and ends that the referee did not compare, are
    listed only if the verdicts differ.
    """
    findings = []
    for name in dict.fromkeys(check.name for check in (*repeated, *stored)):
        before, now = ([check for check in checks if check.name == name] for checks in (stored, repeated))
        if name not in MADE_AGAIN:  # only the run can make it: how a process ended, what the gate found
            now = before
        verdict = ", ".join(PASSED[check.passed] for check in before) or "not stored"
        newer = not before and not shown  # a check that did not exist when the attempt was stored
        differs = not newer and [check.passed for check in before] != [check.passed for check in now]
        failed = [check for check in now if not check.passed]
        findings += [
            f"{name}: failed: {check.detail}" + f" (stored: {verdict})" * differs
            for check in failed
            if (shown and name not in NO_FAULT and not is_as_asked(spec, check)) or differs
        ]
        if differs and before and not failed:
            again = f"passes when repeated: {now[0].detail}" if now else "cannot be repeated: its figures are missing"
            findings.append(f"{name}: stored: {verdict}; {again}")
    return findings
