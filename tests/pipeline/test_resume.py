"""The same command again, after something went wrong: what was measured is not measured again."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from conftest import TINY
from copied import add_framework, run_in

COMMAND = (
    *(*TINY, "--device", "cpu", "--isolation", "here", "--threads", 1),
    *("--batch-size", 256, 512, "--epochs", 1, "--window", 0.3),
)
RAW = ("events.jsonl", "samples.csv", "log.txt")


def raw(results: Path) -> dict[str, bytes]:
    files = [path for name in RAW for path in results.glob(f"trials/*/{name}")]
    return {str(path.relative_to(results)): path.read_bytes() for path in files}


def stored(results: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in results.glob("trials/*/result.json")}


def test_results_that_are_torn_or_gone_are_made_again_and_no_worker_is_started_for_them(
    tmp_path: Path, unreported: Path
) -> None:
    asked = ("--framework", "numpy", *COMMAND, "--results", tmp_path)
    assert run_in(unreported, *asked).returncode == 0
    results, files = stored(tmp_path), raw(tmp_path)
    first, second = (tmp_path / "trials" / name / "result.json" for name in sorted(results))
    first.write_bytes(first.read_bytes()[:200])
    second.unlink()
    listed = run_in(unreported, "--list", "--results", tmp_path)
    assert f"{first}: cannot be read: not whole JSON" in listed.stdout
    planned = run_in(unreported, *asked, "--plan")
    assert f"{first}: cannot be read: not whole JSON" in planned.stdout
    assert "0 trials to run" in planned.stdout
    done = run_in(unreported, *asked)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("rebuilt from the trial's files, nothing is measured again") == 2
    assert "2 of 2 trials are finished" in done.stdout
    assert stored(tmp_path) == results and raw(tmp_path) == files
    assert (first.parent / "result-unreadable-1.json").read_bytes() == results[first.parent.name][:200]
    assert not (tmp_path / "attempts").exists()


def dying(adapters: Path) -> Path:
    """Add the referee under another name, whose probe is killed as long as the returned file exists."""
    add_framework(adapters, "dying", label='"dying"')
    (flag := adapters / "dies").touch()
    (adapters / "dying" / "adapter.py").write_text(
        f"""\
import os
import signal
from adapters.numpy import adapter

class Adapter(adapter.Adapter):
    def probe(self, images, labels):
        if os.path.exists({str(flag)!r}):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().probe(images, labels)
"""
    )
    return flag


def test_a_killed_probe_costs_no_trial_whatever_the_next_one_says(
    tmp_path: Path, unreported: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    adapters = tmp_path_factory.mktemp("adapters")
    flag = dying(adapters)

    def run() -> tuple[subprocess.CompletedProcess[str], set[str]]:
        done = run_in(unreported, "--adapters", adapters, "--framework", "dying", *COMMAND, "--results", tmp_path)
        return done, {json.loads(content)["status"] for content in stored(tmp_path).values()}

    done, statuses = run()
    assert (done.returncode, statuses) == (1, {"unverified"})
    files = raw(tmp_path)
    done, statuses = run()
    assert (done.returncode, statuses) == (1, {"unverified"})
    assert "2 of those are measured, but not judged: its framework's probe gave no evidence" in done.stdout
    flag.unlink()
    done, statuses = run()
    assert (done.returncode, statuses) == (0, {"ok"}), done.stdout + done.stderr
    assert "2 of 2 trials are finished" in done.stdout and "not judged" not in done.stdout
    assert raw(tmp_path) == files, "a trial was measured again"
    (probe,) = tmp_path.glob("probes/dying-cpu-r0-????????")
    assert '"probed"' in (probe / "events.jsonl").read_text()
    assert len(list(tmp_path.glob("probes/dying-cpu-r0-????????-*"))) == 2, "what became of the killed ones is gone"
