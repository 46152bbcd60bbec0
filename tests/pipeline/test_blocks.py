"""A study of blocks from the command line to its page."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import REAL_FRAMEWORKS, ROOT, TINY, run_runner
from copied import run_in

from workloads.records.blocks import BLOCKS_FILE, Phase, read_blocks, whole_rounds
from workloads.records.check_name import JUDGE, CheckName

CPU = ("--device", "cpu", "--threads", 1, *TINY, "--blocks", "7,8,9", "--window", 0.5, "--retry", "contended")
NUMPY = ("--framework", "numpy", "--isolation", "here", *CPU)


def results_of(folder: Path) -> dict[str, Any]:
    """{id: result.json} of the results that count."""
    found = {path.parent.name: json.loads(path.read_text()) for path in folder.glob("blocks/*/result.json")}
    return {name: result for name, result in found.items() if len(name.rpartition("-")[2]) == 8}


def measured(results: Path) -> list[dict[str, Any]]:
    """Return the results of a copy that ignores neighbours: none is contended there."""
    found = list(results_of(results).values())
    assert {result["status"] for result in found} == {"ok"}, found
    return found


def test_every_process_leaves_whole_rounds_in_the_drawn_order_and_is_held_against_the_referee(
    tmp_path: Path, without_charts: Path
) -> None:
    done = run_in(without_charts, *NUMPY, "--repeat", 2, "--results", tmp_path)
    found = measured(tmp_path)
    assert len(found) == 2, done.stdout + done.stderr
    for name, result in results_of(tmp_path).items():
        blocks = read_blocks(tmp_path / "blocks" / name / BLOCKS_FILE)
        for phase in Phase:
            rounds = whole_rounds(blocks, phase)
            assert len(rounds) >= 4 and all(sorted(each) == [7, 8, 9] for each in rounds)
            assert len({block.steps for block in blocks if block.phase is phase}) == 1
        orders = {tuple(b.batch_size for b in blocks if b.phase is Phase.TRAINING and b.round == n) for n in range(4)}
        assert len(orders) > 1, "the sizes always came in one order"
        assert result["evidence"], "its framework was not probed"
        (gate,) = [check for check in result["checks"] if check["name"] == CheckName.GATE]
        assert gate["passed"] and gate["against"] == [JUDGE]
    assert len({result["spec"]["inputs"]["turns"]["sha256"] for result in found}) == 2
    assert (tmp_path / "report" / "report.html").is_file() and not list(tmp_path.glob("trials/*"))


def test_what_is_finished_is_not_measured_again_and_an_attempt_is_never_written_over(
    tmp_path: Path, unreported: Path
) -> None:
    run_in(unreported, *NUMPY, "--results", tmp_path)
    (name,) = results_of(tmp_path)
    path = tmp_path / "blocks" / name / "result.json"
    result = json.loads(path.read_text())
    path.write_text(json.dumps(result | {"status": "failed", "reason": "made up"}))
    planned = run_in(unreported, *NUMPY, "--results", tmp_path, "--plan")
    assert "1 process to run" in planned.stdout
    run_in(unreported, *NUMPY, "--results", tmp_path)
    aside = tmp_path / "blocks" / f"{name}-1"
    assert json.loads((aside / "result.json").read_text())["reason"] == "made up"
    assert read_blocks(aside / BLOCKS_FILE)
    assert len(measured(tmp_path)) == 1
    again = run_in(unreported, *NUMPY, "--results", tmp_path)
    assert again.returncode == 0 and "1 of 1 processes are finished" in again.stdout, again.stdout
    assert "0 processes to run" in run_in(unreported, *NUMPY, "--results", tmp_path, "--plan").stdout


def test_a_framework_that_computes_something_else_is_in_no_table(tmp_path: Path, forgetful: Path) -> None:
    """The gate is the same as for trials."""
    adapters = tmp_path / "adapters"
    folder = adapters / "twin"
    folder.mkdir(parents=True)
    (folder / "environment.toml").write_text((ROOT / "adapters" / "numpy" / "environment.toml").read_text())
    (folder / "__init__.py").write_text("")
    (folder / "adapter.py").write_text(
        "from adapters.base import *\n"
        "import importlib\n"
        "Right = importlib.import_module('adapters.' + 'numpy.adapter').Adapter\n\n\n"
        "class Adapter(Right):\n"
        "    def probe(self, images, labels):\n"
        "        found = super().probe(images, labels)\n"
        "        found.gradients.update({k: 1.5 * g for k, g in found.gradients.items()})\n"
        "        return found\n"
    )
    arguments = [each for each in NUMPY if each != "numpy"]
    arguments.insert(1, "twin")
    done = run_in(forgetful, *arguments, "--adapters", adapters, "--results", tmp_path / "results")
    (result,) = results_of(tmp_path / "results").values()
    assert done.returncode == 1 and result["status"] == "unverified", done.stdout + done.stderr
    assert "differs from the referee" in result["reason"]
    assert "No result: no process" in done.stdout and "unverified: differs from the referee" in done.stdout


def test_ctrl_c_keeps_what_is_finished(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "runner", *map(str, NUMPY), "--repeat", "50", "--results", str(tmp_path)]
    runner = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 120
    while not results_of(tmp_path) and runner.poll() is None and time.monotonic() < until:
        time.sleep(0.1)
    os.kill(runner.pid, signal.SIGINT)
    _, told = runner.communicate(timeout=30)
    assert runner.returncode == 130 and "interrupted; every finished trial is kept" in told
    assert 0 < len(results_of(tmp_path)) < 50


@pytest.mark.real
@pytest.mark.parametrize("framework", REAL_FRAMEWORKS)
def test_each_framework_does_blocks(framework: str, tmp_path: Path, forgetful: Path) -> None:
    done = run_in(forgetful, "--framework", framework, *CPU, "--results", tmp_path)
    (result,) = measured(tmp_path)
    blocks = read_blocks(next(tmp_path.glob(f"blocks/*/{BLOCKS_FILE}")))
    assert {block.batch_size for block in blocks} == {7, 8, 9}, done.stdout + done.stderr
    assert result["evidence"] and result["facts"]["framework_version"]
    assert "8 was" in done.stdout and "in the one process that measured it" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "telling"),
    [
        (["--blocks", "127,128"], "blocks: Expected `array` of length >= 3"),
        (["--blocks", "127,x,129"], "'x' is not a whole number"),
        (["--blocks", "0,1,2"], "blocks: Expected `int` >= 1"),
        (["--blocks", "128,128,129"], "blocks 128,128,129: a batch size is named twice"),
        (["--blocks", "127,128,129", "128,129,130"], "blocks: 128 is in two groups"),
        (["--blocks", "7,8,9", "--batch-size", "8"], "--batch-size: not for a study of blocks"),
        (["--blocks", "7,8,9", "--until-stable"], "--until-stable: not for a study of blocks"),
        (["--blocks", "7,8,9", "--epochs", "3"], "--epochs: not for a study of blocks"),
        (["--blocks", "7,8,9", "--schedule", "cosine"], "schedule cosine: not for blocks of steps"),
        (["--blocks", "7,8,9", "--augment", "flip-crop"], "augment flip-crop: not for blocks of steps"),
        (["--blocks", "7,8,9", "--window", "40", "--timeout", "60"], "do not fit into the 60 s of --timeout"),
        (["--study", "powers-of-two-cpuu"], "did you mean powers-of-two"),
    ],
)
def test_bad_input_is_one_line_before_anything_starts(arguments: list[str], telling: str, tmp_path: Path) -> None:
    done = run_runner(*TINY, *arguments, "--plan", "--results", tmp_path / "results")
    assert done.returncode == 2, done.stdout + done.stderr
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("runner: ") and telling in line
    assert not (tmp_path / "results").exists()
