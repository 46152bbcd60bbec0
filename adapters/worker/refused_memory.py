"""Memory that a worker was refused: whether an error came from that, how much it asked for, and how much there was.

The size asked for comes from the framework's own message, null if it does not say. The available size is looked up when
the error reaches the worker: some memory may have been released by then. Of all bounds of a process the tightest
counts: RLIMIT_DATA and RLIMIT_AS (getrlimit(2)), its control groups (cgroups(7)), and the machine's MemAvailable
(proc(5)).

The libraries below the frameworks use the same words when memory is refused and when a kernel does not exist. So their
words decide nothing: what counts is how much memory was left when the process had the most.
"""

from __future__ import annotations

import ctypes
import errno
import math
import re
import resource
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from adapters.base import Adapter
from adapters.worker import host
from workloads import control_groups
from workloads.records.events import MemoryBound
from workloads.records.job import ON_DEMAND, TrialSpec

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
    re.compile(r"Fail to alloc memory of (?P<size>\d+)(?P<unit>) size"),  # Paddle, phi/core/memory/allocation/
    re.compile(rf"for an array with shape {SHAPE} and data type (?P<type>\w+)"),  # numpy/_core/_exceptions.py
)
FREE = re.compile(r"of which (?P<size>[\d.]+) ?(?P<unit>bytes|KiB|MiB|GiB|TiB) is free")  # PyTorch, of a GPU
ON_A_GPU = ("CUDA", "GPU", "cudaMalloc", "cudaError")
BITS = re.compile(r"(\d+)$")  # of a type's name
TYPES = {"float": 4, "double": 8, "half": 2, "bool": 1, "int": 4}  # bytes of types whose names contain no number

# oneDNN's, of PyTorch and MXNet: oneDNN #1500 and pytorch #89104 are other causes of the first.
ON_THE_HOST = (
    "could not create a primitive",
    "could not execute a primitive",
    "could not create a memory object",
    "failed to map segment from shared object",  # from ld.so
    "can't start new thread",  # CPython's, for pthread_create(3)
    "Resource temporarily unavailable",  # the same in C++, as MXNet passes it on
    "Cannot allocate memory",  # strerror(3) of ENOMEM
)
# Messages of a trial on a GPU that was refused memory of the host. XLA, cuDNN and PyTorch can refuse a GPU's memory
# without naming the GPU: every other message is about the GPU's.
BY_THE_HOST = (
    *ON_THE_HOST,
    "DefaultCPUAllocator",  # PyTorch
    "CPU Memory",  # MXNet
    "device:CPU:0",  # TensorFlow
    "Arena alloc failed",  # protobuf
    "bad_alloc",  # C++
)
# Messages of cuDNN and cuBLAS, and of frameworks that pass them on. Running out: pytorch #108645, DiffBIR #59,
# tensorflow #9489, tensorflow #24828, mxnet #11176, CNTK #1516. Other causes: pytorch #2917 and #4107, whose batches
# were too large.
ON_THE_DEVICE = (
    "CUDNN_STATUS_NOT_SUPPORTED",
    "CUDNN_STATUS_NOT_INITIALIZED",
    "CUDNN_STATUS_INTERNAL_ERROR",
    "CUDNN_STATUS_EXECUTION_FAILED",
    "CUBLAS_STATUS_NOT_INITIALIZED",
    "CUBLAS_STATUS_EXECUTION_FAILED",
    "unable to find an engine to execute this computation",
    "Unable to find a valid cuDNN algorithm",
    "Failed to get convolution algorithm",
    "No algorithm worked!",
    "Failed to find any forward convolution algorithm",
    "Failed to find any backward",
)
SHORT = {MemoryBound.MACHINE: 0.02}  # the largest share left if memory was short, for each bound
SHORT_OF_LIMIT = 0.25  # the same for a limit: a refused block is as large as what a step holds already
SHORT_OF_DEVICE = 0.1  # the same for a GPU, whose libraries ask for workspaces of hundreds of MiB


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
    if device != "cpu" and _is_of_the_gpu(error):
        free = next((_size(match) for text in texts if (match := FREE.search(text))), None)
        return asdict(Refused(asked, free, MemoryBound.DEVICE))
    rests = {bound: rest for bound, rest in available().items() if rest is not None}
    tightest = min(rests, key=lambda bound: rests[bound], default=None)
    return asdict(Refused(asked, None if tightest is None else rests[tightest], tightest))


def _is_of_the_gpu(error: BaseException) -> bool:
    """True if a trial on a GPU was refused the GPU's memory, not the host's."""
    errors = list(chain(error))
    if any(_says(each, ON_A_GPU) for each in errors):
        return True
    return not any(isinstance(each, MemoryError) or _says(each, BY_THE_HOST) for each in errors)


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
        MemoryBound.CONTROL_GROUP: control_groups.memory_left_bytes(),
        MemoryBound.MACHINE: machine_bytes("MemAvailable"),
    }


def _rest_of(kind: int, used: int | None) -> int | None:
    limit_bytes = _soft_limit(kind)
    return None if used is None or limit_bytes is None else max(0, limit_bytes - used)


def _soft_limit(kind: int) -> int | None:
    soft, _ = resource.getrlimit(kind)
    return None if soft == resource.RLIM_INFINITY else soft


def machine_bytes(name: str) -> int | None:
    """Return the bytes that the kernel reports under this name of the machine's memory (proc(5), meminfo)."""
    with suppress(OSError):
        if line := re.search(rf"^{name}:\s+(\d+) kB$", MEMINFO.read_text(), re.MULTILINE):
            return int(line.group(1)) * 1024
    return None


def culprit_of(error: BaseException, adapter: Adapter | None, spec: TrialSpec) -> BaseException | None:
    """Return the error by which a worker ran out of memory, or one of its causes; None if it did not run out."""
    preallocates = spec.cell.allocator != ON_DEMAND
    return out_of_memory(error, adapter) or ran_out(error, spec.placement.device, preallocates)


def out_of_memory(error: BaseException, adapter: Adapter | None) -> BaseException | None:
    """Return this error or its cause, if one says so, else None; without an adapter, for an error in its import."""
    for each in chain(error):
        if isinstance(each, MemoryError) or (adapter is not None and adapter.out_of_memory(each)):
            return each
    return None


def ran_out(error: BaseException, device: str, preallocates: bool) -> BaseException | None:
    """Return the error, or a cause of it, that memory explains; None if none does, or memory was not short.

    `device` is "cpu" or a GPU's UUID. If its framework `preallocates`, the free memory says nothing.
    """
    for each in chain(error):
        if isinstance(each, OSError) and each.errno == errno.ENOMEM:
            return each
        if device != "cpu" and not preallocates and _says(each, ON_THE_DEVICE) and is_device_short():
            return each
        if _says(each, ON_THE_HOST) and any(left < SHORT.get(bound, SHORT_OF_LIMIT) for bound, left in shares_left()):
            return each
    return None


def _says(error: BaseException, signs: tuple[str, ...]) -> bool:
    return any(sign in str(error) for sign in signs)


def shares_left() -> Iterator[tuple[MemoryBound, float]]:
    """Yield each bound of this process's memory, and the share left when the process had the most.

    What failed has released its memory by now, so the peaks count: of resident memory, and of the address space.
    """
    freed = _difference(host.peak_resident_bytes(), host.resident_bytes())
    unmapped = _difference(host.peak_mapped_bytes(), host.mapped_bytes())
    rests = available()
    bounds = [
        (MemoryBound.DATA, rests[MemoryBound.DATA], _soft_limit(resource.RLIMIT_DATA), freed),
        (MemoryBound.ADDRESS_SPACE, rests[MemoryBound.ADDRESS_SPACE], _soft_limit(resource.RLIMIT_AS), unmapped),
        *((MemoryBound.CONTROL_GROUP, left, most, freed) for left, most in control_groups.read_memory_left()),
        (MemoryBound.MACHINE, rests[MemoryBound.MACHINE], machine_bytes("MemTotal"), freed),
    ]
    for bound, rest, limit_bytes, given_back in bounds:
        if limit_bytes and rest is not None:
            yield bound, (rest - given_back) / limit_bytes


def _difference(peak: int | None, now: int | None) -> int:
    return max(0, peak - now) if peak is not None and now is not None else 0


def is_device_short() -> bool:
    """True if less than SHORT_OF_DEVICE of the current GPU is free, as CUDA's driver reports it (cuMemGetInfo)."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    try:
        refused = ctypes.CDLL("libcuda.so.1").cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
    except (OSError, AttributeError):
        return False
    return not refused and free.value < SHORT_OF_DEVICE * total.value
