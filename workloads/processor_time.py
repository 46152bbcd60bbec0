"""The time in which cores were busy, as the kernel counts it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

STAT, TOPOLOGY = Path("/proc/stat"), Path("/sys/devices/system/cpu")
BUSY = (1, 2, 3, 6, 7, 8)  # user, nice, system, irq, softirq, steal: all but idle and iowait; guests are in user
TICK_S = 0.01  # step of a core's busy time in that file
# Of a process's own time. The kernel samples what a core runs, 100 to 1,000 times a second. Where a process computes in
# half of 5 s on one core, that is off by 1 to 5 % of its time (one standard deviation).
SAMPLED = 0.1


def read_busy_s(cores: Sequence[int], others: Sequence[int] = (), stat: Path = STAT) -> float:
    """Return the seconds since boot in which these cores were busy, summed over them; see proc(5), /proc/stat.

    That file has a line for each core that is online, and its number is in its name: after a core that is offline, a
    line's place is not its number. A container may see other numbers (lxcfs): `others` count if they have a line.
    Raises OSError; ValueError if a core has no line.
    """
    lines = {words[0]: words for words in map(str.split, stat.read_text(encoding="ascii").splitlines()) if words}
    missing = [core for core in cores if f"cpu{core}" not in lines]
    if missing:
        raise ValueError(f"{stat} has no line of core {missing[0]}")
    counted = [*cores, *(core for core in others if f"cpu{core}" in lines)]
    ticks = sum(int(lines[f"cpu{core}"][column]) for core in counted for column in BUSY)
    return ticks / os.sysconf("SC_CLK_TCK")


@lru_cache
def list_hyperthreads(cores: tuple[int, ...], topology: Path = TOPOLOGY) -> tuple[int, ...]:
    """Return the other hyperthreads of these cores' physical cores: whoever computes there slows these.

    See the kernel's Documentation/admin-guide/cputopology.rst, thread_siblings_list: "0,8" or "0-1".
    """
    found: set[int] = set()
    for core in cores:
        with suppress(OSError, ValueError):
            text = (topology / f"cpu{core}/topology/thread_siblings_list").read_text(encoding="ascii")
            for part in text.strip().split(","):
                first, _, last = part.partition("-")
                found.update(range(int(first), int(last or first) + 1))
    return tuple(sorted(found - set(cores)))


def find_busy_s(cores: Sequence[int]) -> float | None:
    """Return the seconds in which these cores and their other hyperthreads were busy since boot; None where the kernel
    does not say.
    """
    try:
        return read_busy_s(cores, list_hyperthreads(tuple(cores)))
    except (OSError, ValueError):
        return None


def compute_foreign_share(
    before_s: float | None, after_s: float | None, own_s: float, wall_s: float, cores: int
) -> float | None:
    """Return the share of `cores` cores that others used for `wall_s` seconds, in %; ticks may bring it below 0.

    `before_s` and `after_s` are `find_busy_s` at its edges; `own_s` is the processor time of the process on the cores.
    None where the kernel does not say, or reports the cores less busy than the process: then they are other cores.
    """
    if before_s is None or after_s is None:
        return None
    foreign_s = after_s - before_s - own_s
    return None if foreign_s < -(2 * TICK_S * cores + SAMPLED * own_s) else 100 * foreign_s / (wall_s * cores)
