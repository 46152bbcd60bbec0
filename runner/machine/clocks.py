"""Settings of the processor's clocks, if the kernel reports them: in most virtual machines it does not."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

CORES = "sys/devices/system/cpu"
TURBO = {f"{CORES}/intel_pstate/no_turbo": "0", f"{CORES}/cpufreq/boost": "1"}  # the file's content if it is on


def governors(cores: Sequence[int], root: Path = Path("/")) -> list[str]:
    """Return the governors of these cores, each once; empty if this system does not set the clocks. Raises OSError."""
    paths = [root / CORES / f"cpu{core}/cpufreq/scaling_governor" for core in cores]
    return sorted({path.read_text().strip() for path in paths if path.exists()})


def turbo(root: Path = Path("/")) -> bool | None:
    """True if clocks may rise above their base while heat and load allow it; None: unknown."""
    for place, on in TURBO.items():
        with suppress(OSError):
            return (root / place).read_text().strip() == on
    return None


def throttle_count(cores: Sequence[int], root: Path = Path("/")) -> int | None:
    """Return how often these cores' clocks were lowered for heat since boot; None: unknown, as with AMD."""
    try:
        counts = [(root / CORES / f"cpu{core}/thermal_throttle/core_throttle_count").read_text() for core in cores]
        return sum(map(int, counts))
    except (OSError, ValueError):
        return None


def rise(before: int | None, after: int | None) -> int | None:
    """Return the rise of a count; None if one of the two is None."""
    return None if before is None or after is None else after - before
