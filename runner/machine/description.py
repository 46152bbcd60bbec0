"""Description of the machine behind the numbers: processor and its clocks, memory, GPUs, system, load, commit."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil
import pynvml

from runner.git import ANSWER_S, COMMIT, ask_git
from runner.measurement import MEASUREMENT_VERSION
from runner.project import Project
from workloads import control_groups
from workloads.records import processor

# Variables of the caller that can change a figure. Those that a worker's environment sets for every framework alike
# (thread counts, the device) are left out: they belong to the trial.
DECIDING_PREFIXES = (
    "MALLOC_",  # the C allocator alone can double a framework's speed on a CPU
    "ONEDNN_",  # instruction set, cache of primitives, default arithmetic
    "DNNL_",  # oneDNN before 2.5
    "MXNET_CPU_",  # for MXNet: threads, engine, oneDNN on or off, algorithms, memory pools; not MXNET_HOME, a path
    "MXNET_CUDA_",
    "MXNET_CUDNN_",
    "MXNET_ENFORCE_",
    "MXNET_ENGINE_",
    "MXNET_EXEC_",
    "MXNET_GPU_",
    "MXNET_MKLDNN_",
    "MXNET_OMP_",
    "MXNET_SUBGRAPH_",
    "MXNET_USE_",
)
LIBRARY_PATH = "LD_LIBRARY_PATH"
LOADER = ("LD_PRELOAD", LIBRARY_PATH)  # the libraries the system's loader takes; empty, they have no effect (ld.so(8))
DECIDING = (
    *LOADER,
    "GLIBC_TUNABLES",
    # the code that is chosen for a processor
    "TF_ENABLE_ONEDNN_OPTS",
    "ATEN_CPU_CAPABILITY",
    "OPENBLAS_CORETYPE",
    "MKL_ENABLE_INSTRUCTIONS",
    "MKL_CBWR",
    "MKL_DEBUG_CPU_TYPE",
    "NPY_DISABLE_CPU_FEATURES",
    "NPY_ENABLE_CPU_FEATURES",
    "NVIDIA_TF32_OVERRIDE",
    # how threads wait, and where they run
    "OMP_WAIT_POLICY",
    "OMP_PROC_BIND",
    "OMP_PLACES",
    "GOMP_SPINCOUNT",
    "GOMP_CPU_AFFINITY",
    "KMP_BLOCKTIME",
    "KMP_AFFINITY",
)

IMAGE_VARIABLE = "BATCHWISE_IMAGE"  # set in our images: "FRAMEWORK-DEVICE VERSION COMMIT"
NO_COMMIT = "unknown"  # there, of an image that was not built from a clone


def read_image_framework() -> str:
    """Return the framework of the image that this process runs in; "" outside of one."""
    return os.environ.get(IMAGE_VARIABLE, "").partition("-")[0]


@dataclass(frozen=True)
class Gpu:
    """One device as NVML reports it."""

    uuid: str
    name: str
    driver: str
    cuda_driver: str | None  # the newest CUDA that the driver supports
    memory_bytes: int | None  # None if the driver does not report it
    capability: str | None = None  # compute capability, "9.0"; None if the driver does not report it
    mig: bool = False  # it is divided into slices: CUDA shows a process one slice of it, NVML the whole


def list_gpus() -> list[Gpu]:
    """Return the NVIDIA GPUs in PCI order, without those that `list_refused_gpus` names; none if no driver answers."""
    return [each for each in _ask_driver() if isinstance(each, Gpu)]


def list_refused_gpus() -> list[str]:
    """Return "number: reason" of each GPU that the driver counts and does not describe, as other jobs' under Slurm."""
    refused = (each if isinstance(each, pynvml.NVMLError) else None for each in _ask_driver())
    return [f"{number}: {error}" for number, error in enumerate(refused) if error is not None]


def _ask_driver() -> list[Gpu | pynvml.NVMLError]:
    """Return each GPU that the driver counts, in PCI order, or the driver's error in its place."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    try:
        driver = pynvml.nvmlSystemGetDriverVersion()
        version = _answer(pynvml.nvmlSystemGetCudaDriverVersion_v2)
        cuda = None if version is None else f"{version // 1000}.{version % 1000 // 10}"
        return [_describe_gpu(index, driver, cuda) for index in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError:
        return []
    finally:
        with suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _describe_gpu(index: int, driver: str, cuda_driver: str | None) -> Gpu | pynvml.NVMLError:
    """Return the GPU with this number, or the error with which the driver refuses it: others may still be usable."""
    try:
        return _gpu(index, driver, cuda_driver)
    except pynvml.NVMLError as error:
        return error


def _gpu(index: int, driver: str, cuda_driver: str | None) -> Gpu:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    memory = _answer(pynvml.nvmlDeviceGetMemoryInfo, handle)  # none with unified memory, MIG
    capability = _answer(pynvml.nvmlDeviceGetCudaComputeCapability, handle)
    mig = _answer(pynvml.nvmlDeviceGetMigMode, handle)  # (current, pending)
    return Gpu(
        uuid=pynvml.nvmlDeviceGetUUID(handle),
        name=pynvml.nvmlDeviceGetName(handle),
        driver=driver,
        cuda_driver=cuda_driver,
        memory_bytes=memory and memory.total,
        capability=capability and "{}.{}".format(*capability),
        mig=bool(mig and mig[0]),
    )


def _answer(call: Callable[..., Any], *arguments: Any) -> Any:
    with suppress(pynvml.NVMLError):
        return call(*arguments)
    return None


def count_cores() -> int:
    """Number of cores this process may run on; a share of processor time counts as whole cores, at least one."""
    allowed = len(os.sched_getaffinity(0))
    limit = control_groups.cpu_limit()
    return allowed if limit is None else max(1, min(allowed, int(limit)))


def read_cpu_flags(wanted: Iterable[str] = processor.FLAGS) -> list[str] | None:
    """Return the wanted flags that this processor has, as `processor.read_flags` does."""
    return processor.read_flags(_cpuinfo(), wanted)


IDENTIFYING = ("cpu_model", "cpu_flags")  # of a trial's description


def identify_computer() -> dict[str, Any]:
    """Return what the answers of frameworks depend on. A GPU is not part of it, because ids of answers name theirs; nor
    are the bytes of memory, which a virtual machine may change at any time.
    """
    return {"cpu_model": read_cpu_model(), "cpu_flags": read_cpu_flags()}


def is_of_this_computer(machine: Mapping[str, Any], here: Mapping[str, Any] | None = None) -> bool:
    """True if a stored trial's description names this computer, `here` if it is known. What it lacks does not count."""
    computer = identify_computer() if here is None else {name: here.get(name) for name in IDENTIFYING}
    return all(machine.get(name, value) == value for name, value in computer.items())


def describe(project: Project, device: str, gpus: Iterable[Gpu]) -> dict[str, Any]:
    """Return the conditions to record with every number; null if this machine does not report one."""
    return {
        "cpu_model": read_cpu_model(),
        "cpu_flags": read_cpu_flags(),
        "cores": count_cores(),
        "cpu_limit_cores": control_groups.cpu_limit(),
        "memory_bytes": psutil.virtual_memory().total,
        "memory_limit_bytes": control_groups.memory_limit_bytes(),
        "os": platform.platform(),
        "libc": " ".join(platform.libc_ver()),
        "python": platform.python_version(),
        "gpus": [asdict(gpu) for gpu in gpus if gpu.uuid == device],
        "image": os.environ.get(IMAGE_VARIABLE),
        "measurement_version": MEASUREMENT_VERSION,
        "commit": read_commit(project),
        "runner_digest": digest_runner(project),
    }


def list_deciding_variables() -> dict[str, str]:
    """Return the caller's variables that libraries of a worker read and that can change its figures.

    A worker gets no other settings of the caller; they are conditions of its trial.
    """
    deciding = {n: v for n, v in os.environ.items() if n in DECIDING or n.startswith(DECIDING_PREFIXES)}
    return {name: value for name, value in deciding.items() if value or name not in LOADER}


def digest_runner(project: Project) -> str:
    """Digest of every line that starts, samples and computes: it records a figure's origin, and is no condition."""
    sources = sorted(path for room in ("runner", "workloads") for path in (project.root / room).rglob("*.py"))
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()[:12]


def read_load_average() -> float:
    """Number of runnable processes, mean over the last minute."""
    return os.getloadavg()[0]


def read_available_bytes() -> int:
    """Return the bytes of memory that this process may take without swapping: its control groups may leave less."""
    free: int = psutil.virtual_memory().available
    bounds = (free, control_groups.memory_limit_bytes(), control_groups.memory_left_bytes())
    return min(size for size in bounds if size is not None)


def count_memory_kills() -> int | None:
    """Number of processes the kernel has killed for memory since boot; None if it does not report it."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), None)


def _cpuinfo() -> str:
    """Return /proc/cpuinfo; empty if this system does not have it."""
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def read_cpu_model() -> str | None:
    """Return the system's name of the processor; None if it has none."""
    lines = _cpuinfo().splitlines() or [f"model name: {platform.processor()}"]
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), None) or None


def name_computer(machine: Mapping[str, Any]) -> str | None:
    """Return the GPU of a stored trial's description, else its processor; None if it names neither."""
    gpus = machine.get("gpus")
    known = [gpu for gpu in gpus if isinstance(gpu, dict)] if isinstance(gpus, list) else []
    name = known[0].get("name") if known else machine.get("cpu_model")
    return name if isinstance(name, str) else None


def read_commit(project: Project) -> str | None:
    """Return the commit of this checkout or image, with "-dirty" if tracked files differed from it.

    Published reports do not count: they are written by `reports publish`, and nothing that is run reads them.
    """
    if image := os.environ.get(IMAGE_VARIABLE):
        return None if (commit := image.split()[-1]) == NO_COMMIT else commit
    changed = ("status", "--porcelain", "--untracked-files=no", "--", ".", ":(exclude)published")
    try:
        commit = ask_git(project.root, *COMMIT, timeout_s=ANSWER_S).strip()
        return f"{commit}-dirty" if ask_git(project.root, *changed, timeout_s=ANSWER_S).strip() else commit
    except (OSError, subprocess.SubprocessError):
        return None


CORES = "sys/devices/system/cpu"
TURBO = {f"{CORES}/intel_pstate/no_turbo": "0", f"{CORES}/cpufreq/boost": "1"}  # the file's content if it is on


def read_governors(cores: Sequence[int], root: Path = Path("/")) -> list[str]:
    """Return the governors of these cores, each once; empty if this system does not set the clocks. Raises OSError."""
    paths = [root / CORES / f"cpu{core}/cpufreq/scaling_governor" for core in cores]
    return sorted({path.read_text().strip() for path in paths if path.exists()})


def read_turbo(root: Path = Path("/")) -> bool | None:
    """True if clocks may rise above their base while heat and load allow it; None: unknown."""
    for place, on in TURBO.items():
        with suppress(OSError):
            return (root / place).read_text().strip() == on
    return None


def read_throttle_count(cores: Sequence[int], root: Path = Path("/")) -> int | None:
    """Return how often these cores' clocks were lowered for heat since boot; None: unknown, as with AMD."""
    try:
        counts = [(root / CORES / f"cpu{core}/thermal_throttle/core_throttle_count").read_text() for core in cores]
        return sum(map(int, counts))
    except (OSError, ValueError):
        return None


def compute_rise(before: int | None, after: int | None) -> int | None:
    """Return the rise of a count; None if one of the two is None."""
    return None if before is None or after is None else after - before
