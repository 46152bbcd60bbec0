"""Effects of rounding on a flagged trial, asked of the frameworks: when, which frameworks, and the verdicts that
follow."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import PROJECT, make_spec, varied
from probed import OPTIMIZER, PLAIN, SEED, moved, truth
from test_gate import DIFFERENT, INPUTS, trial, workloads, wrong  # noqa: F401
from test_late_verdicts import epochs, named, runs

from runner.ask import Ended
from runner.gate import judge as judging
from runner.gate.disturbed import Disturbed, Training, losses_moved, who_can_be_asked, with_disturbed_weights
from runner.gate.judge import Gate
from runner.launch import LaunchFailed, Local, Unavailable, WorkerOutcome
from workloads import weights
from workloads.networks import WORKLOADS
from workloads.records.check_name import CheckName
from workloads.records.events import Event
from workloads.records.evidence import Evidence
from workloads.records.files import EVENTS_FILE, JOB_FILE, write_json
from workloads.records.job import InputFile, Job, Kind, TrialSpec
from workloads.records.result import TrialResult
from workloads.records.status import Status
from workloads.weights import DISTURBANCES

LAUNCHER = Local("python", {}, PROJECT)


def answer(folder: Path, *losses: float, finished: bool = True) -> None:
    """Write what a worker leaves that trained one epoch three times. The first of the first losses is the number of the
    training; the others are `losses`."""
    folder.mkdir(parents=True, exist_ok=True)
    events: list[dict[str, Any]] = []
    for number in range(DISTURBANCES):
        trained = {"steps": 3, "images": 12, "train_loss": 2.0 + number, "first_losses": [number, *losses]}
        evaluated = {"test_loss": 1.0, "test_accuracy": 0.5}
        events += [{"event": Event.BUILT}, {"event": Event.EPOCH_TRAINED, "epoch": 0} | trained]
        events += [{"event": Event.EPOCH_EVALUATED, "epoch": 0} | evaluated]
    events += [{"event": Event.FINISHED}] * finished
    lines = [json.dumps(event | {"t_ns": place}) for place, event in enumerate(events)]
    (folder / EVENTS_FILE).write_text("\n".join(lines) + "\n")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """The jobs that workers were asked for; each worker answers."""
    jobs: list[Job] = []

    def ask(job: Job, folder: Path, launcher: object) -> None:
        jobs.append(job)
        write_json(folder / JOB_FILE, {}) if folder.is_dir() else None
        answer(folder, 1.9)

    monkeypatch.setattr("runner.ask.ask", ask)
    return jobs


def known(result: TrialResult) -> dict[Any, Local]:
    return {(result.spec.cell.framework, result.spec.installation): LAUNCHER}


def test_a_framework_is_asked_once_and_its_answer_is_read_from_the_results_folder_after_that(
    asked: list[Job], tmp_path: Path
) -> None:
    result = trial("mxnet")
    for again in (Disturbed(tmp_path, known(result)), Disturbed(tmp_path, known(result)), Disturbed(tmp_path, {})):
        trainings = again.trainings(result, 1)
        assert again.trainings(result, 1) is trainings
        assert [training.first_losses for training in trainings] == [[0, 1.9], [1, 1.9], [2, 1.9]]
        assert [[epoch.train_loss for epoch in training.epochs] for training in trainings] == [[2.0], [3.0], [4.0]]
    (job,) = asked
    assert (job.kind, job.trial.passes.epochs) == (Kind.DISTURBED, 1)
    assert job.trial == replace(result.spec, passes=job.trial.passes)


def test_a_framework_that_is_installed_otherwise_than_in_the_trial_is_not_asked(
    asked: list[Job], tmp_path: Path
) -> None:
    result = trial("mxnet")
    newer = replace(result, spec=varied(result.spec, environment="newer"))
    assert Disturbed(tmp_path, known(newer)).trainings(result, 1) == []
    assert not asked


def test_the_frameworks_of_a_plan_can_be_asked_as_far_as_they_can_be_started() -> None:
    one, two = trial("one").spec, trial("two").spec
    asked = who_can_be_asked(
        [one, varied(one, batch_size=64), two], {"one": LAUNCHER, "two": Unavailable("no wheel for it")}
    )
    assert asked == {("one", one.installation): LAUNCHER}


def test_a_worker_that_cannot_be_started_or_does_not_finish_tells_nothing_and_is_not_asked_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls = []

    def refuse(job: Job, folder: Path, launcher: object) -> None:
        calls.append(job)
        raise LaunchFailed("no such interpreter")

    def die(job: Job, folder: Path, launcher: object) -> Ended:
        calls.append(job)
        answer(folder, 1.9, finished=False)
        return Ended([], WorkerOutcome(1, False, 0.0), Status.FAILED, "it died")

    for worker in (refuse, die):
        monkeypatch.setattr("runner.ask.ask", worker)
        asker = Disturbed(tmp_path, known(trial("mxnet")))
        assert asker.trainings(trial("mxnet"), 1) == asker.trainings(trial("mxnet"), 1) == []
    assert len(calls) == 2


def test_losses_moved_are_the_most_of_all_trainings_up_to_the_step_behind() -> None:
    result = trial("one", losses=[2.0, 1.0, 1.0, 1.0])
    trainings = [Training([2.002, 1.0, 1.1, 1.0], []), Training([2.0, 1.01, 1.0, 1.2], [])]
    assert losses_moved(result, trainings) == pytest.approx([0.01, 0.1, 0.2, 0.2])
    assert losses_moved(result, []) == []


def test_disturbed_weights_are_another_input_beside_the_others_under_a_name_of_its_own(tmp_path: Path) -> None:
    spec = with_weights(tmp_path)
    first, again, second = (with_disturbed_weights(spec, tmp_path, number) for number in (0, 0, 1))
    assert first == again and first.inputs["weights"] != second.inputs["weights"]
    assert first.probe_id != spec.probe_id
    assert replace(first, inputs=spec.inputs) == spec
    assert {name for name in spec.inputs if first.inputs[name] != spec.inputs[name]} == {"weights"}
    with pytest.raises(LaunchFailed, match="no weights to disturb"):
        with_disturbed_weights(spec, tmp_path / "elsewhere", 0)


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
            raise LaunchFailed("its framework cannot be asked")
        return moved(given, "outputs", "conv2", moves[spec.cell.framework]).to_json()

    monkeypatch.setattr(Gate, "_probe", probe)
    judged = Gate(tmp_path, PROJECT, known(one) | known(two)).judge([one, two])
    assert [result.status for result in judged] == [status] * 2
    alone = Gate(tmp_path, PROJECT, known(one)).judge([one, two])
    assert [result.status for result in alone] == [Status.UNVERIFIED] * 2, "one framework alone says nothing"


def trainings_of(monkeypatch: pytest.MonkeyPatch, **trainings: Training) -> list[str]:
    """Set each framework's training from disturbed weights; return the frameworks asked, in order."""
    calls: list[str] = []

    def answer(_: Disturbed, result: TrialResult, epochs: int) -> list[Training]:
        calls.append(result.spec.cell.framework)
        return [trainings[calls[-1]]] if calls[-1] in trainings else []

    monkeypatch.setattr(Disturbed, "trainings", answer)
    return calls


@pytest.fixture
def gate(workloads: None, monkeypatch: pytest.MonkeyPatch) -> Gate:  # noqa: F811
    def reply(_: Gate, spec: TrialSpec, precision: str) -> Evidence:
        known = truth(WORKLOADS[spec.task.workload], spec.task.optimizer)
        return known.expected if precision == "float64" else known.rounded

    monkeypatch.setattr(Gate, "_ask_referee", reply)
    return Gate(Path("nowhere"), PROJECT)


def verdicts(results: Sequence[TrialResult]) -> dict[str, Status]:
    return {result.spec.cell.framework: result.status for result in results}


LOSSES = {"mxnet": (2.0, 1.9), "pytorch": (2.0, 1.9), "tensorflow": (2.0, 1.88)}  # 1.1 % apart, 0.4 % allowed


def test_epochs_that_agree_ask_nobody(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = trainings_of(monkeypatch)
    assert set(verdicts(gate.judge(runs(mxnet=(2.0, 1.9), pytorch=(2.0, 1.9)))).values()) == {Status.OK}
    assert not calls


@pytest.mark.parametrize(
    ("factors", "status", "far"),
    [
        ((1.004, 1.005, 1.003), Status.OK, None),
        ((1.004, 1.005, 1.00001), Status.OK, "tensorflow"),  # the middle one decides
        ((1.00001, 1.2, 1.00001), Status.UNVERIFIED, "pytorch"),  # one that is unstable widens no bound
        ((1.00001, 1.00001, 1.2), Status.UNVERIFIED, "tensorflow"),  # nor does the flagged trial widen its own
    ],
)
def test_an_epoch_may_differ_by_five_times_what_disturbed_weights_do_to_the_middle_framework(
    gate: Gate, monkeypatch: pytest.MonkeyPatch, factors: tuple[float, ...], status: Status, far: str | None
) -> None:
    trainings_of(
        monkeypatch,
        **{
            name: Training([], epochs(losses[0], losses[1] * factor))
            for (name, losses), factor in zip(LOSSES.items(), factors, strict=True)
        },
    )
    judged = gate.judge(runs(**LOSSES))
    assert verdicts(judged) == {"mxnet": Status.OK, "pytorch": Status.OK, "tensorflow": status}
    told = named(judged[2], CheckName.EPOCHS_AGREE)
    assert told.passed == (status is Status.OK)
    assert "rounding in the weights moves the losses up to epoch 2 of mxnet by" in told.detail
    assert told.detail.endswith(f"({far} far from the others)") if far else "far" not in told.detail


def test_where_rounding_may_have_grown_to_chaos_it_is_said_that_nothing_can_be_told(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = {"mxnet": (2.0,), "pytorch": (2.2,)}
    trainings_of(monkeypatch, **{name: Training([], epochs(each[0] * 1.02)) for name, each in losses.items()})
    judged = gate.judge(runs(**losses))
    for result in judged:
        told = named(result, CheckName.EPOCHS_AGREE)
        assert (result.status, result.reason) == (Status.OK, None)
        assert not told.passed and told.against == ()
        assert told.detail.startswith("cannot be told: rounding may have grown to more than 3% of the first epoch's")
    assert gate.judge(judged) == judged


def test_one_answer_alone_or_none_changes_no_verdict(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    before = gate.judge(runs(**LOSSES))
    trainings_of(monkeypatch, tensorflow=Training([], epochs(2.0, 2.5)))
    assert gate.judge(runs(**LOSSES)) == before
    assert before[2].status is Status.UNVERIFIED


def test_a_trial_that_is_suspect_otherwise_is_not_asked_about(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = trainings_of(monkeypatch)
    right, odd = runs(mxnet=(2.0, 1.9), pytorch=(2.0, 1.5))
    gate.judge([right, replace(odd, evidence=wrong().to_json())])
    assert not calls


def test_first_losses_may_differ_by_three_times_what_disturbed_weights_do_to_them(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = trial("one"), trial("two", losses=DIFFERENT)  # step 3 is 7.7e-4 apart
    for part, status in ((2e-4, Status.UNVERIFIED), (4e-4, Status.OK)):
        losses = {each.spec.cell.framework: list(each.first_losses) for each in (one, two)}
        for each in losses.values():
            each[3] = (each[3] or 0.0) * (1 + part)  # a step after the one that differs
        trainings_of(monkeypatch, **{name: Training(each, []) for name, each in losses.items()})
        assert set(verdicts(gate.judge([one, two])).values()) == {status}
