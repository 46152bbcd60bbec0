"""The control groups of a process, of both versions (cgroups(7)), and their limits on time, processes and memory.

The tightest limit of a group and of those above it applies, in a container, too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")


def folders(controller: str, groups: Path | None = None) -> Iterator[Path]:
    """Yield the folders of a process's group and of all above it; a container sees its group as the root of the tree.

    `groups` is /proc/PID/cgroup of another process; None: this one's.
    """
    try:
        lines = (groups or OWN).read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        root = CGROUPS / controllers if controllers else CGROUPS
        if not root.is_dir():
            root = CGROUPS / controller
        folder = root / path.lstrip("/")
        while folder != root:
            yield folder
            folder = folder.parent
        yield root


def cpu_limit() -> float | None:
    """Return the limit in cores; None if there is none."""
    return min(cpu_quotas().values(), default=None)


def cpu_quotas(groups: Path | None = None) -> dict[Path, float]:
    """Return {folder: cores} of each control group that has a quota; `groups` as for control_groups.folders."""
    quotas = {}
    for folder in folders("cpu", groups):
        with suppress(OSError, ValueError):
            quota, period = (folder / "cpu.max").read_text().split()
            quotas[folder] = int(quota) / int(period)
        with suppress(OSError, ValueError):
            quota_us = int((folder / "cpu.cfs_quota_us").read_text())
            period_us = int((folder / "cpu.cfs_period_us").read_text())
            quotas |= {folder: quota_us / period_us} if quota_us > 0 else {}
    return quotas


def process_limit() -> int | None:
    """Return the processes and threads that the control groups allow together; None if they set no limit."""
    limits = []
    for folder in folders("pids"):
        with suppress(OSError, ValueError):  # no such file, or "max"
            limits.append(int((folder / "pids.max").read_text()))
    return min(limits, default=None)


def memory_limit_bytes() -> int | None:
    """Return the memory limit; None if there is none below the machine's memory."""
    machine_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limits = []
    for folder in folders("memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            with suppress(OSError, ValueError):  # no such file, or "max"
                limits.append(int((folder / name).read_text()))
    return min((limit for limit in limits if limit < machine_bytes), default=None)


def read_memory_left() -> Iterator[tuple[int, int]]:
    """Yield (bytes left, limit) of each control group with a limit; file pages that can be dropped count as left."""
    for folder in folders("memory"):
        for most, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
            with suppress(OSError, ValueError):  # no such file, or "max"
                limit_bytes = int((folder / most).read_text())
                rest = limit_bytes - int((folder / used).read_text())
                # In version 1 the total_ line includes the groups below, as the use does; the other line does not.
                stat = (folder / "memory.stat").read_text()
                inactive = map(int, re.findall(r"^(?:total_)?inactive_file (\d+)$", stat, re.MULTILINE))
                yield max(0, rest + max(inactive, default=0)), limit_bytes


def memory_left_bytes() -> int | None:
    """Return the bytes that the control groups leave; None if none has a limit."""
    return min((left for left, _ in read_memory_left()), default=None)
