"""Memory of this process by Linux, None if it is unknown; and counts of a step's interruptions."""

from __future__ import annotations

import re
import resource
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc/self")


class Interruptions(NamedTuple):
    """Counts of this process and all its threads since it began (getrusage(2))."""

    page_faults: int  # minor ones: the kernel handed out a page, zeroed, without reading a disk
    context_switches: int  # voluntary ones: a thread slept until another one, or the kernel, woke it


def interruptions() -> Interruptions:
    """Count up to now; takes about a microsecond."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return Interruptions(usage.ru_minflt, usage.ru_nvcsw)


def user_s() -> float:
    """Return the processor time in user mode, of this process and all its threads."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime


def resident_bytes() -> int | None:
    """Return the bytes that are resident now (VmRSS)."""
    return _read("status", "VmRSS")


def peak_resident_bytes() -> int | None:
    """Return the most since the process began or since the last reset (VmHWM)."""
    return _read("status", "VmHWM")


def proportional_bytes() -> int | None:
    """Return the bytes resident now, shared pages divided among their processes (PSS); takes milliseconds."""
    return _read("smaps_rollup", "Pss")


def data_bytes() -> int | None:
    """Return the bytes that a limit of the data segment (RLIMIT_DATA) counts (VmData)."""
    return _read("status", "VmData")


def mapped_bytes() -> int | None:
    """Return the bytes that a limit of the address space (RLIMIT_AS) counts (VmSize)."""
    return _read("status", "VmSize")


def peak_mapped_bytes() -> int | None:
    """Return the most address space since the process began (VmPeak)."""
    return _read("status", "VmPeak")


def anonymous_bytes() -> int | None:
    """Return resident bytes without a file (RssAnon): a control group counts them while this process runs."""
    return _read("status", "RssAnon")


def counts() -> dict[str, int | None]:
    """Return the bytes that limits count: of the data segment (RLIMIT_DATA, getrlimit(2)) and of a control group. Also
    return those that are resident, now and at most.

    The kernel keeps no peak of the first two: it is about that of the resident size, more by the difference.
    """
    return {
        "data_bytes": data_bytes(),
        "anonymous_bytes": anonymous_bytes(),
        "resident_bytes": resident_bytes(),
        "peak_resident_bytes": peak_resident_bytes(),
    }


def reset_peak() -> bool:
    """True if the peak counts from now on (proc(5), clear_refs)."""
    try:
        (PROC / "clear_refs").write_text("5")
    except OSError:
        return False
    return True


def _read(file: str, key: str) -> int | None:
    try:
        line = re.search(rf"^{key}:\s+(\d+) kB$", (PROC / file).read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(line.group(1)) * 1024 if line else None
