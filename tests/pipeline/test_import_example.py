"""examples/import_my_model.md, command by command, on a small folder of photographs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import photographs
import pytest
from conftest import REAL_FRAMEWORKS, ROOT, bare_environment

PAGE = ROOT / "examples" / "import_my_model.md"
PYTHON = ".venv/bin/python "

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("import-example")]


def read_commands() -> list[str]:
    """Return the page's commands, in its order."""
    return [line.strip() for line in PAGE.read_text(encoding="utf-8").splitlines() if line.strip().startswith(PYTHON)]


def test_a_new_users_hour_ends_with_a_batch_size_for_each_framework_and_a_proof(tmp_path: Path) -> None:
    photographs.write(tmp_path / "photos", train=48, test=12)
    said = []
    for command in read_commands():
        placed = command.replace("./photos", f"{tmp_path}/photos").replace("results/", f"{tmp_path}/")
        words = [
            sys.executable,
            *placed.removeprefix(PYTHON).split(),
            *(["--device", "cpu"] if "runner" in placed else []),
        ]
        done = subprocess.run(words, cwd=ROOT, env=bare_environment(), capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, done.stdout + done.stderr
        said.append(done.stdout)
    described, trained, answered = said
    assert "blocks.1.shortcut.0" in described and "head.1" in described
    proof = "my-torch-net: the imported network is your model: forward "
    assert proof in trained and proof in answered
    results = [json.loads(path.read_text()) for path in (tmp_path / "my-model" / "trials").glob("*/result.json")]
    assert {result["spec"]["cell"]["framework"] for result in results} == set(REAL_FRAMEWORKS)
    answers = json.loads((tmp_path / "my-batch-size" / "batch-size.json").read_text())
    fastest = {each["framework"]: each["fastest"] for each in answers["answers"]}
    assert set(fastest) == set(REAL_FRAMEWORKS) and all(each["batch_size"] for each in fastest.values())
