"""A local worker's processes: its group, and what its code started and has left that group."""

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


class Child(Owned):
    """The group of processes of a local worker, of which this one is the leader, and the folder of its temporary files,
    which ends with it.
    """

    def __init__(self, command: list[str], env: dict[str, str], **options: Any) -> None:
        """Start it, but let it wait, as Owned does."""
        self.scratch = make_scratch_folder()
        self.family = Family()
        self.memory_group: MemoryGroup | None = None
        super().__init__(command, env=env | ({"TMPDIR": str(self.scratch)} if self.scratch else {}), **options)

    def limit(self, placement: Placement) -> None:
        """Limit its memory before it is let go.

        Raises OSError where the machine now lets no control group be made, though it did before.
        """
        if placement.memory_limit_bytes is None:
            return
        if placement.control_group:
            self.memory_group = MemoryGroup.made(placement.memory_limit_bytes)
            self.memory_group.take(self.pid)
        else:
            limit_data(self.pid, placement.memory_limit_bytes)

    def end(self) -> int:
        """Kill all of it, and what has left the group of processes, too; its exit code."""
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
    """Make a folder for what a framework that ends at once would leave.

    None where there is no room, for not every framework writes there.
    """
    with suppress(OSError):
        return new_folder(SCRATCH)
    return None


def limit_data(pid: int, limit_bytes: int) -> None:
    """Limit what a local worker and its children may each take of private memory that can be written (RLIMIT_DATA).

    All that the worker has by then counts, so a limit that is set just after its start loosens nothing.
    """
    with suppress(ProcessLookupError):  # it has ended already
        _, most = resource.prlimit(pid, resource.RLIMIT_DATA)
        limit_bytes = limit_bytes if most == resource.RLIM_INFINITY else min(limit_bytes, most)
        resource.prlimit(pid, resource.RLIMIT_DATA, (limit_bytes, limit_bytes))
