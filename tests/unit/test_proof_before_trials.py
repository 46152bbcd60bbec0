"""Every way to start trials stops before the first one where an imported network is not its source's."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import PROJECT
from planted_imports import SOURCE
from probed import moved
from rich.console import Console
from test_attempts import LAUNCHER, plan, session_of
from test_source_proof import spec as spec  # a fixture
from test_source_proof import usual_answer

from runner import __main__ as runner_program
from runner import session, show
from runner.batch_size import command
from runner.batch_size.steps import StepTrials
from runner.blocks import BlockSession
from runner.cluster.sweep import Sweep
from runner.doctor import command as doctor
from runner.gate.rounding import disturb_weights
from runner.gate.source_proof import ask_as
from runner.launch import Unavailable
from runner.progress import Display
from runner.request import inputs, own_data
from runner.request.block import Shard
from runner.session import Session
from runner.storage import CannotGoOn
from runner.trial import TooLarge
from workloads.records.events import Event
from workloads.records.evidence import Evidence
from workloads.records.files import EVENTS_FILE, JOB_FILE, without_nan, write_json
from workloads.records.job import Job, Kind, TrialSpec

NOT_YOURS = (
    "nothing was measured: the imported network imported is not your model in pytorch: first layer that differs: head, "
)


def store_answer(results: Path, spec: TrialSpec, evidence: Evidence, **more: Any) -> None:
    """Store a worker's answer to the probe of this trial, which is then not asked again."""
    job = Job(Kind.PROBE, spec)
    folder = job.folder(results)
    folder.mkdir(parents=True)
    write_json(folder / JOB_FILE, job.to_json())
    events = [{"event": Event.PROBED, "evidence": without_nan(evidence.to_json()), **more}, {"event": Event.FINISHED}]
    lines = [json.dumps({"t_ns": number} | event) + "\n" for number, event in enumerate(events)]
    (folder / EVENTS_FILE).write_text("".join(lines))


@pytest.fixture
def wrong(spec: TrialSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TrialSpec:
    """A trial of a wrong import, whose source and framework have answered. No trial may be started."""
    apart = moved(usual_answer().evidence, "outputs", "head", 2e-3)
    source = ask_as(spec, "pytorch", spec.installation, SOURCE.code)
    store_answer(tmp_path, source, usual_answer().evidence, source=usual_answer().facts.to_json())
    store_answer(tmp_path, spec, apart)
    store_answer(tmp_path, disturb_weights(spec, tmp_path, 0), apart)  # rounding moves nothing

    def start(*_: object) -> None:
        raise AssertionError("a trial was started")

    monkeypatch.setattr(session, "run_trial", start)
    monkeypatch.setattr(StepTrials, "run", start)
    return spec


def in_a_session(results: Path, spec: TrialSpec) -> None:
    session_of(results, [spec])[0].run(plan(spec))


def in_a_shard(results: Path, spec: TrialSpec) -> None:
    session_of(results, [spec], shard=Shard(1, 2))[0].run(plan(spec))


def in_blocks(results: Path, spec: TrialSpec) -> None:
    display = Display(Console(file=StringIO()), {}, {})
    session_of(results, [spec], BlockSession)[0].run_each([spec], display, TooLarge(()))


def on_a_cluster(results: Path, spec: TrialSpec) -> None:
    sweep(session_of(results, [spec])[0], spec)


def sweep(opened: Session, spec: TrialSpec) -> None:
    """Run the trial on a cluster that has a slot and takes no block."""
    engine: Any = SimpleNamespace(slots=lambda: 1)
    Sweep(opened, plan(spec), engine).run()


@pytest.mark.parametrize("way", [in_a_session, in_a_shard, in_blocks, on_a_cluster])
def test_a_wrong_import_stops_before_the_first_trial(
    way: Callable[[Path, TrialSpec], None], wrong: TrialSpec, tmp_path: Path
) -> None:
    with pytest.raises(CannotGoOn, match=NOT_YOURS):
        way(tmp_path, wrong)


def test_a_wrong_import_stops_a_search_before_its_first_size(
    wrong: TrialSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its steps have a limit of memory, which the proof has not."""
    limited = replace(wrong, placement=replace(wrong.placement, memory_limit_bytes=2**30))
    request: Any = SimpleNamespace(
        project=PROJECT,
        results=tmp_path,
        study=SimpleNamespace(changed=lambda **_: SimpleNamespace(last_batch="keep", accumulate=1, devices=1)),
    )
    request.frameworks, request.dataset = ("pytorch",), SimpleNamespace(train_count=64)
    steps = StepTrials(request, {"pytorch": limited}, {}, {}, {}, None)  # type: ignore[arg-type]
    monkeypatch.setattr(command, "replace", lambda request, **_: request)
    monkeypatch.setattr(command, "make_environments", lambda *_: {"pytorch": LAUNCHER})
    monkeypatch.setattr(own_data, "prepare_images", lambda request, _: request)
    monkeypatch.setattr(StepTrials, "prepare", lambda *_: steps)
    for name in ("find_bound", "forecast_answers", "print_forecast", "collect_installations", "AnswersFile"):
        monkeypatch.setattr(command, name, lambda *_: SimpleNamespace(limit=None, limit_bytes=None))
    for name in ("write_data", "write_repeats", "compute_rates"):
        monkeypatch.setattr(inputs, name, lambda *_: None)
    monkeypatch.setattr(command, "bound_request", lambda *_: request)
    question: Any = SimpleNamespace(window_s=1.0, in_use=64, sizes=())
    with pytest.raises(CannotGoOn, match=NOT_YOURS):
        command.run(request, question, lambda *_: [], Console(file=StringIO()))


def test_a_source_is_asked_also_where_its_own_framework_trains_none_of_the_cells(
    wrong: TrialSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search may train the sizes of one framework alone, and a shard may have the block of one."""
    other = replace(wrong, cell=replace(wrong.cell, framework="tensorflow"))
    for asked in (other, disturb_weights(other, tmp_path, 0)):
        store_answer(tmp_path, asked, moved(usual_answer().evidence, "outputs", "head", 2e-3))
    named = ("pytorch", "tensorflow")
    request: Any = SimpleNamespace(
        project=PROJECT, results=tmp_path, placement=wrong.placement, gpus=(), retry=frozenset(), try_all=False,
        shard=None, study=SimpleNamespace(repeats=1), until_stable=None,
    )  # fmt: skip
    monkeypatch.setattr(runner_program, "make_environments", lambda *_: dict.fromkeys(named, LAUNCHER))
    monkeypatch.setattr(runner_program, "collect_installations", lambda _: dict.fromkeys(named, wrong.installation))
    monkeypatch.setattr(runner_program, "build_series_plan", lambda *_: plan(wrong, other))
    for name in ("write_all_data", "write_all_repeats"):
        monkeypatch.setattr(inputs, name, lambda *_: {})
    monkeypatch.setattr(doctor, "check_quiet", lambda *_: {})
    monkeypatch.setattr(show, "print_left_out", lambda *_: None)
    with pytest.raises(CannotGoOn, match="the imported network imported is not your model in tensorflow: "):
        runner_program.train(request, Console(file=StringIO()), cells={("tensorflow", other.cell.batch_size)})


def test_a_cluster_of_cards_stops_where_this_machine_can_ask_no_framework(wrong: TrialSpec, tmp_path: Path) -> None:
    opened, _ = session_of(tmp_path, [wrong])
    opened.gate.launchers = {}
    opened.launchers = {"pytorch": Unavailable("its trials run on other machines")}
    with pytest.raises(CannotGoOn, match="this machine can start none of the frameworks; give --device cpu, or"):
        sweep(opened, wrong)
