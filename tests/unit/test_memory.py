"""Accounts of what fills the memory: the worker that reports them around the referee, and the runner that asks once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import PROJECT, make_spec, varied

from adapters.base import MemoryUse
from adapters.worker.memory_steps import divided
from runner import ask as asking
from runner.launch import Launcher, LaunchFailed, Local, WorkerOutcome
from runner.machine import description
from runner.results.memory import collect_memory
from runner.results.memory import collect_parts as memory_figures
from runner.trial import MemoryWorker
from workloads.catalogue import OSU_CNN
from workloads.records.events import Event
from workloads.records.figures import MEMORY_PARTS, Method
from workloads.records.files import COMPUTER_FILE, EVENTS_FILE, LOG_FILE
from workloads.records.job import Job, Kind, TrialSpec
from workloads.records.samples import read_samples

COUNTED = {"parameters": 100, "statistics": 0, "optimizer": 200, "dataset": 50}


def test_parts_of_memory_are_told_apart_where_that_can_be_done() -> None:
    # no part takes what belongs to another
    use = MemoryUse(before=350, inputs=10, held=900, gradients=100, step_peak=1300, peak=1320, pool_indices=0)
    parts = divided(use, COUNTED)
    assert parts["activations"] == 540 and parts["inputs"] == 10 and parts["gradients"] == 100
    assert parts["workspace"] == 1300 - (100 + 200 + 50 + 100 + 10 + 540)
    assert sum(part or 0 for part in parts.values()) == use.step_peak
    # gradients that come when activations have gone make no negative workspace
    use = MemoryUse(before=350, inputs=10, held=370, gradients=100, step_peak=400, peak=400, pool_indices=0)
    parts = divided(use, COUNTED)
    assert parts["workspace"] is None
    figures = memory_figures({"parts": parts, "step_peak": 400, "peak": 400, "steps": 3}, {})
    workspace = figures["workspace_bytes"]
    assert workspace.value is None and "0.00 MiB more than its peak" in (workspace.reason or "")
    assert figures["steps_peak_bytes"].value == 400 and figures["gradients_bytes"].value == 100
    # what an allocator counts in chunks carries that as data
    figures = memory_figures(told_of(0, in_chunks=True), {})
    in_chunks = {name for name, figure in figures.items() if figure.method is Method.CHUNKS}
    assert in_chunks == {"activations_bytes", "workspace_bytes", "steps_peak_bytes", "waited_step_peak_bytes"}
    assert not any(figure.method for figure in memory_figures(told_of(0), {}).values())
    # what the compiler plans as a whole is not told apart and says so
    use = MemoryUse(1000, 50, 0, 100, 1300, 1400, "it is not known", runs_ahead=True, planned=True)
    parts = divided(use, {"parameters": 100, "optimizer": 200, "statistics": 0, "dataset": 0})
    assert parts["gradients"] == 100 and parts["activations"] is parts["workspace"] is None
    figures = memory_figures(told_of(20 * MIB, parts=parts, planned=True), {})
    for name in ("activations_bytes", "workspace_bytes", "queued_steps_bytes"):
        assert figures[name].value is None and "plans the memory of a whole step" in (figures[name].reason or "")
    assert figures["steps_peak_bytes"].value == 120 * MIB and figures["inputs_bytes"].value == 50
    # what pools keep is told or has its reason
    assert memory_figures(told_of(0), {})["pool_indices_bytes"].value == 3 * MIB
    silent = memory_figures(told_of(0, pool_indices="it is not known"), {})["pool_indices_bytes"]
    assert silent.value is None and silent.reason == "it is not known"
    earlier = {name: value for name, value in told_of(0).items() if name != "pool_indices"}
    assert memory_figures(earlier, {})["pool_indices_bytes"].reason == "this memory worker did not report it"


def test_what_the_trial_counted_itself_is_kept_where_the_memory_worker_died() -> None:
    figures = memory_figures(
        {"reason": "it died"}, {"parameters": 100, "optimizer": 200, "gradients": "inside the step"}
    )
    assert (figures["parameters_bytes"].value, figures["optimizer_bytes"].value) == (100, 200)
    for name in ("gradients_bytes", "activations_bytes", "steps_peak_bytes", "queued_steps_bytes"):
        assert figures[name].value is None and figures[name].reason == "it died"


MIB = 2**20


def told_of(more_bytes: int, **changes: Any) -> dict[str, Any]:
    """Account of steps with 20 MiB of activations and inputs, whose peak, called together, is `more_bytes` higher."""
    parts = dict.fromkeys(MEMORY_PARTS, 0) | {"activations": 18 * MIB, "inputs": 2 * MIB}
    peaks = {"step_peak": 100 * MIB, "peak": 100 * MIB + more_bytes, "steps": 6, "pool_indices": 3 * MIB}
    return {"parts": parts, **peaks, "in_chunks": False, "runs_ahead": True} | changes


@pytest.mark.parametrize(("more_mib", "steps"), [(20, 1), (20.9, 1), (19.1, 1), (40.5, 2), (80, 4)])
def test_a_peak_that_is_higher_by_whole_steps_is_said_to_hold_queued_ones(more_mib: float, steps: int) -> None:
    figure = memory_figures(told_of(round(more_mib * MIB)), {})["queued_steps_bytes"]
    assert figure.value == steps * 20 * MIB


@pytest.mark.parametrize("more_mib", [0, 0.5, 10, 18.9, 21.1, 28, 50])
def test_a_peak_that_is_not_higher_by_whole_steps_is_not_explained(more_mib: float) -> None:
    figure = memory_figures(told_of(round(more_mib * MIB)), {})["queued_steps_bytes"]
    assert figure.value is None and f"{more_mib / 20:.2f} times a step's" in (figure.reason or "")


def test_peaks_without_the_parts_that_belong_to_them_are_not_taken() -> None:
    """A file from a stranger may have them."""
    figures = memory_figures({"peak": 70, "step_peak": 64, "steps": 6, "runs_ahead": True}, {})
    assert all(figure.value is None for figure in figures.values())


def test_a_framework_that_does_not_run_ahead_has_no_queued_steps_whatever_its_peaks() -> None:
    figure = memory_figures(told_of(20 * MIB, runs_ahead=False), {})["queued_steps_bytes"]
    assert figure.value is None and "while an earlier one runs" in (figure.reason or "")


def test_the_exact_count_of_activations_needs_no_memory_worker() -> None:
    figures = collect_memory(
        {}, read_samples(Path("nowhere")), make_spec(batch_size=128), OSU_CNN, {"reason": "it died"}
    )
    assert figures["activations_bytes"].value is None
    assert figures["activations_exact_bytes"].value == 128 * 4 * 53_290
    of_referee = collect_memory(
        {}, read_samples(Path("nowhere")), make_spec(batch_size=1, precision="float64"), OSU_CNN, {}
    )
    assert of_referee["activations_exact_bytes"].value == 8 * 53_290
    other = collect_memory({}, read_samples(Path("nowhere")), make_spec(workload="nobody's"), None, {})[
        "activations_exact_bytes"
    ]
    assert other.value is None and "nobody's" in (other.reason or "")


WAY = Local("python", {}, PROJECT)


class Asked:
    """Replaces run_worker: notes what is asked, and writes what a worker would, up to a size at which it dies."""

    def __init__(self, dies_at: int | None = None) -> None:
        self.calls: list[tuple[int, ...]] = []
        self.dies_at = dies_at

    def __call__(self, folder: Path, job: Job, launcher: Launcher) -> WorkerOutcome:
        assert job.kind is Kind.MEMORY
        self.calls.append(job.batch_sizes)
        (folder / LOG_FILE).write_text("")
        with (folder / EVENTS_FILE).open("a") as file:
            file.write(json.dumps({"event": Event.STARTED, "t_ns": 0}) + "\n")
            for size in job.batch_sizes:
                if size == self.dies_at:
                    ended = {"event": Event.ENDED, "t_ns": 1, "status": "out_of_memory", "reason": "no room"}
                    file.write(json.dumps(ended) + "\n")
                    return WorkerOutcome(0, False, 1.0)
                told = {
                    "event": Event.MEMORY_TOLD,
                    "t_ns": 1,
                    "batch_size": size,
                    "parts": dict.fromkeys(MEMORY_PARTS, 1),
                    "step_peak": size,
                    "peak": size,
                    "steps": 6,
                }
                file.write(json.dumps(told) + "\n")
        return WorkerOutcome(0, False, 1.0)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    monkeypatch.setattr(asking, "run_worker", standing := Asked())
    return standing


@pytest.fixture
def plan() -> list[TrialSpec]:
    """Three sizes in two repeats, largest first."""
    return [make_spec(batch_size=size, repeat=repeat, seed=repeat) for size in (64, 8, 16) for repeat in (1, 0)]


def test_all_batch_sizes_and_repeats_ask_one_process(plan: list[TrialSpec], tmp_path: Path, asked: Asked) -> None:
    parts = MemoryWorker(tmp_path, plan)
    assert [parts.gather(spec, WAY)["peak"] for spec in plan] == [64, 64, 8, 8, 16, 16]
    assert asked.calls == [(8, 16, 64)]


def test_a_later_run_does_not_ask_again_what_was_told(plan: list[TrialSpec], tmp_path: Path, asked: Asked) -> None:
    MemoryWorker(tmp_path, plan).gather(plan[0], WAY)
    more = [*plan, make_spec(batch_size=32)]
    later = MemoryWorker(tmp_path, more)
    assert [later.gather(spec, WAY)["peak"] for spec in more] == [64, 64, 8, 8, 16, 16, 32]
    assert asked.calls[1:] == [(32,)]


def test_another_computers_answer_is_asked_for_again_and_each_finds_its_own(
    plan: list[TrialSpec], tmp_path: Path, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The results folder goes from one to the other, or two shards share it."""
    for model, known, calls in (("A", False, 1), ("B", False, 2), ("A", True, 2), ("B", True, 2)):
        monkeypatch.setattr(description, "read_cpu_model", lambda model=model: model)
        worker = MemoryWorker(tmp_path, plan)
        assert (worker.known(plan[0]) is not None) == known
        assert worker.gather(plan[0], WAY)["peak"] == 64 and len(asked.calls) == calls
    first, second = sorted(path.parent.name for path in tmp_path.glob(f"memory/*/{COMPUTER_FILE}"))
    assert (first, second) == (plan[0].memory_id, f"{plan[0].memory_id}-1")
    monkeypatch.setattr(description, "read_cpu_model", lambda: "C")
    (tmp_path / "memory" / first / COMPUTER_FILE).unlink()
    assert MemoryWorker(tmp_path, plan).known(plan[0]), "an earlier version did not store its computer"


def test_sizes_before_the_one_that_found_no_memory_are_kept(
    plan: list[TrialSpec], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "run_worker", asked := Asked(dies_at=16))
    parts = MemoryWorker(tmp_path, plan)
    told = {spec.cell.batch_size: parts.gather(spec, WAY) for spec in plan}
    assert told[8]["peak"] == 8
    for size in (16, 64):
        assert "out_of_memory: no room" in told[size]["reason"]
    assert len(asked.calls) == 1


def test_a_worker_that_dies_is_not_taken_for_the_one_before_it_that_finished(
    plan: list[TrialSpec], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "run_worker", Asked())
    MemoryWorker(tmp_path, plan).gather(plan[0], WAY)
    (events,) = tmp_path.glob("memory/*/events.jsonl")
    events.write_text(events.read_text() + json.dumps({"event": Event.FINISHED, "t_ns": 2}) + "\n")
    monkeypatch.setattr(asking, "run_worker", Asked(dies_at=32))
    larger = make_spec(batch_size=32)
    assert "out_of_memory: no room" in MemoryWorker(tmp_path, [*plan, larger]).gather(larger, WAY)["reason"]


def test_a_worker_that_cannot_be_started_does_not_stop_the_run(
    plan: list[TrialSpec], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise LaunchFailed("no sampler")

    monkeypatch.setattr(asking, "run_worker", refuse)
    assert "no sampler" in MemoryWorker(tmp_path, plan).gather(plan[0], WAY)["reason"]


def test_a_line_that_a_kill_cut_short_takes_nothing_behind_it_along(
    plan: list[TrialSpec], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "run_worker", Asked())
    first = MemoryWorker(tmp_path, plan[:1])
    first.gather(plan[0], WAY)
    (events,) = tmp_path.glob("memory/*/events.jsonl")
    events.write_text(events.read_text() + '{"event": "memory_told", "batch_si')
    told = MemoryWorker(tmp_path, plan)
    assert [told.gather(spec, WAY)["peak"] for spec in plan if spec.cell.batch_size != 8] == [64, 64, 16, 16]


def test_what_changes_the_memory_is_asked_apart(plan: list[TrialSpec], tmp_path: Path, asked: Asked) -> None:
    other = varied(plan[0], feed="device")
    parts = MemoryWorker(tmp_path, [plan[0], other])
    for spec in (plan[0], other):
        parts.gather(spec, WAY)
    assert len(asked.calls) == 2
