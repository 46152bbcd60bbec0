"""Memory that a worker was refused: how much it asked for, and how much there was.

The size asked for comes from the framework's own message, null if it does not say. The available size is looked up when
the error reaches the worker: some memory may have been released by then. Of all bounds of a process the tightest
counts: RLIMIT_DATA and RLIMIT_AS (getrlimit(2)), its control groups (cgroups(7)), and the machine's MemAvailable
(proc(5)).
"""

from __future__ import annotations

import math
import re
import resource
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from adapters.worker import host
from workloads import control_groups
from workloads.records.events import MemoryBound

MEMINFO = Path("/proc/meminfo")

UNITS = {"": 1, "bytes": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
SIZE = r"(?P<size>[\d.]+) ?(?P<unit>bytes|B|KiB|MiB|GiB|TiB)\b"
SHAPE = r"(?P<shape>[\[(][\d, ]*[\])])"
# The frameworks' messages about the size. A size in bytes or a shape precedes a rounded size of the same message.
ASKED = (
    re.compile(rf"you tried to allocate {SIZE}"),  # PyTorch, c10/core/impl/alloc_cpu.cpp
    re.compile(rf"Tried to allocate {SIZE}"),  # PyTorch, c10/cuda/CUDACachingAllocator.cpp
    re.compile(rf"OOM when allocating tensor with shape ?{SHAPE} and type (?P<type>\w+)"),  # TensorFlow's kernels
    re.compile(rf"(?:[Oo]ut of memory|OOM).{{0,40}}? allocat(?:e|ing) {SIZE}"),  # XLA
    re.compile(r"\((?P<size>\d+)(?P<unit>B)\)"),  # TensorFlow's allocators: "for 1.50GiB (1610612736B)"
    re.compile(rf"for an array with shape {SHAPE} and data type (?P<type>\w+)"),  # numpy/_core/_exceptions.py
)
FREE = re.compile(r"of which (?P<size>[\d.]+) ?(?P<unit>bytes|KiB|MiB|GiB|TiB) is free")  # PyTorch, of a GPU
ON_A_GPU = ("CUDA", "GPU", "cudaMalloc")
BITS = re.compile(r"(\d+)$")  # of a type's name
TYPES = {"float": 4, "double": 8, "half": 2, "bool": 1, "int": 4}  # bytes of types whose names contain no number


@dataclass(frozen=True)
class Refused:
    """The refused memory, None if unknown; `bound` is the one that leaves the least."""

    asked_bytes: int | None
    available_bytes: int | None
    bound: MemoryBound | None


def refused(error: BaseException, device: str) -> dict[str, object]:
    """Return the event's data; `device` is "cpu" or the UUID of a GPU."""
    texts = [str(each) for each in chain(error)]
    asked = next((size for text in texts if (size := asked_bytes(text)) is not None), None)
    if device != "cpu" and any(sign in text for text in texts for sign in ON_A_GPU):
        free = next((_size(match) for text in texts if (match := FREE.search(text))), None)
        return asdict(Refused(asked, free, MemoryBound.DEVICE))
    rests = {bound: rest for bound, rest in available().items() if rest is not None}
    tightest = min(rests, key=lambda bound: rests[bound], default=None)
    return asdict(Refused(asked, None if tightest is None else rests[tightest], tightest))


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the error and its causes."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def asked_bytes(text: str) -> int | None:
    """Return the bytes asked for, from a framework's message; None if it does not say."""
    match = next((match for pattern in ASKED if (match := pattern.search(text))), None)
    return None if match is None else _size(match)


def says_size(line: str) -> bool:
    """True if a line of a message reports the size asked for."""
    return asked_bytes(line) is not None


def _size(match: re.Match[str]) -> int | None:
    groups = match.groupdict()
    if "size" in groups:
        return round(float(groups["size"]) * UNITS[groups["unit"]])
    bits = BITS.search(groups["type"])
    width = int(bits.group(1)) // 8 if bits else TYPES.get(groups["type"])
    return None if width is None else width * math.prod(int(number) for number in re.findall(r"\d+", groups["shape"]))


def available() -> dict[MemoryBound, int | None]:
    """Return the bytes left of every bound of this process's memory; None if there is no bound or it is unknown."""
    return {
        MemoryBound.DATA: _rest_of(resource.RLIMIT_DATA, host.data_bytes()),
        MemoryBound.ADDRESS_SPACE: _rest_of(resource.RLIMIT_AS, host.mapped_bytes()),
        MemoryBound.CONTROL_GROUP: min((rest for rest, _ in groups()), default=None),
        MemoryBound.MACHINE: machine_bytes("MemAvailable"),
    }


def _rest_of(limit: int, used: int | None) -> int | None:
    soft, _ = resource.getrlimit(limit)
    return None if used is None or soft == resource.RLIM_INFINITY else max(0, soft - used)


def groups() -> Iterator[tuple[int, int]]:
    """Yield (bytes left, limit) of each control group of this process; file pages that can be dropped count as free."""
    for folder in control_groups.folders("memory"):
        for most, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
            with suppress(OSError, ValueError):  # no such file, or "max"
                limit_bytes = int((folder / most).read_text())
                rest = limit_bytes - int((folder / used).read_text())
                inactive = re.search(r"^inactive_file (\d+)$", (folder / "memory.stat").read_text(), re.MULTILINE)
                yield max(0, rest + (int(inactive.group(1)) if inactive else 0)), limit_bytes


def machine_bytes(name: str) -> int | None:
    """Return the bytes that the kernel reports under this name of the machine's memory (proc(5), meminfo)."""
    with suppress(OSError):
        if line := re.search(rf"^{name}:\s+(\d+) kB$", MEMINFO.read_text(), re.MULTILINE):
            return int(line.group(1)) * 1024
    return None
