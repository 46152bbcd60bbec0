"""Ask git about one checkout, whatever repository the caller's variables name."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

SETTINGS = "GIT_CONFIG"  # GIT_CONFIG_GLOBAL, GIT_CONFIG_COUNT, ...: which folders are safe, but no repository


def build_git_environment(root: Path) -> dict[str, str]:
    """Return the environment for git in the checkout at `root`.

    The caller's GIT_ variables may name another repository, as in a hook. A folder above `root` is another one, too.
    """
    names = {name for name in os.environ if not name.startswith("GIT_") or name.startswith(SETTINGS)}
    return {name: os.environ[name] for name in names} | {"GIT_CEILING_DIRECTORIES": str(root.resolve().parent)}


def ask_git(root: Path, *words: str, timeout_s: float | None = None) -> str:
    """Return what git prints in the checkout at `root`. Raises OSError, CalledProcessError, TimeoutExpired."""
    command, environment = ["git", "-C", str(root), *words], build_git_environment(root)
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True, timeout=timeout_s
    ).stdout
