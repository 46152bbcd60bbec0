"""Measurements are kept: attempts are moved aside whole, results are made again from their files."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import signal
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from io import BytesIO, StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import PROJECT, make_spec
from rich.console import Console
from test_assemble import busy_window, trained, write_trial

from reports import load
from reports.checking import recompute_attempt, sessions
from runner import ask as asking
from runner import blocks, rebuild, session, show, trial
from runner.ask import Ended
from runner.batch_size.steps import StepTrials
from runner.blocks import BlockSession
from runner.cluster.node import Parcel
from runner.cluster.sweep import Over, Sweep
from runner.environments import definition
from runner.gate.end_referee import EndReferee
from runner.gate.judge import Gate
from runner.launch import LaunchFailed, Local, Unavailable, WorkerOutcome
from runner.machine import description
from runner.progress import Display
from runner.request import inputs
from runner.request.block import TrialBlock
from runner.request.plan import Plan
from runner.session import Session
from runner.setup import make_fresh_folder
from runner.storage import Storage, read_trials
from runner.trial import MemoryWorker, TooLarge
from workloads.networks import WORKLOADS
from workloads.records import files
from workloads.records.check_name import CheckName
from workloads.records.end_evidence import END_FILE, EVALUATION_FILE, Difference, Missing, TrialEnd
from workloads.records.events import PEAK_PARTS, Event
from workloads.records.figures import FIGURES, PRODUCT, PRODUCT_BY_CPU_TIME, PRODUCT_SHARE
from workloads.records.files import ATTEMPT_FILE, EVENTS_FILE, JOB_FILE, METER_FILE, RESULT_FILE, write_json
from workloads.records.job import InputFile, Job, Kind, TrialSpec
from workloads.records.result import Check, TrialResult
from workloads.records.status import Status
from workloads.records.stored_events import read_events

LAUNCHER = Local("python", {}, PROJECT)
LABELS, LOGITS = np.arange(10, dtype=np.int32), 3 * np.eye(10, dtype=np.float32)[[*range(9), 0]]  # the last is wrong
LABELS_FILE = "inputs/test_labels.npy"


def labels_content() -> bytes:
    file = BytesIO()
    np.save(file, LABELS)
    return file.getvalue()


LABELS_INPUT = InputFile(LABELS_FILE, hashlib.sha256(labels_content()).hexdigest())
SPEC = make_spec(epochs=1, inputs={"test_labels": LABELS_INPUT})
NO_ACCOUNT = {"reason": "nobody was asked"}


def stored(results: Path, result: TrialResult) -> Path:
    folder = results / "trials" / result.spec.id
    folder.mkdir(parents=True)
    write_json(folder / RESULT_FILE, result.to_json())
    return folder


def result_of(status: Status = Status.OK, reason: str | None = None, **changes: Any) -> TrialResult:
    return TrialResult(make_spec(**changes), status, reason, "2026-01-01T00:00:00+00:00", 1.0)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# Folders


@pytest.mark.parametrize("left", ["failed", "torn", "unfinished"])
def test_a_new_attempt_leaves_the_one_before_whole_whatever_its_state(tmp_path: Path, left: str) -> None:
    folder = stored(tmp_path, result_of(Status.FAILED, "it fell"))
    (folder / EVENTS_FILE).write_text('{"event": "started", "t_ns": 1}\n')
    if left == "torn":
        (folder / RESULT_FILE).write_text("{")
    if left == "unfinished":
        (folder / RESULT_FILE).unlink()
    before = contents(folder)
    assert make_fresh_folder(tmp_path, Job(Kind.TRIAL, make_spec())) == folder
    assert contents(folder) == {}
    assert contents(tmp_path / "attempts" / f"{folder.name}-1") == before


def test_a_number_is_never_given_twice_and_an_id_that_ends_in_digits_is_no_attempt(tmp_path: Path) -> None:
    """A count would fall where somebody removes a folder. Names that are not those of attempts are ignored."""
    room = tmp_path / "attempts"
    for name in ("one-2", "one-10", "one-x", "one-two-77", "one-0123", "one"):
        (room / name).mkdir(parents=True)
    (room / "one-99").write_text("a file")
    assert files.next_attempt_path(room, "one") == room / "one-11"
    assert [path.name for path in files.attempts_of(room, "one")] == ["one-2", "one-10"]
    assert files.next_attempt_path(tmp_path / "nowhere", "one").name == "one-1"
    (tmp_path / "2" / "numpy-cpu-r0-12345678").mkdir(parents=True)
    assert files.attempts_by_id(tmp_path / "2") == {}


def test_an_earlier_measurement_of_blocks_is_kept_apart_from_trials(tmp_path: Path) -> None:
    job = Job(Kind.BLOCKS, make_spec())
    (make_fresh_folder(tmp_path, job) / "blocks.csv").write_text("measured")
    folder = make_fresh_folder(tmp_path, job)
    assert (tmp_path / "blocks" / f"{folder.name}-1" / "blocks.csv").read_text() == "measured"
    assert not (tmp_path / "attempts").exists()


def test_a_probe_that_did_not_finish_is_kept_when_it_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(folder: Path, job: Job, launcher: object) -> WorkerOutcome:
        (folder / EVENTS_FILE).write_text('{"event": "finished", "t_ns": 1}\n')
        return WorkerOutcome(0, False, 1.0)

    monkeypatch.setattr(asking, "run_worker", run)
    job = Job(Kind.PROBE, make_spec())
    folder = job.folder(tmp_path)
    folder.mkdir(parents=True)
    (folder / EVENTS_FILE).write_text('{"event": "started", "t_ns": 1}\n')
    before = contents(folder)
    assert [event["event"] for event in asking.answer_once(job, folder, LAUNCHER)] == ["finished"]
    assert contents(folder.with_name(f"{folder.name}-1")) == before


def test_a_probe_of_another_computer_is_asked_again_and_each_finds_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str | None] = []

    def run(folder: Path, job: Job, launcher: object) -> WorkerOutcome:
        asked.append(description.read_cpu_model())
        (folder / EVENTS_FILE).write_text(json.dumps({"event": "finished", "t_ns": len(asked)}) + "\n")
        return WorkerOutcome(0, False, 1.0)

    monkeypatch.setattr(asking, "run_worker", run)
    job = Job(Kind.PROBE, make_spec())
    folder, given = job.folder(tmp_path), []
    for model, launcher in (("A", LAUNCHER), ("B", LAUNCHER), ("A", LAUNCHER), ("B", LAUNCHER), ("C", None)):
        monkeypatch.setattr(description, "read_cpu_model", lambda model=model: model)
        (event,) = asking.answer_once(job, folder, launcher)
        given.append(event["t_ns"])
    assert (given, asked) == ([1, 2, 1, 2, 2], ["A", "B"]), "without a launcher any computer's answer will do"
    assert sorted(path.name for path in folder.parent.iterdir()) == [folder.name, f"{folder.name}-1"]


@pytest.mark.parametrize("before_the_worker", [False, True])
def test_what_a_killed_process_had_half_written_goes_when_its_job_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before_the_worker: bool
) -> None:
    """A sampler is killed in the probe of a run that goes on."""

    def run(folder: Path, job: Job, launcher: object) -> WorkerOutcome:
        (folder / f"{METER_FILE}.part").write_text("{")
        if before_the_worker:
            raise LaunchFailed("the sampler did not start")
        return WorkerOutcome(0, False, 1.0, sampler_lost="the sampler was killed by SIGKILL")

    monkeypatch.setattr(asking, "run_worker", run)
    with suppress(LaunchFailed):
        asking.ask(Job(Kind.PROBE, SPEC), tmp_path / "probe", LAUNCHER)
    assert [path.name for path in (tmp_path / "probe").iterdir()] == [JOB_FILE]


# Results made again


def save_logits(folder: Path) -> None:
    """Save the logits of the trial's evaluation, as its worker does."""
    np.savez(folder / EVALUATION_FILE.format(epoch=0), logits=LOGITS)


def written_trial(job: Job, folder: Path, launcher: Local) -> Ended:
    """Write a worker's files without a worker."""
    folder.mkdir(parents=True, exist_ok=True)
    labels = folder / job.results / LABELS_FILE
    labels.parent.mkdir(exist_ok=True)
    labels.write_bytes(labels_content())
    save_logits(folder)
    write_json(folder / JOB_FILE, job.to_json())
    write_trial(folder, trained(), busy_window())
    return Ended(read_events(folder / EVENTS_FILE), WorkerOutcome(0, False, 13.5), Status.OK, None)


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a trial that was run to its end, with its result."""

    monkeypatch.setattr(trial, "ask", written_trial)
    folder = Job(Kind.TRIAL, SPEC).folder(tmp_path)
    result = trial.run_trial(folder, SPEC, LAUNCHER, {"cores": 2}, NO_ACCOUNT)
    end = {"outstanding": None, "missing": Missing.REFEREE, "reason": "nobody was asked"}
    rebuild.keep_end(folder, end)
    rebuild.store(folder, replace(result, end=end))
    return folder


def changed(folder: Path, **values: Any) -> None:
    """Replace values in what the runner wrote down of the trial."""
    write_json(folder / ATTEMPT_FILE, json.loads((folder / ATTEMPT_FILE).read_text()) | values)


def killed_before(folder: Path, *names: str) -> None:
    """Clear values, as if the runner had been killed before it could write them down."""
    changed(folder, **dict.fromkeys(names))


def test_a_torn_result_is_made_again_byte_for_byte_and_the_torn_one_is_kept(measured: Path) -> None:
    before = (measured / RESULT_FILE).read_bytes()
    for number in (1, 2):
        (measured / RESULT_FILE).write_bytes(before[: 100 * number])
        result = rebuild.rebuild_result(measured)
        assert result is not None
        rebuild.store(measured, result)
        assert (measured / RESULT_FILE).read_bytes() == before
        assert (measured / f"result-unreadable-{number}.json").read_bytes() == before[: 100 * number]


def test_a_result_is_made_again_of_an_end_without_numbers_that_an_earlier_version_stored(measured: Path) -> None:
    lost = dict.fromkeys(("apart", "rounding", "resolution"))
    changed(measured, end={"outstanding": None, "images": 1, "evaluation": lost})
    result = rebuild.rebuild_result(measured)
    assert result is not None and TrialEnd.from_json(result.end).evaluation == Difference(None)


def test_the_end_of_a_trial_whose_run_was_stopped_at_the_gate_is_stored_where_a_check_looks_for_it(
    measured: Path,
) -> None:
    """How the worker ended was stored by then, and what the evidence is made of goes once there is a result."""
    (measured / RESULT_FILE).unlink()
    killed_before(measured, "end")
    result = rebuild.rebuild_result(measured)
    assert result is not None and result.end == {}
    judged = replace(result, end={"outstanding": None, "missing": Missing.REFEREE, "reason": "nobody was asked"})
    rebuild.store(measured, judged)
    assert list(recompute_attempt.find_differences(judged, recompute_attempt.read_attempt(measured))) == []
    assert rebuild.read_end(EndReferee(PROJECT), measured, SPEC, 10**9) == judged.end


def test_what_the_runner_did_not_live_to_see_is_unknown_and_does_not_pass(measured: Path) -> None:
    before = TrialResult.from_json(json.loads((measured / RESULT_FILE).read_text()))
    (measured / RESULT_FILE).unlink()
    killed_before(measured, "worker", "end")
    result = rebuild.rebuild_result(measured)
    assert result is not None
    assert result.figures == before.figures and result.epochs == before.epochs and result.status is Status.OK
    assert result.wall_s == pytest.approx(12.3)  # from the worker's first event to its last
    (check,) = [check for check in result.checks if check.name == CheckName.ENDED_WELL]
    assert not check.passed and check.detail.startswith("exit code unknown: the runner was killed")
    end = rebuild.read_end(EndReferee(PROJECT), measured, result.spec, 10**9)
    assert end["missing"] == Missing.RUNNER, "the worker is blamed for what the runner did not wait for"


def test_accuracy_is_the_runners_whatever_the_worker_reports_and_outlives_the_logits(measured: Path) -> None:
    assert '"test_loss": 0.5' in (measured / EVENTS_FILE).read_text()
    assert not (measured / EVALUATION_FILE.format(epoch=0)).exists()
    result = rebuild.rebuild_result(measured)
    assert result is not None
    (epoch,) = result.epochs
    wrong, right = math.log(math.exp(3) + 9), math.log(math.exp(3) + 9) - 3
    assert epoch.test_accuracy == result.figures["test_accuracy"].value == 0.9
    assert epoch.test_loss == pytest.approx((9 * right + wrong) / 10, rel=1e-12)


def test_evaluations_that_the_runner_did_not_live_to_make_are_made_of_the_logits(measured: Path) -> None:
    before = (measured / RESULT_FILE).read_bytes()
    (measured / RESULT_FILE).unlink()
    killed_before(measured, "evaluations")
    save_logits(measured)
    result = rebuild.rebuild_result(measured)
    assert result is not None and result.epochs == TrialResult.from_json(json.loads(before)).epochs
    rebuild.store(measured, result)
    again = rebuild.rebuild_result(measured)
    assert again is not None and again.epochs == result.epochs, "the logits went before their evaluation was stored"


def test_a_trial_without_the_logits_of_its_evaluation_has_failed(
    tmp_path: Path, measured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(job: Job, folder: Path, launcher: Local) -> Ended:
        return Ended(read_events(measured / EVENTS_FILE), WorkerOutcome(0, False, 13.5), Status.OK, None)

    monkeypatch.setattr(trial, "ask", ask)
    result = trial.run_trial(measured, SPEC, LAUNCHER, {"cores": 2}, NO_ACCOUNT)
    assert (result.status, result.reason) == (
        Status.FAILED,
        "evaluation-0.npz: no logits can be read: FileNotFoundError",
    )
    assert result.epochs == [] and result.figures["test_accuracy"].value is None


def test_a_worker_that_ended_before_its_last_answer_is_still_blamed_for_it(measured: Path) -> None:
    killed_before(measured, "end")
    assert rebuild.read_end(EndReferee(PROJECT), measured, SPEC, 10**9)["missing"] == Missing.WORKER


def test_a_worker_that_the_kernel_killed_for_memory_at_its_end_is_not_blamed_for_our_probe(measured: Path) -> None:
    worker = json.loads((measured / ATTEMPT_FILE).read_text())["worker"]
    changed(measured, end=None, worker=worker | {"exit_code": -signal.SIGKILL, "out_of_memory": True})
    end = rebuild.read_end(EndReferee(PROJECT), measured, SPEC, 10**9)
    assert end["missing"] == Missing.MEMORY and "ran out of memory" in end["reason"]
    result = rebuild.rebuild_result(measured)
    assert result is not None and result.status is Status.OK
    (check,) = [check for check in result.checks if check.name == CheckName.ENDED_WELL]
    assert check.detail == "exit code -9 after everything was measured; our probe of its end ran out of memory"


def test_how_a_worker_failed_is_not_lost_with_the_result(measured: Path) -> None:
    (measured / RESULT_FILE).unlink()
    (measured / EVENTS_FILE).write_text(
        '{"event": "started", "t_ns": 1}\n'
        '{"event": "ended", "t_ns": 5, "status": "out_of_memory", "reason": "no room"}\n'
    )
    killed_before(measured, "worker")
    result = rebuild.rebuild_result(measured)
    assert result is not None and (result.status, result.reason) == (Status.OUT_OF_MEMORY, "no room")


def test_a_trial_that_was_not_measured_to_its_end_has_no_result_made_up(measured: Path) -> None:
    (measured / RESULT_FILE).unlink()
    killed_before(measured, "worker")
    lines = (measured / EVENTS_FILE).read_text().splitlines(keepends=True)
    (measured / EVENTS_FILE).write_text("".join(line for line in lines if f'"{Event.FINISHED}"' not in line))
    assert rebuild.rebuild_result(measured) is None
    (measured / ATTEMPT_FILE).unlink()
    assert rebuild.rebuild_result(measured) is None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda folder: (folder / ATTEMPT_FILE).unlink(), "attempt.json: the file is missing"),
        (lambda folder: (folder / ATTEMPT_FILE).write_text('{"started_at": 3}'), "attempt.json: "),
        (lambda folder: (folder / JOB_FILE).write_text("[]"), "job.json: "),
        (lambda folder: (folder / JOB_FILE).unlink(), "job.json: "),
        (lambda folder: killed_before(folder, "schema_version"), "attempt.json: "),
        (lambda folder: (folder / JOB_FILE).write_text("[" * 10**5), "job.json: "),
        (lambda folder: changed(folder, end={"outstanding": "much"}), "not a trial result: end"),
        (lambda folder: changed(folder, memory={"peak": "much"}), "attempt.json: memory: neither"),
        (lambda folder: changed(folder, memory={"event": "memory_told", "t_ns": 1}), "attempt.json: memory: "),
    ],
)
def test_what_a_result_cannot_be_made_of_is_named(measured: Path, change: Callable[[Path], object], told: str) -> None:
    change(measured)
    with pytest.raises(ValueError, match=told):
        rebuild.rebuild_result(measured)


def test_files_of_another_trial_give_no_result(measured: Path) -> None:
    other = measured.with_name(make_spec(batch_size=8).id)
    shutil.copytree(measured, other)
    with pytest.raises(ValueError, match=f"job.json: it is the job of {measured.name}"):
        rebuild.rebuild_result(other)


# A run and its folder


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """No probe is asked, and every trial passes the gate."""
    monkeypatch.setattr(Gate, "gather", lambda *_: {})
    monkeypatch.setattr(Gate, "judge", lambda _, judged: list(judged))
    monkeypatch.setattr(definition, "read_label", lambda project, framework: framework)


def session_of(
    results: Path, specs: Sequence[TrialSpec], made: type[Session] = Session, **changes: Any
) -> tuple[Session, StringIO]:
    """(the session, the text that it prints to)."""
    asked = {"project": PROJECT, "results": results, "placement": SPEC.placement, "gpus": (), "retry": frozenset()}
    request: Any = SimpleNamespace(**asked | {"try_all": False, "shard": None} | changes)
    printed = StringIO()
    launchers = {spec.cell.framework: LAUNCHER for spec in specs}
    installed = {spec.cell.framework: spec.installation for spec in specs}
    opened = made(request, launchers, installed, specs, Console(file=printed, width=1000))
    opened.open(read_trials(results))
    return opened, printed


def plan(*specs: TrialSpec) -> Plan:
    return Plan(list(specs), {}, WORKLOADS["osu-cnn"], 1437)


def runs(monkeypatch: pytest.MonkeyPatch, *ends: tuple[Status, str | None]) -> list[TrialSpec]:
    """The trials that are run; they end with `ends`, one after the other."""
    ran: list[TrialSpec] = []

    def run(folder: Path, spec: TrialSpec, *_: object) -> TrialResult:
        status, reason = ends[len(ran)]
        ran.append(spec)
        (folder / "samples.csv").write_text(f"of {len(ran)}")
        return TrialResult(spec, status, reason, "2026-01-01T00:00:00+00:00", 1.0)

    monkeypatch.setattr(session, "run_trial", run)
    monkeypatch.setattr(MemoryWorker, "gather", lambda *_: NO_ACCOUNT)
    return ran


@pytest.mark.usefixtures("quiet")
def test_a_lost_result_is_made_again_at_the_start_of_a_run_which_says_so(measured: Path, tmp_path: Path) -> None:
    before = (measured / RESULT_FILE).read_bytes()
    (measured / RESULT_FILE).write_bytes(before[:99])
    (measured / END_FILE).write_bytes(b"")
    opened, printed = session_of(tmp_path, [SPEC])
    told = r"rebuilt from the trial's files, nothing is measured again"
    assert measured.name in printed.getvalue() and told in printed.getvalue()
    assert (measured / RESULT_FILE).read_bytes() == before
    assert not (measured / END_FILE).exists()
    assert plan(SPEC).with_stored(opened.known.values()).to_run == []


@pytest.mark.usefixtures("quiet")
def test_what_cannot_be_read_or_made_again_is_named_with_its_reason_and_left_as_it_is(tmp_path: Path) -> None:
    folder = stored(tmp_path, result_of())
    (folder / RESULT_FILE).write_text("{")
    later = stored(tmp_path, result_of(batch_size=8))
    (later / RESULT_FILE).write_text('{"schema_version": 99}')
    before = contents(tmp_path / "trials")
    _, printed = session_of(tmp_path, [SPEC])
    assert f"{folder.name}: result.json: not whole JSON: " in printed.getvalue()
    assert f"{later.name}: result.json: schema version 99" in printed.getvalue()
    assert contents(tmp_path / "trials") == before
    console = Console(file=(listed := StringIO()), width=1000)
    show.print_stored(tmp_path, console)
    assert f"{folder / RESULT_FILE}: cannot be read: not whole JSON: " in listed.getvalue()


@pytest.mark.usefixtures("quiet")
def test_a_result_of_another_trial_in_the_folder_is_named(tmp_path: Path) -> None:
    folder = stored(tmp_path, result_of())
    write_json(folder / RESULT_FILE, result_of(batch_size=8).to_json())
    opened, printed = session_of(tmp_path, [SPEC])
    assert "it belongs to the trial" in printed.getvalue() and opened.known == {}


@pytest.mark.usefixtures("quiet")
def test_a_trial_of_another_device_may_be_running_and_is_left_alone(measured: Path, tmp_path: Path) -> None:
    (measured / RESULT_FILE).unlink()
    other = replace(SPEC.placement, device="GPU-00000000-1111-2222-3333-444444444444")
    opened, _ = session_of(tmp_path, [SPEC], placement=other)
    assert opened.known == {} and not (measured / RESULT_FILE).exists()


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("status", [Status.FAILED, Status.TIMEOUT, Status.CONTENDED, Status.UNVERIFIED])
def test_a_trial_that_ends_so_is_run_again_at_once_and_every_attempt_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: Status
) -> None:
    ran = runs(monkeypatch, (status, "why"), (status, "why"), (Status.OK, None))
    opened, printed = session_of(tmp_path, [SPEC], retry=frozenset({status}))
    (result,) = opened.run(plan(SPEC))
    assert (result.status, len(ran)) == (Status.OK, 3)
    kept = {path.name: (path / "samples.csv").read_text() for path in (tmp_path / "attempts").iterdir()}
    assert kept == {f"{SPEC.id}-1": "of 1", f"{SPEC.id}-2": "of 2"}
    rows = [line for line in printed.getvalue().splitlines() if line.startswith("numpy")]
    assert ["attempt 2" in row for row in rows] == [False, True, False] and "attempt 3" in rows[-1]


@pytest.mark.usefixtures("quiet")
def test_a_trial_is_run_again_three_times_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = runs(monkeypatch, *[(Status.FAILED, "it fell")] * 9)
    opened, _ = session_of(tmp_path, [SPEC], retry=frozenset({Status.FAILED, Status.TIMEOUT}))
    assert [result.status for result in opened.run(plan(SPEC))] == [Status.FAILED]
    assert len(ran) == 4 and len(list((tmp_path / "attempts").iterdir())) == 3


@pytest.mark.usefixtures("quiet")
def test_the_next_run_keeps_the_failed_attempt_beside_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for ends in ([(Status.FAILED, "it fell")], [(Status.OK, None)]):
        runs(monkeypatch, *ends)
        opened, printed = session_of(tmp_path, [SPEC])
        opened.run(plan(SPEC).with_stored(opened.known.values()))
    earlier = json.loads((tmp_path / "attempts" / f"{SPEC.id}-1" / RESULT_FILE).read_text())
    assert (earlier["status"], earlier["reason"]) == ("failed", "it fell")
    assert "attempt 2" in printed.getvalue()


@pytest.mark.usefixtures("quiet")
def test_trials_of_further_repeats_that_are_stored_are_not_measured_again(tmp_path: Path) -> None:
    """--until-stable asks for them so: one repeat after the other, each a separate group to the gate."""
    further = result_of(inputs={"order": InputFile("inputs/order", "of another seed")}, repeat=1, seed=1)
    stored(tmp_path, further)
    opened, _ = session_of(tmp_path, [SPEC])
    opened.complete([further.spec])
    assert plan(further.spec).with_stored(opened.known.values()).to_run == []


# Disturbed trials, tried once more after the others


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("status", [Status.FAILED, Status.TIMEOUT])
def test_a_second_attempt_that_measures_nothing_does_not_take_the_place_of_a_disturbed_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: Status
) -> None:
    runs(monkeypatch, (Status.CONTENDED, "others took 40 %"), (status, "it fell"))
    opened, printed = session_of(tmp_path, [SPEC])
    (result,) = opened.run(plan(SPEC))
    assert (result.status, opened.known[SPEC.id]) == (Status.CONTENDED, result)
    read = load.read(tmp_path)
    assert [(each.status, each.reason) for each in read.results] == [(Status.CONTENDED, "others took 40 %")]
    assert (tmp_path / "trials" / SPEC.id / "samples.csv").read_text() == "of 1"
    (aside,) = (tmp_path / "attempts").iterdir()
    assert json.loads((aside / RESULT_FILE).read_text())["reason"] == "it fell"
    assert "it fell" in printed.getvalue() and f"this attempt is kept in {aside}" in printed.getvalue()


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("later", [(), (Status.FAILED,), (Status.FAILED, Status.OK)])
def test_a_check_misses_no_attempt_of_a_disturbed_trial_that_stays_unless_one_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, later: tuple[Status, ...]
) -> None:
    """Its number is left free, and it follows an attempt that started after it."""
    ends, ran = (Status.CONTENDED, Status.FAILED, *later), list[TrialSpec]()

    def run(folder: Path, spec: TrialSpec, *_: object) -> TrialResult:
        status, started = ends[len(ran)], f"2026-01-01T00:00:0{len(ran)}+00:00"
        ran.append(spec)
        return TrialResult(spec, status, None if status is Status.OK else "why", started, 1.0)

    def found() -> list[str]:
        read = load.read(tmp_path)
        return [*recompute_attempt.check_order(read.attempts.values()), *sessions.compare_sessions(read, read.pairs)]

    monkeypatch.setattr(session, "run_trial", run)
    while len(ran) < len(ends):
        opened, _ = session_of(tmp_path, [SPEC])
        opened.run(plan(SPEC).with_stored(opened.known.values()))
    assert found() == []
    if later:
        shutil.rmtree(min((tmp_path / "attempts").iterdir()))
        (line,) = found()
        assert line.endswith(": an attempt is missing")


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("status", [Status.OK, Status.CONTENDED, Status.UNVERIFIED, Status.OUT_OF_MEMORY])
def test_a_second_attempt_that_says_something_takes_the_place_of_a_disturbed_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: Status
) -> None:
    runs(monkeypatch, (Status.CONTENDED, "others took 40 %"), (status, "again"))
    opened, _ = session_of(tmp_path, [SPEC])
    assert [each.reason for each in opened.run(plan(SPEC))] == ["again"]
    assert (tmp_path / "trials" / SPEC.id / "samples.csv").read_text() == "of 2"


@pytest.mark.usefixtures("quiet")
def test_with_retry_of_disturbed_trials_too_what_measured_nothing_takes_no_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs(monkeypatch, (Status.CONTENDED, "others took 40 %"), (Status.TIMEOUT, "too slow"))
    opened, _ = session_of(tmp_path, [SPEC], retry=frozenset({Status.CONTENDED}))
    assert [each.status for each in opened.run(plan(SPEC))] == [Status.CONTENDED]
    assert [each.reason for each in load.read(tmp_path).results] == ["others took 40 %"]


@pytest.mark.usefixtures("quiet")
def test_a_disturbed_attempt_of_an_interrupted_run_stays_where_the_next_run_measures_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = replace(disturbed_before(), status=Status.FAILED, reason="it fell")
    for number, result in enumerate((disturbed_before(), failed), start=1):
        aside = tmp_path / "attempts" / f"{SPEC.id}-{number}"
        aside.mkdir(parents=True)
        write_json(aside / RESULT_FILE, result.to_json())
    (tmp_path / "trials" / SPEC.id).mkdir(parents=True)  # its third attempt, which was killed
    runs(monkeypatch, (Status.FAILED, "it fell"))
    opened, _ = session_of(tmp_path, [SPEC])
    assert opened.run(plan(SPEC)) == [disturbed_before()]
    assert list(load.read(tmp_path).results) == [disturbed_before()]


@pytest.mark.usefixtures("quiet")
def test_a_second_attempt_that_is_interrupted_leaves_the_first_in_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = runs(monkeypatch, (Status.CONTENDED, "others took 40 %"))

    def gather(*_: object) -> dict[str, Any]:
        if ran:
            raise KeyboardInterrupt
        return {}

    monkeypatch.setattr(Gate, "gather", gather)
    opened, _ = session_of(tmp_path, [SPEC])
    with pytest.raises(KeyboardInterrupt):
        opened.run(plan(SPEC))
    assert [each.status for each in load.read(tmp_path).results] == [Status.CONTENDED]


@pytest.mark.usefixtures("quiet")
def test_a_second_process_of_blocks_that_fails_does_not_take_the_place_of_a_disturbed_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs(monkeypatch, (Status.CONTENDED, "others took 40 %"), (Status.FAILED, "it fell"))
    opened, _ = session_of(tmp_path, [SPEC], BlockSession)
    display = Display(Console(file=StringIO()), {SPEC.id: 1.0}, {})
    opened.run_each([SPEC], display, TooLarge(()))
    assert opened.known[SPEC.id].reason == "others took 40 %"
    folder = Job(Kind.BLOCKS, SPEC).folder(tmp_path)
    kept = sorted(folder.parent.glob(f"*/{RESULT_FILE}"))
    reasons = [json.loads(path.read_text())["reason"] for path in kept]
    assert reasons == ["others took 40 %", "it fell"]


class LosingEngine:
    """A node that carries the trial once, and then is lost with it every time."""

    def __init__(self, parcel: Parcel) -> None:
        self.parcel, self.blocks = parcel, deque[TrialBlock]()
        self.arriving: deque[Parcel | Over] = deque([parcel, Over(), *[Over("the node is gone")] * 3])

    def slots(self) -> int:
        return 1

    def hosts(self) -> dict[str, str]:
        return {}

    def submit(self, block: TrialBlock) -> None:
        self.blocks.append(block)

    def arrival(self) -> tuple[TrialBlock, Parcel | Over]:
        arrived = self.arriving.popleft()
        return (self.blocks[0] if isinstance(arrived, Parcel) else self.blocks.popleft()), arrived

    def close(self) -> None:
        pass


@pytest.mark.usefixtures("quiet")
def test_a_disturbed_trial_of_a_sweep_that_is_then_lost_with_its_node_stays_what_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "node" / SPEC.id
    folder.mkdir(parents=True)
    (folder / "samples.csv").write_text("of 1")
    result = TrialResult(SPEC, Status.CONTENDED, "others took 40 %", "2026-01-01T00:00:00+00:00", 1.0)
    sent = Parcel.pack(result.to_json(), {}, folder, tmp_path / "node" / SPEC.probe_id)
    results = tmp_path / "results"
    results.mkdir()
    opened, printed = session_of(results, [SPEC])
    engine: Any = LosingEngine(sent)
    (told,) = Sweep(opened, plan(SPEC), engine).run()
    assert told.status is Status.CONTENDED and not engine.arriving
    assert "its node returned no result 3 times: the node is gone" in printed.getvalue()
    assert (results / "trials" / SPEC.id / "samples.csv").read_text() == "of 1"
    assert [each.status for each in load.read(results).results] == [Status.CONTENDED]


def disturbed_before() -> TrialResult:
    return TrialResult(SPEC, Status.CONTENDED, "others took 40 %", "2026-01-01T00:00:00+00:00", 1.0)


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("gone", [True, False])
def test_an_attempt_of_the_next_run_that_measures_nothing_does_not_take_the_place_of_a_disturbed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: bool
) -> None:
    stored(tmp_path, disturbed_before())
    ran = runs(monkeypatch, (Status.FAILED, "it fell"))
    opened, printed = session_of(tmp_path, [SPEC])
    if gone:
        opened.launchers = {"numpy": Unavailable("it fell")}
    assert opened.run(plan(SPEC)) == [opened.known[SPEC.id]] == [disturbed_before()]
    assert list(load.read(tmp_path).results) == [disturbed_before()] and len(ran) == (0 if gone else 1)
    (aside,) = (tmp_path / "attempts").iterdir()
    assert json.loads((aside / RESULT_FILE).read_text())["reason"] == "it fell"
    assert f"its earlier contended result stays; this attempt is kept in {aside}" in printed.getvalue()


def measure_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launcher: Any) -> list[TrialResult]:
    """Run the blocks of one process, which is SPEC."""
    monkeypatch.setattr(blocks, "make_environments", lambda *_: {"numpy": launcher})
    monkeypatch.setattr(blocks, "collect_installations", lambda _: {"numpy": SPEC.installation})
    monkeypatch.setattr(blocks, "plan_processes", lambda *_: [SPEC])
    monkeypatch.setattr(blocks, "estimate_processes_s", lambda *_: {SPEC.id: 1.0})
    for name in ("write_data", "write_repeats"):
        monkeypatch.setattr(inputs, name, lambda *_: {0: {}})
    request = session_of(tmp_path, [SPEC], BlockSession)[0].request
    return blocks.measure(request, Console(file=StringIO()))


@pytest.mark.usefixtures("quiet")
def test_a_process_of_blocks_that_is_never_started_is_no_attempt_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        (result,) = measure_blocks(tmp_path, monkeypatch, Unavailable("it needs a GPU", Status.UNSUPPORTED))
        assert result.status is Status.UNSUPPORTED
    assert [path.name for path in (tmp_path / "blocks").iterdir()] == [SPEC.id]


@pytest.mark.usefixtures("quiet")
def test_a_process_of_blocks_whose_probe_was_killed_is_judged_and_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Job(Kind.BLOCKS, SPEC).folder(tmp_path)
    folder.mkdir(parents=True)
    unproven = replace(
        disturbed_before(), status=Status.UNVERIFIED, checks=[Check(CheckName.GATE, False, "its probe was killed")]
    )
    write_json(folder / RESULT_FILE, unproven.to_json())
    monkeypatch.setattr(Gate, "gather", lambda *_: {"losses": [1.0]})

    def judge(_: Gate, trials: Iterable[TrialResult]) -> list[TrialResult]:
        return [replace(each, status=Status.OK, reason=None) if each.evidence else each for each in trials]

    monkeypatch.setattr(Gate, "judge", judge)
    assert [each.status for each in measure_blocks(tmp_path, monkeypatch, LAUNCHER)] == [Status.OK]


@pytest.mark.usefixtures("quiet")
def test_a_process_of_blocks_of_the_next_run_that_fails_does_not_take_the_place_of_a_disturbed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Job(Kind.BLOCKS, SPEC).folder(tmp_path)
    folder.mkdir(parents=True)
    write_json(folder / RESULT_FILE, disturbed_before().to_json())
    runs(monkeypatch, (Status.FAILED, "it fell"))
    assert measure_blocks(tmp_path, monkeypatch, LAUNCHER) == [disturbed_before()]
    kept = sorted(folder.parent.glob(f"*/{RESULT_FILE}"))
    assert [json.loads(path.read_text())["reason"] for path in kept] == ["others took 40 %", "it fell"]


@pytest.mark.usefixtures("quiet")
def test_a_trial_of_the_next_sweep_that_fails_on_its_node_does_not_take_the_place_of_a_disturbed_one(
    tmp_path: Path,
) -> None:
    stored(tmp_path, disturbed_before())
    folder = tmp_path / "node" / SPEC.id
    folder.mkdir(parents=True)
    failed = TrialResult(SPEC, Status.FAILED, "it fell", "2026-01-02T00:00:00+00:00", 1.0)
    engine: Any = LosingEngine(Parcel.pack(failed.to_json(), {}, folder, tmp_path / "node" / SPEC.probe_id))
    assert Sweep(session_of(tmp_path, [SPEC])[0], plan(SPEC), engine).run() == [disturbed_before()]
    assert [each.status for each in load.read(tmp_path).results] == [Status.CONTENDED]
    (aside,) = (tmp_path / "attempts").iterdir()
    assert json.loads((aside / RESULT_FILE).read_text())["reason"] == "it fell"


def test_trials_that_are_tried_once_more_are_counted_as_still_to_be_run() -> None:
    display = Display(Console(file=StringIO()), {SPEC.id: 60.0, "other": 60.0}, {})
    display.finish(result_of(Status.CONTENDED, "why", epochs=1, inputs=SPEC.inputs), took_s=60.0)
    (task,) = display.tasks
    assert (task.completed, task.total, task.fields["left"]) == (1, 2, "about 1 min 00 s left")
    display.once_more([SPEC])
    assert (task.completed, task.total, task.fields["left"]) == (1, 3, "about 2 min 00 s left")
    display.finish(result_of(epochs=1, inputs=SPEC.inputs), 2, 60.0)
    assert (task.completed, task.total, task.fields["left"]) == (2, 3, "about 1 min 00 s left")


# Accounts of memory, asked after the trials

OF_MEMORY_COUNTS = {CheckName.PARAMETERS, CheckName.SLOTS, CheckName.ACTIVATIONS}
TOLD = {"event": Event.MEMORY_TOLD, "t_ns": 1, "batch_size": 32, "parts": dict.fromkeys(PEAK_PARTS, 8), "step_peak": 64}
TOLD |= {"peak": 70, "steps": 6}


@pytest.fixture
def asked_for_memory(monkeypatch: pytest.MonkeyPatch) -> list[TrialSpec]:
    """The trials whose memory was asked for."""
    asked: list[TrialSpec] = []

    def gather(worker: MemoryWorker, spec: TrialSpec, launcher: Local) -> dict[str, Any]:
        asked.append(spec)
        return TOLD

    monkeypatch.setattr(MemoryWorker, "gather", gather)
    return asked


@pytest.mark.usefixtures("quiet")
def test_a_run_that_ended_before_it_asked_what_memory_holds_is_made_whole_by_the_next(
    measured: Path, tmp_path: Path, asked_for_memory: list[TrialSpec]
) -> None:
    before = TrialResult.from_json(json.loads((measured / RESULT_FILE).read_text()))
    killed_before(measured, "memory")
    opened, printed = session_of(tmp_path, [SPEC])
    finished = plan(SPEC).with_stored(opened.known.values())
    (result,) = opened.run(finished)
    assert asked_for_memory == [SPEC] and "numpy: measuring what its memory holds" in printed.getvalue()
    assert (result.figures["steps_peak_bytes"].value, result.figures["workspace_bytes"].value) == (70, 8)
    assert result == TrialResult.from_json(json.loads((measured / RESULT_FILE).read_text()))
    changed_figures = {name for name, figure in result.figures.items() if figure != before.figures[name]}
    of_products = {PRODUCT.name, PRODUCT_BY_CPU_TIME.name, PRODUCT_SHARE.name}
    assert changed_figures - of_products < {name for name in result.figures if FIGURES[name].unit == "MiB"}
    others = [[check for check in each.checks if check.name not in OF_MEMORY_COUNTS] for each in (result, before)]
    assert others[0] == others[1]
    assert replace(result, figures=before.figures, checks=before.checks) == before
    opened.run(finished)
    assert asked_for_memory == [SPEC], "asked again of what is known"


@pytest.mark.usefixtures("quiet")
def test_what_was_told_of_memory_before_the_run_was_ended_is_kept_and_the_rest_is_asked_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C comes while the second of two is asked."""
    specs, asked = sizes(32, 16), []

    def gather(worker: MemoryWorker, spec: TrialSpec, launcher: Local) -> dict[str, Any]:
        asked.append(spec)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return TOLD

    monkeypatch.setattr(MemoryWorker, "gather", gather)
    monkeypatch.setattr(trial, "ask", written_trial)
    opened, _ = session_of(tmp_path, specs)
    with pytest.raises(KeyboardInterrupt):
        opened.run(plan(*specs))
    opened, _ = session_of(tmp_path, specs)
    assert [trial.figures["steps_peak_bytes"].value for trial in opened.known.values()].count(70) == 1
    results = opened.run(plan(*specs).with_stored(opened.known.values()))
    assert asked == [*specs, specs[1]]
    assert [result.figures["steps_peak_bytes"].value for result in results] == [70, 70]


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("content", ['{"event": "started"', "{}\n", None])
def test_a_trial_whose_files_tell_less_than_before_keeps_its_result_and_the_others_are_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None
) -> None:
    specs = sizes(32, 16)
    monkeypatch.setattr(trial, "ask", written_trial)
    opened, printed = session_of(tmp_path, specs)

    def gather(worker: MemoryWorker, spec: TrialSpec, launcher: Local) -> dict[str, Any]:
        path = tmp_path / "trials" / specs[0].id / EVENTS_FILE
        path.unlink(missing_ok=True) if content is None else path.write_text(content)
        return TOLD

    monkeypatch.setattr(MemoryWorker, "gather", gather)
    first, second = opened.run(plan(*specs))
    assert first.status is Status.OK and first.figures["images_per_s"].value == second.figures["images_per_s"].value
    assert [result.figures["steps_peak_bytes"].value for result in (first, second)] == [None, 70]
    kept = TrialResult.from_json(json.loads((tmp_path / "trials" / specs[0].id / RESULT_FILE).read_text()))
    assert kept.figures == first.figures
    assert f"{specs[0].id}: its memory contents were not added: " in " ".join(printed.getvalue().split())


@pytest.mark.usefixtures("quiet")
def test_what_nobody_could_tell_of_the_memory_is_not_asked_for_again(
    measured: Path, tmp_path: Path, asked_for_memory: list[TrialSpec]
) -> None:
    opened, _ = session_of(tmp_path, [SPEC])
    opened.run(plan(SPEC).with_stored(opened.known.values()))
    assert asked_for_memory == []


@pytest.mark.usefixtures("quiet")
def test_a_trial_of_another_computer_is_not_given_what_memory_holds_on_this_one(
    measured: Path, tmp_path: Path, asked_for_memory: list[TrialSpec]
) -> None:
    killed_before(measured, "memory")
    changed(measured, machine={"cpu_model": "of another computer"})
    opened, _ = session_of(tmp_path, [SPEC])
    opened.run(plan(SPEC).with_stored(opened.known.values()))
    assert asked_for_memory == []


@pytest.mark.usefixtures("quiet")
def test_the_live_line_names_what_of_a_trial_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr(trial, "ask", written_trial)
    monkeypatch.setattr(Display, "update", lambda display, task, **told: shown.append(told.get("description", "")))
    opened, _ = session_of(tmp_path, [SPEC])
    opened.run(plan(SPEC))
    name = "numpy batch 32 repeat 0"
    assert [each for each in shown if each] == [name, *(f"{name}: {what}" for what in ("probe", "trial", "gate"))]


@pytest.mark.usefixtures("quiet")
def test_memory_is_asked_for_behind_the_last_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked_for_memory: list[TrialSpec]
) -> None:
    specs, order = sizes(32, 16), []

    def ask(job: Job, folder: Path, launcher: Local) -> Ended:
        order.append((job.trial.cell.batch_size, len(asked_for_memory)))
        return written_trial(job, folder, launcher)

    monkeypatch.setattr(trial, "ask", ask)
    opened, _ = session_of(tmp_path, specs)
    results = opened.run(plan(*specs))
    assert order == [(32, 0), (16, 0)] and asked_for_memory == specs
    assert [result.figures["steps_peak_bytes"].value for result in results] == [70, 70]


# Out of memory


def sizes(*batch_sizes: int, **changes: Any) -> list[TrialSpec]:
    return [make_spec(batch_size=size, **{"inputs": SPEC.inputs} | changes) for size in batch_sizes]


@pytest.mark.usefixtures("quiet")
def test_sizes_larger_than_one_that_ran_out_of_memory_are_skipped_with_that_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = runs(monkeypatch, (Status.OUT_OF_MEMORY, "asked 9, available 4"), (Status.OK, None))
    specs = sizes(64, 128, 32)
    opened, _ = session_of(tmp_path, specs)
    results = {result.spec.cell.batch_size: result for result in opened.run(plan(*specs))}
    assert [spec.cell.batch_size for spec in ran] == [64, 32]
    assert results[128].status is Status.SKIPPED and results[128].figures == {}
    assert results[128].reason == "batch size 64 ran out of memory (asked 9, available 4); add --try-all to run it"


@pytest.mark.usefixtures("quiet")
def test_a_later_run_says_so_once_and_with_try_all_runs_what_was_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(tmp_path, result_of(Status.OUT_OF_MEMORY, "no room", batch_size=64, inputs=SPEC.inputs))
    (spec,) = sizes(128)
    both = plan(*sizes(64), spec)
    for _ in range(2):
        opened, _ = session_of(tmp_path, [spec])
        opened.run(both.with_stored(opened.known.values()))
    assert not (tmp_path / "attempts").exists(), "what was not run has been put aside as an attempt"
    ran = runs(monkeypatch, (Status.OK, None))
    opened, printed = session_of(tmp_path, [spec], try_all=True)
    opened.run(both.with_stored(opened.known.values()))
    assert ran == [spec] and "attempt 2" not in printed.getvalue()


@pytest.mark.parametrize(
    ("change", "skipped"),
    [
        ({}, True),
        ({"repeat": 1, "seed": 1}, True),
        ({"batch_size": 64}, False),
        ({"batch_size": 32}, False),
        ({"framework": "other"}, False),
        ({"memory_limit_bytes": 2**30}, False),
        ({"allocator": "default"}, False),
        ({"workload": "lenet-5"}, False),
        ({"environment": "another"}, False),
    ],
)
def test_what_ran_out_of_memory_tells_of_larger_sizes_of_the_same_alone(change: dict[str, Any], skipped: bool) -> None:
    learnt = TooLarge([result_of(Status.OUT_OF_MEMORY, "no room", batch_size=64)])
    assert (learnt.reason(make_spec(**{"batch_size": 128, **change})) is not None) == skipped


def test_a_size_is_tried_where_one_as_large_was_trained() -> None:
    learnt = TooLarge([result_of(Status.OUT_OF_MEMORY, "no room", batch_size=64), result_of(batch_size=256)])
    assert learnt.reason(make_spec(batch_size=256, repeat=1)) is None
    assert learnt.reason(make_spec(batch_size=512)) is not None


def test_a_trial_of_steps_that_came_to_its_end_is_not_measured_again_for_want_of_a_result(
    measured: Path, tmp_path: Path
) -> None:
    steps = tmp_path / "steps" / f"{SPEC.id}-3"
    shutil.copytree(measured, steps)
    before = (steps / RESULT_FILE).read_bytes()
    (steps / RESULT_FILE).unlink()
    (steps.with_name(f"{SPEC.id}-4")).mkdir()
    request: Any = SimpleNamespace(results=tmp_path)
    searched = StepTrials(request, {}, {}, {}, {}, Storage(tmp_path))
    ((_, folder),) = searched.stored(SPEC)
    assert folder == steps and (steps / RESULT_FILE).read_bytes() == before
    assert searched.next_folder(SPEC).name == f"{SPEC.id}-5"
