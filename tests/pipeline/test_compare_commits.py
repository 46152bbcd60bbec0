"""python -m runner compare: two commits of a checkout, measured in turn by their own code."""

from __future__ import annotations

import json
from pathlib import Path

from conftest import TINY
from copied import copy_undisturbed, git, run_in

SMALL = ("--framework", "numpy", *TINY, "--device", "cpu", "--batch-size", 16, "--epochs", 1, "--window", 0.2)


def test_two_commits_are_measured_in_turn_by_their_own_code_and_compared(tmp_path: Path) -> None:
    project = copy_undisturbed(tmp_path / "checkout")
    (project / ".gitignore").write_text(".envs\n__pycache__\n")
    adapter, commits = project / "adapters" / "numpy" / "adapter.py", []
    git(project, "init", "--quiet")
    for number in range(2):
        adapter.write_text(f"{adapter.read_text()}\n# change {number}\n")
        git(project, "add", ".")
        git(project, "commit", "--quiet", "--message", str(number))
        commits.append(git(project, "rev-parse", "HEAD")[:12])
    done = run_in(project, "compare", "HEAD~1", "HEAD", "--runs", 2, "--into", tmp_path / "into", *SMALL)
    assert done.returncode == 0, done.stdout + done.stderr
    trials = [json.loads(path.read_text()) for path in (tmp_path / "into").glob("*/*/trials/*/result.json")]
    stored = [path.relative_to(tmp_path / "into").parts[:2] for path in (tmp_path / "into").glob("*/*/trials/*")]
    assert sorted(stored) == sorted((commit, number) for commit in commits for number in ("1", "2"))
    in_order = [each["machine"]["commit"] for each in sorted(trials, key=lambda each: str(each["started_at"]))]
    assert in_order == [commits[0], commits[1], commits[1], commits[0]]
    assert f"run 2 of 2: {commits[0]}" in done.stdout and "installing" not in done.stdout
    assert (tmp_path / "into" / "compare" / "compare.json").is_file()
    assert all(str(tmp_path) not in path.read_text() for path in (tmp_path / "into" / "compare").glob("compare.*"))
    assert git(project, "status", "--porcelain") == ""
