"""Effects of rounding on a flagged trial, asked from disturbed weights: when, of whom, and the verdicts that follow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import PROJECT, make_spec, varied
from probed import OPTIMIZER, PLAIN, SEED, moved, truth
from test_gate import DIFFERENT, INPUTS, trial, workloads, wrong  # noqa: F401

from runner.gate import judge as judging
from runner.gate.judge import Gate
from runner.gate.rounding import compute_loss_shifts, disturb_weights, find_askable
from runner.launch import LaunchFailed, Local, Unavailable
from workloads import weights
from workloads.networks import WORKLOADS
from workloads.records.evidence import Evidence
from workloads.records.job import InputFile, TrialSpec
from workloads.records.result import TrialResult
from workloads.records.status import Status
from workloads.weights import DISTURBANCES

LAUNCHER = Local("python", {}, PROJECT)


def known(result: TrialResult) -> dict[Any, Local]:
    return {(result.spec.cell.framework, result.spec.installation): LAUNCHER}


def test_a_framework_that_is_installed_otherwise_than_in_the_trial_is_not_asked(tmp_path: Path) -> None:
    result = trial("mxnet")
    assert Gate(tmp_path, PROJECT, known(result)).launcher(result.spec) is LAUNCHER
    newer = varied(result.spec, environment="newer")
    assert Gate(tmp_path, PROJECT, known(result)).launcher(newer) is None


def test_the_frameworks_of_a_run_can_be_asked_as_far_as_they_can_be_started() -> None:
    installed = trial("one").spec.installation
    asked = find_askable({"one": installed, "two": installed}, {"one": LAUNCHER, "two": Unavailable("no wheel for it")})
    assert asked == {("one", installed): LAUNCHER}


def with_losses(evidence: Evidence, *losses: float) -> Evidence:
    """Return the evidence with these losses in every probe."""
    return replace(evidence, losses=list(losses), again=[replace(each, losses=list(losses)) for each in evidence.again])


def test_losses_moved_are_the_most_of_all_probes_up_to_the_step_after_and_ten_times_that_for_other_batches() -> None:
    given = with_losses(truth().expected, 2.0, 1.0, 1.0, 1.0)
    one = with_losses(given, 2.002, 1.0, 1.1, 1.0)
    two = replace(with_losses(given, 2.0, 1.01, 1.0, 1.0), again=with_losses(given, 2.0, 1.0, 1.0, 1.2).again)
    found = compute_loss_shifts([(given, one), (given, two)])
    assert np.array(found) == pytest.approx(10 * np.array([(0.001, 0.01), (0.1, 0.01), (0.1, 0.2), (0.1, 0.2)]))
    assert np.array(compute_loss_shifts([(given, one)], [10.0])[3:]) == pytest.approx(10 * np.array([(0.1,), (1.0,)]))
    assert compute_loss_shifts([]) == []


def test_disturbed_weights_are_another_input_beside_the_others_under_a_name_of_its_own(tmp_path: Path) -> None:
    spec = with_weights(tmp_path)
    first, again, second = (disturb_weights(spec, tmp_path, number) for number in (0, 0, 1))
    assert first == again and first.inputs["weights"] != second.inputs["weights"]
    assert first.probe_id != spec.probe_id
    assert replace(first, inputs=spec.inputs) == spec
    assert {name for name in spec.inputs if first.inputs[name] != spec.inputs[name]} == {"weights"}
    with pytest.raises(LaunchFailed, match="no weights to disturb"):
        disturb_weights(spec, tmp_path / "elsewhere", 0)


def with_weights(folder: Path) -> TrialSpec:
    """Return a trial whose weights are stored in its folder."""
    (folder / "inputs").mkdir(exist_ok=True)
    weights.save(folder / "inputs" / "weights.npz", weights.draw(PLAIN, SEED))
    inputs = {**INPUTS, "weights": InputFile("inputs/weights.npz", "weights")}
    return make_spec(workload="plain", optimizer=OPTIMIZER, inputs=inputs)


@pytest.fixture
def by_the_referee(monkeypatch: pytest.MonkeyPatch) -> list[TrialSpec]:
    """Let the referee answer from this process, each time from disturbed weights with evidence that differs more."""
    calls: list[TrialSpec] = []

    def reply(_: Gate, spec: TrialSpec, precision: str) -> Evidence:
        calls.append(spec)
        known = truth(WORKLOADS[spec.task.workload], spec.task.optimizer)
        if "disturbed" in spec.inputs["weights"].path:
            number = int(spec.inputs["weights"].path.split("disturbed")[1][0])
            return moved(known.expected, "outputs", "conv2", 0.1 * 2**number)
        return known.expected if precision == "float64" else known.rounded

    monkeypatch.setattr(Gate, "_ask_referee", reply)
    return calls


@pytest.mark.usefixtures("workloads")
def test_a_suspect_is_allowed_three_times_what_the_middle_disturbance_does_to_the_referee(
    by_the_referee: list[TrialSpec], tmp_path: Path
) -> None:
    spec = with_weights(tmp_path)
    gate = Gate(tmp_path, PROJECT)
    near, far = (
        replace(trial(name, wrong(by=by)), spec=varied(spec, framework=name)) for name, by in (("a", 0.5), ("b", 0.7))
    )
    right = replace(trial("c"), spec=varied(spec, framework="c"))
    gate.judge([right])
    assert len(by_the_referee) == 2, "of what is not suspect nothing more is asked"
    allowed, suspect, beside = gate.judge([near, far, right])
    assert len(by_the_referee) == 2 + DISTURBANCES
    assert (allowed.status, suspect.status, beside.status) == (Status.OK, Status.UNVERIFIED, Status.OK)
    assert "conv2, its output by 7.0e-01 (allowed 6e-01)" in str(suspect.reason)
    gate.judge([near, far, right])
    assert len(by_the_referee) == 2 + DISTURBANCES, "once a run"


@pytest.mark.usefixtures("workloads")
def test_a_suspect_without_weights_to_disturb_is_judged_as_before(
    by_the_referee: list[TrialSpec], tmp_path: Path
) -> None:
    (suspect,) = Gate(tmp_path, PROJECT).judge([trial("odd", wrong())])
    assert suspect.status is Status.UNVERIFIED and "conv2, its output by 2.5e-01" in str(suspect.reason)
    assert len(by_the_referee) == 2


@pytest.mark.usefixtures("workloads")
@pytest.mark.parametrize(("amplified", "status"), [((0.1, 0.2), Status.OK), ((0.2, 0.01), Status.UNVERIFIED)])
def test_without_a_referee_frameworks_are_asked_and_the_calmer_of_two_decides(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, amplified: tuple[float, float], status: Status
) -> None:
    monkeypatch.setattr(judging, "REFEREE_MULTIPLY_ADDS", 0)
    spec = with_weights(tmp_path)
    one, two = (
        replace(trial(name, evidence), spec=varied(spec, framework=name))
        for name, evidence in (("one", truth().rounded), ("two", wrong()))
    )
    moves = dict(zip(("one", "two"), amplified, strict=True))

    def probe(_: Gate, spec: TrialSpec, launcher: object) -> dict[str, Any]:
        given = Evidence.from_json({"one": one, "two": two}[spec.cell.framework].evidence)
        assert "disturbed0" in spec.inputs["weights"].path
        if launcher is None:
            raise LaunchFailed("its framework could not be queried")
        return moved(given, "outputs", "conv2", moves[spec.cell.framework]).to_json()

    monkeypatch.setattr(Gate, "_probe", probe)
    judged = Gate(tmp_path, PROJECT, known(one) | known(two)).judge([one, two])
    assert [result.status for result in judged] == [status] * 2
    alone = Gate(tmp_path, PROJECT, known(one)).judge([one, two])
    assert [result.status for result in alone] == [Status.UNVERIFIED] * 2, "one framework alone says nothing"


@pytest.mark.usefixtures("workloads")
@pytest.mark.parametrize(("part", "status"), [(1e-5, Status.UNVERIFIED), (1e-4, Status.OK)])
def test_first_losses_may_differ_by_a_multiple_of_what_disturbed_weights_do_to_those_of_the_probe(
    part: float, status: Status, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    spec = with_weights(tmp_path)

    def reply(_: Gate, spec: TrialSpec, precision: str) -> Evidence:
        known = truth(WORKLOADS[spec.task.workload], spec.task.optimizer)
        if "disturbed" not in spec.inputs["weights"].path:
            return known.expected if precision == "float64" else known.rounded
        probes = [replace(each, losses=[loss * (1 + part) for loss in each.losses]) for each in known.expected.probes]
        return replace(probes[0], again=probes[1:])

    monkeypatch.setattr(Gate, "_ask_referee", reply)
    one, two = trial("one"), trial("two", losses=DIFFERENT)  # step 3 is 7.7e-4 apart
    trials = [replace(each, spec=varied(spec, framework=each.spec.cell.framework)) for each in (one, two)]
    judged = Gate(tmp_path, PROJECT).judge(trials)
    assert [each.status for each in judged] == [status] * 2
