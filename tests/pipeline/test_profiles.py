"""`--profile default tuned`, by the real command line: the same numbers, in adjacent columns."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import PATIENT, PROJECT, ROOT, TINY
from copied import run_in

from runner.environments.definition import read
from runner.launch import Local
from workloads.records.files import RESULT_FILE
from workloads.records.job import Placement

WORDS = (
    *("--framework", "pytorch", *TINY, "--device", "cpu", "--batch-size", 16, "--epochs", 2, "--window", 0.3),
    *PATIENT,
)


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory, forgetful: Path) -> tuple[Path, dict[str, Any]]:
    """(results folder, result by column)."""
    folder = tmp_path_factory.mktemp("profiles")
    done = run_in(forgetful, *WORDS, "--profile", "default", "tuned", "--results", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    results = [json.loads(path.read_text()) for path in folder.glob(f"trials/*/{RESULT_FILE}")]
    return folder, {result["spec"]["cell"]["framework"]: result for result in results}


def test_both_profiles_are_held_against_the_referee_and_learn_the_same(profiled: tuple[Path, dict[str, Any]]) -> None:
    _, columns = profiled
    assert {name: each["spec"]["task"]["profile"] for name, each in columns.items()} == {
        "pytorch": "default",
        "pytorch@tuned": "tuned",
    }
    assert {each["status"] for each in columns.values()} == {"ok"}
    losses = [each["epochs"][-1]["train_loss"] for each in columns.values()]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_a_report_has_a_column_for_each_and_says_what_the_tuned_one_had_set(
    profiled: tuple[Path, dict[str, Any]],
) -> None:
    folder, columns = profiled
    page = (folder / "report" / "report.md").read_text()
    assert "| PyTorch @tuned" in page and "profile default and tuned (@tuned)" in page
    variables = columns["pytorch@tuned"]["machine"]["profile_variables"]
    assert variables and not columns["pytorch"]["machine"]["profile_variables"]
    plain = page.replace("\\", "")  # Markdown escapes an underscore
    assert all(f"{name}={value}" in plain for name, value in variables.items())


def test_a_worker_finds_the_variables_of_its_profile_alone() -> None:
    environment = read(PROJECT, "pytorch", "cpu")
    launcher = Local("python", environment.variables, PROJECT, profile_variables=environment.profile_variables)
    placement = Placement("cpu", 1, {})
    tuned = launcher.environment(placement, "tuned")
    assert environment.profile_variables["tuned"].items() <= tuned.items()
    assert not environment.profile_variables["tuned"].keys() & launcher.environment(placement).keys()


ASKED = """
import json, sys, torch
from adapters.pytorch.adapter import Adapter
Adapter().open("cpu", 1, sys.argv[1], "float32", "host", "on-demand")
print(json.dumps(torch.backends.cudnn.benchmark))
"""


@pytest.mark.parametrize(("profile", "on"), [("default", False), ("autotune", True), ("no-autotune", False)])
def test_pytorch_tries_its_convolutions_in_profile_autotune_alone(profile: str, on: bool) -> None:
    environment = read(PROJECT, "pytorch", "cpu")
    done = subprocess.run(
        [environment.interpreter, "-c", ASKED, profile], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) is on


@pytest.mark.parametrize(
    ("framework", "name"), [("tensorflow", "TF_CUDNN_USE_AUTOTUNE"), ("mxnet", "MXNET_CUDNN_AUTOTUNE_DEFAULT")]
)
def test_a_worker_is_told_whether_cudnn_tries_its_convolutions_whatever_the_caller_has(
    framework: str, name: str
) -> None:
    environment = read(PROJECT, framework, "cuda")
    launcher = Local("python", environment.variables, PROJECT, profile_variables=environment.profile_variables)
    for profile, value, of_the_caller in (("autotune", "1", "0"), ("no-autotune", "0", "1")):
        assert launcher.environment(Placement("GPU-1", 1, {name: of_the_caller}), profile)[name] == value
    assert name not in launcher.environment(Placement("GPU-1", 1, {}))


def test_on_a_cpu_there_is_nothing_that_cudnn_could_try(tmp_path: Path, unreported: Path) -> None:
    done = run_in(unreported, *WORDS, "--profile", "autotune", "--results", tmp_path)
    assert done.returncode == 1
    results = [json.loads(path.read_text()) for path in tmp_path.glob(f"trials/*/{RESULT_FILE}")]
    assert results and {(each["status"], each["reason"]) for each in results} == {
        ("unsupported", "profile autotune: it sets how cuDNN picks convolutions, and a CPU has no cuDNN")
    }


def test_a_framework_without_the_profile_is_unsupported_in_it_and_runs_in_the_other(
    tmp_path: Path, unreported: Path
) -> None:
    words = ("--framework", "numpy", "--isolation", "here", *WORDS[2:])
    done = run_in(unreported, *words, "--profile", "default", "tuned", "--results", tmp_path)
    assert done.returncode == 1
    results = [json.loads(path.read_text()) for path in tmp_path.glob(f"trials/*/{RESULT_FILE}")]
    statuses = {each["spec"]["cell"]["framework"]: (each["status"], each["reason"]) for each in results}
    assert statuses == {
        "numpy": ("ok", None),
        "numpy@tuned": ("unsupported", "its environment.toml has no [profile.tuned]"),
    }
