"""Several devices by the real command line, with the three real frameworks."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from conftest import REAL_FRAMEWORKS, ROOT, TINY, bare_environment, by_cell
from copied import copy_undisturbed, run_in, with_cpu_flags, without_reports

from workloads.records import processor
from workloads.records.check_name import LATE_NAMES, CheckName

ASKED = (*TINY, "--device", "cpu", "--batch-size", 8, "--window", 1)
ENDLESS = ("--window", 100)


@pytest.fixture(scope="module")
def with_bfloat16(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy for a processor that computes in bfloat16: one that does not is refused for that, before its devices."""
    project = copy_undisturbed(tmp_path_factory.mktemp("project"))
    with_cpu_flags(project, *processor.FLAGS)
    without_reports(project)
    return project


@pytest.mark.real
def test_one_model_on_two_devices_is_held_equal_by_the_gate_and_stands_in_a_table_of_its_own(
    tmp_path: Path, forgetful: Path
) -> None:
    results = tmp_path / "results"
    asked = (*ASKED, "--framework", "all", "--epochs", 2)
    done = run_in(forgetful, *asked, "--devices", 2, "--results", results)
    assert done.returncode == 0, done.stdout + done.stderr
    cells = by_cell(results)
    assert {framework for framework, _ in cells} == set(REAL_FRAMEWORKS)
    for result in cells.values():
        assert result["status"] == "ok", result["reason"]
        assert [epoch["steps"] for epoch in result["epochs"]] == [4, 4]  # 64 images, 16 per update
        assert all(check["passed"] for check in result["checks"] if check["name"] in (CheckName.GATE, *LATE_NAMES))
        assert result["facts"]["devices"] == 2
        (meter,) = results.glob(f"trials/{framework_of(result)}-*/meter.json")
        computing = [each for each in json.loads(meter.read_text())["processes"] if each["cpu_s"] > 0.5]
        assert len(computing) == (2 if framework_of(result) == "pytorch" else 1)
    (inputs,) = {str(result["spec"]["inputs"]) for result in cells.values()}
    assert inputs
    report = (results / "report" / "report.md").read_text()
    assert "devices 2 in data parallel, batch sizes are per device" in report
    one = run_in(forgetful, *asked, "--results", results)
    assert one.returncode == 0, one.stdout + one.stderr
    report = (results / "report" / "report.md").read_text()
    assert "## Several devices: 8 images on each" in report
    with (results / "report" / "scaling-8.csv").open() as file:
        rows = {(row["framework"], row["devices"]) for row in csv.DictReader(file)}
    assert rows == {(name, count) for name in REAL_FRAMEWORKS for count in ("1", "2")}


@pytest.mark.real
@pytest.mark.parametrize(("more", "said"), [
    (("--accumulate", 2), "cannot accumulate gradients here"),  # by each framework: tests/conformance/test_devices.py
    (("--precision", "bfloat16"), "never compared with one device"),  # all say it by one function
])  # fmt: skip
def test_what_several_devices_cannot_do_is_unsupported_with_its_reason(
    more: tuple[object, ...], said: str, tmp_path: Path, with_bfloat16: Path
) -> None:
    run_in(with_bfloat16, *ASKED, "--framework", "mxnet", "--epochs", 1, "--devices", 2, *more, "--results", tmp_path)
    (result,) = by_cell(tmp_path).values()
    assert result["status"] == "unsupported" and said in result["reason"], result["reason"]


def framework_of(result: dict[str, Any]) -> str:
    return str(result["spec"]["cell"]["framework"])


def ranks_of(runner: psutil.Process, count: int, within_s: float) -> list[psutil.Process]:
    """List the ranks of the worker that is measured, once there are `count`."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        every = runner.children(recursive=True)
        found = [each for each in every if each.is_running() and "adapters.pytorch.data_parallel" in _command(each)]
        if len(found) == count:
            return found
        time.sleep(0.05)
    raise AssertionError(f"{count} ranks were not there within {within_s} s")


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@pytest.mark.real
def test_no_rank_outlives_a_runner_that_was_killed_and_the_sampler_saw_all_of_them(tmp_path: Path) -> None:
    asked = (*ASKED, *ENDLESS, "--framework", "pytorch", "--devices", 4, "--results", tmp_path)
    runner = subprocess.Popen(
        [sys.executable, "-m", "runner", *map(str, asked)],
        cwd=ROOT, env=bare_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    ranks = ranks_of(psutil.Process(runner.pid), 3, within_s=300)
    worker = ranks[0].parent()
    assert worker is not None
    until = time.monotonic() + 120
    alone, summed = 0, 0
    while time.monotonic() < until and summed <= 2 * alone:
        time.sleep(0.5)
        alone = worker.memory_info().rss
        for path in tmp_path.glob("trials/*/samples.csv"):
            with path.open() as file:
                rows = [row for row in csv.DictReader(file) if row["host_memory_bytes"]]
            summed = max([summed, *(int(row["host_memory_bytes"]) for row in rows)])
    assert summed > 2 * alone, "four processes of one framework are more than two of them"
    runner.send_signal(signal.SIGKILL)
    runner.communicate(timeout=30)
    psutil.wait_procs([worker, *ranks], timeout=5)
    for process in (worker, *ranks):
        assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


@pytest.mark.real
def test_a_rank_that_dies_fails_its_trial_at_once_with_a_reason(tmp_path: Path, unreported: Path) -> None:
    asked = (*ASKED, *ENDLESS, "--framework", "pytorch", "--devices", 3, "--epochs", 1, "--results", tmp_path)
    runner = subprocess.Popen(
        [sys.executable, "-m", "runner", *map(str, asked)],
        cwd=unreported, env=bare_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    ranks = ranks_of(psutil.Process(runner.pid), 2, within_s=300)
    events = list(tmp_path.glob("trials/*/events.jsonl"))
    until = time.monotonic() + 120
    while not any("window_started" in path.read_text() for path in events) and time.monotonic() < until:
        time.sleep(0.1)
        events = list(tmp_path.glob("trials/*/events.jsonl"))
    ranks[0].kill()
    killed_s = time.monotonic()
    printed, _ = runner.communicate(timeout=90)
    assert runner.returncode == 1 and time.monotonic() - killed_s < 60, printed
    (result,) = by_cell(tmp_path).values()
    assert result["status"] == "failed" and result["reason"], printed
    assert not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in ranks)
    print(result["reason"])
