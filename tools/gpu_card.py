"""Choose the card of the day, where a machine has several: one card, for every step and for each command of a step."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pynvml

from runner.machine.allotment import list_visible_gpus
from runner.machine.description import Gpu, list_gpus
from runner.request.parser import BadInput
from runner.request.placement import find_device
from workloads.records.columns import USED_MIB

CHOSEN = "card.txt"  # in the day's folder: the UUID, so that a day that was cut off goes on with the same card


def choose_card(device: str, out: Path) -> tuple[str, str]:
    """Return the UUID of the card and, in words, why that one. Raises BadInput, UnclearGpus.

    `device` is cuda, cuda:N or a UUID. `cuda` is the card of the day so far, else the first free one that
    CUDA_VISIBLE_DEVICES leaves. Cards in MIG mode are left out.
    """
    if device == "auto":
        raise BadInput("--device auto: the day's trials run either on a card or on the CPU: give cuda or cpu")
    gpus = list_gpus()
    if device != "cuda":
        return find_device(device, gpus), f"named by --device {device}"
    visible = list_visible_gpus(gpus).gpus
    whole = [gpu.uuid for gpu in visible if not gpu.mig]
    if not whole:
        return find_device(device, gpus), ""  # it says which of the reasons there is no such card
    with suppress(OSError):
        if (before := (out / CHOSEN).read_text(encoding="utf-8").strip()) in whole:
            return before, "the card of the day so far"
    free = [uuid for uuid in whole if is_free(uuid)]
    if not free:
        return whole[0], f"the first of {_count(visible)}, all of them in use"
    return free[0], f"the first free one of {_count(visible)}"


def _count(visible: Sequence[Gpu]) -> str:
    return f"{len(visible)} visible"


def is_free(uuid: str) -> bool:
    """True if the driver lists no process on this card and no memory in use but its own, as far as it answers."""
    processes: list[object] = []
    used_bytes = 0
    with suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        try:
            handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
            with suppress(pynvml.NVMLError):
                processes = pynvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)
            with suppress(pynvml.NVMLError):
                used_bytes = pynvml.nvmlDeviceGetMemoryInfo(handle).used
        finally:
            pynvml.nvmlShutdown()
    return not processes and used_bytes <= USED_MIB * 2**20


def set_card(device: str, out: Path) -> dict[str, str]:
    """Choose the card, keep the choice in the folder, and return the variables that show it alone.

    Raises BadInput, UnclearGpus.
    """
    uuid, why = choose_card(device, out)
    (out / CHOSEN).write_text(f"{uuid}\n", encoding="utf-8")
    print(f"card: {uuid}, {why} (CUDA_VISIBLE_DEVICES names another)", flush=True)
    return {"CUDA_VISIBLE_DEVICES": uuid, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
