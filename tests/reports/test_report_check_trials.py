"""python -m reports check RESULTS: the trials, results and cells that are not there or did not end well."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import stored
from conftest import varied
from test_report_check import printed, run_trial

from reports import load
from reports.checking import completeness, plausibility, sessions
from reports.publishing.publish import list_obstacles
from workloads.records.job import ANY_GPU
from workloads.records.status import EXPECTED, Status

trial, ended = partial(stored.trial, study="own"), partial(stored.ended, study="own", checks=[])
FRAMEWORKS = ("tensorflow", "pytorch", "mxnet")
SIZES = (4, 32, 128)


def with_tensorflow_failed(folder: Path) -> Path:
    """Store nine trials, as the runner leaves them where every one of a framework failed."""
    reason = "ValueError: Allocator stats not available for device 'CPU:0'\nat the end"
    for place, size in enumerate(SIZES):
        stored.store(folder, ended(Status.FAILED, reason, "tensorflow", size))
        for framework in FRAMEWORKS[1:]:
            run_trial(folder, trial(framework, size), start_s=9 + place / 100 + (framework == "mxnet") / 1000)
    return folder


def test_every_trial_that_failed_is_listed_with_its_reason_and_the_exit_code_says_so(tmp_path: Path) -> None:
    code, findings, notes, last = printed(with_tensorflow_failed(tmp_path))
    assert (code, notes) == (1, [])
    assert last == f"{tmp_path}: 9 trials: 6 ok, 3 failed: 3 found"
    for size, line in zip(SIZES, findings, strict=True):
        assert line.startswith(f"{tmp_path}/trials/tensorflow-cpu-b{size:05}-r0-")
        assert line.endswith(": failed: ValueError: Allocator stats not available for device 'CPU:0' at the end")


@pytest.mark.parametrize("status", [one for one in Status if one not in EXPECTED])
def test_a_trial_of_any_status_that_is_a_fault_is_a_finding(tmp_path: Path, status: Status) -> None:
    result = ended(status, "its reason", "mxnet", 32)
    folder = stored.store(tmp_path, result) / "trials" / result.spec.id
    assert printed(tmp_path)[:2] == (1, [f"{folder}: {status}: its reason"])


def test_a_trial_that_ran_out_of_memory_is_named_and_no_fault(tmp_path: Path) -> None:
    result = ended(Status.OUT_OF_MEMORY, "killed at 2 GiB", "mxnet", 1024)
    folder = stored.store(tmp_path, result) / "trials" / result.spec.id
    code, findings, notes, last = printed(tmp_path)
    assert (code, findings, notes) == (0, [], [f"{folder}: out of memory: killed at 2 GiB"])
    assert last == f"{tmp_path}: 1 trial: 1 out of memory: nothing found"


def test_trials_are_listed_status_by_status(tmp_path: Path) -> None:
    for size, status in ((4, Status.UNVERIFIED), (8, Status.FAILED), (16, Status.CONTENDED), (32, Status.FAILED)):
        stored.store(tmp_path, ended(status, "why", "mxnet", size))
    told = [line.split(": ")[1] for line in printed(tmp_path)[1]]
    assert told == ["failed", "failed", "contended", "unverified"]


def test_a_cell_that_is_missing_is_named(tmp_path: Path) -> None:
    run_trial(tmp_path, trial("pytorch", 32))
    run_trial(tmp_path, trial("pytorch", 64), start_s=9.01)
    run_trial(tmp_path, trial("mxnet", 64), start_s=9.02)
    assert printed(tmp_path)[:2] == (1, [f"{tmp_path}: missing: MXNet, batch size 32, repeat 0"])


def test_what_a_study_of_ours_asks_for_and_was_not_run_is_named(tmp_path: Path) -> None:
    run_trial(tmp_path, stored.trial("pytorch", 32, study="osu-2020", dataset="cifar10"))
    told = "not run of the study osu-2020 as it is defined: batch size 4, 8, 16, 64, 128, 256, 512 and 1024 and 2 of 3"
    assert printed(tmp_path)[:2] == (1, [f"{tmp_path}: {told} repeats"])


def test_a_run_that_is_still_writing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_trial(tmp_path, trial())
    monkeypatch.setattr(load, "_in_use", lambda folder: folder == tmp_path)
    _, findings, _, last = printed(tmp_path)
    assert findings == [f"{tmp_path}: a run is still writing into it"]
    assert last == f"{tmp_path}: 1 trial: 1 ok; a run is still writing: 1 found"


def test_results_that_cannot_be_read_and_trials_without_one_are_named(tmp_path: Path) -> None:
    run_trial(tmp_path, trial("pytorch", 32))
    (path,) = stored.store(tmp_path, trial("pytorch", 64)).glob("trials/*b00064*/result.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema_version": 99}))
    unfinished = tmp_path / "trials" / "pytorch-cpu-b00128-r0-00000000"
    unfinished.mkdir()
    _, findings, _, last = printed(tmp_path)
    assert findings[0].startswith(f"{path}: cannot be read: schema version 99")
    assert findings[1:] == [f"{unfinished}: unfinished: it has no result"]
    assert last == f"{tmp_path}: 1 trial: 1 ok; 1 unreadable; 1 unfinished: 2 found"


def test_what_is_refused_to_be_published_is_found_by_the_check(tmp_path: Path) -> None:
    """Both use one definition: every gap is an obstacle, and without gaps and in whole files there is none."""
    folder = with_tensorflow_failed(tmp_path)
    shutil.rmtree(next((folder / "trials").glob("mxnet-*b00032*")))
    (folder / "trials" / "mxnet-cpu-b00032-r0-00000000").mkdir()
    read = load.read(folder)
    kinds = [gap.kind for gap in completeness.find_gaps(read, folder)]
    assert kinds == ["unfinished", *["failed"] * 3, "planned and not there"]
    told = list_obstacles(read, folder)
    assert [line.split(" (")[0] for line in told] == [
        "1 trial unfinished", "3 trials failed", "1 trial planned and not there"
    ]  # fmt: skip


BOOTED_S = 1_700_000_000


def on_node(results: Path, card: str, second: int, **facts: Any) -> Path:
    """Store a trial of a sweep, of 20 s, that began in this second on a card of a node; return its folder."""
    made = stored.on_gpu(trial(batch_size=32 + second, started_at=f"2025-11-21T10:00:{second:02}+00:00"))
    node = {"node": "a", "gpus": [made.machine["gpus"][0] | {"uuid": card}]}
    made = replace(made, spec=varied(made.spec, device=ANY_GPU), machine=made.machine | node | facts)
    folder = stored.store(results, made) / "trials" / made.spec.id
    clock = {"monotonic_ns": second * 10**9, "epoch_ns": (BOOTED_S + second) * 10**9}
    (folder / "meter.json").write_text(json.dumps({"clocks": [clock]}))
    return folder


def compare_sessions(results: Path) -> list[str]:
    read = load.read(results)
    assert {plausibility.find_peak(result) for result in read.results} == {67.0 * 1e12}, "of an H200, in float32"
    return sessions.compare_sessions(read, read.pairs)


def test_trials_of_a_sweep_may_run_at_once_on_two_cards_of_a_node_and_not_on_one(tmp_path: Path) -> None:
    """The device in their spec is any GPU; the machine says which one."""
    for place, card in enumerate(("GPU-1", "GPU-2")):
        on_node(tmp_path / "two", card, 5 * place)
    assert compare_sessions(tmp_path / "two") == []
    first, second = (on_node(tmp_path / "one", "GPU-1", begun) for begun in (0, 5))
    told = f"{second}: started 15 s before {first.name} ended, on one device"
    assert compare_sessions(tmp_path / "one") == [told]


def test_a_virtual_machine_may_change_its_memory_between_two_trials_and_not_its_processor(tmp_path: Path) -> None:
    for begun, size in ((0, 2**32), (30, 2**33)):
        on_node(tmp_path / "memory", "GPU-1", begun, memory_bytes=size)
    assert compare_sessions(tmp_path / "memory") == []
    first, _ = (on_node(tmp_path / "model", "GPU-1", begun, cpu_model=f"AMD {begun}") for begun in (0, 30))
    told = f"{first}: machine: cpu_model differs from the other trials of its session"
    assert compare_sessions(tmp_path / "model") == [told]
