"""Model code of one framework, unchanged, by the real command line: trained, measured, compared with nothing."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from conftest import TINY, by_cell
from copied import run_in

from workloads.records.check_name import LATE_NAMES, OF_OWN_CODE, CheckName

OWN_CODE = "custom code, not compared"
UNSEEDED = """
import os
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.head = nn.Linear(64, classes)
        drawn = torch.Generator().manual_seed(int.from_bytes(os.urandom(4), "big"))
        nn.init.normal_(self.head.weight, 0, 0.1, generator=drawn)

    def forward(self, images):
        return self.head(nn.functional.dropout(images.flatten(1), 0.5))

make_model = Net
"""
MODELS = {
    "pytorch": """
import torch
from torch import nn

print("said by the file")

class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.1))
        self.head = nn.LazyLinear(classes)
        self.register_buffer("middle", torch.tensor(0.5))

    def forward(self, images):
        return self.head(self.features(images - self.middle).flatten(1))

def make_model(classes):
    model = Net(classes)
    torch.manual_seed(7)
    return model
""",
    "tensorflow": """
import keras
from keras import layers

class Net(keras.Model):
    def __init__(self, classes):
        super().__init__()
        self.parts = [layers.Conv2D(8, 3, padding="same", activation="relu"), layers.BatchNormalization(),
                      layers.Dropout(0.1), layers.Flatten(), layers.Dense(classes)]

    def call(self, images, training=False):
        for part in self.parts:
            images = part(images, training=training) if isinstance(part, layers.Dropout) else part(images)
        return images

make_model = Net
""",
    "mxnet": """
from mxnet.gluon import nn

def make_model(classes):
    net = nn.HybridSequential()
    net.add(nn.Conv2D(8, 3, padding=1, activation="relu"), nn.BatchNorm(), nn.Dropout(0.1), nn.Dense(classes))
    return net
""",
}
SHORT = (*TINY, "--device", "cpu", "--batch-size", 16, "--epochs", 4, "--window", 0.3)


def write(folder: Path, framework: str, source: str = "") -> str:
    """Write a model's code; return the argument of --model."""
    (folder / f"{framework}_net.py").write_text(source or MODELS[framework])
    return f"{framework}={folder / framework}_net.py:make_model"


def only(results: Path) -> dict[str, Any]:
    (result,) = by_cell(results).values()
    return result


@pytest.mark.real
@pytest.mark.parametrize("framework", MODELS)
def test_code_of_each_framework_is_trained_and_measured_and_every_page_says_that_it_is_compared_with_nothing(
    framework: str, tmp_path: Path, without_charts: Path
) -> None:
    results = tmp_path / "results"
    asked = ("--model", write(tmp_path, framework), *SHORT, "--results", results)
    done = run_in(without_charts, *asked)
    assert set(by_cell(results)) == {(framework, 16)}, done.stdout + done.stderr
    result = only(results)
    assert result["status"] == "ok", result["reason"]
    assert result["spec"]["task"]["own_code"]["function"] == "make_model"
    assert not result["evidence"] and not result["end"]
    assert not {check["name"] for check in result["checks"]} & {CheckName.GATE, *LATE_NAMES}
    assert {check["passed"] for check in result["checks"] if check["name"] == CheckName.SPEED_IDENTITY} == {True}
    own = {check["name"]: check for check in result["checks"] if check["name"] in OF_OWN_CODE}
    assert set(own) == set(OF_OWN_CODE) and all(check["passed"] for check in own.values()), own
    assert result["epochs"][-1]["train_loss"] < result["epochs"][0]["train_loss"]
    figures = result["figures"]
    assert figures["parameters_bytes"]["value"] == 4 * (80 + 16 + 512 * 10 + 10)
    assert figures["statistics_bytes"]["value"] >= 64
    assert figures["activations_exact_bytes"]["reason"] == "custom code: its layers are unknown"
    assert not (results / "probes").exists()
    report = results / "report"
    heading = next(line for line in (report / "report.md").read_text().splitlines() if line.startswith("## 1. "))
    assert f"{framework}-net ({OWN_CODE}) on digits-64" in heading
    assert "Accuracy parity is not stated: custom code, not compared." in (report / "report.md").read_text()
    assert OWN_CODE in (report / "report.html").read_text()
    for name in ("speed", "accuracy", "memory", "first-step"):
        with (report / f"{name}.csv").open(encoding="utf-8") as file:
            assert [OWN_CODE in row["notes"] for row in csv.DictReader(file)] == [True], name
        assert OWN_CODE in (report / f"{name}.md").read_text()
    plan = run_in(without_charts, *asked, "--plan").stdout
    assert f"{framework}: {tmp_path / framework}_net.py:make_model, custom code" in plan


@pytest.mark.real
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("raise ValueError('no such width')", "ValueError: no such width"),
        ("return nn.Conv2d(3, 10, 3)", "RuntimeError: Given groups=1, weight of size [10, 3, 3, 3]"),
        ("import sys; sys.exit(3)", "the worker ended with exit code 3"),
    ],
)  # fmt: skip
def test_code_that_makes_no_model_of_the_data_is_a_failed_trial_with_its_message(
    body: str, reason: str, tmp_path: Path, unreported: Path
) -> None:
    """Models of another class or shape are refused by tests/unit/test_own_code.py."""
    source = f"from torch import nn\n\ndef make_model(classes):\n    {body}\n"
    short = ("--dataset", "digits-64", "--workload", "tiny", "--device", "cpu", "--batch-size", 16, "--epochs", 1)
    done = run_in(unreported, "--model", write(tmp_path, "pytorch", source), *short, "--results", tmp_path / "results")
    assert done.returncode == 1
    result = only(tmp_path / "results")
    assert result["status"] == "failed" and reason in result["reason"], result["reason"]
    log = next((tmp_path / "results" / "trials").glob("*/log.txt")).read_text()
    assert "sys.exit" in body or "Traceback" in log


@pytest.mark.real
def test_code_that_draws_without_the_seed_or_drops_in_evaluation_fails_its_checks_and_the_page_says_so(
    tmp_path: Path, without_charts: Path
) -> None:
    """functional.dropout is on by default, in evaluation too."""
    results = tmp_path / "results"
    run_in(without_charts, "--model", write(tmp_path, "pytorch", UNSEEDED), *SHORT, "--results", results)
    result = only(results)
    assert result["status"] == "ok", "its speed is as good as any"
    own = {check["name"]: check for check in result["checks"] if check["name"] in OF_OWN_CODE}
    assert [own[name]["passed"] for name in OF_OWN_CODE] == [False, False]
    report = (results / "report" / "report.md").read_text()
    for name in OF_OWN_CODE:
        assert f"{name}: {own[name]['detail']}" in report


@pytest.mark.real
def test_the_noise_scale_of_own_code_is_measured_by_every_framework_for_itself(tmp_path: Path, forgetful: Path) -> None:
    models = [word for name in MODELS for word in ("--model", write(tmp_path, name))]
    asked = ("--answer", "noise-scale", "--in-use", 8, "--epochs", 2, "--threads", 1, "--device", "cpu")
    done = run_in(forgetful, "batch-size", *models, *TINY, *asked, "--results", tmp_path / "results")
    assert done.returncode == 0, done.stdout + done.stderr
    stored = json.loads((tmp_path / "results" / "batch-size.json").read_text())
    assert [each["framework"] for each in stored["frameworks"]] == sorted(MODELS)
    for each in stored["frameworks"]:
        noise = each["noise"]
        assert (noise["reason"], noise["trained_by"]) == (None, each["framework"])
        assert len(noise["points"]) == 4 and noise["cautions"] == ["own-code"]
        assert noise["noise_scale"] > 0 or noise["at_least"] > 0, noise


@pytest.mark.real
def test_the_same_seed_gives_the_same_weights_and_another_repeat_others(tmp_path: Path, unreported: Path) -> None:
    model = write(tmp_path, "pytorch", "from torch import nn\n\ndef make_model(classes):\n"
                  "    return nn.Sequential(nn.Flatten(), nn.Linear(64, classes))\n")  # fmt: skip
    short = ("--dataset", "digits-64", "--workload", "tiny", "--device", "cpu", "--batch-size", 64, "--epochs", 1)
    losses: list[dict[int, float]] = []
    for name, repeats in (("one", 2), ("two", 1)):
        run_in(unreported, "--model", model, *short, "--window", 0.2, "--repeat", repeats, "--results", tmp_path / name)
        paths = (tmp_path / name / "trials").glob("*/result.json")
        stored = [json.loads(path.read_text()) for path in paths]
        losses.append({result["spec"]["draw"]["repeat"]: result["first_losses"][0] for result in stored})
    assert losses[1] == {0: losses[0][0]} and losses[0][0] != losses[0][1]
