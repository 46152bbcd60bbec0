"""Check the machine: processor, GPU, memory, devices, clock, limits. `root` is the folder of /proc, /sys and /dev."""

from __future__ import annotations

import os
import resource
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.machine import allotment
from runner.machine.description import Gpu
from workloads.records import processor as processors
from workloads.records.record import Word

NEEDED_FLAG = "avx2"  # without it, frameworks run code that is no longer tuned
SCARCE_BYTES = 2 * 2**30  # of available memory: TensorFlow and its data take about 1 GiB
FEWEST_FILES = 256  # open at the same time
NULL = os.makedev(1, 3)  # from Linux's devices.txt
GOOD_CLOCKS = ("tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page")  # read without a system call
DRIFT_S_PER_S = 1e-3  # between the two clocks: NTP slews by half of it at most (adjtimex(2))
UNLIMITED = resource.RLIM_INFINITY
ENDING_LIMITS = {  # a worker that reaches one of these is killed, or its request fails
    "RLIMIT_AS": "memory",
    "RLIMIT_DATA": "memory",
    "RLIMIT_CPU": "processor seconds",
    "RLIMIT_FSIZE": "bytes of a file",
}


class State(Word):
    """Status of a check."""

    OK = "ok"
    WARNING = "warning"  # runs finish, but figures may be worse than necessary
    PROBLEM = "problem"  # a run would fail
    UNKNOWN = "unknown"  # this machine does not report it


@dataclass(frozen=True)
class Finding:
    """Row of the table; `advice` says what to do, "" where there is nothing to do."""

    name: str
    state: State
    text: str
    advice: str = ""


def mib(size_bytes: int) -> str:
    """Format bytes as "1,234 MiB"."""
    return f"{size_bytes / 2**20:,.0f} MiB"


def check_processor(machine: dict[str, Any]) -> Finding:
    """Check the processor, from `description.describe`."""
    flags, limit = machine["cpu_flags"], machine["cpu_limit_cores"]
    quota = "" if limit is None else f" (CPU quota {limit:g})"
    words = "flags not reported" if flags is None else processors.list_flags(flags)
    text = f"{machine['cpu_model'] or 'model not reported'}; cores {machine['cores']}{quota}; {words}"
    if flags is None:
        return Finding("processor", State.UNKNOWN, text)
    if NEEDED_FLAG not in flags:
        return Finding("processor", State.WARNING, text, "without AVX2 the wheels of some frameworks do not start")
    if limit is not None and limit < machine["cores"]:
        return Finding("processor", State.WARNING, text, "a share of a core stalls its threads: give whole cores")
    return Finding("processor", State.OK, text)


def check_gpu(gpus: Sequence[Gpu], root: Path, refused: Sequence[str] = ()) -> Finding:
    """Check the GPUs, from `description.list_gpus`; a card whose driver does not answer is a problem.

    `refused` is from `description.list_refused_gpus`; next to usable cards it is no problem.
    """
    left_out = f"refused to this process: {'; '.join(refused)}" if refused else ""
    if gpus:
        shown = [
            f"{each.name}, driver {each.driver}, CUDA {each.cuda_driver or 'not reported'}, {each.uuid}"
            for each in gpus
        ]
        return Finding("GPU", State.OK, "; ".join([*shown, left_out] if left_out else shown))
    if left_out:
        advice = "nvidia-smi says more; ask the cluster for a GPU (--gres=gpu:1), or restart the machine"
        return Finding("GPU", State.PROBLEM, left_out, advice)
    signs = [path for path in ("dev/nvidia0", "proc/driver/nvidia/version") if (root / path).exists()]
    if signs:
        advice = "nvidia-smi says more; a container needs --gpus all; a driver updated since boot needs a restart"
        return Finding("GPU", State.PROBLEM, f"/{signs[0]} exists, but the driver does not answer", advice)
    return Finding("GPU", State.OK, "no NVIDIA GPU: runs use the CPU")


def check_listed_gpus(gpus: Sequence[Gpu]) -> tuple[Finding | None, list[Gpu]]:
    """Return (a finding on the GPUs that the user's list leaves, those of them that can be measured).

    The finding is None without a list, unless one is in MIG mode.
    """
    name, left = "visible GPUs", list[Gpu]()
    try:
        visible = allotment.list_visible_gpus(gpus)
        left = [gpu for gpu in visible.gpus if not gpu.mig]
        allotment.refuse_divided(visible.gpus)
    except allotment.UnclearGpus as error:
        return Finding(name, State.PROBLEM, str(error), "runs on such a GPU are refused until that is fixed"), left
    if visible.said is None:
        return None, left
    shown = ", ".join(gpu.uuid for gpu in visible.gpus) or "none"
    return Finding(name, State.OK, f"{visible.setting}: {shown}"), left


def check_memory(available_bytes: int, machine: dict[str, Any]) -> Finding:
    """Check the available memory against the total and the control group's limit."""
    limit = machine["memory_limit_bytes"]
    group = "" if limit is None else f"; control group {mib(limit)}"
    text = f"{mib(available_bytes)} available of {mib(machine['memory_bytes'])}{group}"
    if min(available_bytes, limit or available_bytes) < SCARCE_BYTES:
        advice = "stop programs that use memory, or use small networks and batch sizes: trials will run out of memory"
        return Finding("memory", State.WARNING, text, advice)
    return Finding("memory", State.OK, text)


def check_swap(root: Path) -> Finding:
    """Check swap, from /proc/meminfo (proc(5))."""
    try:
        lines = (line.split() for line in (root / "proc/meminfo").read_text().splitlines())
        kib = {words[0].rstrip(":"): int(words[1]) for words in lines}
        total, used = 1024 * kib["SwapTotal"], 1024 * (kib["SwapTotal"] - kib["SwapFree"])
    except (OSError, KeyError, ValueError):
        return Finding("swap", State.UNKNOWN, "/proc/meminfo does not report it")
    if not total:
        return Finding("swap", State.OK, "none")
    text = f"{mib(used)} of {mib(total)} in use"
    if used > total // 10:
        advice = "a program used more memory than there is: stop it, then swapoff -a && swapon -a as root"
        return Finding("swap", State.WARNING, text, advice)
    return Finding("swap", State.OK, text)


def check_null_device(root: Path) -> Finding:
    """Check that /dev/null is a null device. A regular file in its place fills up and becomes a worker's input."""
    path, advice = root / "dev/null", "as root: rm -f /dev/null && mknod -m 666 /dev/null c 1 3"
    try:
        status = path.stat()
    except OSError as error:
        return Finding("/dev/null", State.PROBLEM, error.strerror or "missing", advice)
    if not stat.S_ISCHR(status.st_mode) or status.st_rdev != NULL:
        return Finding("/dev/null", State.PROBLEM, f"not a null device: {stat.filemode(status.st_mode)}", advice)
    if not os.access(path, os.R_OK | os.W_OK):
        return Finding("/dev/null", State.PROBLEM, f"you may not use it: {stat.filemode(status.st_mode)}", advice)
    return Finding("/dev/null", State.OK, "a character device")


def check_shared_memory(root: Path) -> Finding:
    """Check /dev/shm: frameworks' own helpers use it, the runner does not."""
    path = root / "dev/shm"
    try:
        size = os.statvfs(path)
    except OSError as error:
        advice = "as root: mount -t tmpfs tmpfs /dev/shm; a container: --shm-size 1g"
        return Finding("/dev/shm", State.WARNING, error.strerror or "missing", advice)
    text = f"{mib(size.f_blocks * size.f_frsize)}, {mib(size.f_bavail * size.f_frsize)} free"
    if not os.access(path, os.W_OK | os.X_OK):
        return Finding("/dev/shm", State.WARNING, f"{text}; you may not write there", "as root: chmod 1777 /dev/shm")
    return Finding("/dev/shm", State.OK, text)


def check_clock(root: Path, monotonic_s: float, real_s: float) -> Finding:
    """Check the clock source, and how far the two clocks drifted apart over these seconds."""
    drift = abs(real_s - monotonic_s) / monotonic_s
    try:
        source = (root / "sys/devices/system/clocksource/clocksource0/current_clocksource").read_text().strip()
    except OSError:
        return Finding("clock", State.UNKNOWN, f"its source is not reported; drift {1e6 * drift:,.0f} us per second")
    text = f"{source}; monotonic and real time drift apart by {1e6 * drift:,.0f} us per second"
    if drift > DRIFT_S_PER_S:
        advice = "the time of day is being set: wait until it is, or the times of a GPU's samples are wrong"
        return Finding("clock", State.WARNING, text, advice)
    if source not in GOOD_CLOCKS:
        return Finding("clock", State.WARNING, text, "a slow clock; dmesg says why the kernel chose it")
    return Finding("clock", State.OK, text)


def check_limits(limit_of: Callable[[int], tuple[int, int]] = resource.getrlimit) -> Finding:
    """Check this process's limits, which workers inherit; getrlimit(2)."""
    low = [
        f"{name} {limit_of(getattr(resource, name))[0]:,} ({what})"
        for name, what in ENDING_LIMITS.items()
        if limit_of(getattr(resource, name))[0] != UNLIMITED
    ]
    files = limit_of(resource.RLIMIT_NOFILE)[0]
    if files != UNLIMITED and files < FEWEST_FILES:
        low.append(f"RLIMIT_NOFILE {files} (open files)")
    if low:
        return Finding("limits", State.WARNING, "; ".join(low), "ulimit in this shell, or limits.conf(5), lifts them")
    return Finding("limits", State.OK, f"none on memory, processor time or file size; {files:,} open files")
