"""Shared by the tests of sweeps: a command at work, what it stored, and what still runs."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from conftest import PROJECT, ROOT, TINY, bare_environment
from copied import copy_project, ignore_neighbours, report_in, without_memory_workers

from runner.cluster import node

LONG_S = 600
# The referee starts very quickly, and to a node every framework is one command.
STUDY = ("--framework", "numpy", *TINY, "--device", "cpu", "--threads", 1, "--epochs", 1, "--window", 0.2)


def node_variables(cache: Path, monkeypatch: pytest.MonkeyPatch, **more: str) -> dict[str, str]:
    """Set and return the variables of nodes, driver and this process. They name a separate cache with the project's
    environments, and a copy of the project (PYTHONPATH). The copy ignores neighbours, asks no memory worker and reports
    as text."""
    project = copy_project(cache.with_name("project"))
    ignore_neighbours(project)
    without_memory_workers(project)
    report_in(project, "md")
    chosen = {"XDG_CACHE_HOME": str(cache), "PYTHONPATH": str(project), **more}
    for name, value in chosen.items():
        monkeypatch.setenv(name, value)
    environments = node.build_project(ROOT).environments
    assert environments.is_relative_to(cache)
    environments.parent.mkdir(parents=True)
    environments.symlink_to(PROJECT.environments)
    return chosen


def begin(command: list[object], variables: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        list(map(str, command)), cwd=variables["PYTHONPATH"], env=bare_environment() | variables, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def stored(results: Path) -> dict[str, Path]:
    return {path.parent.name: path for path in results.glob("trials/*/result.json")}


def wait_for(what: Callable[[], bool], driver: subprocess.Popen[str]) -> None:
    until = time.monotonic() + LONG_S
    while not what():
        assert driver.poll() is None, driver.communicate()
        assert time.monotonic() < until
        time.sleep(0.05)


def workers() -> list[psutil.Process]:
    """List the processes of trials on any node."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if "adapters.worker" in words and any("/block-" in word for word in words):
            found.append(process)
    return found


def none_outlives() -> bool:
    until = time.monotonic() + 30
    while workers() and time.monotonic() < until:
        time.sleep(0.2)
    return not workers()


def measured(folder: Path) -> dict[str, bytes]:
    """Read all files of a trial except the verdict, which later trials may change."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "result.json"}


def ended_ok(results: Path) -> dict[str, dict[str, bytes]]:
    """{id: files} of the trials that ended ok: the next run also repeats contended ones."""
    found = stored(results).items()
    return {name: measured(path.parent) for name, path in found if json.loads(path.read_text())["status"] == "ok"}


def computed(results: Path) -> dict[str, Any]:
    """{id: losses and accuracies}."""
    found = {}
    for name, path in stored(results).items():
        result = json.loads(path.read_text())
        epochs = [{name: epoch[name] for name in epoch if not name.endswith("_s")} for epoch in result["epochs"]]
        found[name] = result["first_losses"], epochs
    return found
