"""Counters of the kernel: the energy of the processor's packages (RAPL, powercap), and time that a quota withholds.

Each package is a folder intel-rapl:N below /sys/class/powercap, on AMD's processors too. It has `name` "package-N" (on
some "package-N-die-M"), a running sum `energy_uj`, and `max_energy_range_uj`, after which that begins at 0 again
(Documentation/power/powercap/powercap.rst of the kernel). Domains inside a package, and "psys", which holds all of
them, would be counted twice. It is the whole package's energy, whoever used it. Often only root may read it.

A suspended or migrated machine, or a reloaded driver, resets the counter. That is no return to 0 at the range's end:
what was used meanwhile is unknown, and the sum begins anew.

A control group with a quota may run for a fixed time in each period. Demand beyond that waits for the next one, which
is called throttled. Version 2 of control groups counts it in microseconds (throttled_usec), version 1 in nanoseconds
(throttled_time). Both sum it over the cores on which the group waited (sched-bwc.rst of the kernel's documentation).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from workloads import control_groups
from workloads.records.columns import PACKAGES_W, PERIOD_S

POWERCAP = Path("/sys/class/powercap")
FOLDER = re.compile(r"intel-rapl:\d+")
PROC = Path("/proc")
STAT = "cpu.stat"


Value = TypeVar("Value")


@dataclass
class Reader:
    """Readings that may fail. Nothing here raises: an unreadable value is an empty cell, and the report says why.

    The fields are the part of a report for meter.json that every reader has.
    """

    reason: str | None = None  # why nothing is read
    calls: int = 0
    failures: int = 0
    first_failure: dict[str, Any] | None = None

    def read(self, take: Callable[[], Value]) -> Value | None:
        """Return what `take` gives; None after a failure, which is counted."""
        self.calls += 1
        try:
            return take()
        except (OSError, ValueError) as error:
            self.failures += 1
            self.first_failure = self.first_failure or {"t_ns": time.monotonic_ns(), "reason": _format_error(error)}
            return None


class CounterReset(ValueError):
    """A counter changed by more than any processor can have used."""


class PackageEnergy(Reader):
    """The packages' energy since the start, or since a counter was reset."""

    def __init__(self, powercap: Path = POWERCAP) -> None:
        super().__init__()
        self.packages: list[_Package] = []
        try:
            self.packages = _packages(powercap)
        except (OSError, ValueError) as error:
            self.reason = _format_error(error)
        if self.reason is None and not self.packages:
            self.reason = f"{powercap} has no package of the processor"

    def sample(self) -> dict[str, float | int | None]:
        """Return the sum, uJ; empty if one of the packages could not be read, or was reset since the last reading."""
        if self.reason is not None:
            return {}
        used_uj = self.read(self._used_uj)
        return {} if used_uj is None else {"package_energy_uj": used_uj}

    def account(self) -> dict[str, Any]:
        """Return the report for meter.json."""
        files = ", ".join(str(package.folder / "energy_uj") for package in self.packages)
        return {"source": files or None} | asdict(self)

    def _used_uj(self) -> int:
        """Return the sum. After a reset all packages count anew: the sum falls, and nobody takes it for one sum.

        Raises OSError, ValueError.
        """
        try:
            return sum(package.used_uj() for package in self.packages)
        except CounterReset:
            for package in self.packages:
                package.used = 0
            raise


@dataclass
class _Package:
    """One package. `used` is the sum of the counter's increases, over its returns to 0."""

    folder: Path
    range_uj: int
    read_s: float  # of the monotonic clock, just before the last reading
    last_uj: int
    used: int = 0

    def used_uj(self) -> int:
        """Return the energy used so far, uJ. Raises OSError, ValueError; CounterReset for a change that no power
        explains in the time since the last reading, after which the next reading counts from this one.
        """
        read_s, path = time.monotonic(), self.folder / "energy_uj"
        now_uj = _number(path)
        took_s, from_uj = time.monotonic() - self.read_s, self.last_uj
        self.read_s, self.last_uj = read_s, now_uj
        risen_uj = now_uj - from_uj + (self.range_uj if now_uj < from_uj else 0)
        # A period more: counters are renewed in steps, and two readings may be microseconds apart.
        if not 0 <= risen_uj <= PACKAGES_W * 1e6 * (took_s + PERIOD_S):
            raise CounterReset(f"{path}: the counter was reset: from {from_uj} to {now_uj} uJ in {took_s:.1f} s")
        self.used += risen_uj
        return self.used


def _packages(powercap: Path) -> list[_Package]:
    """Return the packages. Raises OSError, ValueError."""
    folders = sorted(folder for folder in powercap.iterdir() if FOLDER.fullmatch(folder.name))
    return [
        _Package(folder, _number(folder / "max_energy_range_uj"), time.monotonic(), _number(folder / "energy_uj"))
        for folder in folders
        if (folder / "name").read_text(encoding="ascii").startswith("package")
    ]


def _number(path: Path) -> int:
    return int(path.read_text(encoding="ascii"))


def _format_error(error: Exception) -> str:
    return f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)


class CpuQuota(Reader):
    """The groups with a quota among a process's own and those above."""

    def __init__(self, pid: int, proc: Path = PROC) -> None:
        """Count from now on. Groups without a quota withhold nothing, and are not read again."""
        super().__init__()
        self.quotas = control_groups.cpu_quotas(proc / str(pid) / "cgroup")
        self.before = self.now = _Counts()
        try:
            self.before = self.now = self._sum()
        except (OSError, ValueError) as error:
            self.reason = _format_error(error)

    def sample(self) -> dict[str, float | int | None]:
        """Return the sum since the start; empty without a quota, or if a group could not be read."""
        if not self.quotas or self.reason is not None:
            return {}
        if (now := self.read(self._sum)) is None:
            return {}
        self.now = now
        return {"throttled_s": round(self.now.throttled_s - self.before.throttled_s, 6)}

    def account(self) -> dict[str, Any]:
        """Return the report on the quota for meter.json."""
        return {
            "source": ", ".join(str(folder / STAT) for folder in self.quotas) or None,
            "quota_cores": min(self.quotas.values(), default=None),
            "periods": self.now.periods - self.before.periods,
            "throttled_periods": self.now.throttled_periods - self.before.throttled_periods,
            **asdict(self),
        }

    def _sum(self) -> _Counts:
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
