"""The gate's verdicts beyond the first steps: votes by epochs, and the result of a trial whose end is flagged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from conftest import PROJECT
from test_end_gate import RIGHT
from test_gate import asked, judge, trial, workloads  # noqa: F401

from runner.gate import trial_end
from runner.gate.judge import Gate
from workloads.records.check_name import CheckName
from workloads.records.end_evidence import Difference, Missing, TrialEnd
from workloads.records.job import TrialSpec
from workloads.records.result import Check, TrialResult
from workloads.records.status import Status


@pytest.fixture(autouse=True)
def gate_of_probed(workloads: None, asked: list[tuple[TrialSpec, str]]) -> None:  # noqa: F811
    """The workloads and the referee of test_gate."""


def named(result: TrialResult, name: str) -> Check:
    return next(check for check in result.checks if check.name == name)


def test_a_trial_stored_with_another_check_or_without_an_end_is_judged_by_what_it_has() -> None:
    detail = "differs from mxnet, pytorch: the training loss of epoch 2 differs by 5.3e-02 (allowed 4e-03)"
    stored = trial("tensorflow")
    stored = replace(stored, checks=[*stored.checks, Check(CheckName.EPOCHS_AGREE, False, detail)])
    (judged,) = judge(replace(stored, status=Status.UNVERIFIED, reason=detail))
    assert (judged.status, judged.reason) == (Status.OK, None)
    assert CheckName.EPOCHS_AGREE not in [check.name for check in judged.checks]
    (judged,) = Gate(Path("nowhere"), PROJECT).judge([trial("mxnet")])
    assert judged.status is Status.OK
    assert [check.name for check in judged.checks[1:]] == [CheckName.GATE]


def test_a_suspect_end_is_the_reason_and_a_changed_bound_is_applied_when_the_folder_is_opened_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    suspect = replace(trial("mxnet"), end=replace(RIGHT, evaluation=Difference(0.01)).to_json())
    (judged,) = judge(suspect)
    assert judged.status is Status.UNVERIFIED
    assert judged.reason == named(judged, CheckName.END_EVALUATION).detail
    assert judge(judged) == [judged], "nothing is added a second time"
    monkeypatch.setattr(trial_end, "EVALUATION", 0.02)
    (again,) = judge(judged)
    assert (again.status, again.reason) == (Status.OK, None) and named(again, CheckName.END_EVALUATION).passed


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        (Missing.MEMORY, "our probe of the trial's end ran out of memory: it was ended"),
        (Missing.REFEREE, "the referee did not compare the trial's end: it was ended"),
        (Missing.RUNNER, "the referee did not compare the trial's end: it was ended"),
    ],
)
def test_a_trial_whose_end_we_could_not_compare_stays_and_says_so(missing: Missing, said: str) -> None:
    def judged(missing: Missing) -> TrialResult:
        (result,) = judge(replace(trial("mxnet"), end=TrialEnd(RIGHT.outstanding, missing, "it was ended").to_json()))
        return result

    ours, its_own = judged(missing), judged(Missing.WORKER)
    assert (ours.status, ours.reason, its_own.status) == (Status.OK, None, Status.UNVERIFIED)
    check = named(ours, CheckName.END_ANSWERED)
    assert not check.passed and check.detail == said
    assert ours.figures == trial("mxnet").figures, "what was measured stays"
