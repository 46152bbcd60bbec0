"""Decide where the trials of a command run, and what they may use there."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from runner import family
from runner.machine import allotment, description
from runner.machine.allotment import ALLOTTED_THREADS, VISIBLE, WISHED_THREADS, UnclearGpus, VisibleGpus
from runner.machine.description import LIBRARY_PATH
from runner.request.parser import BadInput, need_known
from workloads import control_groups
from workloads.records.job import ANY_GPU, Placement
from workloads.study import Study

LEAST_MEMORY_MIB = 64  # below this, Python itself does not start


def place_study(
    study: Study,
    gpus: list[description.Gpu],
    memory_limit_mib: int | None,
    isolation: str,
    results: Path,
    elsewhere: bool = False,
) -> Placement:
    """Return the placement of every trial. Raises BadInput.

    `elsewhere` means that other machines run them, whose cores are not known here.
    """
    limit_bytes = _memory_limit(memory_limit_mib, isolation, results)
    device = _elsewhere(study.device, gpus) if elsewhere else find_device(study.device, gpus)
    return Placement(
        device=device,
        threads=_threads(study.threads, elsewhere),
        variables=_variables(isolation, elsewhere),
        memory_limit_bytes=limit_bytes,
        control_group=isolation != "docker" and limit_bytes is not None and family.can_limit_memory(),
        devices=study.devices,
        others=_others(device, study.devices, gpus, isolation),
    )


def list_notes(
    study: Study, gpus: Sequence[description.Gpu], elsewhere: bool = False, refused: Sequence[str] = ()
) -> Iterator[str]:
    """Return notes on where the user's environment decides what a study leaves open, or is ignored.

    Call it only after `place_study` raised nothing. `refused` is from `description.list_refused_gpus`.
    """
    if study.device != "cpu" and refused:
        yield f"the driver refuses {len(refused)} GPU(s) to this process, which are left out: {'; '.join(refused)}"
    if study.device != "cpu" and gpus:
        visible = _visible(study.device, gpus)
        if study.device == "auto" and not visible.gpus:
            yield f"{visible.setting} leaves none of this machine's {len(gpus)} GPU(s): the CPU is used"
        elif visible.invalid is not None and visible.gpus:
            yield f"{visible.setting}: {visible.invalid!r} is not a GPU here; it and those after it are not visible"
    if elsewhere:
        return
    cores, limits = description.count_cores(), allotment.read_thread_limits()
    wished = limits.get(WISHED_THREADS)
    if study.threads is None and allotment.count_threads() < cores:
        least = min(limits, key=limits.__getitem__)
        yield f"{least}={limits[least]}: trials use {limits[least]} of {cores} cores"
    elif study.threads is not None and wished is not None and study.threads > wished:
        yield f"--threads {study.threads} overrides {WISHED_THREADS}={wished}"


def _variables(isolation: str, elsewhere: bool) -> dict[str, str]:
    """Return the user's variables that affect results. Containers and other machines have their own library folders."""
    own_libraries = isolation == "docker" or elsewhere
    deciding = description.list_deciding_variables()
    return {name: value for name, value in deciding.items() if not (own_libraries and name == LIBRARY_PATH)}


def find_device(name: str, gpus: list[description.Gpu]) -> str:
    """Return "cpu" or the UUID of a GPU, for auto | cpu | cuda | cuda:N | UUID. Raises BadInput.

    Only GPUs that the user lets this process see are used.
    """
    if name == "cpu" or (name == "auto" and not gpus):
        return "cpu"
    if name.startswith("MIG-"):
        raise BadInput(f"--device {name}: a MIG slice cannot be measured; name a whole GPU, or use --device cpu")
    device = _chosen(name, gpus)
    _refuse_divided(f"--device {name}", (device,), gpus)
    return device


def _refuse_divided(option: str, uuids: tuple[str, ...], gpus: list[description.Gpu]) -> None:
    """Raise BadInput if one of these GPUs is in MIG mode."""
    try:
        allotment.refuse_divided(gpu for gpu in gpus if gpu.uuid in uuids)
    except UnclearGpus as error:
        raise BadInput(f"{option}: {error}") from error


def _chosen(name: str, gpus: list[description.Gpu]) -> str:
    """Return "cpu" or the UUID of the GPU that the words name. Raises BadInput."""
    visible = _visible(name, gpus)
    uuids, there = [gpu.uuid for gpu in visible.gpus], [gpu.uuid for gpu in gpus]
    if name in uuids:
        return name
    if name in there:
        raise BadInput(f"--device {name}: {visible.setting} does not list it; list it there, or unset the variable")
    if name.startswith("GPU-"):
        raise BadInput(f"--device {name}: no such GPU; this machine has {uuids or 'none'}")
    if name == "auto" and not uuids:
        return "cpu"
    kind, _, index = "cuda:0".partition(":") if name in ("auto", "cuda") else name.partition(":")
    if kind != "cuda" or not index.isdecimal():
        need_known("device", name, ["auto", "cpu", "cuda", *(f"cuda:{number}" for number in range(len(uuids)))])
    if not gpus:
        raise BadInput(f"--device {name}: no NVIDIA GPU with a working driver on this machine; use --device cpu")
    where = "this machine has" if visible.said is None else f"{visible.setting} leaves"
    if not uuids:
        raise BadInput(f"--device {name}: {where} no GPU; list one there, unset the variable, or use --device cpu")
    if int(index) >= len(uuids):
        raise BadInput(f"--device {name}: {where} {len(uuids)} GPU(s), cuda:0 to cuda:{len(uuids) - 1}")
    return uuids[int(index)]


def _visible(name: str, gpus: Sequence[description.Gpu]) -> VisibleGpus:
    """Return the GPUs that the user's variable lists. Raises BadInput where it is unclear."""
    try:
        return allotment.list_visible_gpus(gpus)
    except UnclearGpus as error:
        raise BadInput(f"--device {name}: {error}") from error


def _elsewhere(name: str, gpus: list[description.Gpu]) -> str:
    """Return "cpu" or ANY_GPU; for auto what this machine would use. Raises BadInput."""
    if name.startswith(("GPU-", "cuda:")):
        raise BadInput(f"--device {name}: other machines use any free GPU: give --device cuda")
    if name == "auto":
        return ANY_GPU if gpus and _visible(name, gpus).gpus else "cpu"
    return need_known("device", name, ["auto", "cpu", ANY_GPU])


def _others(device: str, devices: int, gpus: list[description.Gpu], isolation: str) -> tuple[str, ...]:
    """Return the UUIDs of the GPUs that train together with this one. Raises BadInput.

    They are the first others that the user lets this process see.
    """
    if device == "cpu" or devices == 1:
        return ()
    if device == ANY_GPU:
        raise BadInput(f"--devices {devices}: on other machines a trial gets one GPU: leave it out")
    if isolation == "docker":
        raise BadInput(f"--devices {devices}: a container gets one GPU here; use --isolation venv")
    visible = _visible(device, gpus)
    others = [gpu.uuid for gpu in visible.gpus if gpu.uuid != device]
    if len(others) < devices - 1:
        where = "this machine has" if visible.said is None else f"{VISIBLE} leaves"
        raise BadInput(f"--devices {devices}: {where} {len(visible.gpus)} GPU(s)")
    _refuse_divided(f"--devices {devices}", tuple(others[: devices - 1]), gpus)
    return tuple(others[: devices - 1])


def _threads(threads: int | None, elsewhere: bool) -> int:
    """Return the requested threads, or all that this process may use.

    Raises BadInput for more than the kernel or Slurm gives.
    """
    cores = description.count_cores()
    if elsewhere:
        return threads or cores
    allotted = allotment.read_thread_limits().get(ALLOTTED_THREADS, cores)
    if threads is not None and threads > cores:
        raise BadInput(f"--threads {threads}: this process may use {cores} cores")
    if threads is not None and threads > allotted:
        raise BadInput(f"--threads {threads}: {ALLOTTED_THREADS}={allotted}; ask Slurm for more (--cpus-per-task)")
    return threads or allotment.count_threads()


def _memory_limit(memory_limit_mib: int | None, isolation: str, results: Path) -> int | None:
    """Return the memory limit in bytes, as requested.

    Containers are outside this process's control groups, so these groups' limit is applied to them, too.
    """
    if memory_limit_mib is not None and memory_limit_mib < LEAST_MEMORY_MIB:
        raise BadInput(f"--memory-limit {memory_limit_mib}: must be {LEAST_MEMORY_MIB} MiB or more")
    if memory_limit_mib is not None and memory_limit_mib > sys.maxsize >> 20:
        raise BadInput(f"--memory-limit {memory_limit_mib}: must be {sys.maxsize >> 20} MiB or less")
    asked = None if memory_limit_mib is None else memory_limit_mib * 2**20
    if isolation != "docker":
        return asked
    if "," in str(results.resolve()):
        raise BadInput(f"--results {results}: a container's path cannot have a comma; name another folder")
    if "LD_PRELOAD" in description.list_deciding_variables():
        raise BadInput("LD_PRELOAD is set: a container lacks its file; unset it, or use --isolation venv")
    limit_bytes = control_groups.memory_limit_bytes()
    return limit_bytes if asked is None else min(asked, limit_bytes or sys.maxsize)
