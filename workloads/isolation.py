"""Run our programs without the Python settings of the caller's environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Settings for text on a terminal, and for the place of byte code: nothing that is computed or installed depends on
# them.
HARMLESS = ("PYTHONUNBUFFERED", "PYTHONIOENCODING", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")
AGAIN = "BATCHWISE_STARTED_AGAIN"  # set to the id of the process that starts again: it keeps that id


def without_python(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without every variable that Python reads (PYTHONPATH, PYTHONHOME, PYTHONWARNINGS, ...)."""
    return {name: value for name, value in environment.items() if not name.startswith("PYTHON")}


def of_ours(environment: Mapping[str, str], root: Path = ROOT) -> dict[str, str]:
    """Return the environment for a program of the project at `root`: only HARMLESS is kept of Python's variables."""
    kept = {name: environment[name] for name in HARMLESS if name in environment}
    return without_python(environment) | kept | {"PYTHONPATH": str(root)}


def start_again() -> None:
    """Start this program again, by the same command line, if the caller's variables may have changed Python.

    Returns if they have not, and if the interpreter was told to ignore them: then its children ignore them, too. Starts
    again at most once: an interpreter that is a script, or a module of its site, may set such a variable each time.
    """
    again = os.environ.pop(AGAIN, "") == str(os.getpid())
    changing = {name for name in os.environ if name.startswith("PYTHON")} - set(HARMLESS)
    if changing <= {"PYTHONPATH"} and _is_ours(os.environ.get("PYTHONPATH", "")):
        return
    if sys.flags.ignore_environment or again:
        for name in changing:
            del os.environ[name]
        return
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], of_ours(os.environ) | {AGAIN: str(os.getpid())})


def _is_ours(path: str) -> bool:
    """True if PYTHONPATH is empty or names only this project."""
    return not path or Path(path).resolve() == ROOT
