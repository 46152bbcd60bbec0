"""The same images with Podman, and through the compose file."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from conftest import ROOT, by_cell, run_runner
from engines import (
    SIZES,
    STUDY,
    learnt,
    reference,
)

from runner.engine import Engine


def test_podman_gives_other_losses_than_docker(built, in_venvs, tmp_path, monkeypatch):
    """The same image, given from one engine to the other."""
    if not shutil.which("podman"):
        pytest.skip("no podman on this machine")
    configuration = tmp_path / "containers.conf"
    configuration.write_text(
        '[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\n'
        '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]\n'
    )
    monkeypatch.setenv("CONTAINERS_CONF", str(configuration))
    give = f"docker save {reference('mxnet')} | podman load"
    subprocess.run(["sh", "-c", give], check=True, capture_output=True)
    podman = Engine("podman", "podman", "4")
    assert podman.inspect(reference("mxnet"))
    folder = tmp_path / "bin"
    folder.mkdir()
    for program in ("podman", "runc", "conmon", "git", "newuidmap"):
        if found := shutil.which(program):
            (folder / program).symlink_to(found)
    done = run_runner(
        *("--framework", "mxnet", "--isolation", "docker", *STUDY, "--results", tmp_path / "results"),
        PATH=f"{folder}",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    cells = by_cell(tmp_path / "results")
    assert {cell: learnt(result) for cell, result in cells.items()} == {
        cell: learnt(in_venvs[cell]) for cell in cells
    } and len(cells) == len(SIZES)
    assert next(iter(cells.values()))["machine"]["container"]["engine"].startswith("podman")


def test_compose_does_not_run_the_study(built, tmp_path):
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
