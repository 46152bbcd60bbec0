"""Processes that the worker's code started and that left its tree: the kernel makes them children of the runner.

A worker adopts the orphans below it (`workloads.lifeline`). If it has given that up, its orphans go to its runner
(`runner.family`). Either way their processor time and memory belong to the worker.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil

PROC = Path("/proc")


class Strays:
    """Children that the runner did not start. Kernels without CONFIG_PROC_CHILDREN list none."""

    def __init__(self, runner: int, worker: int, proc: Path = PROC) -> None:
        """Record the children that the runner has now: it started them, since the worker has not begun."""
        self.tasks = proc / str(runner) / "task"
        self.known = self._children() | {worker}

    def find(self) -> list[psutil.Process]:
        """Return the living strays, with their descendants."""
        found = []
        for pid in self._children() - self.known:
            with suppress(psutil.NoSuchProcess):
                stray = psutil.Process(pid)
                found += [stray, *stray.children(recursive=True)]
        return found

    def _children(self) -> set[int]:
        pids: set[int] = set()
        for file in self.tasks.glob("*/children"):
            with suppress(OSError):  # a thread that has ended
                pids |= {int(pid) for pid in file.read_text().split()}
        return pids
