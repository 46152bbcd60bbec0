"""How the processor's clocks are set, as far as the kernel tells: in most virtual machines it does not."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

CORES = "sys/devices/system/cpu"
TURBO = {f"{CORES}/intel_pstate/no_turbo": "0", f"{CORES}/cpufreq/boost": "1"}  # what stands there where it is on


def governors(cores: Sequence[int], root: Path = Path("/")) -> list[str]:
    """Of these cores, each once; empty where the clocks are not this system's to set. Raises OSError."""
    paths = [root / CORES / f"cpu{core}/cpufreq/scaling_governor" for core in cores]
    return sorted({path.read_text().strip() for path in paths if path.exists()})


def turbo(root: Path = Path("/")) -> bool | None:
    """Whether clocks may rise above their base while heat and busy neighbours allow it; None: not told."""
    for place, on in TURBO.items():
        with suppress(OSError):
            return (root / place).read_text().strip() == on
    return None


def throttle_count(cores: Sequence[int], root: Path = Path("/")) -> int | None:
    """How often these cores' clocks were lowered for heat since the machine was started; None: not told, as by AMD."""
    try:
        counts = [(root / CORES / f"cpu{core}/thermal_throttle/core_throttle_count").read_text() for core in cores]
        return sum(map(int, counts))
    except (OSError, ValueError):
        return None


def rise(before: int | None, after: int | None) -> int | None:
    """Of a count; None where one of the two is."""
    return None if before is None or after is None else after - before
