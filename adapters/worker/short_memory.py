"""Errors that may come from running out of memory, and whether memory was short enough for that.

The libraries below the frameworks use the same words when memory is refused and when a kernel does not exist. So their
words decide nothing: what counts is how much memory was left when the process had the most.
"""

from __future__ import annotations

import ctypes
import errno
import resource
from collections.abc import Iterator

from adapters.base import Adapter
from adapters.worker import host
from adapters.worker.refused_memory import available, chain, groups, machine_bytes
from workloads.records.events import MemoryBound
from workloads.records.job import ON_DEMAND, TrialSpec

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
        (MemoryBound.DATA, rests[MemoryBound.DATA], _limit(resource.RLIMIT_DATA), freed),
        (MemoryBound.ADDRESS_SPACE, rests[MemoryBound.ADDRESS_SPACE], _limit(resource.RLIMIT_AS), unmapped),
        *((MemoryBound.CONTROL_GROUP, rest, limit_bytes, freed) for rest, limit_bytes in groups()),
        (MemoryBound.MACHINE, rests[MemoryBound.MACHINE], machine_bytes("MemTotal"), freed),
    ]
    for bound, rest, limit_bytes, given_back in bounds:
        if limit_bytes and rest is not None:
            yield bound, (rest - given_back) / limit_bytes


def _limit(kind: int) -> int | None:
    soft, _ = resource.getrlimit(kind)
    return None if soft == resource.RLIM_INFINITY else soft


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
