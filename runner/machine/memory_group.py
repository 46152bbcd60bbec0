"""A separate control group for one local worker: limits the memory of it and its children together.

It is made below this process's group, so all limits of this process also hold for the worker, and it is removed with
the worker. Version 1 of control groups lets a user make one who may write there. Version 2 also demands that the group
passes on the control of memory, as the topmost does on most machines. See cgroups(7), memory.txt and cgroup-v2.rst of
the kernel's documentation.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from workloads import control_groups
from workloads.temporary import new_folder

PREFIX = "batchwise-memory-"
# (version's file of the limit, file of the swap limit and its value for a limit in bytes); memsw counts both together
FILES = (
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
    def made(limit_bytes: int) -> MemoryGroup:
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
        for limit_name, swap_name, swap_bytes in FILES:
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


def possible() -> bool:
    """True if this user may make one on this machine."""
    try:
        MemoryGroup.made(psutil.virtual_memory().total).remove()
    except OSError:
        return False
    return True
