"""The energy that the processor's packages have used, by the kernel's counters (RAPL, powercap).

Each package is a folder intel-rapl:N below /sys/class/powercap, on AMD's processors too. It has `name` "package-N" (on
some "package-N-die-M"), a running sum `energy_uj`, and `max_energy_range_uj`, after which that begins at 0 again
(Documentation/power/powercap/powercap.rst of the kernel). Domains inside a package, and "psys", which holds all of
them, would be counted twice. It is the whole package's energy, whoever used it. Often only root may read it.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

POWERCAP = Path("/sys/class/powercap")
FOLDER = re.compile(r"intel-rapl:\d+")


class PackageEnergy:
    """The packages' energy since the start. Nothing here raises: an unreadable value is an empty cell."""

    def __init__(self, powercap: Path = POWERCAP) -> None:
        self.packages: list[_Package] = []
        self.reason: str | None = None
        self.calls = self.failures = 0
        self.first_failure: dict[str, Any] | None = None
        try:
            self.packages = _packages(powercap)
        except (OSError, ValueError) as error:
            self.reason = _in_words(error)
        if self.reason is None and not self.packages:
            self.reason = f"{powercap} has no package of the processor"

    def sample(self) -> dict[str, float | int | None]:
        """Return the sum; empty if one of the packages could not be read."""
        if self.reason is not None:
            return {}
        self.calls += 1
        try:
            return {"package_energy_uj": sum(package.used_uj() for package in self.packages)}
        except (OSError, ValueError) as error:
            self.failures += 1
            self.first_failure = self.first_failure or {"t_ns": time.monotonic_ns(), "reason": _in_words(error)}
            return {}

    def account(self) -> dict[str, Any]:
        """Return the report for meter.json."""
        files = ", ".join(str(package.folder / "energy_uj") for package in self.packages)
        return {
            "source": files or None,
            "reason": self.reason,
            "calls": self.calls,
            "failures": self.failures,
            "first_failure": self.first_failure,
        }


@dataclass
class _Package:
    """One package. `used` is the sum of the counter's increases, over its returns to 0."""

    folder: Path
    range_uj: int
    last_uj: int
    used: int = 0

    def used_uj(self) -> int:
        """Return the energy used so far. Raises OSError, ValueError."""
        now_uj = _number(self.folder / "energy_uj")
        self.used += now_uj - self.last_uj + (self.range_uj if now_uj < self.last_uj else 0)
        self.last_uj = now_uj
        return self.used


def _packages(powercap: Path) -> list[_Package]:
    """Return the packages. Raises OSError, ValueError."""
    folders = sorted(folder for folder in powercap.iterdir() if FOLDER.fullmatch(folder.name))
    return [
        _Package(folder, _number(folder / "max_energy_range_uj"), _number(folder / "energy_uj"))
        for folder in folders
        if (folder / "name").read_text(encoding="ascii").startswith("package")
    ]


def _number(path: Path) -> int:
    return int(path.read_text(encoding="ascii"))


def _in_words(error: Exception) -> str:
    return f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
