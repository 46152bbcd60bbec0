"""Answers of frameworks on a node of a cluster: they hold for its computer and card, not for the node's name."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from conftest import PROJECT, make_spec

from runner import trial
from runner.ask import Ended
from runner.cluster import __main__ as block_process
from runner.cluster import node
from runner.cluster.__main__ import run_trials
from runner.environments import definition
from runner.gate.judge import Gate
from runner.launch import Local
from runner.machine.description import Gpu
from runner.request.block import TrialBlock
from runner.results.memory import MemoryAccount
from workloads.records.events import PEAK_PARTS, Event
from workloads.records.files import EVENTS_FILE
from workloads.records.job import ANY_GPU, Job, TrialSpec
from workloads.records.result import TrialResult
from workloads.records.status import Status

SPEC = make_spec(device=ANY_GPU)
COMPUTER = {"cpu_model": "a processor", "cpu_flags": ["avx2"], "memory_bytes": 2**34}


def card(uuid: str, driver: str = "550") -> dict[str, Any]:
    return asdict(Gpu(uuid, "a card", driver, "12.4", 2**33, "8.0"))


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders in which a memory worker was asked. Trials end at once, and say what they were told of memory."""
    folders: list[Path] = []

    def ask(job: Job, folder: Path, launcher: Local) -> Ended:
        folders.append(folder)
        told = {"event": Event.MEMORY_TOLD, "t_ns": 1, "parts": dict.fromkeys(PEAK_PARTS, len(folders)), "steps": 6}
        told |= {"step_peak": 64, "peak": 70}
        lines = [json.dumps(told | {"batch_size": size}) + "\n" for size in job.batch_sizes]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / EVENTS_FILE).write_text("".join(lines))
        return Ended([], None, Status.OK, None)

    def run_trial(
        _: Path, spec: TrialSpec, __: Local, conditions: dict[str, Any], account: MemoryAccount
    ) -> TrialResult:
        return TrialResult(spec, Status.OK, None, "2026-01-01T00:00:00+00:00", 1.0, machine=conditions | account)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(Gate, "gather", lambda *_: {})
    monkeypatch.setattr(definition, "read_label", lambda _, framework: framework)
    monkeypatch.setattr(trial, "ask", ask)
    monkeypatch.setattr(block_process, "run_trial", run_trial)
    return folders


def told_on(tmp_path: Path, machine: dict[str, Any]) -> int:
    """Run a block of one trial on this machine, and return which answer of a memory worker the trial was given."""
    launchers: Any = {SPEC.cell.framework: Local("python", {}, PROJECT)}
    (told,) = run_trials(TrialBlock((SPEC,), None), launchers, PROJECT, tmp_path / "work", machine)
    (answer,) = set(told["result"]["machine"]["parts"].values())
    return int(answer)


def test_memory_is_asked_for_once_per_machine_and_card_whatever_the_name(tmp_path: Path, asked: list[Path]) -> None:
    first, second = COMPUTER | {"gpus": [card("GPU-1")]}, COMPUTER | {"gpus": [card("GPU-2")]}
    updated = COMPUTER | {"gpus": [card("GPU-1", driver="560")]}
    other = first | {"memory_bytes": 2**35}
    assert [told_on(tmp_path, each) for each in (first, second, first, updated, other, second)] == [1, 2, 1, 3, 4, 2]
    assert len(set(asked)) == 4


def test_a_workers_inputs_are_found_from_each_card_and_kept_once_per_machine(tmp_path: Path, asked: list[Path]) -> None:
    for uuid in ("GPU-1", "GPU-2"):
        told_on(tmp_path, COMPUTER | {"gpus": [card(uuid)]})
    inputs = node.find_host_folder() / "inputs"
    inputs.mkdir()
    (inputs / "order.npy").write_text("order")
    assert [(folder / Job.results / "inputs" / "order.npy").read_text() for folder in asked] == ["order"] * 2
