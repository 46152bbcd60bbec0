"""Files that a framework's process, or anybody, may write into a trial's folder: the trial has failed, and says
where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import PROJECT, make_spec

from runner import ask as asking
from runner.launch import Launcher, Local, WorkerOutcome
from runner.machine import description
from runner.results.assemble import read_first_losses
from runner.trial import MemoryWorker, run_trial
from workloads.records.columns import COLUMNS
from workloads.records.events import Event
from workloads.records.files import EVENTS_FILE, LOG_FILE, METER_FILE, SAMPLES_FILE, without_nan
from workloads.records.job import Job, Kind
from workloads.records.status import Status
from workloads.records.stored import parse_result
from workloads.records.stored_events import read_events

SPEC = make_spec()
LAUNCHER = Local("python", {}, PROJECT)
ENDED = json.dumps({"event": Event.STARTED, "t_ns": 1}) + "\n" + json.dumps({"event": Event.FINISHED, "t_ns": 2}) + "\n"
FILES = {EVENTS_FILE: ENDED, SAMPLES_FILE: ",".join(COLUMNS) + "\n", METER_FILE: '{"clocks": []}', LOG_FILE: ""}
REFUSED = "OpenBLAS error: Memory allocation still failed after 10 retries\n"


def ran(folder: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str]) -> Any:
    """Run a trial whose processes leave these files; return its result."""

    def run_worker(folder: Path, job: Job, launcher: Launcher) -> WorkerOutcome:
        for name, text in files.items():
            (folder / name).write_text(text)
        return WorkerOutcome(0, False, 1.0)

    monkeypatch.setattr(asking, "run_worker", run_worker)
    return run_trial(folder, SPEC, LAUNCHER, {}, {"reason": "not asked"})


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        (EVENTS_FILE, ENDED + "[]\n", "events.jsonl: line 3: no event"),
        (EVENTS_FILE, ENDED + '{"event": "opened", "t_ns": 3, "facts": 1}\n', "events.jsonl: line 3: "),
        (SAMPLES_FILE, ",".join(COLUMNS) + "\n" + "1," * (len(COLUMNS) - 1) + "x\n", "samples.csv: line 2: "),
        (SAMPLES_FILE, "t_ns\n", "samples.csv: line 1: no column"),
        (METER_FILE, '{"clocks": [1]}', "meter.json: "),
    ],
)
def test_a_trial_of_files_that_are_none_has_failed_with_file_and_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, reason: str
) -> None:
    assert ran(tmp_path / "trials" / "a", monkeypatch, FILES).status is not Status.FAILED
    result = ran(tmp_path / "trials" / "b", monkeypatch, FILES | {name: text})
    assert result.status is Status.FAILED and reason in result.reason and "\n" not in result.reason
    assert (tmp_path / "trials" / "b" / name).read_text() == text
    assert parse_result(json.dumps(without_nan(result.to_json())).encode()).reason == result.reason


@pytest.mark.parametrize(
    ("outcome", "kills", "log", "limit", "ran_out"),
    [
        (WorkerOutcome(-9, False, 1.0), 1, "", None, True),
        (WorkerOutcome(-9, False, 1.0), 0, "", None, False),
        (WorkerOutcome(-11, False, 1.0), 1, "", None, False),
        (WorkerOutcome(1, False, 1.0), 0, REFUSED, 2**28, True),
        (WorkerOutcome(1, False, 1.0), 0, REFUSED, None, False),  # only its own word
    ],
)
def test_that_memory_ended_a_worker_is_the_kernels_word_or_under_a_limit_its_logs(
    outcome: WorkerOutcome, kills: int, log: str, limit: int | None, ran_out: bool, tmp_path: Path
) -> None:
    def run_worker(folder: Path, job: Job, launcher: Launcher) -> WorkerOutcome:
        for name, text in (FILES | {LOG_FILE: log}).items():
            (folder / name).write_text(text)
        return outcome

    counts = iter((3, 3 + kills))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(asking, "run_worker", run_worker)
        patched.setattr(description, "count_memory_kills", lambda: next(counts))
        ended = asking.ask(Job(Kind.TRIAL, make_spec(memory_limit_bytes=limit)), tmp_path / "a", LAUNCHER)
    assert ended.status is Status.OK and ended.outcome is not None and ended.outcome.out_of_memory is ran_out


def test_events_of_a_memory_worker_that_are_none_are_the_reason_why_nothing_is_known(tmp_path: Path) -> None:
    folder = Job(Kind.MEMORY, SPEC).folder(tmp_path)
    folder.mkdir(parents=True)
    (folder / EVENTS_FILE).write_text("no event\n")
    account = MemoryWorker(tmp_path, [SPEC]).gather(SPEC, LAUNCHER)
    assert "events.jsonl: line 1: " in account["reason"] and folder.name in account["reason"]


@pytest.mark.parametrize("stranger", [{"first_losses": None}, {"first_losses": ["2.3"]}, {"copied_s": None}])
def test_an_event_of_a_kind_that_nobody_knows_gives_no_figure_whatever_it_says(
    tmp_path: Path, stranger: dict[str, object]
) -> None:
    lines: list[dict[str, object]] = [
        {"event": "started", "t_ns": 0},
        {"event": "epoch_trained", "t_ns": 1, "steps": 1, "images": 1, "train_loss": 1.0, "first_losses": [2.3]},
        {"event": "of a later version", "t_ns": 2, **stranger},
    ]
    (tmp_path / EVENTS_FILE).write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert read_first_losses(read_events(tmp_path / EVENTS_FILE)) == [[2.3]]
