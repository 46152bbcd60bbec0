"""Processes that a worker's code started and that have left its group."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import psutil

from workloads import lifeline

ROUNDS = 20  # of looking for processes that were left: one that forks meanwhile has children at the next


class Family:
    """Of this process: children that it did not start, but got because their parents ended."""

    def __init__(self) -> None:
        """From here on orphans are this process's own."""
        lifeline.adopt(True)
        self.known = {child.pid for child in psutil.Process().children()}

    def end(self, starting_with: Sequence[psutil.Process]) -> None:
        """Kill these and every orphan, reap those, and adopt no more. Only where nothing was started meanwhile that
        goes on.
        """
        left = list(starting_with)
        for _ in range(ROUNDS):
            left += [child for child in psutil.Process().children() if child.pid not in self.known]
            if not left:
                break
            for process in left:
                with suppress(psutil.Error):  # it is gone, or its id is another's by now
                    process.kill()
                with suppress(psutil.Error, ChildProcessError):
                    process.wait(1)
            left = []
        lifeline.adopt(False)


def descendants(pid: int) -> list[psutil.Process]:
    """Of a process, as far as the chain of parents is whole."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []
