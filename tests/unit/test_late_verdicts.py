"""The gate's verdicts beyond the first steps: votes by epochs, and the result of a trial whose end is flagged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from conftest import PROJECT, varied
from test_end_gate import RIGHT
from test_gate import asked, judge, trial, workloads  # noqa: F401

from runner.gate import trial_end
from runner.gate.judge import Gate
from workloads.records.check_name import CheckName
from workloads.records.end_evidence import Difference, Missing, TrialEnd
from workloads.records.job import TrialSpec
from workloads.records.result import Check, Epoch, TrialResult
from workloads.records.status import Status


def epochs(*losses: float) -> list[Epoch]:
    return [Epoch(1.0, 3, 1437, loss, 0.1, loss, 0.5) for loss in losses]


def runs(**losses: tuple[float, ...]) -> list[TrialResult]:
    """One trial of each framework, with these training losses."""
    return [replace(trial(name), epochs=epochs(*each)) for name, each in losses.items()]


@pytest.fixture(autouse=True)
def gate_of_probed(workloads: None, asked: list[tuple[TrialSpec, str]]) -> None:  # noqa: F811
    """The workloads and the referee of test_gate."""


def named(result: TrialResult, name: str) -> Check:
    return next(check for check in result.checks if check.name == name)


def test_one_of_three_whose_second_epoch_differs_is_outvoted_and_the_others_stay_ok() -> None:
    one, two, wrong = judge(*runs(mxnet=(2.0, 1.9), pytorch=(2.0, 1.9), tensorflow=(2.0, 1.8)))
    assert (one.status, two.status, wrong.status) == (Status.OK, Status.OK, Status.UNVERIFIED)
    assert wrong.reason == (
        "differs from mxnet, pytorch: the training loss of epoch 2 differs by 5.3e-02 (allowed 4e-03)"
    )
    assert (
        named(wrong, CheckName.EPOCHS_AGREE).detail == wrong.reason and not named(wrong, CheckName.EPOCHS_AGREE).passed
    )
    assert named(wrong, CheckName.GATE).passed, "its first steps agreed"
    assert named(one, CheckName.EPOCHS_AGREE).detail == "held against pytorch, tensorflow"


def test_the_difference_that_is_told_is_that_from_the_nearest_for_another_rival_may_be_wrong_itself() -> None:
    losses = {"apart": (2.0, 1.5), "mxnet": (2.0, 1.9), "pytorch": (2.0, 1.9), "tensorflow": (2.0, 1.8)}
    *_, wrong = judge(*runs(**losses))
    assert wrong.reason is not None and wrong.reason.startswith("differs from apart, mxnet, pytorch: ")
    assert wrong.reason.endswith("differs by 5.3e-02 (allowed 4e-03)")


def test_of_one_against_one_both_are_in_doubt_until_a_third_has_run() -> None:
    pair = judge(*runs(mxnet=(2.0,), pytorch=(2.1,)))
    assert [each.status for each in pair] == [Status.UNVERIFIED] * 2
    three = judge(*pair, *runs(tensorflow=(2.0,)))
    assert [each.status for each in three] == [Status.OK, Status.UNVERIFIED, Status.OK]


def test_a_rival_that_is_suspect_at_its_own_end_has_no_vote() -> None:
    suspect = replace(RIGHT, evaluation=Difference(0.5)).to_json()
    right, *wrong = runs(mxnet=(2.0,), pytorch=(2.1,), tensorflow=(2.2,))
    wrong = [replace(each, end=suspect) for each in wrong]
    judged = judge(right, *wrong)
    assert [each.status for each in judged] == [Status.OK, Status.UNVERIFIED, Status.UNVERIFIED]
    assert not any(check.name == CheckName.EPOCHS_AGREE for check in judged[0].checks), (
        "nothing is left to hold it against"
    )


def test_epochs_of_another_batch_size_and_those_of_masks_are_not_compared() -> None:
    one, other = runs(mxnet=(2.0,), pytorch=(2.5,))
    elsewhere = replace(other, spec=varied(other.spec, batch_size=64))
    assert [each.status for each in judge(one, elsewhere)] == [Status.OK] * 2
    masked = [replace(each, spec=varied(each.spec, workload="dropping")) for each in (one, other)]
    assert not any(check.name == CheckName.EPOCHS_AGREE for each in judge(*masked) for check in each.checks)


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


def test_a_trial_stored_without_an_end_is_judged_by_what_it_has() -> None:
    (judged,) = Gate(Path("nowhere"), PROJECT).judge([trial("mxnet")])
    assert judged.status is Status.OK
    assert [check.name for check in judged.checks[1:]] == [CheckName.GATE]


def test_a_trial_whose_end_could_not_be_asked_for_our_probe_ran_out_of_memory_stays_and_says_so() -> None:
    def judged(missing: Missing) -> TrialResult:
        (result,) = judge(replace(trial("mxnet"), end=TrialEnd(RIGHT.outstanding, missing, "it was ended").to_json()))
        return result

    ours, its_own = judged(Missing.MEMORY), judged(Missing.WORKER)
    assert (ours.status, ours.reason, its_own.status) == (Status.OK, None, Status.UNVERIFIED)
    check = named(ours, CheckName.END_ANSWERED)
    assert not check.passed and check.detail == "our probe of the trial's end ran out of memory: it was ended"
    assert ours.figures == trial("mxnet").figures, "what was measured stays"
