"""The array script, as Slurm starts it: by `sbatch` where a Slurm answers, else with the variables that it sets."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import PROJECT, bare_environment
from copied import add_examples, run_in
from sweeps import LONG_S, STUDY, begin, computed, ended_ok, measured, stored, wait_for

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.xdist_group("clusters")]

SMALL = (*STUDY, "--repeat", 2, "--batch-size", "16,32")
TRIALS, SHARDS = 4, 2


def array_variables(task: int, first: int) -> dict[str, str]:
    """Return what Slurm sets for a task of an array of SHARDS tasks, which begins with this number."""
    numbers = {"ID": task, "COUNT": SHARDS, "MIN": first, "MAX": first + SHARDS - 1}
    return {f"SLURM_ARRAY_TASK_{name}": str(number) for name, number in numbers.items()}


def run_array(project: Path, *words: object) -> str:
    script = [project / "examples" / "slurm_array.sh", *words]
    log = project / "slurm.log"
    if shutil.which("sinfo") and subprocess.run(["sinfo"], capture_output=True).returncode == 0:
        command = ["sbatch", "--wait", f"--array=1-{SHARDS}", f"--output={log}", "--open-mode=append", *script]
        subprocess.run(list(map(str, command)), cwd=project, env=bare_environment(), timeout=LONG_S, check=False)
        return log.read_text()
    printed = ""
    for task in range(1, SHARDS + 1):
        told = array_variables(task, first=1)
        done = subprocess.run(
            list(map(str, script)), cwd=project, env=bare_environment() | told, capture_output=True, text=True,
            timeout=LONG_S,
        )  # fmt: skip
        printed += done.stdout + done.stderr
    return printed


def test_an_array_whose_tasks_are_no_shards_runs_nothing(tmp_path: Path) -> None:
    """Task 1 of --array=0-1 would run shard 1 of 2, and no task shard 2."""
    for task in (0, 1):
        done = subprocess.run(
            [PROJECT.root / "examples" / "slurm_array.sh", "--results", tmp_path / "results"],
            env=bare_environment() | array_variables(task, first=0), capture_output=True, text=True, timeout=LONG_S,
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (2, "") and "give --array=1-N" in done.stderr
    assert not (tmp_path / "results").exists()


def test_every_trial_is_there_once_and_as_at_home_though_a_shard_was_killed(tmp_path: Path, unreported: Path) -> None:
    add_examples(unreported)
    results = tmp_path / "results"
    command = [sys.executable, "-m", "runner", "--shard", f"1/{SHARDS}", *SMALL, "--results", results]
    killed = begin(command, {"PYTHONPATH": str(unreported)})
    wait_for(lambda: bool(stored(results)) and len(list(results.glob("trials/*"))) > 1, killed)  # the next is at work
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    kept = ended_ok(results)
    printed = run_array(unreported, *SMALL, "--results", results)
    found = stored(results)
    assert len(found) == TRIALS and kept, printed
    for name, files in kept.items():
        assert measured(found[name].parent)["events.jsonl"] == files["events.jsonl"], "it was measured again"
    assert printed.count("is done; the report on all shards") == SHARDS and not (results / "report").exists(), printed
    home = tmp_path / "home"
    run_in(unreported, *SMALL, "--results", home)
    assert computed(home) == computed(results)
