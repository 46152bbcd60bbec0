"""`python -m runner overhead` from the command line to overhead.json."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from conftest import ROOT, run_runner
from copied import copy_project, replace_in, run_in

from runner.command.overhead import OVERHEAD_FILE, Verdict
from workloads.records.stored_events import read_events

NUMPY = ("--framework", "numpy", "--isolation", "here", "--device", "cpu", "--batch-size", 8, "--threads", 1)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy in which no pair is measured again."""
    project = copy_project(tmp_path / "project")
    replace_in(project / "adapters" / "worker" / "overhead_pairs.py", "\nMOST_TIMES = 2\n", "\nMOST_TIMES = 1\n")
    return project


def stored(results: Path) -> Any:
    """The one measurement."""
    content = json.loads((results / OVERHEAD_FILE).read_text())
    assert content["schema_version"] == 2
    (measurement,) = content["measurements"]
    return measurement


def left_behind(results: Path) -> list[psutil.Process]:
    """Processes that were told a path in the folder, as a worker is, or have a file of it open, as a sampler has."""
    return [process for process in psutil.process_iter() if str(results) in paths_of(process)]


def paths_of(process: psutil.Process) -> str:
    try:
        return " ".join((*process.cmdline(), *(file.path for file in process.open_files())))
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return ""


@pytest.mark.real
def test_a_real_framework_has_a_row_and_the_row_its_conditions(tmp_path: Path) -> None:
    done = run_runner(
        *("overhead", "--framework", "mxnet", "--device", "cpu", "--batch-size", 64, "--threads", 1, "--pairs", 10),
        *("--results", tmp_path),
    )
    assert done.returncode in (0, 1) and not done.stderr, done.stdout + done.stderr
    found = stored(tmp_path)
    (row,) = found["rows"]
    assert (found["failed"], row["framework"], row["batch_size"]) == ([], "mxnet", 64)
    assert row["pairs"] == 10 <= row["pairs_measured"] == len(row["segments"]) / 2
    assert row["low"] < row["ratio"] < row["high"] and 0.2 < row["ratio"] < 5
    assert 0 < row["sampler_core_percent"] < 50
    assert done.returncode == int(Verdict.OVER in (row["verdict"], row["sampler_verdict"]))
    conditions = found["conditions"]
    assert conditions["cpu_model"] and conditions["load_average_before"] >= 0
    assert conditions["frameworks"]["mxnet"]["framework_version"]
    assert f"{100 * row['ratio']:.2f} [" in done.stdout and row["verdict"] in done.stdout
    assert not list(tmp_path.glob("trials/*")), "it is no trial: no table may show it"


def test_a_heavy_sampler_is_caught(project: Path, tmp_path: Path) -> None:
    """It takes half of the one core that the worker has."""
    replace_in(
        project / "runner" / "sampler" / "meter.py",
        "def busy_s(cores: list[int]) -> float:\n",
        "def busy_s(cores: list[int]) -> float:\n"
        "    psutil.Process().cpu_affinity(cores)\n"
        "    until = time.process_time() + 0.05\n"
        "    while time.process_time() < until:\n"
        "        pass\n",
    )
    done = run_in(project, "overhead", *NUMPY, "--pairs", 10, "--results", tmp_path / "results")
    assert done.returncode == 1, done.stdout + done.stderr
    (row,) = stored(tmp_path / "results")["rows"]
    assert (row["verdict"], row["sampler_verdict"]) == (Verdict.OVER, Verdict.OVER)
    assert row["ratio"] < 0.9 and row["sampler_core_percent"] > 20


def test_a_killed_worker_leaves_no_sampler_behind_and_has_a_reason(project: Path, tmp_path: Path) -> None:
    train = "    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> Floats:\n"
    killed = (
        "        import os, sys\n"
        "        pid = open(f'{sys.argv[1]}/sampler.pid').read()\n"
        "        if open(f'/proc/{pid}/stat').read().rpartition(')')[2].split()[0] == 'T':\n"
        "            os.kill(os.getpid(), 9)\n"
    )
    replace_in(project / "adapters" / "numpy" / "adapter.py", train, train + killed)
    done = run_in(project, "overhead", *NUMPY, "--pairs", 3, "--results", tmp_path / "results")
    assert not left_behind(tmp_path / "results")
    assert done.returncode == 1 and "numpy batch 8: failed: the worker was killed by SIGKILL" in done.stdout
    found = stored(tmp_path / "results")
    (failed,) = found["failed"]
    assert (found["rows"], failed["framework"], failed["batch_size"]) == ([], "numpy", 8)
    (log,) = (tmp_path / "results").glob("overhead/*/log.txt")
    assert str(log) in failed["reason"] and str(log) in done.stdout
    assert '"train_loss"' in (log.parent / "events.jsonl").read_text(), "it was killed before the sampler was stopped"


def test_ctrl_c_leaves_no_sampler_and_no_worker_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "runner", "overhead", *map(str, NUMPY), "--results", str(tmp_path)]
    runner = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 60
    try:
        # A process that is just starting another one stands for two.
        while len(left_behind(tmp_path)) != 3 or not any(
            "train_loss" in event for path in tmp_path.glob("overhead/*/events.jsonl") for event in read_events(path)
        ):
            assert runner.poll() is None and time.monotonic() < until
            time.sleep(0.1)
    except AssertionError:
        runner.kill()
        raise
    os.kill(runner.pid, signal.SIGINT)
    _, told = runner.communicate(timeout=30)
    assert runner.returncode == 130 and "interrupted" in told and "measures all of it again" in told
    assert not left_behind(tmp_path)
    assert not (tmp_path / OVERHEAD_FILE).exists()


@pytest.mark.parametrize(
    ("arguments", "telling"),
    [
        (["--pairs", "2"], "--pairs 2: must be 3 or more"),
        (["--pairs", "some"], "'some' is not a whole number"),
        (["--framework", "pytorhc"], "did you mean pytorch"),
        (["--batch-size", "0"], "batch_sizes: Expected `int` >= 1"),
        (["--device", "cuda:99"], "--device cuda:99: "),
        (["--threads", "4096"], "this process may use"),
        (["--epochs", "1"], "unknown option --epochs (see python -m runner overhead --help)"),
    ],
)
def test_bad_input_is_not_measured_and_is_told_clearly(arguments: list[str], telling: str, tmp_path: Path) -> None:
    done = run_runner("overhead", *arguments, "--results", tmp_path / "results")
    assert done.returncode == 2, done.stdout + done.stderr
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("runner: ") and telling in line
    assert not (tmp_path / "results").exists()
