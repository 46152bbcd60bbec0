"""Three real raylets on this machine, each with one CPU: lost work is done again, what was finished stays as it was."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import sweeps
from conftest import PROJECT, run_runner
from copied import run_in
from sweeps import LONG_S, begin, computed, ended_ok, measured, node_variables, none_outlives, stored, wait_for, workers

from workloads.own_names import name_node

ray = pytest.importorskip("ray", reason="Ray is not installed: requirements-ray.txt")
cluster_utils = pytest.importorskip("ray.cluster_utils")

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.xdist_group("clusters")]

STUDY = (*sweeps.STUDY, "--batch-size", "8,16,32,64", "--repeat", 2)
TRIALS = 8


@pytest.fixture
def variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    told = {"RAY_memory_monitor_refresh_ms": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    return node_variables(tmp_path / "cache", monkeypatch, **told)


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


def test_8_trials_are_there_once_and_as_at_home_though_a_node_and_the_driver_were_killed(
    tmp_path: Path, cluster: Any, variables: dict[str, str], unreported: Path
) -> None:
    results = tmp_path / "results"
    command = [sys.executable, "-m", "runner", *STUDY, "--ray", cluster.address, "--results", results]
    driver = begin(command, variables)
    wait_for(lambda: len(stored(results)) >= 2 and bool(workers()), driver)
    lost = next(iter(cluster.worker_nodes))
    cluster.remove_node(lost, allow_graceful=False)
    wait_for(lambda: len(stored(results)) >= 4, driver)
    driver.send_signal(signal.SIGKILL)
    driver.communicate()
    kept = ended_ok(results)
    printed, _ = begin(command, variables).communicate(timeout=LONG_S)
    found = stored(results)
    assert len(found) == TRIALS and kept, printed
    assert {name: measured(found[name].parent) for name in kept} == kept, "what was finished was measured again"
    assert not list(results.glob(".arriving-*")) and not list((results / "trials").glob("*/*.part"))
    results_of = [json.loads(path.read_text()) for path in found.values()]
    assert {each["status"] for each in results_of} <= {"ok", "contended"}, printed
    host = os.uname().nodename
    assert all(each["machine"]["node"] == name_node(host) for each in results_of)
    assert f"{name_node(host)} is the host {host}\n" in printed
    texts = [path.read_text(errors="replace") for path in results.rglob("*") if path.is_file()]
    assert not [text for text in texts if f'"{host}"' in text or f"/{host}/" in text], "a file names the host"
    assert all(each["machine"]["noise_foreign_percent"] >= 0 for each in results_of)  # the nodes share its cores
    assert none_outlives(), "a trial outlives the sweep"
    home = tmp_path / "home"
    run_in(unreported, *STUDY, "--results", home)
    assert computed(home) == computed(results)


def test_a_reason_from_ray_names_no_address() -> None:
    from runner.cluster.ray_engine import format_error

    died = ray.exceptions.NodeDiedError("Its node died. Node IP: 10.0.22.107, node ID: abc")
    assert format_error(died) == "NodeDiedError: Its node died. Node IP: IP, node ID: abc"


@pytest.fixture
def signals(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set again whatever connecting to a cluster sets for the whole process."""
    monkeypatch.setenv("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def connected(monkeypatch: pytest.MonkeyPatch, results: Path, **cpus: float) -> Any:
    """Return an engine that is connected to nodes of these names, with so many CPUs."""
    from runner.cluster import ray_engine

    nodes = [
        {"Alive": True, "NodeID": name, "NodeManagerHostname": name, "Resources": {"CPU": count}}
        for name, count in cpus.items()
    ]

    def take_the_signal(**_: object) -> None:  # as ray.init does
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(number))

    monkeypatch.setattr(ray, "init", take_the_signal)
    monkeypatch.setattr(ray, "nodes", lambda: nodes)
    return ray_engine.RayEngine("auto", PROJECT, results, {"CPU": 8})


@pytest.mark.usefixtures("signals")
def test_sigterm_interrupts_a_sweep_as_ctrl_c_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    connected(monkeypatch, tmp_path, one=8.0)
    assert signal.getsignal(signal.SIGTERM) is signal.default_int_handler


@pytest.mark.usefixtures("signals")
def test_machines_too_small_for_a_trial_are_named_where_each_type_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A head that runs no tasks has no CPU."""
    from runner.cluster import away

    engine = connected(monkeypatch, tmp_path, large=16.0, small=4.0, head=0.0)
    request: Any = None
    monkeypatch.setattr(away, "connect_engine", lambda _: nullcontext(engine))
    monkeypatch.setattr(engine, "node_types", lambda: {"16-cores": "large"})
    assert away.find_types(request) == {"16-cores": "large"}
    told = "runner: --per-node-type leaves out small: a trial needs 8 CPUs (see --threads)\n"
    assert capsys.readouterr().err == told


SMALL = (*sweeps.STUDY, "--batch-size", "16,32")


@pytest.fixture
def two_types(variables: dict[str, str]) -> Iterator[Any]:
    """Three raylets: two may use one core, the third all."""
    allowed = os.sched_getaffinity(0)
    every = set(range(os.cpu_count() or 1))
    if len(every) < 2:
        pytest.skip("this machine has one core")
    made = cluster_utils.Cluster()
    try:
        for cores in ({min(every)}, {min(every)}, every):
            os.sched_setaffinity(0, cores)
            made.add_node(num_cpus=1, object_store_memory=100 * 2**20, include_dashboard=False)
        made.wait_for_nodes()
        os.sched_setaffinity(0, every)
        yield made
    finally:
        made.shutdown()
        os.sched_setaffinity(0, allowed)


def test_a_study_runs_once_on_each_type_of_machine_with_a_chapter_for_each_and_one_table(
    tmp_path: Path, two_types: Any, variables: dict[str, str]
) -> None:
    """Ctrl-C interrupts it in between: what was finished stays, nothing else does, and the same command goes on."""
    results = tmp_path / "results"
    command = [sys.executable, "-m", "runner", *SMALL, "--ray", two_types.address, "--per-node-type"]
    driver = begin([*command, "--results", results], variables)
    wait_for(lambda: bool(list(results.glob("*/trials/*/result.json"))), driver)
    driver.send_signal(signal.SIGINT)
    printed, _ = driver.communicate(timeout=LONG_S)
    assert driver.returncode == 130 and "every finished trial is kept" in printed, printed
    assert none_outlives(), "a trial outlives its command"
    kept = {path.name: ended_ok(path) for path in results.iterdir()}
    assert any(kept.values())
    printed, _ = begin([*command, "--results", results], variables).communicate(timeout=LONG_S)
    folders = sorted(path.name for path in results.iterdir() if path.name != "report")
    assert len(folders) == 2 and folders[0].endswith("1-cores"), printed
    assert all(len(stored(results / name)) == 2 for name in folders), printed
    for folder, trials in kept.items():
        assert {name: measured(results / folder / "trials" / name) for name in trials} == trials
    # A type may have been finished by then, or a trial whose result was on its way is made again from its files.
    ends = {name: (f"{name}: framework", f"{name}: 2 of 2 trials are finished") for name in folders}
    assert all(any(line in printed for line in ends[name]) for name in folders), printed
    assert all(f"{name}: node " in printed for name in folders), printed
    page = (results / "report" / "report.md").read_text()
    assert page.count("\n## ") >= 3 and "Side by side" in page


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--ray", "127.0.0.1:1"), "ray start --head"),
        (("--ray", "auto"), "ray start --head"),
        (("--ray", "here"), "give auto or HOST:PORT"),
        (("--ray", "auto", "--isolation", "here"), "leave --isolation and --python out"),
        (("--ray", "auto", "--memory-limit", 512), "leave --memory-limit out"),
        (("--ray", "auto", "--study", "powers-of-two-cpu"), "blocks of steps"),
        (("--ray", "auto", "--shard", "1/2"), "leave one of them out"),
        (("--shard", "1/2", "--until-stable"), "leave one of them out"),
        (("--shard", "1/2", "--study", "powers-of-two-cpu"), "leave one of them out"),
        (("--shard", "3/2"), "not I/N with I from 1 to N"),
        (("--per-node-type",), "give --ray"),
        (("--shard", "1/2", "--node", "abc"), "give --ray"),
        (("--ray", "auto", "--device", "cuda:1"), "give --device cuda"),
        (("--ray", "auto", "--device", "cuda", "--devices", 2), "leave it out"),
    ],
)
def test_what_cannot_be_handed_out_is_one_line_before_anything_is_started(
    tmp_path: Path, options: tuple[object, ...], told: str
) -> None:
    ended = run_runner("--framework", "numpy", *options, "--results", tmp_path / "results")
    assert ended.returncode == 2, ended.stderr
    assert told in ended.stderr and ended.stderr.count("\n") == 1
