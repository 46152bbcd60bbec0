"""The time in which cores were busy, as the kernel counts it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

STAT = Path("/proc/stat")
BUSY = (1, 2, 3, 6, 7, 8)  # user, nice, system, irq, softirq, steal: all but idle and iowait; guests are in user


def read_busy_s(cores: Sequence[int], stat: Path = STAT) -> float:
    """Return the seconds since boot in which these cores were busy, summed over them; see proc(5), /proc/stat.

    That file has a line for each core that is online, and its number is in its name: after a core that is offline, a
    line's place is not its number. A container may see other numbers (lxcfs). Raises OSError; ValueError if a core has
    no line.
    """
    lines = {words[0]: words for words in map(str.split, stat.read_text(encoding="ascii").splitlines()) if words}
    missing = [core for core in cores if f"cpu{core}" not in lines]
    if missing:
        raise ValueError(f"{stat} has no line of core {missing[0]}")
    ticks = sum(int(lines[f"cpu{core}"][column]) for core in cores for column in BUSY)
    return ticks / os.sysconf("SC_CLK_TCK")
