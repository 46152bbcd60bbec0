"""The gate's evidence of stored trials is judged again without a framework."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from forged import multiply, plant_probes

from reports import load
from reports.checking import evidence_check
from reports.checking.stored_probes import Probes
from reports.publishing import archive, publish
from workloads.records.check_name import CheckName
from workloads.records.figures import DIVERGED_STEP, Figure
from workloads.records.result import Check, TrialResult
from workloads.records.status import Status
from workloads.records.stored import read_result

QUICK = publish.INTO / "2026-11-26-amd-epyc-quick"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The published results of the quick study."""
    return archive.unpack(QUICK / archive.ARCHIVE, tmp_path_factory.mktemp("quick"))


@pytest.fixture(scope="module")
def probes(results: Path) -> Probes:
    return Probes(results)


def one(results: Path) -> TrialResult:
    (folder,) = results.glob("trials/pytorch-*b00032*")
    return read_result(folder / "result.json")


def test_published_evidence_is_that_of_its_probes_and_allows_its_verdict(results: Path, probes: Probes) -> None:
    trials = load.read(results).results
    assert all(probes.list_answers(each.spec) and probes.referee(each.spec, "float64") for each in trials)
    assert [line for each in trials for line in evidence_check.find_differences(each, probes)] == []


def test_evidence_digests_and_a_last_loss_that_nothing_stored_allows_are_found(results: Path, probes: Probes) -> None:
    trial = one(results)
    changed = replace(trial, evidence=trial.evidence | {"loss": trial.evidence["loss"] * (1 + 1e-6)})
    (line,) = evidence_check.find_differences(changed, probes)
    assert line.startswith("evidence: it differs from that in probes/pytorch-cpu-r0-")
    for name in (CheckName.LAST_LOSS, CheckName.LAST_EVALUATION):
        trial = one(results)
        trial.checks.append(Check(name, True, "-"))
        for apart, count in ((0.001, 0), (0.5, 1)):
            difference = {"apart": apart, "rounding": 0.0, "resolution": 0.01}
            last = name == CheckName.LAST_LOSS
            where = {"last": difference} if last else {"last_evaluation": {"images": 64, "difference": difference}}
            trial.end.update(where)
            assert len(list(evidence_check.find_differences(trial, probes))) == count, name
    trial = one(results)
    digests = {name: name[0] * 64 for name in ("weights", "images", "answers")}
    trial.end["digests"] = digests
    trial.end["middle"] = {"epoch": 1, "updates": 60, "digests": {**digests, "weights": "0" * 64}}
    lines = list(evidence_check.find_differences(trial, probes))
    assert lines == [f"evidence: the {name} of its end equal those of its middle" for name in ("images", "answers")]


def test_a_verdict_that_its_evidence_does_not_allow_is_found(results: Path, probes: Probes) -> None:
    trial = one(results)
    changed = replace(trial, evidence=multiply(trial.evidence, 1.05))
    lines = list(evidence_check.find_differences(changed, probes))
    assert lines[1].startswith(f"{CheckName.GATE}: stored: passed; judged again, outputs of conv1 differs from the")
    failed = [replace(check, passed=check.passed and check.name != CheckName.GATE) for check in trial.checks]
    assert len(list(evidence_check.find_differences(replace(changed, checks=failed), probes))) == 1, "as it was judged"


@pytest.mark.parametrize(("moved_by", "lines"), [(1.0, 1), (1.005, 0)])
def test_a_trial_that_differs_is_allowed_what_disturbed_weights_moved_in_the_stored_answers(
    results: Path, tmp_path: Path, moved_by: float, lines: int
) -> None:
    copied = shutil.copytree(results, tmp_path / "results")
    plant_probes(copied, "numpy", "weights", moved_by)
    trial = replace(one(results), evidence=multiply(one(results).evidence, 1.02))
    found = [line for line in evidence_check.find_differences(trial, Probes(copied)) if "judged again" in line]
    assert len(found) == lines, found


@pytest.mark.parametrize(("moved_by", "lines"), [(1.02, 1), (1.0, 0)])
def test_a_trial_that_differs_for_some_images_alone_passed_if_it_answers_as_expected_for_others(
    results: Path, tmp_path: Path, moved_by: float, lines: int
) -> None:
    copied = shutil.copytree(results, tmp_path / "results")
    plant_probes(copied, "numpy", "order", 1)
    plant_probes(copied, "pytorch", "order", moved_by)
    trial = replace(one(results), evidence=multiply(one(results).evidence, 1.02))
    found = [line for line in evidence_check.find_differences(trial, Probes(copied)) if "judged again" in line]
    assert len(found) == lines, found


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda end: end["evaluation"].update(apart=0.01), CheckName.END_EVALUATION),
        (lambda end: end["steps"][0]["loss"].update(apart=0.1), CheckName.END_LOSSES),
        (lambda end: end["steps"][0]["loss"].update(apart=None), CheckName.END_LOSSES),
        (lambda end: end["middle"]["evaluation"].update(apart=0.01), CheckName.MIDDLE),
        (lambda end: end["middle"]["steps"][0]["loss"].update(apart=0.1), CheckName.MIDDLE),
    ],
)
def test_a_verdict_on_its_end_that_the_stored_differences_do_not_allow_is_found(
    results: Path, probes: Probes, change: Callable[[dict[str, Any]], object], name: str
) -> None:
    trial = one(results)  # stored before there was a middle: another end replaces it here
    moment = {key: trial.end[key] for key in ("images", "evaluation", "steps", "asked_steps", "idle_steps")}
    trial.end["middle"] = copy.deepcopy(moment) | {"epoch": 1, "updates": 60}
    trial.checks.append(Check(CheckName.MIDDLE, True, "-"))
    assert not list(evidence_check.find_differences(trial, probes))
    change(trial.end)
    (line,) = evidence_check.find_differences(trial, probes)
    assert line.startswith(f"{name}: stored: passed; judged again, it differs by ")


def scaled_update(evidence: dict[str, Any]) -> None:
    for draw in (evidence, *evidence["again"]):
        key = next(iter(draw["updates"]["1"]))
        draw["updates"]["1"][key] = multiply(draw["updates"]["1"][key], 1.05)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (scaled_update, "the first update of "),
        (
            lambda evidence: [each.update(loss=each["loss"] * 1.01) for each in (evidence, *evidence["again"])],
            "the loss",
        ),
        (
            lambda evidence: [each.update(gradient_norm=9.0) for each in (evidence, *evidence["again"])],
            "the norm of all gradients",
        ),
    ],
)
def test_evidence_whose_parts_do_not_follow_from_one_another_is_found_without_its_probes(
    results: Path, probes: Probes, tmp_path: Path, change: Callable[[dict[str, Any]], object], words: str
) -> None:
    trial, none = one(results), Probes(tmp_path)
    assert not list(evidence_check.find_differences(trial, none))
    change(trial.evidence)
    (line,) = evidence_check.find_differences(trial, none)
    assert line.startswith(f"{CheckName.GATE}: stored: passed; computed again, {words}"), line


def test_an_end_without_a_verdict_on_its_answers_is_found_in_a_trial_that_ended_well_alone(
    results: Path, probes: Probes
) -> None:
    trial = one(results)
    trial.end["steps"][0]["loss"]["apart"] = 0.1
    unjudged = replace(trial, checks=[each for each in trial.checks if each.name != CheckName.END_LOSSES])
    missing, judged = evidence_check.find_differences(unjudged, probes)
    assert missing == f"{CheckName.END_LOSSES}: the answers are stored, and no verdict on them"
    assert judged.startswith(f"{CheckName.END_LOSSES}: stored: passed; judged again, it differs by ")
    ended = replace(unjudged, status=Status.DIVERGED)
    assert not list(evidence_check.find_differences(ended, probes)), "such a trial's end is not compared"


def test_a_contended_trial_that_diverged_has_no_verdicts_on_its_end(results: Path, probes: Probes) -> None:
    trial = one(results)
    trial.end["steps"][0]["loss"]["apart"] = None
    checks = [each for each in trial.checks if each.name not in (CheckName.END_LOSSES, CheckName.END_EVALUATION)]
    contended = replace(trial, status=Status.CONTENDED, checks=checks)
    assert list(evidence_check.find_differences(contended, probes))
    diverged = {**contended.figures, DIVERGED_STEP.name: Figure(3.0, "-")}
    assert not list(evidence_check.find_differences(replace(contended, figures=diverged), probes))
