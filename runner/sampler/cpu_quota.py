"""Processor time that a quota withholds from the worker, by cpu.stat of its control groups.

A group with a quota may run for a fixed time in each period. Demand beyond that waits for the next one, which is called
throttled. Version 2 of control groups counts it in microseconds (throttled_usec), version 1 in nanoseconds
(throttled_time). Both sum it over the cores on which the group waited (sched-bwc.rst of the kernel's documentation).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.sampler.nvml import Row
from workloads import control_groups

PROC = Path("/proc")
STAT = "cpu.stat"


class CpuQuota:
    """The groups with a quota among a process's own and those above. Nothing here raises: the report says why."""

    def __init__(self, pid: int, proc: Path = PROC) -> None:
        """Count from now on. Groups without a quota withhold nothing, and are not read again."""
        self.quotas = control_groups.cpu_quotas(proc / str(pid) / "cgroup")
        self.calls = self.failures = 0
        self.first_failure: dict[str, Any] | None = None
        self.before = self.now = _Counts()
        self.reason: str | None = None
        try:
            self.before = self.now = self._read()
        except (OSError, ValueError) as error:
            self.reason = _describe(error)

    def sample(self) -> Row:
        """Return the sum since the start; empty without a quota, or if a group could not be read."""
        if not self.quotas or self.reason is not None:
            return {}
        self.calls += 1
        try:
            self.now = self._read()
        except (OSError, ValueError) as error:
            self.failures += 1
            self.first_failure = self.first_failure or {"t_ns": time.monotonic_ns(), "reason": _describe(error)}
            return {}
        return {"throttled_s": round(self.now.throttled_s - self.before.throttled_s, 6)}

    def account(self) -> dict[str, Any]:
        """Return the report on the quota for meter.json."""
        return {
            "source": ", ".join(str(folder / STAT) for folder in self.quotas) or None,
            "reason": self.reason,
            "quota_cores": min(self.quotas.values(), default=None),
            "periods": self.now.periods - self.before.periods,
            "throttled_periods": self.now.throttled_periods - self.before.throttled_periods,
            "calls": self.calls,
            "failures": self.failures,
            "first_failure": self.first_failure,
        }

    def _read(self) -> _Counts:
        """Read the sums of all groups. Raises OSError, ValueError."""
        every = [_counts(folder / STAT) for folder in self.quotas]
        return _Counts(
            sum(each.throttled_s for each in every),
            sum(each.periods for each in every),
            sum(each.throttled_periods for each in every),
        )


@dataclass(frozen=True)
class _Counts:
    """Running sums of cpu.stat."""

    throttled_s: float = 0.0
    periods: int = 0
    throttled_periods: int = 0


def _counts(path: Path) -> _Counts:
    """Read one group's sums. Raises OSError, ValueError."""
    lines = dict(line.split() for line in path.read_text(encoding="ascii").splitlines())
    try:
        if "throttled_usec" in lines:
            throttled_s = int(lines["throttled_usec"]) / 1e6
        else:
            throttled_s = int(lines["throttled_time"]) / 1e9
        return _Counts(throttled_s, int(lines["nr_periods"]), int(lines["nr_throttled"]))
    except KeyError as error:
        raise ValueError(f"{path}: it has no {error}") from error


def _describe(error: Exception) -> str:
    return f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
