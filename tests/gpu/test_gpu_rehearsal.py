"""The rehearsal of the day on a card: what it needs is refused in one line, and what travels is what is run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import ROOT

from tools import gpu_day, gpu_rehearsal, gpu_travel
from tools.gpu_day import STEPS
from tools.gpu_seen import describe


def start(variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tools.gpu_rehearsal", "probe"]
    return subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True)


def test_without_a_python_3_12_it_is_refused_in_one_line(tmp_path: Path) -> None:
    bare = {"PATH": str(tmp_path)}
    older = tmp_path / "older"
    older.write_text("#!/bin/sh\necho 3.11\n")
    older.chmod(0o755)
    for more, word in (({}, "PYTHON312"), ({"PYTHON312": str(older)}, "3.11"), ({"PYTHON312": "/none"}, "/none")):
        done = start(bare | more)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
        assert word in done.stderr


def test_make_hands_the_named_python_on() -> None:
    shown = subprocess.run(
        ["make", "-s", "--eval", "show: ; @echo $$PYTHON312 $$PYTHONPATH", "show"],
        cwd=ROOT, env=os.environ | {"PYTHON312": "/mine", "PYTHONPATH": "/other"}, capture_output=True, text=True,
    )  # fmt: skip
    assert shown.stdout == "/mine\n", shown.stderr


def test_each_assumption_about_a_card_names_a_step_of_the_day_or_none() -> None:
    page = (ROOT / "docs" / "evidence" / "gpu-h200.md").read_text(encoding="utf-8")
    _, _, table = page.partition("| assumed | step | seen on |\n")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[1:]]
    assert len(rows) > 20 and all(len(row) == 3 and all(row) for row in rows), rows
    steps = {step for _, step, _ in rows}
    assert steps <= {*STEPS, "none"}, steps - set(STEPS)
    guide = (ROOT / "docs" / "guide" / "gpus.md").read_text(encoding="utf-8")
    named = next(line for line in guide.splitlines() if "tools.gpu_day" in line).split("tools.gpu_day ")[1]
    assert set(named.split(" --")[0].split()) <= set(STEPS) and "#what-is-assumed-and-what-was-seen" in guide
    said = (gpu_day.__doc__ or "").split("most important first:")[1].strip().rstrip(".").replace("\n", " ").split(", ")
    assert said == list(STEPS)


def test_without_a_network_namespace_it_is_refused_in_one_line(tmp_path: Path) -> None:
    named = tmp_path / "python3.12"
    named.write_text("#!/bin/sh\necho 3.12\n")
    named.chmod(0o755)
    refusing = tmp_path / "unshare"
    refusing.write_text("#!/bin/sh\necho unshare: not permitted >&2\nexit 1\n")
    refusing.chmod(0o755)
    done = start({"PATH": str(tmp_path)})
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert "no network namespace" in done.stderr


def test_one_step_is_rehearsed_in_every_framework_within_the_time_of_all(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nothing is packed or started: the commands are looked at."""
    started: list[list[str]] = []

    def run(command: list[str], **_: object) -> SimpleNamespace:
        started.append(command[command.index(str(tmp_path / "travel" / "day.sh")) + 1 :])
        return SimpleNamespace(returncode=len(started) % 3)

    (tmp_path / "travel" / "project" / "adapters").mkdir(parents=True)
    monkeypatch.setattr(gpu_rehearsal, "subprocess", SimpleNamespace(run=run, DEVNULL=subprocess.DEVNULL))
    fakes = {"find_python": "python", "find_namespace": [], "prepare_machine": tmp_path, "pack": 0, "build_driver": {}}
    for name, value in fakes.items():
        monkeypatch.setattr(gpu_rehearsal, name, lambda *_, value=value: value)
    assert gpu_rehearsal.rehearse(tmp_path, list(STEPS), 90) == 2
    steps = list(STEPS)
    place = steps.index("several")
    groups = [steps[:place], ["several"], steps[place + 1 :]]
    assert [command[: command.index("--quick")] for command in started] == groups
    assert started[1][-5:] == ["--framework", *gpu_rehearsal.FRAMEWORKS] and "--framework" not in started[0]
    assert all((ROOT / "adapters" / name / "adapter.py").exists() for name in gpu_rehearsal.FRAMEWORKS)
    assert all(float(command[command.index("--seconds") + 1]) <= 90 for command in started)


def test_adapters_are_put_on_the_host_and_what_they_share_is_left_alone(tmp_path: Path) -> None:
    for name in (*gpu_rehearsal.FRAMEWORKS, "keras_shared", "numpy"):
        (tmp_path / name).mkdir()
        source = (ROOT / "adapters" / name / "adapter.py").read_text(encoding="utf-8")
        (tmp_path / name / "adapter.py").write_text(source, encoding="utf-8")
        gpu_rehearsal.put_on_the_host(tmp_path / name, tmp_path / "pid")
        added = (tmp_path / name / "adapter.py").read_text(encoding="utf-8").removeprefix(source)
        assert ("class OnTheHost(Adapter):" in added) == (name != "keras_shared"), name


@pytest.fixture
def without_wheels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is downloaded."""
    monkeypatch.setattr(gpu_travel, "read_carried_packages", dict)


@pytest.mark.usefixtures("without_wheels")
def test_the_packed_folder_is_the_project_as_committed_and_its_size_is_limited(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "left from before").touch()
    with monkeypatch.context() as another:
        another.setenv("GIT_DIR", str(tmp_path / "another repository"))
        size = gpu_travel.pack(tmp_path, sys.executable)
    listed = subprocess.run(["git", "ls-files", "runner", "tools"], cwd=ROOT, capture_output=True, text=True)
    committed = [name for name in listed.stdout.split("\n") if name and (ROOT / name).exists()]
    assert len(committed) > 50 and size < gpu_travel.LIMIT_BYTES
    assert (tmp_path / "project" / "tools" / "gpu_day.py").exists()
    assert not list((tmp_path / "project").glob("left*")) and not (tmp_path / "project" / "published").exists()
    assert subprocess.run(["sh", "-n", tmp_path / "day.sh"]).returncode == 0
    monkeypatch.setattr(gpu_travel, "LIMIT_BYTES", 2**20)
    with pytest.raises(gpu_travel.CannotPack, match="1 MiB may be sent"):
        gpu_travel.pack(tmp_path, sys.executable)
    (tmp_path / "project").rename(tmp_path / "elsewhere")
    (tmp_path / "project").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic link"):
        gpu_travel.pack(tmp_path, sys.executable)


def test_a_wheel_of_another_version_does_not_travel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The wheels that are there already are taken: pip, here a program that fails, is not asked."""
    monkeypatch.setattr(gpu_travel, "read_carried_packages", lambda: {"here": "2.0"})
    for name in ("here-2.0-py3-none-any.whl", "here-1.0-py3-none-any.whl", "gone-1-py3-none-any.whl"):
        (tmp_path / name).touch()
    gpu_travel._fetch_wheels(tmp_path, "false")
    assert [path.name for path in tmp_path.iterdir()] == ["here-2.0-py3-none-any.whl"]
    (tmp_path / "here-2.0-py3-none-any.whl").unlink()
    with pytest.raises(gpu_travel.CannotPack, match="wheels: pip failed"):
        gpu_travel._fetch_wheels(tmp_path, "false")


def test_a_repeated_trace_goes_on_in_time_and_energy() -> None:
    rows = ["0,10,0,0,0,0,60000,1,1,1,0", "980,20,0,0,0,58800,60000,1,1,1,0"]
    repeated = [line.split(",") for line in gpu_rehearsal.repeat_trace(rows, 0.05)]
    assert [float(row[0]) for row in repeated] == [0, 980, 1000, 1980, 2000, 2980, 3000, 3980]
    assert [float(row[5]) for row in repeated[-2:]] == [3 * 58800, 4 * 58800]
    assert [row[1] for row in repeated[:3]] == ["10", "20", "10"]


def test_ten_lines_say_what_was_seen(tmp_path: Path) -> None:
    assert len(describe(tmp_path)) == 10 and describe(tmp_path)[2] == "trials: none"
    card = {"name": "H9", "memory_bytes": 2**30, "driver": "1", "capability": "9.0"}
    figures = {"images_per_s": 1500.0, "energy_j": 99.0, "energy_integrated_j": 100.0}
    result = {
        "status": "ok",
        "machine": {"gpus": [card]},
        "checks": [{"name": "energy", "passed": False}, {"name": "power", "passed": True}],
        "figures": {name: {"value": value} for name, value in figures.items()},
    }
    trial = tmp_path / "one" / "osu-cnn" / "trials" / "a"
    trial.mkdir(parents=True)
    (trial / "result.json").write_text(json.dumps(result))
    tried = ({"exit": None, "seconds": 5}, {"exit": 0, "seconds": 2})
    lines = [json.dumps(line | {"step": "one", "command": "a", "last": ""}) for line in tried]
    (tmp_path / "day.jsonl").write_text("\n".join(lines) + "\n")
    seen = describe(tmp_path)
    assert seen[0] == "card: H9, 1,024 MiB, driver 1, compute capability 9.0"
    assert seen[2:4] == ["trials: 1 ok", "speed: 1,500.0 to 1,500.0 images/s"]
    assert "energy by counter over integrated power 0.990 to 0.990" in seen[6]
    assert seen[7] == "checks: 1 of 2 passed; failed: energy (1)"
    assert seen[9] == "commands: 1 of 1 ended well in 7 s" and os.linesep not in "".join(seen)
