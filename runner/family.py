"""A local worker's processes: its group, and descendants that have left that group."""

from __future__ import annotations

import resource
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from runner.machine.memory_group import MemoryGroup
from runner.owned import Owned
from workloads import lifeline
from workloads.records.job import Placement
from workloads.temporary import new_folder

SCRATCH = "batchwise-worker-"
ROUNDS = 20  # passes over the remaining processes: one that forks meanwhile has children at the next


class Family:
    """Children of this process that it did not start, but adopted because their parents ended."""

    def __init__(self) -> None:
        """Adopt orphans from now on."""
        lifeline.adopt(True)
        self.known = {child.pid for child in psutil.Process().children()}

    def end(self, starting_with: Sequence[psutil.Process]) -> None:
        """Kill these and every orphan, reap those, and adopt no more. Children started meanwhile would be killed."""
        left = list(starting_with)
        for _ in range(ROUNDS):
            left += [child for child in psutil.Process().children() if child.pid not in self.known]
            if not left:
                break
            for process in left:
                with suppress(psutil.Error):  # it is gone, or its id belongs to another by now
                    process.kill()
                with suppress(psutil.Error, ChildProcessError):
                    process.wait(1)
            left = []
        lifeline.adopt(False)


def descendants(pid: int) -> list[psutil.Process]:
    """Return the descendants of a process, as far as the chain of parents is complete."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []


class Child(Owned):
    """The process group of a local worker, of which this process is the leader, and its folder of temporary files,
    which is removed with it.
    """

    def __init__(self, command: list[str], env: dict[str, str], **options: Any) -> None:
        """Start it, but let it wait, as Owned does."""
        self.scratch = make_scratch_folder()
        self.family = Family()
        self.memory_group: MemoryGroup | None = None
        super().__init__(command, env=env | ({"TMPDIR": str(self.scratch)} if self.scratch else {}), **options)

    def limit(self, placement: Placement) -> None:
        """Limit its memory before it is let go.

        Raises OSError if the machine allows no control group now, though it did before.
        """
        if placement.memory_limit_bytes is None:
            return
        if placement.control_group:
            self.memory_group = MemoryGroup.made(placement.memory_limit_bytes)
            self.memory_group.take(self.pid)
        else:
            limit_data(self.pid, placement.memory_limit_bytes)

    def end(self) -> int:
        """Kill all of it, also what has left the process group; return its exit code."""
        scattered = descendants(self.pid)
        try:
            return super().end()
        finally:
            self.family.end(scattered)
            if self.memory_group:
                self.memory_group.remove()
            if self.scratch:
                shutil.rmtree(self.scratch, ignore_errors=True)


def make_scratch_folder() -> Path | None:
    """Make a folder for the files that a framework that ends at once would leave.

    Return None if there is no space, since not every framework writes there.
    """
    with suppress(OSError):
        return new_folder(SCRATCH)
    return None


def limit_data(pid: int, limit_bytes: int) -> None:
    """Limit how much private writable memory a local worker and its children may each take (RLIMIT_DATA).

    Everything that the worker has by then counts, so a limit that is set just after its start allows no more.
    """
    with suppress(ProcessLookupError):  # it has ended already
        _, most = resource.prlimit(pid, resource.RLIMIT_DATA)
        limit_bytes = limit_bytes if most == resource.RLIM_INFINITY else min(limit_bytes, most)
        resource.prlimit(pid, resource.RLIMIT_DATA, (limit_bytes, limit_bytes))
