"""Images as workers of this machine's runner: one container for each trial."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conftest import PROJECT, ROOT, Cells, by_cell, make_spec, run_runner
from engines import STUDY, containers, learnt, reference, wait_for

from runner.environments.containers import find
from runner.environments.definition import read
from runner.environments.engine import Engine, EngineError
from runner.environments.images import Image

UUID = "GPU-00000000-1111-2222-3333-444444444444"


@pytest.fixture(scope="module")
def by_runner(built: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Cells]:
    """(results folder, {cell: result}) of containers orchestrated from here."""
    results = tmp_path_factory.mktemp("docker")
    done = run_runner("--framework", "all", "--isolation", "docker", *STUDY, "--results", results)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (results / "report" / "report.html").exists()
    return results, by_cell(results)


def test_losses_in_containers_of_the_runner_are_those_in_virtual_environments(
    by_runner: tuple[Path, Cells], in_venvs: Cells
) -> None:
    _, cells = by_runner
    assert set(cells) == set(in_venvs)
    for cell, result in cells.items():
        assert result["status"] == "ok", result["reason"]
        assert learnt(result) == learnt(in_venvs[cell]), cell
        ratio = speed(result) / speed(in_venvs[cell])
        print(
            f"{cell}: {speed(result):.0f} images/s in a container, {100 * ratio:.0f} % of the venv's (one trial each)"
        )


def speed(result: dict[str, Any]) -> float:
    return float(result["figures"]["images_per_s"]["value"])


def test_a_container_is_metered_from_outside_and_recorded(
    by_runner: tuple[Path, Cells], in_venvs: Cells, engine: Engine
) -> None:
    results, cells = by_runner
    for cell, result in cells.items():
        figures, container = result["figures"], result["machine"]["container"]
        assert container["engine"] == engine.title and container["image"] == reference(cell[0])
        inspected = engine.inspect(container["image"])
        assert inspected and inspected["Id"].endswith(container["image_id"])
        assert result["machine"]["libc"].startswith("glibc")
        assert figures["cpu_percent"]["value"] > 5
        peak, known = figures["host_memory_peak_bytes"]["value"], in_venvs[cell]["figures"]["host_memory_peak_bytes"]
        assert 0.6 < peak / known["value"] < 1.6
    owners = {path.stat().st_uid for path in results.rglob("*")}
    assert owners == {os.getuid()} and containers() == []


def test_the_same_command_does_not_measure_again_what_is_finished(by_runner: tuple[Path, Cells]) -> None:
    results, _ = by_runner
    done = run_runner("--framework", "all", "--isolation", "docker", *STUDY, "--results", results)
    assert done.returncode == 0 and "6 of 6 trials are finished" in done.stdout


def long_run(results: Path, *sizes: str) -> subprocess.Popen[str]:
    runner = [sys.executable, "-m", "runner", "--framework", "numpy", "--isolation", "docker", "--device", "cpu"]
    study = ["--batch-size", *sizes, "--epochs", "30", "--window", "1", "--results", str(results)]
    return subprocess.Popen([*runner, *study], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def killable(results: Path) -> list[str] | None:
    """Return the names of a trial's containers once it trains; None before."""
    for events in (results / "trials").glob("*/events.jsonl"):
        if '"first_step"' in events.read_text():
            return [name for name in containers() if events.parent.name in name]
    return None


def test_a_container_killed_in_mid_trial_neither_stops_the_run_nor_stays_behind(built: None, tmp_path: Path) -> None:
    runner = long_run(tmp_path, "32", "1024")
    (name,) = wait_for(lambda: killable(tmp_path))
    subprocess.run(["docker", "kill", name], check=True, capture_output=True)
    time.sleep(1)
    runner.send_signal(signal.SIGINT)
    told, _ = runner.communicate(timeout=120)
    reasons = [json.loads(path.read_text())["reason"] for path in tmp_path.glob("trials/*/result.json")]
    assert any("killed by SIGKILL" in (reason or "") for reason in reasons), told
    assert runner.returncode == 130 and containers() == []


def test_an_interrupted_or_a_killed_runner_leaves_no_container_running(built: None, tmp_path: Path) -> None:
    for number, deadly in enumerate((signal.SIGINT, signal.SIGKILL)):
        results = tmp_path / str(number)
        runner = long_run(results, "32")
        wait_for(partial(killable, results))
        runner.send_signal(deadly)
        runner.communicate(timeout=120)
        wait_for(lambda: not containers(), 30)


def test_a_container_beyond_its_memory_limit_is_a_finding(built: None, tmp_path: Path) -> None:
    words = ("--framework", "numpy", "--batch-size", "1024", "--epochs", "1", "--device", "cpu", "--results", tmp_path)
    done = run_runner(*words, "--isolation", "docker", "--memory-limit", "256")
    (result,) = by_cell(tmp_path).values()
    assert (result["status"], done.returncode) == ("out_of_memory", 0), result["reason"]
    assert result["spec"]["placement"]["memory_limit_bytes"] == 256 * 2**20


def test_a_container_reaches_no_network_and_no_engine_and_writes_nowhere_else(
    built: None, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attempts are made inside the container, where a worker runs."""
    script = (
        "import json, os, pathlib, socket\n"
        "def refused(attempt):\n"
        "    try:\n"
        "        attempt()\n"
        "    except OSError as error:\n"
        "        return type(error).__name__\n"
        "print(json.dumps([sorted(os.listdir('/sys/class/net')),\n"
        "    refused(lambda: socket.create_connection(('127.0.0.1', 9), 1)),\n"
        "    refused(lambda: pathlib.Path('/results/inputs').mkdir()), refused(lambda: pathlib.Path('/x').touch()),\n"
        "    [str(p) for p in pathlib.Path('/').glob('**/*.sock')], pathlib.Path('/proc/self/status').read_text()]))"
    )
    monkeypatch.setattr("runner.environments.containers.PROBE", script)
    asked = []
    real = subprocess.run

    def run(*words: Any, **named: Any) -> Any:
        asked.append(real(*words, **named))
        return asked[-1]

    monkeypatch.setattr("runner.environments.containers.subprocess.run", run)
    launcher = find(engine, Image(read(PROJECT, "numpy", "cpu")))
    with pytest.raises((EngineError, ValueError)):  # it does not report what the runner's own probe reports
        launcher.tried(tmp_path, make_spec(threads=1).placement)
    links, local, inputs, root, sockets, status = json.loads(asked[-1].stdout)
    assert links == ["lo"] and local and inputs and root and sockets == []
    assert re.search(r"CapEff:\s+0+$", status, re.MULTILINE) and re.search(r"NoNewPrivs:\s+1", status)


def test_a_missing_gpu_runtime_is_a_clear_line(built: None, engine: Engine, tmp_path: Path) -> None:
    launcher = find(engine, Image(read(PROJECT, "numpy", "cpu")))
    with pytest.raises(EngineError, match="GPU runtime is missing"):
        launcher.tried(tmp_path, make_spec(threads=1, device=UUID).placement)


def test_a_missing_image_is_a_clear_line_that_says_what_builds_it(built: None, tmp_path: Path) -> None:
    subprocess.run(["docker", "tag", reference("numpy"), "kept"], check=True)
    try:
        subprocess.run(["docker", "rmi", reference("numpy")], check=True, capture_output=True)
        done = run_runner("--framework", "numpy", "--isolation", "docker", "--device", "cpu", "--results", tmp_path)
    finally:
        subprocess.run(["docker", "tag", "kept", reference("numpy")], check=True)
        subprocess.run(["docker", "rmi", "kept"], check=True, capture_output=True)
    assert done.returncode == 2 and not (tmp_path / "trials").exists()
    assert done.stderr == (
        "runner: --isolation docker: there is no image batchwise/numpy:cpu: "
        "make images FRAMEWORK=numpy DEVICE=cpu builds it\n"
    )


def test_a_daemon_that_is_down_is_a_clear_line(built: None, tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "docker").symlink_to(str(shutil.which("docker")))
    done = run_runner(
        *("--framework", "numpy", "--isolation", "docker", "--device", "cpu", "--results", tmp_path / "results"),
        PATH=str(folder),
        DOCKER_HOST=f"unix://{tmp_path}/nobody",
    )
    assert done.returncode == 2 and "the Docker daemon does not answer" in done.stderr


def test_a_build_on_a_full_disk_is_a_clear_line(built: None, engine: Engine, tmp_path: Path) -> None:
    """The engine writes an archive to a file system of one MiB."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small file system")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", tmp_path], check=True)
    try:
        with pytest.raises(EngineError, match="the disk is full"):
            engine.ask("save", "--output", str(tmp_path / "image.tar"), reference("numpy"))
    finally:
        subprocess.run(["umount", tmp_path], check=True)
