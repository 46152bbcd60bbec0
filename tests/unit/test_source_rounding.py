"""Rounding that is allowed to an import that differs from its source: each framework gets what its own answer shows."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import probed
import pytest
from conftest import PROJECT
from planted_imports import NETWORK
from test_source_proof import spec as spec  # a fixture
from test_source_proof import store_probe, trial_of, usual_answer

from reports.checking.evidence_check import find_differences
from reports.checking.stored_probes import Probes
from runner.gate import source_proof
from runner.gate.rounding import disturb_weights
from runner.gate.source_proof import Proof, SourceProofs
from runner.launch import LaunchFailed, Local
from runner.proof import describe
from workloads.records.check_name import CheckName
from workloads.records.evidence import Evidence
from workloads.records.files import without_nan
from workloads.records.job import TrialSpec
from workloads.records.result import Check

APART, MOVED = 2e-3, 1e-3  # of the head's output: from the source's, and by the disturbed weights


def move_head(by: float) -> Evidence:
    """Return the source's evidence with another output of the head."""
    return probed.moved(usual_answer().evidence, "outputs", "head", by)


def lose_head(probe: Evidence) -> Evidence:
    """Return the probe without a number for the head's output."""
    return replace(probe, outputs=probe.outputs | {"head": [math.nan] * len(probe.outputs["head"])})


def ask(answer: Callable[[str], Evidence], asked: list[str]) -> Callable[..., dict[str, Any]]:
    """Return what asks a framework from disturbed weights, and notes which."""

    def ask_probe(given: TrialSpec, *_: object) -> dict[str, Any]:
        asked.append(given.cell.framework)
        evidence = without_nan(answer(given.cell.framework).to_json())
        return {"evidence": json.loads(json.dumps(evidence, allow_nan=False))}

    return ask_probe


def prove(spec: TrialSpec, results: Path, *frameworks: str) -> list[Proof]:
    launcher = Local("python", {}, PROJECT)
    proofs = SourceProofs(results, {(name, spec.installation): launcher for name in frameworks})
    specs = [replace(spec, cell=replace(spec.cell, framework=name)) for name in frameworks]
    return [proofs.prove(each, move_head(APART), usual_answer(), NETWORK) for each in specs]


def test_a_framework_is_not_allowed_what_rounding_does_to_another(
    spec: TrialSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def answer(framework: str) -> Evidence:
        if framework == "tensorflow":
            raise LaunchFailed("no memory left")
        return move_head(APART + (MOVED if framework == "mxnet" else MOVED / 1e3))

    monkeypatch.setattr(source_proof, "ask_probe", ask(answer, asked))
    rounding, *refused = prove(spec, tmp_path, "mxnet", "pytorch", "tensorflow", "tensorflow")
    assert rounding.difference is None and rounding.disturbed == "mxnet" and rounding.widest > 1
    for proof in refused:
        assert proof.difference is not None and "first layer that differs: head" in proof.difference
    assert asked == ["mxnet", "pytorch", "tensorflow"]  # a failure, too, is remembered


@pytest.mark.parametrize(
    "disturbed",
    [probed.everywhere(move_head(APART), lose_head), replace(move_head(APART + MOVED), again=[])],
    ids=["no number", "fewer probes"],
)
def test_an_answer_from_disturbed_weights_that_says_nothing_allows_nothing(
    disturbed: Evidence, spec: TrialSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_proof, "ask_probe", ask(lambda framework: disturbed, []))
    (proof,) = prove(spec, tmp_path, "pytorch")
    assert proof.difference is not None and "first layer that differs: head" in proof.difference


def test_a_proof_beyond_the_usual_bound_says_so() -> None:
    usual = Proof(3.2e-7, 2e-6, 5e-6, None)
    allowed = replace(usual, disturbed="mxnet")
    said = "forward 3e-07, gradients 2e-06, three updates 5e-06 of their change"
    beyond = f"{said} (beyond the usual bound; rounding measured in mxnet allows it)"
    assert (str(usual), str(allowed)) == (said, beyond)
    proofs = {"pytorch": usual, "mxnet": allowed}
    assert describe("net", proofs) == f"net: the imported network is your model: {beyond} (largest of pytorch, mxnet)"


def test_another_frameworks_answer_from_disturbed_weights_excuses_no_stored_verdict(
    spec: TrialSpec, tmp_path: Path
) -> None:
    task = replace(spec.task, own_code=usual_answer().source.code)
    store_probe(tmp_path, replace(spec, task=task), usual_answer().evidence)
    other = replace(spec, cell=replace(spec.cell, framework="mxnet"))
    store_probe(tmp_path, disturb_weights(other, tmp_path, 0), move_head(APART))
    trial = trial_of(spec, move_head(APART), Check(CheckName.SOURCE, True, "-"))
    (line,) = find_differences(trial, Probes(tmp_path))
    assert "judged again, outputs of head differs from the source's by" in line
