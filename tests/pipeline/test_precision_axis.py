"""`--precision float32 bfloat16 tf32`, by the real command line: columns beside each other, each held against the
referee in its own precision; or the reason why this processor has it not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import PATIENT, TINY
from copied import run_in

from runner.machine.description import cpu_flags
from workloads.records import processor
from workloads.records.figures import EXACT_ACTIVATIONS
from workloads.records.files import RESULT_FILE

WORDS = ("--framework", "pytorch", *TINY, "--device", "cpu", "--batch-size", 16, "--epochs", 2, "--window", 0.3)
REFUSED = processor.lacks("bfloat16", cpu_flags(processor.COMPUTES))


@pytest.fixture(scope="module")
def reduced(tmp_path_factory: pytest.TempPathFactory, forgetful: Path) -> tuple[Path, dict[str, Any]]:
    """(results folder, result by column)."""
    folder = tmp_path_factory.mktemp("precisions")
    done = run_in(forgetful, *WORDS, *PATIENT, "--precision", "float32", "bfloat16", "tf32", "--results", folder)
    assert done.returncode == 1, done.stdout + done.stderr  # no CPU has TF32
    results = [json.loads(path.read_text()) for path in folder.glob(f"trials/*/{RESULT_FILE}")]
    return folder, {result["spec"]["cell"]["framework"]: result for result in results}


def test_each_precision_is_a_column_or_says_why_it_is_none(reduced: tuple[Path, dict[str, Any]]) -> None:
    _, columns = reduced
    told = {name: (each["spec"]["task"]["precision"], each["status"], each["reason"]) for name, each in columns.items()}
    assert told == {
        "pytorch": ("float32", "ok", None),
        "pytorch@bfloat16": ("bfloat16", "unsupported" if REFUSED else "ok", REFUSED),
        "pytorch@tf32": ("tf32", "unsupported", "TF32 is a precision of NVIDIA's GPUs, no CPU has it"),
    }


@pytest.mark.skipif(bool(REFUSED), reason=REFUSED or "")
def test_bfloat16_learns_the_same_within_its_rounding_and_says_that_it_was_held_against_it(
    reduced: tuple[Path, dict[str, Any]],
) -> None:
    folder, columns = reduced
    full, half = columns["pytorch"], columns["pytorch@bfloat16"]
    checks = {check["name"]: check for check in half["checks"]}
    gates = [check for check in checks.values() if "held against the referee" in (check["detail"] or "")]
    assert gates and all(check["passed"] for check in gates)
    assert half["facts"]["precision"] == "bfloat16"
    losses = [each["epochs"][-1]["train_loss"] for each in (full, half)]
    assert losses[0] != losses[1] and losses[0] == pytest.approx(losses[1], rel=0.05)
    exact = half["figures"][EXACT_ACTIVATIONS.name]
    assert exact["value"] is None and "the framework's choice" in exact["reason"]
    page = (folder / "report" / "report.md").read_text()
    assert "| PyTorch @bfloat16" in page and "precision float32 and bfloat16 (@bfloat16)" in page
