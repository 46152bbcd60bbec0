"""`python -m runner doctor` on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, run_runner

CHECKS = (
    "processor", "GPU", "memory", "swap", "environment pytorch", "data", "disk", "permissions", "/dev/null", "/dev/shm",
    "limits", "governor", "turbo", "load", "other runs", "throttling", "neighbours",
    "steadiness", "clock",
)  # fmt: skip


def states(printed: str) -> dict[str, str]:
    """{check: its state} of the checks that are shown."""
    found = {}
    for name in CHECKS:
        (line,) = (line for line in printed.splitlines() if line[1:].startswith(f"{name}  "))
        found[name] = line[1 + len(name) :].split()[0]
    return found


def test_it_looks_at_everything_changes_nothing_and_its_exit_code_tells(tmp_path: Path) -> None:
    done = run_runner("doctor", "--results", tmp_path)
    found = states(done.stdout)
    told = {*found.values()} | {word for word in ("warning", "problem") if word in done.stdout.splitlines()[-1]}
    assert done.returncode == int(bool(told & {"warning", "problem"})) and not done.stderr
    assert (found["processor"], found["disk"], found["/dev/null"]) == ("ok", "ok", "ok")
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert list(tmp_path.iterdir()) == []


def test_bad_input_is_one_line_and_nothing_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for words in (["--nonsense"], ["--results", tmp_path / "file"]):
        done = run_runner("doctor", *words)
        assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="only root can be somebody else")
def test_somebody_else_is_told_which_folders_are_not_theirs(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir(mode=0o755)
    for folder in (tmp_path, *(above for above in tmp_path.parents if above.name.startswith(("pytest-", "popen-")))):
        folder.chmod(0o755)  # pytest's own
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    if subprocess.run([*nobody, sys.executable, "-c", "import rich"], cwd=ROOT, capture_output=True).returncode:
        pytest.skip("this Python is not for others")
    done = subprocess.run(
        [*nobody, sys.executable, "-m", "runner", "doctor", "--results", str(tmp_path / "results")],
        cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 1 and not done.stderr, done.stderr
    assert states(done.stdout)["permissions"] == "problem" and "user 65534; not writable" in done.stdout
    assert list((tmp_path / "results").iterdir()) == []
