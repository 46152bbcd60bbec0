"""`--precision float32 bfloat16 tf32`, by the real command line: columns, each compared with the referee in the same
precision; or the reason why this processor does not have it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import TINY
from copied import copy_undisturbed, run_in, with_cpu_flags

from workloads.records import processor
from workloads.records.figures import EXACT_ACTIVATIONS
from workloads.records.files import RESULT_FILE

WORDS = ("--framework", "pytorch", *TINY, "--device", "cpu", "--batch-size", 16, "--epochs", 2, "--window", 0.3)
AVX2 = ("fma", "avx2")
Columns = tuple[Path, dict[str, Any]]  # results folder, result by column


def run_precisions(flags: tuple[str, ...], folder: Path, *precisions: str) -> Columns:
    """Train in these precisions on a processor that has these flags, as the project reads them."""
    project = copy_undisturbed(folder / "project")
    with_cpu_flags(project, *flags)
    results = folder / "results"
    done = run_in(project, *WORDS, "--precision", *precisions, "--results", results)
    assert done.returncode == 1, done.stdout + done.stderr  # one of them is unsupported
    stored = [json.loads(path.read_text()) for path in results.glob(f"trials/*/{RESULT_FILE}")]
    return results, {result["spec"]["cell"]["framework"]: result for result in stored}


@pytest.fixture(scope="module")
def reduced(tmp_path_factory: pytest.TempPathFactory) -> Columns:
    """Columns of a processor that says it computes in bfloat16."""
    flags = (*AVX2, *processor.COMPUTING["bfloat16"])
    return run_precisions(flags, tmp_path_factory.mktemp("with"), "float32", "bfloat16", "tf32")


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> Columns:
    """The column of a processor that does not; what else a run has stands beside it in `reduced`, where TF32 is
    refused."""
    return run_precisions(AVX2, tmp_path_factory.mktemp("without"), "bfloat16")


@pytest.mark.parametrize("asked", ["reduced", "refused"])
def test_each_precision_is_a_column_or_says_why_it_is_none(asked: str, request: pytest.FixtureRequest) -> None:
    _, columns = request.getfixturevalue(asked)
    told = {name: (each["spec"]["task"]["precision"], each["status"], each["reason"]) for name, each in columns.items()}
    if asked == "refused":
        missing = processor.explain_lack("bfloat16", AVX2)
        assert missing and told == {"pytorch@bfloat16": ("bfloat16", "unsupported", missing)}
    else:
        assert told == {
            "pytorch": ("float32", "ok", None),
            "pytorch@bfloat16": ("bfloat16", "ok", None),
            "pytorch@tf32": ("tf32", "unsupported", "TF32 is a precision of NVIDIA's GPUs, no CPU has it"),
        }


def test_bfloat16_learns_the_same_within_its_rounding_and_says_that_it_was_held_against_it(reduced: Columns) -> None:
    folder, columns = reduced
    full, half = columns["pytorch"], columns["pytorch@bfloat16"]
    checks = {check["name"]: check for check in half["checks"]}
    gates = [check for check in checks.values() if "compared with the referee" in (check["detail"] or "")]
    assert gates and all(check["passed"] for check in gates)
    assert half["facts"]["precision"] == "bfloat16"
    losses = [each["epochs"][-1]["train_loss"] for each in (full, half)]
    assert losses[0] != losses[1] and losses[0] == pytest.approx(losses[1], rel=0.05)
    exact = half["figures"][EXACT_ACTIVATIONS.name]
    assert exact["value"] is None and "the framework's choice" in exact["reason"]
    page = (folder / "report" / "report.md").read_text()
    assert "| PyTorch @bfloat16" in page and "precision float32 and bfloat16 (@bfloat16)" in page
