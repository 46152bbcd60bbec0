"""Three real raylets on this machine, each with one CPU: what dies is done again, what was finished stays as it was."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from conftest import PROJECT, ROOT, TINY, bare_environment, run_runner

from runner.cluster import node

ray = pytest.importorskip("ray", reason="Ray is not installed: requirements-ray.txt")
cluster_utils = pytest.importorskip("ray.cluster_utils")

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.xdist_group("ray")]

STUDY = (
    *("--framework", "all", *TINY, "--device", "cpu", "--threads", 1, "--epochs", 1, "--window", 0.2),
    *("--batch-size", "8,16,32,64", "--repeat", 2),
)
TRIALS = 24
LONG_S = 600


@pytest.fixture
def variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Of nodes and driver: a cache of their own, in which the project's environments are found."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    environments = node.project_of(ROOT).environments
    environments.parent.mkdir(parents=True)
    environments.symlink_to(PROJECT.environments)
    chosen = {"RAY_memory_monitor_refresh_ms": "0", "RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": str(ROOT)}
    for name, value in chosen.items():
        monkeypatch.setenv(name, value)
    return {**chosen, "XDG_CACHE_HOME": str(tmp_path / "cache")}


@pytest.fixture
def cluster(variables: dict[str, str]) -> Iterator[Any]:
    made = cluster_utils.Cluster()
    try:
        for _ in range(3):
            made.add_node(num_cpus=1, object_store_memory=100 * 2**20, include_dashboard=False)
        made.wait_for_nodes()
        yield made
    finally:
        made.shutdown()


def stored(results: Path) -> dict[str, Path]:
    return {path.parent.name: path for path in results.glob("trials/*/result.json")}


def wait_for(what: Callable[[], bool], driver: subprocess.Popen[str]) -> None:
    until = time.monotonic() + LONG_S
    while not what():
        assert driver.poll() is None, driver.communicate()
        assert time.monotonic() < until
        time.sleep(0.05)


def at_work(results: Path, address: str, variables: dict[str, str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "runner", *map(str, STUDY), "--ray", address, "--results", str(results)]
    return subprocess.Popen(
        command, cwd=ROOT, env=bare_environment() | variables, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def workers() -> list[psutil.Process]:
    """Processes of trials on any node."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if "adapters.worker" in words and any("/block-" in word for word in words):
            found.append(process)
    return found


def measured(folder: Path) -> dict[str, bytes]:
    """All but the verdict, which others that arrive may change."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "result.json"}


def computed(path: Path) -> Any:
    result = json.loads(path.read_text())
    epochs = [{name: epoch[name] for name in epoch if not name.endswith("_s")} for epoch in result["epochs"]]
    return result["first_losses"], epochs


def test_24_trials_are_there_once_and_as_at_home_though_a_node_and_the_driver_were_killed(
    tmp_path: Path, cluster: Any, variables: dict[str, str]
) -> None:
    results = tmp_path / "results"
    driver = at_work(results, cluster.address, variables)
    wait_for(lambda: len(stored(results)) >= 3 and bool(workers()), driver)
    lost = next(iter(cluster.worker_nodes))
    cluster.remove_node(lost, allow_graceful=False)
    wait_for(lambda: len(stored(results)) >= 9, driver)
    driver.send_signal(signal.SIGKILL)
    driver.communicate()
    ended_ok = [name for name, path in stored(results).items() if json.loads(path.read_text())["status"] == "ok"]
    kept = {name: measured(results / "trials" / name) for name in ended_ok}  # contended ones are the next run's, too
    again = at_work(results, cluster.address, variables)
    printed, _ = again.communicate(timeout=LONG_S)
    found = stored(results)
    assert len(found) == TRIALS and kept, printed
    assert {name: measured(found[name].parent) for name in kept} == kept, "what was finished was measured again"
    assert not list(results.glob(".arriving-*")) and not list((results / "trials").glob("*/*.part"))
    results_of = [json.loads(path.read_text()) for path in found.values()]
    assert {each["status"] for each in results_of} <= {"ok", "contended"}, printed
    assert all(each["machine"]["node"] == os.uname().nodename for each in results_of)
    until = time.monotonic() + 30
    while workers() and time.monotonic() < until:
        time.sleep(0.2)
    assert not workers(), "a trial outlives the sweep"

    home = tmp_path / "home"
    run_runner(*STUDY, "--results", home)
    assert {name: computed(path) for name, path in stored(home).items()} == {
        name: computed(path) for name, path in found.items()
    }


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--ray", "127.0.0.1:1"), "ray start --head"),
        (("--ray", "auto"), "ray start --head"),
        (("--ray", "here"), "neither auto nor HOST:PORT"),
        (("--ray", "auto", "--isolation", "here"), "leave --isolation and --python out"),
        (("--ray", "auto", "--memory-limit", 512), "leave --memory-limit out"),
        (("--ray", "auto", "--study", "powers-of-two-cpu"), "blocks of steps"),
    ],
)
def test_what_cannot_be_handed_out_is_one_line_before_anything_is_started(
    tmp_path: Path, options: tuple[object, ...], told: str
) -> None:
    ended = run_runner("--framework", "numpy", *options, "--results", tmp_path / "results")
    assert ended.returncode == 2, ended.stderr
    assert told in ended.stderr and ended.stderr.count("\n") == 1
