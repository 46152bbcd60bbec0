"""Ends a command with one line if a package is not installed."""

from __future__ import annotations

import os
import sys
from types import TracebackType

OWN = ("adapters", "reports", "runner", "tools", "workloads")
EXIT_MISSING = 2


def missing_in_a_line() -> None:
    """Report missing packages in one line from now on, in this process."""
    sys.excepthook = _told


def _told(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    name = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if not name or name in OWN:
        sys.__excepthook__(kind, error, trace)
        return
    advice = "make setup makes .venv with it; then .venv/bin/python -m ... (or: pip install -r requirements.txt)"
    print(f"{name} is not installed for {sys.executable}: {advice}", file=sys.stderr, flush=True)
    os._exit(EXIT_MISSING)  # a hook cannot set the exit code in another way
