"""Ask git about one checkout, whatever repository the caller's variables name."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

SETTINGS = "GIT_CONFIG"  # GIT_CONFIG_GLOBAL, GIT_CONFIG_COUNT, ...: which folders are safe, but no repository
COMMIT = ("describe", "--always", "--abbrev=12", "--exclude=*")  # words that ask for the commit
ANSWER_S = 10.0


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


def explain_no_commit(root: Path) -> str:
    """Return why git names no commit of the checkout at `root`, and what to do; "" if it names one."""
    try:
        ask_git(root, *COMMIT, timeout_s=ANSWER_S)
    except OSError as error:
        return f"git: {error.strerror}; install it"
    except subprocess.TimeoutExpired:
        return f"git: no answer within {ANSWER_S:.0f} s"
    except subprocess.CalledProcessError as error:
        first, *others = error.stderr.strip().splitlines() or ["no output"]
        # To a checkout of another user, git's last line is the command that allows it, in any language.
        advice = others[-1].strip() if others and "safe.directory" in others[-1] else "use a clone of the project"
        return f"git: {first.removeprefix('fatal: ')}; {advice}"
    return ""
