"""Jobs by submitit's local executor, which are processes of this machine: what dies is done again, nothing is lost."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import sweeps
from conftest import run_runner
from copied import run_in
from sweeps import (
    LOCALLY,
    LONG_S,
    begin,
    computed,
    ended_ok,
    measured,
    node_variables,
    none_outlives,
    stored,
    wait_for,
    workers,
)

from runner.cluster.ship import Parcel

pytest.importorskip("submitit", reason="submitit is not installed: requirements-slurm.txt")

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.xdist_group("clusters")]

STUDY = (*sweeps.STUDY, "--repeat", 2, "--batch-size", "16,32,64")
TRIALS = 6


@pytest.fixture
def variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    return node_variables(tmp_path / "cache", monkeypatch)


@pytest.fixture
def jobs() -> Iterator[None]:
    """None is left behind."""
    yield
    end_jobs()


def jobs_of(results: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if any(word.startswith("submitit.") for word in words) and any(str(results) in word for word in words):
            found.append(process)
    return found


def end_jobs(results: Path = Path("/")) -> None:
    """As scancel would where Slurm has them."""
    for process in jobs_of(results):
        process.kill()


@pytest.mark.usefixtures("jobs")
def test_6_trials_are_there_once_and_as_at_home_though_a_job_and_the_driver_were_killed(
    tmp_path: Path, variables: dict[str, str], forgetful: Path
) -> None:
    results = tmp_path / "results"
    command = [sys.executable, "-c", LOCALLY, *STUDY, "--slurm", "long", "--results", results]
    driver = begin(command, variables)
    wait_for(lambda: len(stored(results)) >= 1 and bool(workers()), driver)
    next(each for each in jobs_of(results) if "submitit.core._submit" in each.cmdline()).kill()
    wait_for(lambda: len(stored(results)) >= 3, driver)
    driver.send_signal(signal.SIGKILL)
    driver.communicate()
    kept = ended_ok(results)
    end_jobs(results)
    assert none_outlives(), "a trial outlives its job"
    printed, _ = begin(command, variables).communicate(timeout=LONG_S)
    found = stored(results)
    assert len(found) == TRIALS and kept, printed
    assert {name: measured(found[name].parent) for name in kept} == kept, "what was finished was measured again"
    assert {json.loads(path.read_text())["status"] for path in found.values()} <= {"ok", "contended"}, printed
    assert not jobs_of(results) and none_outlives()
    home = tmp_path / "home"
    run_in(forgetful, *STUDY, "--results", home)
    assert computed(home) == computed(results)


@pytest.mark.usefixtures("jobs")
def test_what_a_job_left_behind_a_killed_driver_is_taken_in_and_not_measured_again(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    results, one = tmp_path / "results", (*STUDY[:-1], "32", "--retry", "contended")
    command = [sys.executable, "-c", LOCALLY, *one, "--slurm", "long", "--results", results]
    driver = begin(command, variables)
    wait_for(lambda: bool(workers()), driver)
    driver.send_signal(signal.SIGKILL)
    driver.communicate()

    def left() -> list[Path]:
        return list(results.glob("jobs/cpu/*/*/*.parcel"))

    until = time.monotonic() + LONG_S
    while not left() and time.monotonic() < until:  # the job goes on by itself
        time.sleep(0.1)
    end_jobs(results)
    assert none_outlives()
    sent = [Parcel.from_bytes(path.read_bytes()).told() for path in left()]
    assert sent and not stored(results)
    printed, _ = begin(command, variables).communicate(timeout=LONG_S)
    assert len(stored(results)) == 2, printed
    assert not left() and not list((results / "jobs").rglob("*.part"))
    for each in sent:
        if each.status == "ok":  # else it was made again
            assert json.loads(stored(results)[each.spec.id].read_text())["started_at"] == each.started_at


def test_where_there_is_no_such_partition_it_is_one_line_before_anything_is_started(tmp_path: Path) -> None:
    ended = run_runner("--framework", "numpy", "--slurm", "no-such-partition", "--results", tmp_path / "results")
    assert ended.returncode == 2, ended.stderr
    assert "--slurm no-such-partition: " in ended.stderr and ended.stderr.count("\n") == 1
    assert not list(tmp_path.glob("results/*/*"))
