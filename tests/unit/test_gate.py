"""Verdicts of the gate over the trials of a run: who is compared with whom, and what follows."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import PROJECT, make_spec, varied
from probed import DROPPING, OPTIMIZER, PLAIN, everywhere, gathered, moved, opened, through_json, truth
from rich.console import Console

from runner import ask as asking
from runner import session as running
from runner.environments import definition
from runner.gate import judge as gate
from runner.gate.judge import Gate
from runner.gate.rounding import join_probes, join_truths
from runner.gate.tolerances import LATE, LOSSES, ROUNDINGS, Truth, find_difference
from runner.launch import Launcher, LaunchFailed, Local, WorkerOutcome
from runner.request.plan import Plan
from runner.session import Session
from runner.storage import read_trials
from workloads.networks import WORKLOADS
from workloads.records.check_name import JUDGE, CheckName
from workloads.records.events import Event
from workloads.records.evidence import PROBE_BATCH, Evidence
from workloads.records.figures import DIVERGED_STEP, FOREIGN_CPU, Figure
from workloads.records.files import EVENTS_FILE, JOB_FILE, RESULT_FILE, write_json
from workloads.records.job import InputFile, Job, Kind, TrialSpec
from workloads.records.result import Check, TrialResult
from workloads.records.status import COMPLETED, Status
from workloads.spec import OptimizerSpec

COUNTED = Check("images/s x step time = batch size", True, "32.00 images a step")
FIRST_LOSSES = [1.5, 1.4, 1.3, 1.2]
INPUTS = {name: InputFile(f"inputs/{name}", name) for name in ("train_images", "train_labels", "order", "weights")}


def trial(framework: str, evidence: Evidence | None = None, losses: Any = FIRST_LOSSES, **changes: Any) -> TrialResult:
    """An ok trial whose evidence is the float32 referee's; `changes` are of the spec."""
    told = {"framework": framework, "workload": "plain", "optimizer": OPTIMIZER, "inputs": INPUTS}
    spec = make_spec(**told | changes)
    evidence = evidence or truth(WORKLOADS[spec.task.workload], spec.task.optimizer).rounded
    return TrialResult(
        spec=spec,
        status=Status.OK,
        reason=None,
        started_at="2026-01-01T00:00:00+00:00",
        wall_s=1.0,
        first_losses=losses,
        evidence=evidence.to_json(),
        checks=[COUNTED],
    )


def wrong(layer: str = "conv2", by: float = 0.25) -> Evidence:
    return moved(truth().rounded, "outputs", layer, by)


def verdict(result: TrialResult) -> Check:
    """Return the gate's check: it is the last one, and the others are unchanged."""
    assert result.checks[:-1] == [COUNTED] and result.checks[-1].name == CheckName.GATE
    return result.checks[-1]


def is_ok(result: TrialResult, detail: str) -> bool:
    """True if the trial is ok, and the check names as data those that its text names."""
    asked = detail.removeprefix("compared with ").partition(";")[0].split(", ")
    against = tuple(JUDGE if name == "the referee" else name for name in asked)
    check = Check(CheckName.GATE, True, detail, against)
    return (result.status, result.reason, verdict(result)) == (Status.OK, None, check)


def is_unverified(result: TrialResult, reason: str) -> bool:
    """True if the trial is unverified, with a reason that begins so."""
    assert result.reason is not None
    same = replace(verdict(result), against=()) == Check(CheckName.GATE, False, result.reason)
    return result.status == Status.UNVERIFIED and same and result.reason.startswith(reason)


@pytest.fixture(autouse=True)
def workloads(monkeypatch: pytest.MonkeyPatch) -> None:
    for workload in (PLAIN, DROPPING):
        monkeypatch.setitem(WORKLOADS, workload.name, workload)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[TrialSpec, str]]:
    """The calls to the referee, which answers from this process."""
    calls = []

    def answer(_: Gate, spec: TrialSpec, precision: str) -> Evidence:
        calls.append((spec, precision))
        told = truth(WORKLOADS[spec.task.workload], spec.task.optimizer)
        return told.expected if precision == "float64" else told.rounded

    monkeypatch.setattr(Gate, "_ask_referee", answer)
    return calls


@pytest.fixture
def no_referee(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every workload too large for the referee."""
    monkeypatch.setattr(gate, "REFEREE_MULTIPLY_ADDS", 0)

    def refuse(_: Gate, spec: TrialSpec, precision: str) -> Evidence:
        raise AssertionError("the referee was asked")

    monkeypatch.setattr(Gate, "_ask_referee", refuse)


TOO_LARGE = "; without the referee: the workload is too large for it"


def judge(*trials: TrialResult) -> list[TrialResult]:
    return Gate(Path("nowhere"), PROJECT).judge(trials)


@pytest.mark.usefixtures("asked")
def test_a_trial_is_held_against_the_referee_and_takes_no_other_with_it_nor_outvotes_it() -> None:
    assert is_ok(judge(trial("alone"))[0], "compared with the referee")
    one, two, other = judge(trial("one"), trial("two"), trial("other", batch_size=8))
    assert is_ok(one, "compared with the referee, two")
    assert is_ok(two, "compared with the referee, one")
    assert is_ok(other, "compared with the referee")
    # Its losses would count against the correct one too, as there is no third.
    right, odd = judge(trial("right"), trial("odd", wrong(), [9.0, *FIRST_LOSSES[1:]]))
    assert is_unverified(odd, "differs from the referee: first layer that differs: conv2, its output by 2.5e-01 (allow")
    assert is_ok(right, "compared with the referee")
    right, *alike = judge(trial("right"), trial("one", wrong()), trial("two", wrong()))
    assert right.status == Status.OK
    assert all(is_unverified(result, "differs from the referee: ") for result in alike)


@pytest.mark.usefixtures("asked")
def test_nothing_but_status_reason_and_the_gates_own_check_changes_and_again_nothing() -> None:
    before = trial("odd", wrong())
    (after,) = judge(before)
    assert replace(after, status=before.status, reason=before.reason, checks=before.checks) == before
    once = judge(trial("right"), trial("odd", wrong()), trial("right", batch_size=8))
    assert judge(*once) == once


def test_the_referee_is_asked_in_both_precisions_once_for_each_group(asked: list[tuple[TrialSpec, str]]) -> None:
    judged = Gate(Path("nowhere"), PROJECT)
    trials = [trial("one"), trial("two"), trial("one", batch_size=8), trial("one", optimizer=OptimizerSpec("sgd"))]
    judged.judge(trials)
    judged.judge(trials)
    assert [precision for _, precision in asked] == ["float64", "float32"] * 2
    assert [spec.task.optimizer.name for spec, _ in asked] == ["momentum", "momentum", "sgd", "sgd"]


class OtherImages:
    """Gate._probe, which gives this evidence of a framework's probe, and keeps who was asked with which images."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence, self.asked = evidence, list[TrialSpec]()

    def __call__(self, spec: TrialSpec, launcher: Launcher | None) -> dict[str, Any]:
        self.asked.append(spec)
        return self.evidence.to_json()


@pytest.fixture
def judge_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Evidence, Evidence], Any]:
    """Return a function that judges a trial with this evidence, whose framework answers so with other images. It
    returns (the trial, the framework's further probes)."""
    (tmp_path / "inputs").mkdir()
    np.save(tmp_path / "inputs" / "order.npy", np.arange(12, dtype=np.int32).reshape(2, 6))
    inputs = INPUTS | {"order": InputFile("inputs/order.npy", "order")}

    def judge_again(evidence: Evidence, other: Evidence) -> tuple[TrialResult, list[TrialSpec]]:
        answers = OtherImages(other)
        monkeypatch.setattr(Gate, "_probe", lambda gate, *arguments: answers(*arguments))
        (judged,) = Gate(tmp_path, PROJECT).judge([trial("one", evidence, inputs=inputs)])
        for spec in answers.asked:
            assert np.load(tmp_path / spec.inputs["order"].path).tolist() == [[3, 4, 5, 0, 1, 2]]
        return judged, answers.asked

    return judge_again


@pytest.mark.parametrize(("where", "key"), [("gradients", "conv2/kernel"), ("updates", "norm/beta"), ("losses", 1)])
@pytest.mark.usefixtures("asked")
def test_a_difference_that_may_be_a_kink_counts_only_if_other_images_show_it_too(
    where: str, key: Any, judge_again: Callable[[Evidence, Evidence], Any]
) -> None:
    right = truth().rounded
    off = moved(right, where, key, 0.01)
    accident, asked = judge_again(off, right)
    assert is_ok(accident, "compared with the referee")
    assert [spec.cell.framework for spec in asked] == ["one"]
    fault, _ = judge_again(off, off)
    assert is_unverified(fault, "differs from the referee: ")
    elsewhere, _ = judge_again(off, moved(right, "gradients", "conv1/kernel", 0.01))
    assert is_ok(elsewhere, "compared with the referee"), "another value, in other images"


def test_with_other_images_three_times_the_largest_effect_of_rounding_is_allowed() -> None:
    calm = truth()
    kink = replace(moved(calm.rounded, "gradients", "conv2/kernel", 0.005), again=calm.rounded.again)
    met = replace(calm, rounded=kink)
    less, more = (moved(calm.rounded, "gradients", "conv2/kernel", by) for by in (0.01, 0.02))
    assert find_difference(less, met), "of the trial's own images the middle probe counts"
    assert find_difference(join_probes(less, less), join_truths(met, calm)) is None
    assert find_difference(join_probes(more, more), join_truths(met, calm))
    changed = moved(calm.rounded, "updates", "conv2/kernel", 0.01)
    assert find_difference(join_probes(changed, changed), join_truths(calm, calm))
    undetermined = replace(moved(calm.rounded, "gradients", "conv2/kernel", 0.02), again=calm.rounded.again)
    some = join_truths(replace(calm, rounded=undetermined), calm)
    assert find_difference(join_probes(changed, changed), some) is None


@pytest.mark.parametrize(("where", "key"), [("evaluation", None), ("losses", 3)])
def test_what_one_draw_that_diverges_cannot_show_the_others_still_do(where: str, key: Any) -> None:
    calm = truth()
    diverging = replace(
        calm.expected, losses=[loss * (1, 1, 3, 3, 3)[i] for i, loss in enumerate(calm.expected.losses)]
    )
    one = replace(calm, expected=replace(diverging, again=calm.expected.again))
    off = moved(calm.rounded, where, key, 0.02)
    assert find_difference(join_probes(off, off), join_truths(one, calm))


def test_rounding_that_is_no_number_in_one_draw_allows_nothing() -> None:
    calm = truth()
    lost: dict[str, Any] = {**calm.rounded.gradients, "conv2/kernel": [None] * 5}
    overflown = replace(calm, rounded=replace(calm.rounded, gradients=lost))
    off = moved(calm.rounded, "gradients", "conv2/kernel", 0.04)
    assert find_difference(join_probes(off, off), join_truths(overflown, calm))


@pytest.mark.parametrize("where", ["outputs", "gradients"])
@pytest.mark.usefixtures("asked")
def test_an_adapter_that_leaves_a_layer_or_a_gradient_out_is_unverified(where: str) -> None:
    def without_last(probe: Evidence) -> Evidence:
        left: dict[str, Any] = {where: dict(list(getattr(probe, where).items())[:-1])}
        return replace(probe, **left)

    (judged,) = judge(trial("one", everywhere(truth().rounded, without_last)))
    assert is_unverified(judged, f"differs from the referee: {where} are ")


@pytest.mark.usefixtures("asked")
def test_a_framework_that_gives_no_further_evidence_is_asked_for_it_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "inputs").mkdir()
    np.save(tmp_path / "inputs" / "order.npy", np.arange(12, dtype=np.int32).reshape(2, 6))
    asked = []

    def die(gate: Gate, spec: TrialSpec, launcher: Launcher | None) -> dict[str, Any]:
        asked.append(spec)
        raise LaunchFailed("it died")

    monkeypatch.setattr(Gate, "_probe", die)
    given = {"inputs": INPUTS | {"order": InputFile("inputs/order.npy", "order")}}
    off = moved(truth().rounded, "gradients", "conv2/kernel", 0.01)
    judging, trials = Gate(tmp_path, PROJECT), [trial("one", off, batch_size=size, **given) for size in (4, 8, 16)]
    for _ in range(2):
        assert all(is_unverified(each, "differs from the referee: ") for each in judging.judge(trials))
    assert len(asked) == 1


@pytest.mark.parametrize(("where", "key", "by"), [("outputs", "conv2", 0.01), ("gradients", "conv2/kernel", 0.1)])
@pytest.mark.usefixtures("asked")
def test_of_what_no_kink_does_other_images_are_not_asked(
    where: str, key: str, by: float, judge_again: Callable[[Evidence, Evidence], Any]
) -> None:
    judged, asked = judge_again(moved(truth().rounded, where, key, by), truth().rounded)
    assert is_unverified(judged, "differs from the referee: ") and not asked


@pytest.mark.usefixtures("no_referee")
def test_without_the_referee_both_of_two_are_unverified_and_of_three_the_odd_one() -> None:
    one, two = judge(trial("one"), trial("two", wrong()))
    assert is_unverified(one, "differs from two: first layer that differs: conv2, its output by ")
    assert is_unverified(two, "differs from one: first layer that differs: conv2, its output by ")
    one, odd, two = judge(trial("one"), trial("odd", wrong(), [9.0, 9.0]), trial("two"))
    assert is_ok(one, f"compared with odd, two{TOO_LARGE}")
    assert is_unverified(odd, "differs from one, two: first layer that differs: conv2, its output by 2.5e-01")
    assert is_ok(two, f"compared with odd, one{TOO_LARGE}")
    one, odd = judge(trial("one"), trial("odd", wrong()))
    assert one.status == odd.status == Status.UNVERIFIED
    one, odd, third = judge(one, odd, trial("third"))
    assert is_ok(one, f"compared with odd, third{TOO_LARGE}") and is_ok(third, f"compared with odd, one{TOO_LARGE}")
    assert is_unverified(odd, "differs from one, third: ")


@pytest.mark.usefixtures("no_referee")
@pytest.mark.parametrize("sides", [("aabb", "aabb"), ("abc", "abc"), ("aaabb", "bb"), ("aaa", "")])
def test_without_the_referee_only_more_than_half_of_all_are_believed(sides: tuple[str, str]) -> None:
    group, unverified = sides
    evidence = {"a": truth().rounded, "b": wrong(), "c": wrong("conv1")}
    judged = judge(*(trial(f"{side}{number}", evidence[side]) for number, side in enumerate(group)))
    found = [result.spec.cell.framework[0] for result in judged if result.status == Status.UNVERIFIED]
    assert "".join(found) == unverified


@pytest.mark.usefixtures("no_referee")
def test_a_trial_of_another_batch_size_stands_in_for_a_framework_that_has_none_of_the_same() -> None:
    one, other = judge(trial("one"), trial("other", wrong(), batch_size=8))
    assert is_unverified(one, "differs from other: ") and is_unverified(other, "differs from one: ")
    one, *_ = judge(trial("one"), trial("two", wrong(), batch_size=8), trial("two"), trial("two", batch_size=16))
    assert is_ok(one, f"compared with two{TOO_LARGE}")


@pytest.mark.usefixtures("no_referee")
def test_alone_or_beside_its_own_framework_a_trial_is_ok_but_its_check_has_not_passed() -> None:
    for result in judge(trial("one"), trial("one", wrong(), batch_size=8), trial("one", wrong(), repeat=1)):
        assert result.status == Status.OK and not verdict(result).passed
    (alone,) = judge(trial("alone"))
    assert (alone.status, alone.reason) == (Status.OK, None)
    told = f"nothing to compare with: no other framework{TOO_LARGE}"
    assert verdict(alone) == Check(CheckName.GATE, False, told)


@pytest.mark.usefixtures("no_referee")
def test_builds_have_one_voice_against_others_and_are_else_held_against_each_other() -> None:
    one, *others = judge(trial("one"), trial("two@a", wrong()), trial("two@b", wrong()), trial("three"))
    assert is_ok(one, f"compared with three, two@a, two@b{TOO_LARGE}")
    assert [result.status for result in others] == [Status.UNVERIFIED, Status.UNVERIFIED, Status.OK]
    one, wrong_build, right = judge(trial("one"), trial("two@a", wrong()), trial("two@b"))
    assert (one.status, right.status) == (Status.OK, Status.OK)
    assert is_unverified(wrong_build, "differs from one: ")
    stable, nightly = judge(trial("one@stable"), trial("one@nightly"))
    assert is_ok(stable, f"compared with one@nightly{TOO_LARGE}") and is_ok(
        nightly, f"compared with one@stable{TOO_LARGE}"
    )
    stable, nightly = judge(trial("one@stable"), trial("one@nightly", wrong()))
    assert is_unverified(stable, "differs from one@nightly: ") and is_unverified(nightly, "differs from one@stable: ")


@pytest.mark.usefixtures("asked")
def test_a_trial_that_diverged_stays_so_where_it_agrees_and_is_unverified_where_it_does_not() -> None:
    figures = {DIVERGED_STEP.name: Figure(3, "worker")}
    right = replace(trial("right"), status=Status.DIVERGED, figures=figures)
    differs = replace(trial("differs", wrong()), status=Status.DIVERGED, figures=figures)
    judged = judge(right, differs, trial("other"))
    assert (judged[0].status, judged[0].reason) == (Status.DIVERGED, "the loss of step 3 is not a number")
    assert judged[0].checks[-1].passed
    assert judged[1].status == Status.UNVERIFIED


@pytest.mark.usefixtures("asked")
def test_a_trial_that_others_disturbed_is_judged_and_stays_contended_where_it_agrees() -> None:
    """The neighbour's share of the cores is in the figures, so the verdict may change back and forth."""
    figures, reason = {FOREIGN_CPU.name: Figure(40.0, "sampler")}, "other processes took 40 % of the cores"
    disturbed = replace(trial("one"), status=Status.CONTENDED, reason=reason, figures=figures)
    (agrees,) = judge(disturbed)
    assert (agrees.status, agrees.reason) == (Status.CONTENDED, reason) and verdict(agrees).passed
    (differs,) = judge(replace(disturbed, evidence=wrong().to_json()))
    assert differs.status == Status.UNVERIFIED and (differs.reason or "").startswith("differs from the referee")
    (again,) = judge(replace(differs, evidence=disturbed.evidence))
    assert again.status == Status.CONTENDED and (again.reason or "").startswith(reason) and verdict(again).passed


@pytest.mark.usefixtures("no_referee")
def test_a_trial_of_no_workload_or_that_others_disturbed_stops_nothing_and_a_disturbed_one_has_a_vote() -> None:
    busy: dict[str, Any] = {"status": Status.CONTENDED, "reason": "others"}
    one, odd, third = judge(
        replace(trial("one"), **busy), replace(trial("odd", wrong()), **busy), replace(trial("third"), **busy)
    )
    assert [each.status for each in (one, odd, third)] == [Status.CONTENDED, Status.UNVERIFIED, Status.CONTENDED]
    gone = trial("gone", truth().rounded, workload="renamed since")
    judged = judge(gone, trial("one"))
    assert judged[0] is gone and judged[1].status == Status.OK


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize("status", [status for status in Status if status not in COMPLETED])
def test_a_trial_that_ended_otherwise_is_not_touched_and_has_no_vote(status: Status) -> None:
    ended = replace(trial("ended", wrong()), status=status, reason="because")
    bare = replace(ended, evidence={})
    judged = judge(trial("one"), ended, bare)
    assert judged[1] is ended and judged[2] is bare
    assert is_ok(judged[0], "compared with the referee")


SILENT = "its framework's probe gave no evidence: see the logs in nowhere/probes"


@pytest.mark.usefixtures("asked")
def test_an_ok_trial_whose_framework_gave_no_evidence_is_unverified_and_has_no_vote() -> None:
    one, bare = judge(trial("one"), replace(trial("bare", losses=[9.0]), evidence={}))
    assert is_unverified(bare, SILENT) and bare.reason == SILENT
    assert is_ok(one, "compared with the referee")
    assert judge(one, bare) == [one, bare]
    one, bare = judge(one, replace(bare, evidence=truth().rounded.to_json(), first_losses=[*FIRST_LOSSES]))
    assert is_ok(bare, "compared with the referee, one")


@pytest.mark.usefixtures("no_referee")
def test_without_the_referee_a_trial_whose_framework_gave_no_evidence_is_nobodys_rival() -> None:
    one, bare = judge(trial("one"), replace(trial("bare", losses=[9.0]), evidence={}))
    assert is_unverified(bare, SILENT)
    assert one.status == Status.OK and "no other framework" in verdict(one).detail


@pytest.mark.usefixtures("asked")
def test_a_trial_unverified_for_another_reason_stays_so() -> None:
    miscounted = replace(trial("one"), status=Status.UNVERIFIED, reason="it miscounts")
    assert judge(miscounted, trial("two"))[0] == miscounted


@pytest.mark.usefixtures("no_referee")
@pytest.mark.parametrize(
    "change",
    [
        {"inputs": {**INPUTS, "weights": InputFile("inputs/weights", "of another seed")}},
        {"inputs": {**INPUTS, "order": InputFile("inputs/order", "of another seed")}},
        {"inputs": {**INPUTS, "train_images": InputFile("inputs/train_images", "of another data set")}},
        {"optimizer": OptimizerSpec("momentum", 0.02)},
        {"optimizer": OptimizerSpec("sgd")},
        {"workload": "dropping"},
    ],
    ids=["weights", "order", "images", "learning rate", "rule", "workload"],
)
def test_trials_that_probed_something_else_are_not_held_against_each_other(change: dict[str, Any]) -> None:
    one, other = judge(trial("one"), trial("other", wrong(), [9.0], **change))
    for result in (one, other):
        assert result.status == Status.OK and "no other framework" in verdict(result).detail


HALF: dict[str, Any] = {"precision": "bfloat16"}


def in_bfloat16() -> Truth:
    """The truth of PLAIN. The referee in bfloat16 also stands in for a framework's evidence."""
    rounded = through_json(gathered(opened(precision="bfloat16"), PLAIN, OPTIMIZER))
    return Truth(truth().expected, rounded, precision="bfloat16")


@pytest.fixture
def referee_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the referee answer in the precision that it is asked in."""

    def answer(_: Gate, spec: TrialSpec, precision: str) -> Evidence:
        known = in_bfloat16() if precision == "bfloat16" else truth()
        return known.expected if precision == "float64" else known.rounded

    monkeypatch.setattr(Gate, "_ask_referee", answer)


@pytest.mark.usefixtures("referee_of_each")
def test_in_fewer_digits_a_trial_may_be_off_by_their_rounding_and_by_no_more_nor_less() -> None:
    rounded, far = in_bfloat16().rounded, [9.0, *FIRST_LOSSES[1:]]
    half, full, odd = judge(
        trial("one@bfloat16", rounded, far, **HALF), trial("one"), trial("two", rounded, FIRST_LOSSES)
    )
    assert is_ok(half, "compared with the referee"), "it was compared with trials of another precision"
    assert is_ok(full, "compared with the referee")
    assert is_unverified(odd, "differs from the referee: first layer that differs: conv1")
    odd, exact = judge(
        trial("odd", moved(in_bfloat16().rounded, "outputs", "conv2", 0.5), **HALF), trial("exact", **HALF)
    )
    assert is_unverified(odd, "differs from the referee: first layer that differs: conv2, its output by")
    assert is_unverified(exact, "differs from the referee: outputs are off by")
    assert "they were computed in more digits" in str(exact.reason)


@pytest.mark.usefixtures("no_referee")
def test_without_a_referee_a_trial_in_fewer_digits_is_held_against_nothing_and_says_so() -> None:
    for result in judge(trial("one", **HALF), trial("two", wrong(), [9.0], **HALF)):
        check = verdict(result)
        assert (result.status, check.passed, check.against) == (Status.OK, False, ())
        assert (
            check.detail == f"nothing to compare with{TOO_LARGE}, and no other framework shows what bfloat16 rounds off"
        )


@pytest.mark.usefixtures("no_referee")
def test_what_does_not_enter_the_probe_does_not_part_a_group() -> None:
    inputs = {**INPUTS, "test_images": InputFile("inputs/test", "other"), "order": InputFile("moved/order", "order")}
    one, other = judge(trial("one"), trial("other", wrong(), inputs=inputs, feed="device", threads=1, window_s=9.0))
    assert one.status == other.status == Status.UNVERIFIED


DIFFERENT = [*FIRST_LOSSES[:2], 1.301, FIRST_LOSSES[3]]


@pytest.mark.usefixtures("asked")
def test_first_losses_that_differ_at_the_same_batch_size_are_told_though_the_evidence_agrees() -> None:
    one, two = judge(trial("one"), trial("two", losses=DIFFERENT))
    assert is_unverified(one, "differs from two: the loss of step 3 differs by 7.7e-04 (allowed 1e-04)")
    assert is_unverified(two, "differs from one: the loss of step 3 differs by 7.7e-04 (allowed 1e-04)")
    one, two, third = judge(trial("one"), trial("two", losses=DIFFERENT), trial("third"))
    assert is_unverified(two, "differs from one, third: the loss of step 3 ")
    assert is_ok(one, "compared with the referee, third, two") and third.status == Status.OK


@pytest.mark.usefixtures("asked")
def test_first_losses_of_another_batch_size_rest_or_draw_are_not_compared() -> None:
    judged = judge(trial("one"), trial("two", losses=DIFFERENT, batch_size=64))
    assert all(is_ok(result, "compared with the referee") for result in judged)
    judged = judge(trial("one"), trial("two", losses=DIFFERENT, last_batch="drop"))
    assert all(is_ok(result, "compared with the referee") for result in judged)
    odd = judge(trial("one", last_batch="drop"), trial("two", losses=DIFFERENT, last_batch="drop"))
    assert all(is_unverified(result, "differs from ") for result in odd)
    judged = judge(trial("one", workload="dropping"), trial("two", losses=DIFFERENT, workload="dropping"))
    assert all(is_ok(result, "compared with the referee") for result in judged)


@pytest.mark.usefixtures("no_referee")
@pytest.mark.parametrize("order", [1, -1])
def test_the_rival_is_the_trial_that_treats_the_last_batch_alike_whichever_comes_first(order: int) -> None:
    twos = [trial("two"), trial("two", wrong(), DIFFERENT, last_batch="drop")][::order]
    one, *_ = judge(trial("one"), *twos)
    assert is_ok(one, f"compared with two{TOO_LARGE}")
    one, *_ = judge(trial("one", last_batch="drop"), *twos)
    assert is_unverified(one, "differs from two: first layer that differs: conv2")


@pytest.mark.usefixtures("asked")
def test_late_first_losses_may_differ_by_more_and_still_not_by_any_amount() -> None:
    def last(apart: float) -> list[float]:
        return [*FIRST_LOSSES[:3], FIRST_LOSSES[3] * (1 + apart)]

    assert len(FIRST_LOSSES) == LATE
    assert all(result.status == Status.OK for result in judge(trial("one"), trial("two", losses=last(4.9e-3))))
    one, two = judge(trial("one"), trial("two", losses=last(5.1e-3)))
    assert is_unverified(two, "differs from one: the loss of step 4 differs by 5.1e-03 (allowed 5e-03)")
    assert one.status == Status.UNVERIFIED


def test_first_losses_may_differ_by_what_rounding_does_to_the_referee(monkeypatch: pytest.MonkeyPatch) -> None:
    far = replace(truth(), rounded=moved(truth().rounded, "losses", 2, 7.7e-4 / ROUNDINGS * 1.1))
    monkeypatch.setattr(
        Gate, "_ask_referee", lambda _, spec, precision: far.expected if precision == "float64" else far.rounded
    )
    assert LOSSES < 7.7e-4
    assert [result.reason for result in judge(trial("one"), trial("two", losses=DIFFERENT))] == [None, None]


@pytest.mark.usefixtures("no_referee")
def test_without_the_referee_too_first_losses_are_compared_at_the_same_batch_size() -> None:
    one, two = judge(trial("one"), trial("two", losses=DIFFERENT))
    assert is_unverified(one, "differs from two: the loss of step 3 ") and two.status == Status.UNVERIFIED


@pytest.mark.usefixtures("asked")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_trials_that_diverge_alike_are_ok() -> None:
    """Nobody is at fault when a learning rate is too large."""
    wild = OptimizerSpec("sgd", 1e30)
    losses = [1.5, None, None]
    one, two = judge(*(trial(name, optimizer=wild, losses=losses) for name in ("one", "two")))
    assert is_ok(one, "compared with the referee, two") and is_ok(two, "compared with the referee, one")


LAUNCHER = Local("python", {}, PROJECT)


class Worker:
    """Replaces `run_worker`: gathers the evidence in this process, or does what `instead` does."""

    def __init__(self, instead: Callable[[], Any] | None = None, last: Event = Event.FINISHED) -> None:
        self.instead, self.last, self.ran = instead, last, list[TrialSpec]()
        self.started_with: list[Launcher] = []

    def __call__(self, folder: Path, job: Job, launcher: Launcher) -> WorkerOutcome:
        if job.kind is Kind.MEMORY:
            raise LaunchFailed("nobody asks here what memory holds")
        assert Job.from_json(json.loads((folder / JOB_FILE).read_text())) == job
        spec = job.trial
        self.ran.append(spec)
        self.started_with.append(launcher)
        if self.instead:
            self.instead()
        evidence = through_json(gathered(opened(precision=spec.task.precision), PLAIN, spec.task.optimizer))
        with (folder / EVENTS_FILE).open("a") as file:
            file.write(json.dumps({"event": Event.PROBED, "t_ns": 0, "evidence": evidence.to_json()}) + "\n")
            ending = {"event": self.last, "t_ns": 0, "status": Status.OUT_OF_MEMORY, "reason": "no room"}
            file.write(json.dumps(ending) + "\n")
        return WorkerOutcome(0, False, 1.0)


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Worker:
    """Replaces every worker that is asked something."""
    monkeypatch.setattr(asking, "run_worker", standing := Worker())
    return standing


def test_the_referee_runs_in_a_worker_of_its_own_that_ends_after_the_gate(tmp_path: Path, worker: Worker) -> None:
    on_gpu: dict[str, Any] = {
        "device": "GPU-1",
        "feed": "device",
        "profile": "default",
        "isolation": "venv",
        "window_s": 3.0,
        "memory_limit_bytes": 2**30,
        "control_group": True,
    }
    right, odd = Gate(tmp_path, PROJECT).judge([trial("right", **on_gpu), trial("odd", wrong(), **on_gpu)])
    assert is_ok(right, "compared with the referee") and is_unverified(odd, "differs from the referee")
    assert [spec.task.precision for spec in worker.ran] == ["float64", "float32"]
    for spec in worker.ran:
        told = (
            spec.cell.framework,
            spec.cell.batch_size,
            spec.placement.device,
            spec.task.feed,
            spec.installation.isolation,
        )
        assert told == ("numpy", PROBE_BATCH, "cpu", "host", "here")
        assert spec.placement.memory_limit_bytes is None and not spec.placement.control_group, "the limit is a trial's"
        assert (spec.task.workload, spec.task.optimizer, spec.inputs) == ("plain", OPTIMIZER, INPUTS)


def test_the_referees_evidence_is_kept_for_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, worker: Worker
) -> None:
    first = Gate(tmp_path, PROJECT).judge([trial("one"), trial("odd", wrong())])
    assert Gate(tmp_path, PROJECT).judge([trial("one"), trial("odd", wrong())]) == first
    assert len(worker.ran) == 2
    monkeypatch.setattr(gate, "code_digest", lambda project, framework: "changed")
    Gate(tmp_path, PROJECT).judge(first)
    assert len(worker.ran) == 4, "evidence of other code was taken"


def test_a_referee_that_broke_off_is_asked_again_from_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "run_worker", Worker(last=Event.ENDED))
    (before,) = Gate(tmp_path, PROJECT).judge([trial("one")])
    assert "without the referee: out_of_memory: no room" in verdict(before).detail
    monkeypatch.setattr(asking, "run_worker", Worker())
    (after,) = Gate(tmp_path, PROJECT).judge([before])
    assert is_ok(after, "compared with the referee")
    for folder in (tmp_path / "probes").iterdir():
        assert len((folder / EVENTS_FILE).read_text().splitlines()) == 2


def cannot_start() -> None:
    raise LaunchFailed("the worker could not be started: no such file")


def test_a_framework_is_probed_as_its_trials_are_run(tmp_path: Path, worker: Worker) -> None:
    spec = trial("one", device="GPU-1", feed="device", threads=1, isolation="venv", batch_size=512).spec
    launcher = Local("its/python", {"ITS": "variable"}, PROJECT)
    evidence = Gate(tmp_path, PROJECT).gather(spec, launcher)
    assert evidence == truth().rounded.to_json()
    (probed,) = worker.ran
    assert probed == varied(spec, batch_size=PROBE_BATCH)
    assert worker.started_with == [launcher]
    assert (tmp_path / "probes" / spec.probe_id / EVENTS_FILE).exists()


def test_a_framework_is_probed_once_for_all_batch_sizes_and_again_for_another_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, first = Worker(), Gate(tmp_path, PROJECT)
    monkeypatch.setattr(asking, "run_worker", worker)
    alike: list[dict[str, Any]] = [{}, {"batch_size": 8}, {"last_batch": "drop"}, {"epochs": 9}, {"window_s": 9.0}]
    given = [first.gather(trial("one", **change).spec, LAUNCHER) for change in alike]
    given += [Gate(tmp_path, PROJECT).gather(trial("one", **change).spec, LAUNCHER) for change in alike]
    assert given == [truth().rounded.to_json()] * 10
    assert len(worker.ran) == 1
    others: list[dict[str, Any]] = [
        {"inputs": {**INPUTS, "weights": InputFile("inputs/weights", "of another seed")}},
        {"optimizer": OptimizerSpec("sgd")},
        {"framework": "two"},
        {"environment": "another"},
    ]
    for number, change in enumerate(others, start=2):
        first.gather(trial("one", batch_size=8).spec, LAUNCHER)
        first.gather(varied(trial("one").spec, **change), LAUNCHER)
        assert len(worker.ran) == number, change


@pytest.mark.parametrize(
    ("worker", "reason"),
    [
        (Worker(last=Event.ENDED), "out_of_memory: no room (log: "),
        (Worker(instead=cannot_start), "the worker could not be started: no such file"),
    ],
    ids=["runs out of memory", "cannot start"],
)
def test_a_probe_that_gives_nothing_stops_nothing_and_is_tried_again_by_the_next_run_alone(
    worker: Worker, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "run_worker", worker)
    broken, silent = Gate(tmp_path, PROJECT), [trial("one", batch_size=size) for size in (8, 16)]
    assert [broken.gather(one.spec, LAUNCHER) for one in silent] == [{}, {}]
    assert len(worker.ran) == 1, "a probe that gives nothing was tried for every batch size"
    judged = broken.judge([replace(one, evidence={}) for one in silent])
    assert all(is_unverified(one, f"its framework's probe gave no evidence: {reason}") for one in judged)
    assert Gate(tmp_path, PROJECT).judge(judged) == judged, "a later run, that asks nothing of it, forgets the reason"
    monkeypatch.setattr(asking, "run_worker", Worker())
    assert Gate(tmp_path, PROJECT).gather(trial("one").spec, LAUNCHER) == truth().rounded.to_json()


def session_of(results: Path, specs: list[TrialSpec]) -> Session:
    request: Any = SimpleNamespace(
        shard=None,
        project=PROJECT,
        results=results,
        placement=make_spec().placement,
        gpus=(),
        retry=frozenset(),
        try_all=False,
    )
    launchers = {spec.cell.framework: LAUNCHER for spec in specs}
    installed = {spec.cell.framework: spec.installation for spec in specs}
    return Session(request, launchers, installed, specs, Console(file=StringIO()))


def run_plan(
    results: Path, specs: list[TrialSpec], measured: Callable[[TrialSpec], TrialResult], monkeypatch: pytest.MonkeyPatch
) -> tuple[list[TrialResult], list[TrialResult]]:
    """(what a run of these returns, what it stored); `measured` replaces the measured worker."""
    monkeypatch.setattr(running, "run_trial", lambda folder, spec, *_: measured(spec))
    monkeypatch.setattr(definition, "read_label", lambda project, framework: framework)
    session = session_of(results, specs)
    session.open(read_trials(results))
    returned = session.run(Plan(specs, {}, PLAIN, 64))
    stored = [json.loads((results / "trials" / spec.id / RESULT_FILE).read_text()) for spec in specs]
    return returned, [TrialResult.from_json(result) for result in stored]


def stored_in(results: Path, result: TrialResult) -> Path:
    """Store a result as the runner does; return its file."""
    path = results / "trials" / result.spec.id / RESULT_FILE
    path.parent.mkdir(parents=True)
    write_json(path, result.to_json())
    return path


def bare(spec: TrialSpec) -> TrialResult:
    return replace(trial(spec.cell.framework), spec=spec, evidence={})


def test_one_probes_evidence_is_in_the_result_of_every_batch_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, worker: Worker
) -> None:
    specs = [trial(name, batch_size=size).spec for size in (8, 16, 32) for name in ("one", "two")]
    returned, stored = run_plan(tmp_path, specs, bare, monkeypatch)
    assert sorted(spec.cell.framework for spec in worker.ran) == ["numpy", "numpy", "one", "two"]
    assert returned == stored
    assert [result.spec for result in stored] == specs
    for result in stored:
        other = "two" if result.spec.cell.framework == "one" else "one"
        assert result.evidence == truth().rounded.to_json()
        assert is_ok(result, f"compared with the referee, {other}")


@pytest.mark.usefixtures("worker")
def test_a_failed_trial_keeps_its_status_and_has_its_frameworks_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (_, stored) = run_plan(
        tmp_path,
        [trial("one").spec],
        lambda spec: replace(bare(spec), status=Status.FAILED, reason="it fell"),
        monkeypatch,
    )
    (failed,) = stored
    assert (failed.status, failed.reason, failed.checks) == (Status.FAILED, "it fell", [COUNTED])
    assert failed.evidence == truth().rounded.to_json()


@pytest.mark.usefixtures("no_referee", "worker")
def test_every_result_of_the_folder_is_judged_and_only_the_requests_are_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = trial("earlier", wrong(), batch_size=8)
    unreadable = tmp_path / "trials" / "unreadable" / RESULT_FILE
    for path in (tmp_path / "trials" / earlier.spec.id / RESULT_FILE, unreadable):
        path.parent.mkdir(parents=True)
        write_json(path, earlier.to_json())
    unreadable.write_text("{")
    ((one,), _) = run_plan(tmp_path, [trial("one").spec], bare, monkeypatch)
    assert is_unverified(one, "differs from earlier: first layer that differs: conv2")
    data = json.loads((tmp_path / "trials" / earlier.spec.id / RESULT_FILE).read_text())
    assert is_unverified(TrialResult.from_json(data), "differs from one: first layer that differs: conv2")
    assert unreadable.read_text() == "{"


@pytest.mark.usefixtures("no_referee", "worker")
def test_a_trial_that_is_run_again_is_no_longer_judged_beside_its_earlier_self(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This also holds where the earlier one belonged to another study: its id is the same."""
    earlier = replace(trial("one", wrong(), study="earlier"), status=Status.UNVERIFIED, reason="it miscounts")
    stored_in(tmp_path, earlier)
    asked: list[list[TrialSpec]] = []
    judge_all = Gate.judge

    def watched(self: Gate, trials: Any) -> list[TrialResult]:
        asked.append([result.spec for result in trials])
        return judge_all(self, trials)

    monkeypatch.setattr(Gate, "judge", watched)
    again = trial("one").spec
    assert again.id == earlier.spec.id
    ((one,), (stored,)) = run_plan(tmp_path, [again], bare, monkeypatch)
    assert asked == [[earlier.spec], [again]]
    assert one == stored and one.status == Status.OK


def test_a_referee_that_cannot_be_started_stops_nothing_and_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Worker(instead=cannot_start)
    monkeypatch.setattr(asking, "run_worker", worker)
    one, odd, two = Gate(tmp_path, PROJECT).judge([trial("one"), trial("odd", wrong()), trial("two")])
    told = "; without the referee: the worker could not be started: no such file"
    assert is_ok(one, f"compared with odd, two{told}") and is_ok(two, f"compared with odd, one{told}")
    assert is_unverified(odd, "differs from one, two: ")
    assert len(worker.ran) == 1, "a referee that cannot be started was asked for every trial"


@pytest.mark.usefixtures("no_referee")
def test_a_trial_is_stored_again_when_a_later_one_changes_its_verdict_and_only_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def path(result: TrialResult) -> Path:
        return tmp_path / "trials" / result.spec.id / RESULT_FILE

    def stored(result: TrialResult) -> TrialResult:
        return TrialResult.from_json(json.loads(path(result).read_text()))

    session = session_of(tmp_path, [])
    judged: list[TrialResult] = []
    statuses = []
    for result in (trial("one"), trial("odd", wrong()), trial("two"), trial("one", batch_size=8, losses=[2.0])):
        stored_in(tmp_path, result)
        session.known[result.spec.id] = result
        session.judge([*judged, result])
        judged = list(session.known.values())
        assert list(session.known) == [one.spec.id for one in judged]
        assert [stored(one) for one in judged] == judged
        statuses.append([str(one.status) for one in judged])
    odd = ["unverified"]
    assert statuses == [["ok"], odd * 2, ["ok", *odd, "ok"], ["ok", *odd, "ok", "ok"]]

    def refuse(path: Path, data: dict[str, Any]) -> None:
        raise AssertionError(f"{path} was written though nothing changed")

    monkeypatch.setattr(running, "write_json", refuse)
    session.judge(judged)
    assert list(session.known.values()) == judged


def test_a_trial_on_another_device_may_be_another_runs_and_is_not_stored_again(tmp_path: Path) -> None:
    on_a_gpu = varied(trial("odd", wrong()).spec, device="GPU-1")
    odd = replace(trial("odd", wrong()), spec=on_a_gpu)
    path = stored_in(tmp_path, odd)
    before = path.read_bytes()
    session = session_of(tmp_path, [])
    session.known[odd.spec.id] = odd
    session.judge([odd])
    assert session.known[odd.spec.id] != odd and path.read_bytes() == before


def test_trials_in_doubt_for_want_of_the_referee_are_judged_again_and_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan counts finished trials after today's verdicts."""
    one, odd = trial("one"), trial("odd", wrong())
    for result in (one, odd):
        stored_in(tmp_path, result)
    plan = Plan([one.spec, odd.spec], {}, PLAIN, 64)
    asked = []
    for worker in (Worker(instead=cannot_start), Worker()):
        monkeypatch.setattr(asking, "run_worker", worker)
        session = session_of(tmp_path, plan.trials)
        session.open(read_trials(tmp_path))
        session.complete(plan.trials)
        asked.append([spec.cell.framework for spec in plan.with_stored(session.known.values()).to_run])
    assert asked == [["one", "odd"], ["odd"]]


def test_a_trial_whose_probe_gave_nothing_is_judged_by_the_next_runs_probe_and_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = replace(trial("one"), evidence={})
    path = stored_in(tmp_path, result)
    statuses = []
    for worker in (Worker(instead=cannot_start), Worker(instead=cannot_start), Worker()):
        monkeypatch.setattr(asking, "run_worker", worker)
        session = session_of(tmp_path, [result.spec])
        session.open(read_trials(tmp_path))
        session.complete([result.spec])
        assert Plan([result.spec], {}, PLAIN, 64).with_stored(session.known.values()).to_run == []
        after = TrialResult.from_json(json.loads(path.read_text()))
        assert after == session.known[result.spec.id]
        statuses.append(str(after.status))
    assert statuses == ["unverified", "unverified", "ok"]
    assert after.evidence == truth().rounded.to_json()
