"""The same images built and run by Podman, and through the compose file."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Cells, by_cell, run_runner
from engines import STUDY, base_options, build, learnt, reference, secret_options

from runner.environments.engine import Engine

CONFIGURATION = """
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
"""  # for a machine without systemd


@pytest.fixture
def podman(built: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """give(*names): Podman has what Docker has under these names; the variables with which it is the only engine."""
    if not shutil.which("podman"):
        pytest.skip("no podman on this machine")
    (tmp_path / "containers.conf").write_text(CONFIGURATION)
    monkeypatch.setenv("CONTAINERS_CONF", str(tmp_path / "containers.conf"))
    folder = tmp_path / "bin"
    folder.mkdir()
    for program in ("podman", "runc", "conmon", "git", "newuidmap"):
        if found := shutil.which(program):
            (folder / program).symlink_to(found)

    def give(*names: str) -> dict[str, str]:
        for name in names:
            handed = f"docker save {name} | podman load"
            subprocess.run(["sh", "-c", handed], check=True, capture_output=True)
        return {"PATH": str(folder)}

    return give


def image_id(name: str) -> str:
    command = ["podman", "image", "inspect", "--format", "{{.Id}}", name]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_podman_gives_the_same_losses_as_docker(
    podman: Callable[..., dict[str, Any]], in_venvs: Cells, tmp_path: Path
) -> None:
    """Docker's image is given to Podman."""
    words = ("--framework", "mxnet", "--isolation", "docker", *STUDY, "--results", tmp_path / "results")
    done = run_runner(*words, **podman(reference("mxnet")))
    assert done.returncode == 0, done.stdout + done.stderr
    cells = by_cell(tmp_path / "results")
    assert set(cells) == {cell for cell in in_venvs if cell[0] == "mxnet"}
    for cell, result in cells.items():
        assert learnt(result) == learnt(in_venvs[cell])
        assert result["machine"]["container"]["engine"].startswith("podman")


def test_the_same_inputs_give_the_same_image(
    podman: Callable[..., dict[str, Any]], engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are equal to the last bit, where the engine sets the times of layers: Podman does."""
    base = base_options(engine)
    name = base[1].removeprefix("BASE=") if base else None
    for key, value in podman(*([name] if name else [])).items():
        monkeypatch.setenv(key, value)
    if name:
        local = f"localhost/{name.removeprefix('docker.io/library/')}"
        subprocess.run(["podman", "tag", local, name], capture_output=True)
    (tmp_path / "secrets").mkdir()
    options = [*base, *secret_options(tmp_path / "secrets"), "--no-cache"]
    found = []
    for _ in range(2):
        done = build("numpy", *options)
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
        found.append(image_id(reference("numpy")))
    assert found[0] == found[1]


def test_compose_runs_the_study(built: None, tmp_path: Path) -> None:
    compose = ["docker", "compose"]
    if subprocess.run([*compose, "version"], capture_output=True).returncode != 0:
        compose = ["docker-compose"]
        if not shutil.which(compose[0]):
            pytest.skip("no docker compose on this machine")
    (tmp_path / "results").mkdir()
    told = {
        "FRAMEWORK": "numpy",
        "RESULTS": str(tmp_path / "results"),
        "UID": str(os.getuid()),
        "GID": str(os.getgid()),
    }
    study = ["--framework", "numpy", "--batch-size", "512", "--epochs", "1", "--window", "0.2"]
    done = subprocess.run(
        [*compose, "--file", "docker/compose.yaml", "run", "--rm", "cpu", *study],
        cwd=ROOT,
        env=os.environ | told,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert by_cell(tmp_path / "results" / "quick")["numpy", 512]["status"] == "ok"
