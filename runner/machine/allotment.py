"""GPUs and threads of this machine that the caller's environment leaves to this process.

CUDA_VISIBLE_DEVICES is read as CUDA reads it. OMP_NUM_THREADS is the caller's wish, SLURM_CPUS_PER_TASK another
program's allotment; the kernel decides which cores may be used at all (`description.count_cores`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from runner.machine import description
from runner.machine.description import Gpu
from workloads.records.job import ANY_GPU

VISIBLE, ORDER, PCI_ORDER = "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "PCI_BUS_ID"
WISHED_THREADS, ALLOTTED_THREADS = "OMP_NUM_THREADS", "SLURM_CPUS_PER_TASK"


class UnclearGpus(ValueError):
    """The variable cannot be followed, or its GPU not be measured; the message is one line: which, and what to do."""


@dataclass(frozen=True)
class VisibleGpus:
    """GPUs that `auto`, `cuda` and `cuda:N` count, in that order; `said` is the variable, None if it is not set.

    `invalid` is the first entry that names none of this machine's GPUs: it and the entries after it are not visible.
    """

    gpus: tuple[Gpu, ...]
    said: str | None
    invalid: str | None = None

    @property
    def setting(self) -> str:
        """The variable as a shell would show it."""
        return f"{VISIBLE}={self.said!r}"


def list_visible_gpus(every: Sequence[Gpu], numbers_of_the_driver: bool = False) -> VisibleGpus:
    """Return the GPUs of `every`, which is in PCI order, that the caller's variable lists. Raises UnclearGpus.

    Numbers count in PCI order. CUDA itself counts so only if CUDA_DEVICE_ORDER says it, or all cards are alike.
    `numbers_of_the_driver`: they come from a program that counts as the driver does, such as Slurm or Ray.
    """
    said = os.environ.get(VISIBLE)
    if said is None:
        return VisibleGpus(tuple(every), None)
    alike = len({gpu.name for gpu in every}) < 2 or os.environ.get(ORDER) == PCI_ORDER
    chosen: list[Gpu] = []
    for entry in (part.strip() for part in said.split(",")):
        if entry.startswith("MIG-"):
            raise UnclearGpus(
                f"{VISIBLE} names {entry}: a MIG slice cannot be measured; name a whole GPU, or use the CPU"
            )
        gpu = _named(entry, every)
        if gpu is None:
            return VisibleGpus(tuple(chosen), said, entry)
        if entry.isdecimal() and not alike and not numbers_of_the_driver:
            raise UnclearGpus(f"{VISIBLE}={said!r}: numbers are unclear with different cards; set {ORDER}={PCI_ORDER}, "
                              "or name their UUIDs (nvidia-smi -L)")  # fmt: skip
        if chosen and entry.isdecimal() != said.split(",")[0].strip().isdecimal():
            raise UnclearGpus(f"{VISIBLE}={said!r} names GPUs by number and by UUID, and CUDA then shows only some; "
                              "use numbers alone, or UUIDs alone")  # fmt: skip
        if gpu in chosen:
            raise UnclearGpus(f"{VISIBLE}={said!r} names {gpu.uuid} twice, and CUDA then shows none; name it once")
        chosen.append(gpu)
    return VisibleGpus(tuple(chosen), said)


def _named(entry: str, every: Sequence[Gpu]) -> Gpu | None:
    """Return the GPU with this number, this UUID or the only one whose UUID begins so."""
    if entry.isdecimal():
        return every[int(entry)] if int(entry) < len(every) else None
    found = [gpu for gpu in every if entry.startswith("GPU-") and gpu.uuid.startswith(entry)]
    return found[0] if len(found) == 1 else None


def refuse_divided(gpus: Iterable[Gpu]) -> None:
    """Raise UnclearGpus if one of these GPUs is in MIG mode: the driver measures the card, a worker gets a slice."""
    if divided := [gpu.uuid for gpu in gpus if gpu.mig]:
        raise UnclearGpus(f"MIG mode is on for {divided[0]}: a slice cannot be measured; switch it off "
                          "(nvidia-smi -mig 0), name another GPU, or use --device cpu")  # fmt: skip


def find_given_gpu() -> Gpu | None:
    """Return the first GPU that Slurm or Ray assigned to this process, or of the machine; None if there is none.

    Raises UnclearGpus.
    """
    given = list_visible_gpus(description.list_gpus(), numbers_of_the_driver=True).gpus[:1]
    refuse_divided(given)
    return given[0] if given else None


def find_device(device: str) -> str:
    """Return a trial's device, with the GPU assigned to this process for ANY_GPU. Raises UnclearGpus."""
    if device != ANY_GPU:
        return device
    gpu = find_given_gpu()
    return gpu.uuid if gpu else device


def read_thread_limits() -> dict[str, int]:
    """Return {variable: threads} of the two, if set to 1 or more. Of a list, as OpenMP allows, the first."""
    said = {name: os.environ.get(name, "").split(",")[0].strip() for name in (WISHED_THREADS, ALLOTTED_THREADS)}
    return {name: int(value) for name, value in said.items() if value.isdecimal() and int(value) > 0}


def count_threads() -> int:
    """Return the number of threads left to this process: by the kernel, by the caller, by Slurm."""
    return min([description.count_cores(), *read_thread_limits().values()])
