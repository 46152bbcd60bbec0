"""Everything on the machine outside of the workers' folders stays as it was."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from conftest import REAL_FRAMEWORKS, ROOT, TINY, by_cell

DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}
OURS = {".venv", ".envs", "results", "data"}  # in the project: environments, and files that runs make
NOT_WATCHED = {".git", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"}
STUDY = ("--device", "cpu", "--batch-size", "32", "--threads", "1")
USERS_KERAS = {"floatx": "float16", "epsilon": 0.1, "backend": "torch", "image_data_format": "channels_first"}


def watched(folder: Path) -> dict[str, tuple[int, int, tuple[int, int] | int]]:
    """{path: what it is} of everything below a folder: for devices the numbers, for files size and time."""
    seen = {}
    for where, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in NOT_WATCHED and not (where == str(ROOT) and name in OURS)]
        for name in [*folders, *files]:
            path = os.path.join(where, name)
            entry = os.lstat(path)
            mode = entry.st_mode
            content = (entry.st_size, entry.st_mtime_ns) if stat.S_ISREG(mode) else entry.st_rdev
            seen[path] = (mode, entry.st_ino, content)
    return seen


@cache
def own_mounts() -> bool:
    """True if this process may give a command a separate /dev."""
    return os.geteuid() == 0 and subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode == 0


@pytest.fixture
def machine(tmp_path: Path) -> tuple[list[str], dict[str, str], list[Path]]:
    """(prefix of a command, variables, folders to watch): a home and, for root, a /dev that may be damaged."""
    home, temporary, dev = tmp_path / "home", tmp_path / "tmp", tmp_path / "dev"
    (home / ".keras").mkdir(parents=True)
    (home / ".keras" / "keras.json").write_text(json.dumps(USERS_KERAS))
    temporary.mkdir()
    prefix, devices = [], Path("/dev")
    if own_mounts():
        (dev / "shm").mkdir(parents=True)
        for name, numbers in DEVICES.items():
            os.mknod(dev / name, 0o666 | stat.S_IFCHR, os.makedev(*numbers))
        (dev / "fd").symlink_to("/proc/self/fd")
        inside = f'mount --bind "{dev}" /dev && mount -t tmpfs none /dev/shm && exec "$@"'
        prefix, devices = ["unshare", "--mount", "sh", "-c", inside, "sh"], dev
    return prefix, {"HOME": str(home), "TMPDIR": str(temporary)}, [devices, home, ROOT]


@pytest.mark.real
def test_workers_of_every_kind_change_nothing_outside_of_their_own_folders(
    machine: tuple[list[str], dict[str, str], list[Path]], tmp_path: Path
) -> None:
    """Trial, probe, memory worker, referee and report of a run; a user's settings of a framework change nothing."""
    prefix, variables, folders = machine
    before = {folder: watched(folder) for folder in folders}
    results = tmp_path / "results"
    commands: tuple[list[str | Path], ...] = (
        ["--framework", "all", "--epochs", "1", "--window", "0.3", *TINY, *STUDY, "--results", results],
    )
    for command in commands:
        done = subprocess.run(
            [*prefix, sys.executable, "-B", "-m", "runner", *command],
            cwd=ROOT,
            env=os.environ | variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    cells = {name: cell for (name, _), cell in by_cell(results).items()}
    assert cells.keys() == set(REAL_FRAMEWORKS)
    for name, cell in cells.items():  # on a machine that others use, too
        assert cell["status"] in ("ok", "contended"), (name, cell["reason"])
    assert len(list(results.glob("memory/*/events.jsonl"))) == len(REAL_FRAMEWORKS)
    for folder in folders:
        assert watched(folder) == before[folder], f"changed below {folder}"
