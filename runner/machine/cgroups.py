"""Limits of this process's control groups, also those of a container: processor time, processes and memory.

Both versions of control groups (cgroups(7)); the tightest limit of a group and those above it applies.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil

from workloads import control_groups


def cpu_limit() -> float | None:
    """Return the limit in cores; None if there is none."""
    return min(cpu_quotas().values(), default=None)


def cpu_quotas(groups: Path | None = None) -> dict[Path, float]:
    """Return {folder: cores} of each control group that has a quota; `groups` as for control_groups.folders."""
    quotas = {}
    for folder in control_groups.folders("cpu", groups):
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
    for folder in control_groups.folders("pids"):
        with suppress(OSError, ValueError):  # no such file, or "max"
            limits.append(int((folder / "pids.max").read_text()))
    return min(limits, default=None)


def memory_limit_bytes() -> int | None:
    """Return the memory limit; None if there is none below the machine's memory."""
    limits = []
    for folder in control_groups.folders("memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            with suppress(OSError, ValueError):  # no such file, or "max"
                limits.append(int((folder / name).read_text()))
    return min((limit for limit in limits if limit < psutil.virtual_memory().total), default=None)
