"""What is tabulated: each quantity, the figure it is read from on each kind of device, unit and title."""

from __future__ import annotations

from dataclasses import dataclass

from workloads.records import figures

from .conditions import Condition


@dataclass(frozen=True)
class Source:
    """The key in TrialResult.figures and what that figure is; `title` may name fields of the condition.

    `windowed`: it is cut from the steady window, so a short window makes it worth less.
    """

    figure: str
    label: str
    title: str
    windowed: bool = False


@dataclass(frozen=True)
class Quantity:
    """`factor` turns the figure's unit into `unit`; `decimals` None = three significant digits.

    `optional`: where no trial has a value, one line says why instead of a table. `cpu` or `cuda` None = there is no
    such thing on that kind of device.
    """

    name: str
    unit: str
    factor: float
    decimals: int | None
    cpu: Source | None
    cuda: Source | None
    timed: bool = False  # other work on the machine changes it: repeats that differ are noise, and are flagged
    drawn: bool = True
    full_scale: float | None = None  # the value at the top of the chart's axis; None = the data decide
    optional: bool = False
    learnt: bool = False  # what the network learnt decides it: a trial that diverged has none

    def source(self, condition: Condition) -> Source | None:
        return self.cpu if condition.placement.device_kind == "cpu" else self.cuda

    def title(self, condition: Condition) -> str:
        source = self.source(condition)
        cores = "core" if condition.placement.threads == 1 else f"{condition.placement.threads} cores"
        return source.title.format(cores=cores, epochs=condition.passes.epochs) if source else ""


def _beside(name: str, unit: str, decimals: int | None, cpu: Source | None, cuda: Source | None) -> Quantity:
    """A percentage, power or energy of the steady window that stands beside the main quantities."""
    return Quantity(name, unit, 1, decimals, cpu, cuda, timed=True, drawn=False, optional=True)


def _start_up(name: str, figure: str, label: str, title: str) -> Quantity:
    source = Source(figure, label, f"{title}, s")
    return Quantity(name, "s", 1, None, source, source, drawn=False, optional=True)


ACCURACY = Source("test_accuracy", "Test accuracy", "Test accuracy, %, after epoch {epochs}")
SPEED = Source("images_per_s", "Training speed", "Training speed, images/s, mean over the steady window", True)
STEP_TIME = Source("step_time_s", "Step time", "Time of a training step, ms, mean over the steady window", True)
RESIDENT = Source(
    "host_memory_bytes",
    "Host memory",
    "Host memory, MiB, peak resident size of the worker in the steady window",
    True,
)
ON_GPU = Source("process_gpu_memory_bytes", "GPU memory", "GPU memory of the process, MiB, highest of the trial")
CPU_USAGE = Source(
    "cpu_percent", "CPU usage", "CPU usage, % of the {cores} allotted, mean over the steady window", True
)
GPU_USAGE = Source(
    "gpu_percent", "GPU usage", "GPU usage, % of the time with work on the GPU, mean over the steady window", True
)
CPU_BUSY = Source(
    "cpu_busy_percent",
    "CPU usage when busy",
    "CPU usage, % of the {cores} allotted, mean over the busy samples of the steady window alone",
    True,
)
GPU_BUSY = Source(
    "gpu_busy_percent",
    "GPU usage when busy",
    "GPU usage, % of the time with work on the GPU, mean over the busy samples of the steady window alone",
    True,
)

QUANTITIES = (
    Quantity("usage", "%", 1, 1, CPU_USAGE, GPU_USAGE, timed=True, full_scale=100),
    _beside("usage-busy", "%", 1, CPU_BUSY, GPU_BUSY),
    Quantity("memory", "MiB", 1 / 2**20, 0, RESIDENT, ON_GPU),
    Quantity("accuracy", "%", 100, 2, ACCURACY, ACCURACY, full_scale=100, learnt=True),
    Quantity("speed", "images/s", 1, None, SPEED, SPEED, timed=True),
    Quantity("step-time", "ms", 1000, None, STEP_TIME, STEP_TIME, timed=True, drawn=False),
    *(
        _beside(name, unit, decimals, None, Source(figure, label, f"{label}, {told} the steady window", True))
        for name, unit, decimals, figure, label, told in (
            ("power", "W", None, "power_w", "GPU power", "W, mean over"),
            ("energy", "J", None, "energy_per_image_j", "GPU energy", "J an image, over"),
            (
                "sm-active",
                "%",
                1,
                "sm_active_percent",
                "SMs active",
                "% of their cycles with a warp resident, mean over",
            ),
            ("sm-occupancy", "%", 1, "sm_occupancy_percent", "SM occupancy", "% of the warps that fit, mean over"),
            ("tensor-active", "%", 1, "tensor_active_percent", "Tensor cores active", "% of their cycles, mean over"),
            ("dram-active", "%", 1, "dram_active_percent", "DRAM active", "% of the cycles with a transfer, mean over"),
        )
    ),
    _start_up("import-time", "import_s", "Import", "Start-up: import of the framework"),
    _start_up("first-step", "first_step_s", "First step", "Start-up: first training step, compilation included"),
    _start_up("warm-up", "warm_up_s", "Warm-up", "Start-up: warm-up steps after the first"),
)


def _kind(name: str, cpu: Source, cuda: Source) -> Quantity:
    return Quantity(name, "MiB", 1 / 2**20, None, cpu, cuda, drawn=False)


def _same(figure: str, label: str) -> tuple[Source, Source]:
    return Source(figure, label, label), Source(figure, label, label)


def _byte(name: str, label: str) -> Quantity:
    return _kind(name, *_same(f"{name}_bytes", label))


PROCESS_PEAK = _kind(
    "process_peak",
    Source("host_memory_bytes", "Peak resident in the window", "", True),
    Source("process_gpu_memory_bytes", "Process peak", ""),
)
ALLOCATOR_PEAK = _byte("allocator_peak", "Allocator peak in use")
STEPS_PEAK = _byte("steps_peak", "Peak of the steps")
MEMORY_KINDS = (
    PROCESS_PEAK,
    _kind(
        "device_rise",
        Source("host_memory_pss_bytes", "PSS at the end", ""),
        Source("device_memory_rise_bytes", "Device peak minus baseline", ""),
    ),
    ALLOCATOR_PEAK,
    _byte("allocator_reserved", "Allocator reserved"),
)
PART_LABELS = {
    "parameters": "Parameters",
    "statistics": "BatchNorm statistics",
    "gradients": "Gradients",
    "optimizer": "Optimizer state",
    "dataset": "Data set",
    "inputs": "Inputs",
    "activations": "Activations",
    "workspace": "Workspace",
}
MEMORY_PARTS = tuple(_byte(part, PART_LABELS[part]) for part in figures.MEMORY_PARTS)
EXACT_ACTIVATIONS = _byte("activations_exact", "Activations, exact count")
POOL_INDICES = _byte("pool_indices", "Places of pools' maxima")
WAITED_STEP_PEAK = _byte("waited_step_peak", "Peak of a step that is waited for")
QUEUED_STEPS = _byte("queued_steps", "Activations and inputs of queued steps")
BESIDE_PARTS = (EXACT_ACTIVATIONS, POOL_INDICES, WAITED_STEP_PEAK, QUEUED_STEPS)
NOT_ALWAYS_THERE = ("statistics", "dataset")  # parts of some workloads and feeds only
CONTEXT = _kind("context", Source("context_bytes", "Resident after import", ""), Source("context_bytes", "Context", ""))
