"""A control group of its own for one local worker: what the kernel lets it and its children have of memory together.

It is made below this process's own group, so all that holds for this process holds for the worker, too, and it is gone
with the worker. Version 1 of control groups lets a user make one who may write there; version 2 also demands that the
group hands on the control of memory, as the topmost does on most machines (cgroups(7), memory.txt and cgroup-v2.rst of
the kernel's documentation).
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
# (version's file of the limit, that of swap with what bounds it, for a limit in bytes); memsw counts both together
FILES = (
    ("memory.max", "memory.swap.max", lambda _: 0),
    ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", lambda limit_bytes: limit_bytes),
)
PROCESSES = "cgroup.procs"
GONE_S = 2.0  # within which a group whose processes are reaped can be removed


@dataclass(frozen=True)
class MemoryGroup:
    """Empty as it is made."""

    folder: Path

    @staticmethod
    def made(limit_bytes: int) -> MemoryGroup:
        """Raises OSError where this machine lets this user make none."""
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
        """This process is the group's from now on, with all that it starts; what it had before counts elsewhere."""
        with suppress(ProcessLookupError):  # it has ended already
            (self.folder / PROCESSES).write_text(str(pid))

    def remove(self) -> None:
        """Behind the end of its processes. What cannot be removed is cleared when the next one is made."""
        over_s = time.monotonic() + GONE_S
        while True:
            try:
                return self.folder.rmdir()
            except FileNotFoundError:
                return None
            except OSError:  # the kernel has not let go of a process yet
                if time.monotonic() > over_s:
                    return None
                time.sleep(0.01)


def possible() -> bool:
    """Whether this user may make one on this machine."""
    try:
        MemoryGroup.made(psutil.virtual_memory().total).remove()
    except OSError:
        return False
    return True
