"""What is tabulated: each quantity, the figure it is read from on each kind of device, unit and title."""

from __future__ import annotations

from dataclasses import dataclass

from .conditions import Condition


@dataclass(frozen=True)
class Source:
    """The key in TrialResult.figures and what that figure is; `title` may name fields of the condition."""

    figure: str
    label: str
    title: str


@dataclass(frozen=True)
class Quantity:
    """`factor` turns the figure's unit into `unit`; `decimals` None = three significant digits."""

    name: str
    unit: str
    factor: float
    decimals: int | None
    cpu: Source
    cuda: Source
    timed: bool  # other work on the same cores changes it
    drawn: bool = True
    full_scale: float | None = None  # the value at the top of the chart's axis; None = the data decide

    def source(self, condition: Condition) -> Source:
        return self.cpu if condition.device_kind == "cpu" else self.cuda

    def title(self, condition: Condition) -> str:
        cores = "core" if condition.threads == 1 else f"{condition.threads} cores"
        return self.source(condition).title.format(cores=cores, epochs=condition.epochs)


ACCURACY = Source("test_accuracy", "Test accuracy", "Test accuracy, %, after epoch {epochs}")
SPEED = Source("images_per_s", "Training speed", "Training speed, images/s, mean over the steady window")
STEP_TIME = Source("step_time_s", "Step time", "Time of a training step, ms, mean over the steady window")

QUANTITIES = (
    Quantity(
        "usage",
        "%",
        1,
        1,
        cpu=Source("cpu_percent", "CPU usage", "CPU usage, % of the {cores} allotted, mean over the steady window"),
        cuda=Source(
            "gpu_percent", "GPU usage", "GPU usage, % of the time with work on the GPU, mean over the steady window"
        ),
        timed=True,
        full_scale=100,
    ),
    Quantity(
        "memory",
        "MiB",
        1 / 2**20,
        0,
        cpu=Source(
            "host_memory_bytes",
            "Host memory",
            "Host memory, MiB, highest resident size of the process tree in the steady window",
        ),
        cuda=Source("process_gpu_memory_bytes", "GPU memory", "GPU memory of the process, MiB, highest of the trial"),
        timed=False,
    ),
    Quantity("accuracy", "%", 100, 2, cpu=ACCURACY, cuda=ACCURACY, timed=False, full_scale=100),
    Quantity("speed", "images/s", 1, None, cpu=SPEED, cuda=SPEED, timed=True),
    Quantity("step-time", "ms", 1000, None, cpu=STEP_TIME, cuda=STEP_TIME, timed=True, drawn=False),
)
