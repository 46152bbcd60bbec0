"""`python -m runner batch-size`, asked as a person asks it."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import run_runner

BAD = {
    "unknown answer": (["--answer", "fastests"], "did you mean fastest"),
    "batch size in use 0": (["--in-use", "0"], "--in-use 0: must be 1 or more"),
    "global batch below 1": (["--global-batch", "-8"], "--global-batch -8: must be 1 or more"),
    "accuracy in percent": (["--target-accuracy", "60"], "must be a share above 0 and up to 1"),
    "unknown framework": (["--framework", "pytorhc"], "did you mean pytorch"),
    "own code": (["--model", "pytorch=net.py:make"], "--model: not for batch-size"),
    "unknown option": (["--largest"], "--largest"),
}


@pytest.mark.parametrize(("arguments", "telling"), BAD.values(), ids=BAD)
def test_bad_input_is_one_line_and_starts_nothing(arguments: list[str], telling: str, tmp_path: Path) -> None:
    results = tmp_path / "results"
    refused = run_runner("batch-size", *arguments, "--results", results)
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1 and telling in refused.stderr
    assert not results.exists()
