"""Six networks of torchvision are imported without an edit: as many parameters, and the same logits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT
from filelock import FileLock
from test_traced_models import PYTHON, compute_logits

from workloads.records.network import OwnCode
from workloads.source.traced import TRACED_FILE, read_traced

# Parameters as torchvision publishes them, for 1,000 classes; of vit_b_16 for images of 64 x 64.
PARAMETERS = {
    "resnet50": 25_557_032,
    "mobilenet_v3_large": 5_483_032,
    "efficientnet_b0": 5_288_548,
    "convnext_tiny": 28_589_128,
    "vit_b_16": 86_429_416,
    "densenet121": 7_978_856,
}
SHAPE = (64, 64, 3)
TOLERANCE = 1e-5  # of the largest logit
HERE = ROOT / "tests" / "conformance"
PACKAGES = ROOT / ".envs" / "torchvision"  # beside the environments; none of them is changed

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("torchvision")]


@pytest.fixture(scope="module")
def packages() -> Path:
    """The folder of torchvision, installed once by its pins; skips where no package index offers it."""
    with FileLock(PACKAGES.with_suffix(".lock")):
        if not (PACKAGES / ".complete").exists():
            pinned = (
                "--no-deps",
                "--require-hashes",
                "--only-binary=:all:",
                "-r",
                HERE / "requirements-torchvision.txt",
            )
            command = [sys.executable, "-m", "runner.environments.installers", "install", "--quiet"]
            done = subprocess.run(
                [*command, *pinned, "--upgrade", "--target", PACKAGES], cwd=ROOT, capture_output=True, text=True
            )
            if done.returncode:
                pytest.skip(f"torchvision cannot be installed: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
            (PACKAGES / ".complete").touch()
    return PACKAGES


@pytest.fixture(scope="module")
def folder(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All six, traced in one process of PyTorch's environment."""
    made = tmp_path_factory.mktemp("torchvision")
    np.save(made / "pixels.npy", np.random.default_rng(3).integers(0, 256, (2, *SHAPE), dtype=np.uint8))
    environment = os.environ | {"PYTHONPATH": str(packages)}
    subprocess.run(
        [PYTHON, HERE / "torchvision_models.py", made, *PARAMETERS], check=True, timeout=600, env=environment
    )
    return made


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_network_of_torchvision_has_as_many_parameters_and_the_same_logits(name: str, folder: Path) -> None:
    code = OwnCode("pytorch", "net.py", name, "0" * 12, 1000, SHAPE)
    imported = read_traced(folder / name, code, b"", name.replace("_", "-"))
    traced = json.loads((folder / name / TRACED_FILE).read_text())
    assert imported.workload.parameter_count == traced["parameters"] == PARAMETERS[name]
    truth = np.load(folder / name / "logits.npy")
    found = compute_logits(imported, np.load(folder / "pixels.npy"))
    assert float(np.ptp(truth)) > 0.1
    assert float(np.abs(found - truth).max()) <= TOLERANCE * float(np.abs(truth).max())
