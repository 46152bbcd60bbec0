"""A disk that is full, a results folder that goes: the real run ends with one line that says what happened."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, TINY, by_cell
from copied import copy_project, run_in, without_reports

NUMPY = (*TINY, "--framework", "numpy", "--device", "cpu", "--isolation", "here", "--window", "0.3")


def stop_after_first_trial(run: subprocess.Popen[str]) -> None:
    """Wait for the first trial's row, and halt the run until it gets SIGCONT."""
    assert run.stdout and run.stderr
    for line in run.stdout:
        if line.startswith("numpy"):
            break
    run.send_signal(signal.SIGSTOP)


def test_a_disk_without_room_for_the_next_trial_ends_the_run_before_it(tmp_path: Path) -> None:
    """On a separate small disk there is space for the inputs."""
    look = f'find "{tmp_path}" -name result.json'
    inside = f'mount -t tmpfs -o size=8m none "{tmp_path}" && shift && "$@"; code=$?; {look}; exit $code'
    asked = ("--batch-size", "512", "--epochs", "1", "--results", str(tmp_path))
    command = [sys.executable, "-m", "runner", *NUMPY, *asked]
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
        pytest.skip("no mounts of one's own here")
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", inside, "sh", "-", *command],
        cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"runner: {tmp_path}: ") and "MiB are free, the next trial may need" in line
    assert "result.json" not in done.stdout


def test_a_results_folder_that_goes_in_mid_run_is_named_and_ends_it(tmp_path: Path, lean: Path) -> None:
    results = tmp_path / "results"
    asked = ("--batch-size", "256", "512", "--epochs", "1")
    with subprocess.Popen(
        [sys.executable, "-m", "runner", *NUMPY, *asked, "--results", str(results)],
        cwd=lean, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as run:  # fmt: skip
        stop_after_first_trial(run)
        results.rename(tmp_path / "moved")
        run.send_signal(signal.SIGCONT)
        printed, told = run.communicate(timeout=120)
    assert run.returncode == 1, printed + told
    assert [line for line in told.splitlines() if line.startswith("runner: ")] == told.splitlines()
    assert f"{results}: removed or moved during the run" in told
    assert len(by_cell(tmp_path / "moved")) == 1
    (tmp_path / "results").mkdir(exist_ok=True)
    shutil.rmtree(results)
    shutil.move(tmp_path / "moved", results)
    done = run_in(lean, *NUMPY, *asked, "--results", results)
    assert done.returncode == 0 and len(by_cell(results)) == 2, done.stdout + done.stderr


def test_code_that_changes_in_mid_run_ends_it_and_the_same_command_measures_anew(tmp_path: Path) -> None:
    """`git pull` in a long run does so: what comes after it is another trial, and the one at work is neither."""
    project, results = copy_project(tmp_path / "project"), tmp_path / "results"
    without_reports(project)
    asked = (*NUMPY, "--batch-size", "256", "512", "--epochs", "1", "--results", str(results))
    with subprocess.Popen(
        [sys.executable, "-m", "runner", *asked],
        cwd=project, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as run:  # fmt: skip
        stop_after_first_trial(run)
        adapter = project / "adapters" / "numpy" / "adapter.py"
        adapter.write_text(f"{adapter.read_text()}\nADDED = 1\n")
        run.send_signal(signal.SIGCONT)
        printed, told = run.communicate(timeout=120)
    assert run.returncode == 1, printed + told
    _, line = told.splitlines()  # the first: a copy of the project has no commit
    assert line.startswith(f"runner: {adapter}: changed during the run, and later trials would be recorded as")
    assert len(list(results.glob("trials/*/result.json"))) == 1
    done = run_in(project, *asked)
    assert done.returncode == 0 and "rebuilt from the trial's files" not in done.stdout, done.stdout + done.stderr
    assert len(list(results.glob("trials/*/result.json"))) == 3
