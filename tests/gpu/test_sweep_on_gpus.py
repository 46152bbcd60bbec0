"""Trials of a sweep on GPUs: tasks of a Ray node with one stand-in card, with adapters that compute on the CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
from conftest import PATIENT, TINY
from copied import copy_project, report_in, without_memory_workers
from stand_in import FOREVER_MS, UUID, Trace, write_trace
from test_metered_runs import put_on_the_card

from runner.cluster import node
from workloads.records.events import Event

cluster_utils = pytest.importorskip("ray.cluster_utils", reason="Ray is not installed: requirements-ray.txt")

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.xdist_group("clusters")]

BUSY: Trace = [(0, {"gpu": 60, "used": 3000, "process": 2500, "power": 150, "throttle": 0}), (FOREVER_MS, {})]


def test_each_trial_has_the_card_that_it_was_given_to_itself_and_is_found_again(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    project = copy_project(tmp_path / "project")
    report_in(project, "md")
    without_memory_workers(project)
    for framework in ("numpy", "pytorch"):
        put_on_the_card(project, framework, project / "pid")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    environments = node.build_project(project).environments
    environments.parent.mkdir(parents=True)
    environments.symlink_to(project / ".envs")
    told = {
        "LD_LIBRARY_PATH": str(library),
        "NVML_TRACE": str(write_trace(tmp_path / "trace.csv", BUSY)),
        "NVML_T0": str(time.monotonic_ns()),
        "NVML_PID_FILE": str(project / "pid"),
        "PYTHONPATH": str(project),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "RAY_memory_monitor_refresh_ms": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    words = (*TINY, *PATIENT, *("--device", "cuda", "--epochs", 1, "--window", 1.5, "--threads", 1))
    study = ("--framework", "pytorch", *words, "--batch-size", "32,64")
    cluster = cluster_utils.Cluster()
    request.addfinalizer(cluster.shutdown)
    cluster.add_node(num_cpus=2, num_gpus=1, object_store_memory=100 * 2**20, include_dashboard=False)
    command = (sys.executable, "-m", "runner", *study, "--ray", cluster.address, "--results", "r")

    def run() -> str:
        done = subprocess.run(
            list(map(str, command)),
            cwd=project,
            env={**os.environ, **told},
            capture_output=True,
            text=True,
            timeout=300,
        )
        return done.stdout + done.stderr

    printed = run()
    found = {path.parent: json.loads(path.read_text()) for path in project.glob("r/trials/*/result.json")}
    assert len(found) == 2, printed
    spans = []
    for folder, result in found.items():
        assert result["status"] == "ok", result["reason"]
        assert result["spec"]["placement"]["device"] == "cuda"
        assert [gpu["uuid"] for gpu in result["machine"]["gpus"]] == [UUID]
        assert result["figures"]["gpu_percent"]["value"] == pytest.approx(60, abs=3)
        events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
        at_ns = {event["event"]: event["t_ns"] for event in events}
        spans.append((min(at_ns.values()), at_ns[Event.FINISHED]))
    assert all(first[1] < second[0] for first, second in pairwise(sorted(spans))), "two trials had the card at once"
    assert "2 of 2 trials are finished" in run()
    assert "Stand-in 8 GiB" in (project / "r" / "report" / "report.md").read_text()
