"""A local worker's processes: its group, descendants that have left that group, and the limit on their memory.

The limit is that of a control group, made below this process's group, so all limits of this process also hold for the
worker. It is removed with the worker. Version 1 of control groups lets a user make one who may write there. Version 2
also demands that the group passes on the control of memory, as the topmost does on most machines. See cgroups(7),
memory.txt and cgroup-v2.rst of the kernel's documentation.
"""

from __future__ import annotations

import resource
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from runner.owned import Owned
from workloads import control_groups, lifeline
from workloads.records.job import Placement
from workloads.temporary import new_folder

PREFIX = "batchwise-memory-"
# (version's file of the limit, file of the swap limit and its value for a limit in bytes); memsw counts both together
LIMIT_FILES = (
    ("memory.max", "memory.swap.max", lambda _: 0),
    ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", lambda limit_bytes: limit_bytes),
)
PROCESSES = "cgroup.procs"
GONE_S = 2.0  # time within which a group whose processes are reaped can be removed


@dataclass(frozen=True)
class MemoryGroup:
    """A memory control group, empty when it is made."""

    folder: Path

    @staticmethod
    def make(limit_bytes: int) -> MemoryGroup:
        """Make a group with this limit. Raises OSError if this machine does not let this user make one."""
        parent = next(control_groups.folders("memory"), None)
        if parent is None:
            raise FileNotFoundError("no control group of memory")
        group = MemoryGroup(new_folder(PREFIX, parent))
        try:
            group._limit(limit_bytes)
        except OSError:
            group.remove()
            raise
        return group

    def _limit(self, limit_bytes: int) -> None:
        for limit_name, swap_name, swap_bytes in LIMIT_FILES:
            if (self.folder / limit_name).exists():
                (self.folder / limit_name).write_text(str(limit_bytes))
                if (self.folder / swap_name).exists():
                    (self.folder / swap_name).write_text(str(swap_bytes(limit_bytes)))
                elif psutil.swap_memory().total:
                    raise FileNotFoundError(f"{self.folder / swap_name}: the group could be swapped out")
                return
        raise FileNotFoundError(f"{self.folder}: no limit of memory in it")

    def take(self, pid: int) -> None:
        """Move a process into the group, with all that it starts from now on; its earlier memory counts elsewhere."""
        with suppress(ProcessLookupError):  # it has ended already
            (self.folder / PROCESSES).write_text(str(pid))

    def remove(self) -> None:
        """Remove the group after the end of its processes. If it cannot be removed, making the next one clears it."""
        over_s = time.monotonic() + GONE_S
        while True:
            try:
                return self.folder.rmdir()
            except FileNotFoundError:
                return None
            except OSError:  # the kernel has not released a process yet
                if time.monotonic() > over_s:
                    return None
                time.sleep(0.01)


def can_limit_memory() -> bool:
    """True if this user may make one on this machine."""
    try:
        MemoryGroup.make(psutil.virtual_memory().total).remove()
    except OSError:
        return False
    return True


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


def find_descendants(pid: int) -> list[psutil.Process]:
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
            self.memory_group = MemoryGroup.make(placement.memory_limit_bytes)
            self.memory_group.take(self.pid)
        else:
            limit_data(self.pid, placement.memory_limit_bytes)

    def end(self) -> int:
        """Kill all of it, also what has left the process group; return its exit code."""
        scattered = find_descendants(self.pid)
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
