"""The day on a card, rehearsed on the CPU: its steps keep to the options of the commands that they call."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import PROJECT, ROOT

from runner.environments.definition import read
from runner.request.parser import run_parser
from tools import gpu_day

pytestmark = pytest.mark.slow


def test_a_rehearsed_day_measures_checks_and_packs(tmp_path: Path) -> None:
    interpreter = read(PROJECT, "pytorch", "cpu").interpreter
    words = ("--quick", "--device", "cpu", "--python", f"pytorch={interpreter}", "--seconds", "300")
    day = [sys.executable, "-m", "tools.gpu_day", "one", "check", "pack", "--out", tmp_path, *words]
    done = subprocess.run(list(map(str, day)), cwd=ROOT, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "day.jsonl").read_text().splitlines()]
    assert [(line["step"], line["command"]) for line in lines] == [("one", "osu-cnn"), ("check", "one-osu-cnn")]
    assert lines[0]["exit"] == 0, (tmp_path / "one" / "osu-cnn.log").read_text()
    assert len(list(tmp_path.glob("one/osu-cnn/trials/*/result.json"))) == 2
    assert (tmp_path / "one.tar.xz").stat().st_size < 2**20 * 15


@pytest.mark.parametrize("quick", [False, True])
def test_the_runner_takes_the_options_of_every_step(
    quick: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rehearsal's values come in place of a step's own."""
    commands: list[list[str]] = []

    def keep(day: gpu_day.Day, step: str, name: str, limit_s: float, *words: object) -> int:
        commands.append(list(map(str, words[3:])))
        return 0

    monkeypatch.setattr(gpu_day.Day, "command", keep)
    day = gpu_day.Day(tmp_path, ["--framework", "pytorch", "--device", "cpu"], quick, lambda: 60.0)
    for step in ("one", "gate", "study", "several", "tuned", "neighbours"):
        gpu_day.STEPS[step](day)
    asked = [run_parser().parse_args(words) for words in commands]
    assert len(asked) == (7 if quick else 8)
    if quick:
        assert {str(each.batch_sizes) for each in asked} == {"[32, 256]", "None"}, "None for blocks"
        assert {each.workload for each in asked} == {"tiny"} and {each.repeats for each in asked} == {1}


def write_python(folder: Path, script: str) -> Path:
    """Write a program that is started as a Python with PyTorch, or without; return its path."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_the_load_of_a_step_is_run_by_the_python_of_the_framework(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Python of the command line, which has no PyTorch, cannot hold a card's memory."""
    commands: dict[str, list[str]] = {}

    def keep(day: gpu_day.Day, step: str, name: str, limit_s: float, *words: object) -> int:
        commands[name] = list(map(str, words))
        return 0

    monkeypatch.setattr(gpu_day.Day, "command", keep)
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")
    python = write_python(tmp_path, "echo ready; cat > /dev/null")
    words = ("--out", str(tmp_path / "day"), "--device", "cpu", "--python", f"pytorch={python}")
    assert gpu_day.main(["probe", "faults", *words]) == 0
    assert commands["calls"][-2:] == ["--python", str(python)]
    assert "held" in commands and not (tmp_path / "day" / "day.jsonl").exists()


@pytest.mark.parametrize(("script", "loaded"), [("exit 1", False), ("echo ready; cat > /dev/null", True)])
def test_a_card_s_probe_writes_what_the_stand_in_answers(
    script: str, loaded: bool, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no load without PyTorch, and no row is said to be of one."""
    trace = tmp_path / "trace.csv"
    trace.write_text(
        "0,60,30,3000,2500,0,150000,1980,2619,50,0\n10000000,60,30,3000,2500,1500000000,150000,1980,2619,50,0\n"
    )
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
    monkeypatch.setenv("NVML_TRACE", str(trace))
    python = write_python(tmp_path, script)
    command = [sys.executable, "-m", "tools.gpu_probe", tmp_path / "out", "--scale", "0.05", "--python", python]
    done = subprocess.run(list(map(str, command)), cwd=ROOT, check=True, capture_output=True, text=True, timeout=120)
    assert (f"no load: {python} " in done.stdout) is not loaded, done.stdout
    with (tmp_path / "out" / "rows.csv").open(newline="") as file:
        phases = {row["phase"] for row in csv.DictReader(file)}
    assert phases == {"before", "idle", "after"} | ({"full", "part"} if loaded else set())
    calls = json.loads((tmp_path / "out" / "calls.json").read_text())
    assert calls["gpu_percent: NVML nvmlDeviceGetUtilizationRates"]["answer"] == {"gpu_percent": 60}
    assert calls["nvmlDeviceGetPersistenceMode"]["error"]
    rows = (tmp_path / "out" / "trace.csv").read_text().splitlines()
    assert len(rows) > 20 and rows[0].split(",")[1:4] == ["60", "30", "3000.0"]
