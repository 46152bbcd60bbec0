"""A model in PyTorch code, imported for other frameworks by the real command line, and kept as a file."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT, bare_environment, by_cell, run_runner

from workloads.records.job import DRAWN, OWN
from workloads.weights import load

CODE = """
import torch
from torch import nn
from torch.nn import functional
from parts import Block

print("said by the file")

class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.stem = nn.Conv2d(1, 4, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.block = Block(4)
        self.drop = nn.Dropout(0.25)
        self.head = nn.Linear(4 * 2 * 2, classes)

    def forward(self, images):
        x = functional.relu(self.norm(self.stem(images)), inplace=True)
        x = functional.max_pool2d(self.block(x), 2)
        x = functional.dropout(self.drop(torch.flatten(x, 1)), 0.1, self.training)
        return self.head(x)

def make_model(classes):
    return Net(classes)
"""
PARTS = """
from torch import nn

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x):
        return x + self.conv(x)
"""
# The same in one file, since a worker has no neighbouring one.
WHOLE = CODE.replace("from parts import Block\n", PARTS)
LOADING = """net = Net(classes)
    net.load_state_dict(torch.load("weights.pt"))
    return net"""


pytestmark = [pytest.mark.real, pytest.mark.xdist_group("imported-code")]


def run_script(module: str, *words: object) -> subprocess.CompletedProcess[str]:
    """Run `python -m MODULE ...`."""
    environment = bare_environment() | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", module, *map(str, words)]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run the model with its own weights in two frameworks, and return what the run left."""
    folder = tmp_path_factory.mktemp("imported")
    (folder / "my_net.py").write_text(WHOLE)
    shared = ("--dataset", "digits-64", "--device", "cpu", "--batch-size", 16, "--epochs", 1, "--window", 0.3)
    done = run_runner(
        "--framework", "pytorch", "mxnet", "--workload", f"{folder}/my_net.py:make_model", "--from", "pytorch",
        "--results", folder / "results", *shared,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return {"folder": folder, "said": done.stdout + done.stderr}


def test_both_frameworks_train_the_model_from_its_own_weights(results: dict[str, Any]) -> None:
    folder = results["folder"] / "results"
    cells = by_cell(folder)
    assert {framework for framework, _ in cells} == {"pytorch", "mxnet"}, results["said"]
    assert {cell["status"] for cell in cells.values()} <= {"ok", "contended"}, results["said"]
    tasks = [cell["spec"]["task"] for cell in cells.values()]
    assert {task["initial"] for task in tasks} == {OWN} and {task["workload"] for task in tasks} == {"my-net"}
    (weights,) = {cell["spec"]["inputs"]["weights"]["path"] for cell in cells.values()}
    (tensors,) = {cell["spec"]["inputs"]["source_weights"]["path"] for cell in cells.values()}
    with np.load(folder / tensors) as source:
        assert np.array_equal(load(folder / weights)["stem/kernel"], source["stem.weight"].transpose(2, 3, 1, 0))
    assert "said by the file" not in results["said"]


def test_the_report_says_whose_weights_were_the_first(results: dict[str, Any]) -> None:
    report = (results["folder"] / "results" / "report" / "report.md").read_text()
    assert "initial weights the source's own" in report


def test_the_network_is_kept_as_a_file_that_any_command_takes(tmp_path: Path) -> None:
    (tmp_path / "my_net.py").write_text(CODE)
    (tmp_path / "parts.py").write_text(PARTS)
    source, out = f"{tmp_path}/my_net.py:make_model", tmp_path / "kept.json"
    words = ("--from", "pytorch", "--input-shape", 8, 8, 1)
    done = run_script("workloads", "import", source, *words, "--out", out)
    assert done.returncode == 0, done.stderr
    assert "my-net: 10 layers with 362 parameters written to" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept.json", "kept.npz", "my_net.py", "parts.py"]
    described = [run_script("workloads", "describe", *given).stdout for given in ((source, *words), (out,))]
    assert described[0] == described[1] and "block.conv (Conv2d)" in described[0]
    plan = run_runner(
        "--workload", out, "--dataset", "digits", "--plan", "--results", tmp_path / "r", "--device", "cpu"
    )
    assert plan.returncode == 0, plan.stderr
    assert f"--workload {out}: it is not proven to be the model that it was imported from" in plan.stderr
    assert "my_net.py makes no model without the files next to it: " in plan.stderr
    assert "No module named 'parts'" in plan.stderr
    alone = run_runner("--workload", source, "--from", "pytorch", "--dataset", "digits", "--results", tmp_path / "r")
    assert alone.returncode == 2, alone.stderr
    assert "No module named 'parts'; a run copies that file alone, without others" in alone.stderr
    assert DRAWN not in json.loads(out.read_text())["network"]


def test_a_model_that_loads_its_weights_from_its_own_folder_is_kept_and_trained_from_them(tmp_path: Path) -> None:
    """They are named as a script in that folder names them. A worker has no such folder, so nothing is compared."""
    loading = WHOLE[WHOLE.index("def make_model") :].replace("return Net(classes)", LOADING)
    trained = WHOLE[: WHOLE.index("def make_model")]
    saving = f"{trained}\ntorch.save(Net(10).state_dict(), {str(tmp_path / 'weights.pt')!r})\n"
    subprocess.run([ROOT / ".envs/pytorch-cpu/bin/python", "-c", saving], check=True, timeout=120)
    (tmp_path / "my_net.py").write_text(trained + loading)
    source, out = f"{tmp_path}/my_net.py:make_model", tmp_path / "kept.json"
    done = run_script("workloads", "import", source, "--from", "pytorch", "--input-shape", 8, 8, 1, "--out", out)
    assert done.returncode == 0, done.stderr
    assert json.loads(out.read_text())["origin"]["missing"].startswith(
        "my_net.py makes no model without the files next"
    )


def test_ctrl_c_while_a_model_is_traced_is_one_line(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    waiting = f"import pathlib, time\npathlib.Path({str(begun)!r}).touch()\ntime.sleep(120)\n"
    (tmp_path / "slow.py").write_text(f"{waiting}\ndef make_model():\n    pass\n")
    words = ("describe", f"{tmp_path}/slow.py:make_model", "--from", "pytorch", "--input-shape", "8", "8", "1")
    with subprocess.Popen(
        [sys.executable, "-m", "workloads", *words], cwd=ROOT, env=bare_environment() | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as started:  # fmt: skip
        for _ in range(1200):
            if begun.exists() or started.poll() is not None:
                break
            time.sleep(0.1)
        os.killpg(started.pid, signal.SIGINT)
        said = started.communicate(timeout=60)[1]
    assert begun.exists() and started.returncode == 130, said
    assert said.strip() == "workloads: interrupted"


def test_what_is_refused_is_one_line_with_the_module_and_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(WHOLE.replace("nn.Dropout(0.25)", "nn.AlphaDropout(0.25)"))
    source = f"{tmp_path}/net.py:make_model"
    for done in (
        run_script("workloads", "describe", source, "--from", "pytorch", "--input-shape", 8, 8, 1),
        run_runner("--workload", source, "--from", "pytorch", "--dataset", "digits", "--results", tmp_path / "r"),
    ):
        assert done.returncode == 2
        (line,) = done.stderr.splitlines()
        assert "drop (AlphaDropout): there is no layer record for it" in line
        assert f"--model pytorch={source}" in line and "compared with nothing" in line
    assert not (tmp_path / "r").exists()
