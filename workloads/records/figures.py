"""Measured numbers: each with its source, or with the reason why it is unknown; and the registry of all of them.

A figure is one `FigureSpec` here and nowhere else. The runner stores it by its name, and checks, tables, charts, page
and comparison read its properties from it. Writer and reader refuse a result with a figure that is not here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from .events import PEAK_PARTS
from .record import Word


class Method(Word):
    """The method by which a figure was obtained, if there are several and it matters."""

    CHUNKS = "chunks"  # the allocator's chunks, each up to twice what was asked for, and others in the next run
    COUNTER = "counter"  # of the device or the kernel
    INTEGRATED = "integrated"  # from readings of the power
    DRIVER_SAMPLES = "driver_samples"  # by the driver, at its own times, which are stamped with the epoch
    POLLED = "polled"  # by the sampler
    PROCESS_LIST = "process_list"  # the driver's, which reports each process's memory
    DEVICE_RISE = "device_rise"  # all memory in use on the device less that before the trial


@dataclass(frozen=True)
class Figure:
    """One measured number, as its `FigureSpec` says. Unknown is None with a reason, never 0."""

    value: int | float | None  # an integer stays one in the file
    source: str
    samples: int | None = None
    reason: str | None = None
    method: Method | None = None

    def __post_init__(self) -> None:
        if (self.value is None) != (self.reason is not None):
            raise ValueError("a figure has either a value or the reason why it has none")


SHARE = (0.0, 100.0)  # percent of a whole


@dataclass(frozen=True)
class FigureSpec:
    """Properties of a figure, known before it is measured.

    It is shown as value x `factor`, in `unit`, with `decimals`; None = three significant digits. `title` is the heading
    of its table and may name {cores} and {epochs}. `device`: "cuda" = it exists only on a GPU; None = everywhere.
    """

    name: str  # its key in a result, with the stored unit
    label: str
    unit: str = ""
    factor: float = 1.0
    decimals: int | None = None
    title: str = ""
    device: Literal["cuda"] | None = None
    windowed: bool = False  # cut from the steady window: a short one makes it less reliable
    timed: bool = False  # repeats that differ are noise
    disturbable: bool = False  # other processes can change it: withheld if they did (`disturbance.is_withheld`)
    learnt: bool = False  # depends on what the network learned: a trial that diverged has none
    better: Literal[-1, 0, 1] = 0  # 1: more is better, -1: less is, 0: neither, or the same finding as another figure
    full_scale: float | None = None  # the value at the top of a chart's axis; None = the data decide
    bounds: tuple[float, float] | None = None  # in `unit`: no true value lies beyond them; None = it has none
    rare: bool = False  # most machines, or older results, lack it: no report mentions it unless a trial has it
    error: str = ""  # the name of the figure that gives the error of this one

    @property
    def difference_bounds(self) -> tuple[float, float] | None:
        """Bounds of the difference of two of its values."""
        return self.bounds and (self.bounds[0] - self.bounds[1], self.bounds[1] - self.bounds[0])


def read_value(figures: Mapping[str, Figure], spec: FigureSpec) -> float | None:
    """Return the figure's stored value; None if it is unknown, or a result does not have it."""
    figure = figures.get(spec.name)
    return None if figure is None else figure.value


def _bytes(name: str, label: str, **more: Any) -> FigureSpec:
    return FigureSpec(f"{name}_bytes", label, "MiB", 2.0**-20, **more)


def _seconds(name: str, label: str, title: str = "", windowed: bool = False) -> FigureSpec:
    return FigureSpec(f"{name}_s", label, "s", title=title, windowed=windowed, disturbable=True)


def _window(name: str, label: str, unit: str, decimals: int | None = None, title: str = "", **more: Any) -> FigureSpec:
    """Return the spec of a percentage, power, energy or speed of the steady window."""
    heading = f"{title} the steady window" if title else ""
    own = {"windowed": True, "timed": True, "disturbable": True}
    return FigureSpec(name, label, unit, decimals=decimals, title=heading, **(own | more))


def _gpu(name: str, label: str, unit: str, decimals: int | None = None, how: str = "", **more: Any) -> FigureSpec:
    title = f"{label}, {how}" if how else ""
    return _window(name, label, unit, decimals, title, device="cuda", **more)


# Start-up; the first step compiles where a framework does.
IMPORT = _seconds("import", "Import", "Start-up: import of the framework, s")
OPEN = _seconds("open", "Open")
LOAD = _seconds("load", "Load")
BUILD = _seconds("build", "Build")
FIRST_STEP = _seconds("first_step", "First step", "Start-up: first training step, compilation included, s")
WARM_UP = _seconds("warm_up", "Warm-up", "Start-up: warm-up steps after the first, s")
START_UP = (IMPORT, OPEN, LOAD, BUILD, FIRST_STEP, WARM_UP)

# Speed. The step time is the batch size over the speed: the same finding twice, so neither direction of it is judged.
WINDOW = _seconds("window", "Window", windowed=True)
SPEED = _window("images_per_s", "Training speed", "images/s", None, "Training speed, images/s, mean over", better=1)
STEP_TIME = _window("step_time_s", "Step time", "ms", None, "Time of a training step, ms, mean over", factor=1000.0)
CALL_MEDIAN = _seconds("call_p50", "Call p50", windowed=True)
CALL_P95 = _seconds("call_p95", "Call p95", windowed=True)
CALL_P99 = _seconds("call_p99", "Call p99", windowed=True)
CALL_LONGEST = _seconds("call_longest", "Call longest", windowed=True)
CALL_TIMES = (CALL_MEDIAN, CALL_P95, CALL_P99, CALL_LONGEST)

# The work of the network's layers, counted from them, at the speed of the window: the speed in another unit.
WORK = _window(
    "work_flop_per_s", "Work", "GFLOP/s", None, "Work of the layers, GFLOP/s, mean over", factor=1e-9, rare=True
)
PRODUCT = FigureSpec(
    "product_flop_per_s", "Product of matrices", "GFLOP/s", 1e-9, timed=True, disturbable=True, rare=True,
    title="Fastest product of matrices by the framework, GFLOP/s",
)  # fmt: skip
PRODUCT_BY_CPU_TIME = FigureSpec(  # two checks rest on it: other processes that want the cores change it little
    "product_cpu_time_flop_per_s", "Product of matrices by processor time", "GFLOP/s", 1e-9, timed=True,
    disturbable=True, rare=True,
)  # fmt: skip
PRODUCT_SHARE = _window(
    "product_share_percent", "Share of the product", "%", 1,
    "Work of the layers, % of the fastest product of matrices by the framework, mean over", rare=True,
)  # fmt: skip
# For whole epochs. The rest of an epoch, besides its training, is evaluation.
EPOCH_TIME = FigureSpec(
    "epoch_s", "Time per epoch", "s", title="Time of an epoch's training, s, mean of those after the first",
    timed=True, disturbable=True, rare=True,
)  # fmt: skip
TARGET_TIME = FigureSpec(  # made for a report, which names a target
    "target_s", "Time to the target accuracy", "s", timed=True, disturbable=True, learnt=True, better=-1
)
EVALUATION_SPEED = FigureSpec(
    "evaluation_images_per_s", "Evaluation speed", "images/s",
    title="Evaluation (inference) speed, images/s, mean of the epochs after the first", timed=True, disturbable=True,
    better=1, rare=True,
)  # fmt: skip

AUGMENT = _seconds("augment", "Augmentation", "Augmentation of the images, s per epoch")

# Learning results.
ACCURACY = FigureSpec(
    "test_accuracy", "Test accuracy", "%", 100.0, 2, "Test accuracy, %, after epoch {epochs}",
    learnt=True, better=1, full_scale=100, bounds=SHARE,
)  # fmt: skip
DIVERGED_STEP = FigureSpec("diverged_step", "Diverged step")  # null where every loss is a number

# Usage.
CPU_USAGE = _window("cpu_percent", "CPU usage", "%", 1, "CPU usage, % of the {cores} allotted, mean over",
                    full_scale=100, bounds=SHARE)  # fmt: skip
CPU_BUSY = FigureSpec(
    "cpu_busy_percent", "CPU usage when busy", "%", 1.0, 1,
    "CPU usage, % of the {cores} allotted, mean over the busy samples of the steady window alone",
    windowed=True, timed=True, disturbable=True, bounds=SHARE,
)  # fmt: skip
# What other processes took: of the cores allotted, up to 200 % with other hyperthreads, and how many were on the GPU.
FOREIGN_CPU = _window("foreign_cpu_percent", "Foreign CPU", "%", 1, disturbable=False)
FOREIGN_CPU_EPOCHS = FigureSpec("foreign_cpu_epochs_percent", "Foreign CPU in the epochs", "%", decimals=1, rare=True)
FOREIGN_PROCESSES = FigureSpec("foreign_processes", "Other processes on the GPU", device="cuda", rare=True)
# The worker's control groups. Usage is a share of a quota that is below the cores allotted.
CPU_QUOTA = FigureSpec("cpu_quota_cores", "CPU quota", "cores", rare=True)
CPU_THROTTLED = _window(
    "cpu_throttled_percent", "Withheld by the CPU quota", "%", 1, rare=True, disturbable=False, bounds=SHARE
)
GPU_USAGE = _gpu(
    "gpu_percent", "GPU usage", "%", 1, "% of the time with work on the GPU, mean over", full_scale=100, bounds=SHARE
)
GPU_BUSY = FigureSpec(
    "gpu_busy_percent", "GPU usage when busy", "%", 1.0, 1,
    "GPU usage, % of the time with work on the GPU, mean over the busy samples of the steady window alone",
    "cuda", windowed=True, timed=True, disturbable=True, bounds=SHARE,
)  # fmt: skip
SM_ACTIVE = _gpu(
    "sm_active_percent", "SMs active", "%", 1, "% of their cycles with a warp resident, mean over", bounds=SHARE
)
SM_OCCUPANCY = _gpu("sm_occupancy_percent", "SM occupancy", "%", 1, "% of the warps that fit, mean over", bounds=SHARE)
TENSOR_ACTIVE = _gpu(
    "tensor_active_percent", "Tensor cores active", "%", 1, "% of their cycles, mean over", bounds=SHARE
)
DRAM_ACTIVE = _gpu(
    "dram_active_percent", "DRAM active", "%", 1, "% of the cycles with a transfer, mean over", bounds=SHARE
)
GPM = (SM_ACTIVE, SM_OCCUPANCY, TENSOR_ACTIVE, DRAM_ACTIVE)  # the driver's own counters, Hopper and newer

# Interruptions of a step, as the kernel counts them for the worker's process.
PAGE_FAULTS = FigureSpec(
    "page_faults_per_step", "Page faults", "per step",
    title="Minor page faults of the worker per training step, mean over the steady window", windowed=True, rare=True,
)  # fmt: skip
CONTEXT_SWITCHES = _window("context_switches_per_step", "Voluntary context switches", "per step", rare=True)
INTERRUPTIONS = (PAGE_FAULTS, CONTEXT_SWITCHES)

# Energy and its causes.
POWER = _gpu("power_w", "GPU power", "W", None, "W, mean over", error="power_error_w")
POWER_ERROR = _gpu("power_error_w", "GPU power, may be off by", "W", rare=True)
POWER_BUSY = _gpu("power_busy_w", "GPU power when busy", "W")
POWER_LIMIT = _gpu("power_limit_w", "GPU power limit", "W", disturbable=False)  # a setting of the card
ENERGY = _gpu("energy_j", "GPU energy of the window", "J")
# Energy that the counter's steps may hide: a reading is as old as the last step.
ENERGY_RESOLUTION = _gpu("energy_resolution_percent", "GPU energy, resolution of the counter", "%", 1, rare=True)
ENERGY_INTEGRATED = _gpu("energy_integrated_j", "GPU energy of the window, integrated", "J")
# Half of the 95 % interval, from the spread of the power's readings.
ENERGY_INTEGRATED_ERROR = _gpu("energy_integrated_error_j", "GPU energy, integrated, may be off by", "J", rare=True)
ENERGY_PER_IMAGE = _gpu(
    "energy_per_image_j", "GPU energy", "J", None, "J per image, over", better=-1, error="energy_resolution_percent"
)
# For the processor's whole packages, whoever used them; on few machines may a user read it.
CPU_ENERGY = _window("cpu_energy_j", "CPU energy of the window", "J")
CPU_ENERGY_PER_IMAGE = _window(
    "cpu_energy_per_image_j", "CPU energy", "J", None, "CPU energy (whole package), J per image, over",
    better=-1, rare=True,
)  # fmt: skip
SM_CLOCK = _gpu("sm_clock_mhz", "SM clock", "MHz")
MEMORY_CLOCK = _gpu("memory_clock_mhz", "Memory clock", "MHz")
TEMPERATURE = _gpu("temperature_c", "GPU temperature, highest", "°C")
THROTTLED = _gpu("throttled_percent", "Clocks slowed down", "%", bounds=SHARE)

# Memory, as the kernel and the driver count it.
HOST_MEMORY = _bytes(
    "host_memory", "Host memory", decimals=0, windowed=True, better=-1,
    title="Host memory, MiB, peak resident size of the worker in the steady window",
)  # fmt: skip
HOST_MEMORY_PEAK = _bytes("host_memory_peak", "Host memory peak")  # of the whole trial
HOST_MEMORY_PSS = _bytes("host_memory_pss", "PSS at the end", disturbable=True)  # shared pages count in part
HOST_CONTEXT = _bytes("host_context", "Resident after import")
PROCESS_GPU_MEMORY = _bytes(
    "process_gpu_memory", "GPU memory", decimals=0, device="cuda", better=-1,
    title="GPU memory of the process, MiB, highest of the trial",
)  # fmt: skip
# For the whole device, whoever took it.
DEVICE_MEMORY = _bytes("device_memory", "Device memory", device="cuda", disturbable=True)
DEVICE_BASELINE = _bytes("device_memory_baseline", "Device memory before the trial", device="cuda", disturbable=True)
DEVICE_RISE = _bytes("device_memory_rise", "Device peak minus baseline", device="cuda", disturbable=True)
DEVICE_CONTEXT = _bytes("device_context", "Context", device="cuda", disturbable=True)

# Memory, as the framework's allocator counts it.
ALLOCATOR_PEAK = _bytes("allocator_peak", "Allocator peak in use")
ALLOCATOR_RESERVED = _bytes("allocator_reserved", "Allocator reserved")
STEPS_PEAK = _bytes("steps_peak", "Peak of the steps")
WAITED_STEP_PEAK = _bytes("waited_step_peak", "Peak of a step that is waited for")
QUEUED_STEPS = _bytes("queued_steps", "Activations and inputs of queued steps")
POOL_INDICES = _bytes("pool_indices", "Places of pools' maxima")
EXACT_ACTIVATIONS = _bytes("activations_exact", "Activations, exact count")
_LABELS = (
    "Parameters", "BatchNorm statistics", "Gradients", "Optimizer state", "Data set", "Inputs", "Activations",
    "Workspace",
)  # fmt: skip
MEMORY_PARTS = {part: _bytes(part, label) for part, label in zip(PEAK_PARTS, _LABELS, strict=True)}

FIGURES: dict[str, FigureSpec] = {
    spec.name: spec for spec in (*MEMORY_PARTS.values(), *vars().copy().values()) if isinstance(spec, FigureSpec)
}


def refuse_unknown(names: Any) -> None:
    """Raise ValueError for a name that no figure has."""
    if unknown := sorted(set(names) - FIGURES.keys()):
        raise ValueError(f"no such figure: {', '.join(map(repr, unknown))}")
