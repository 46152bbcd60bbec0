"""Define what is tabulated: each table or column, and the figure that it shows on each kind of device."""

from __future__ import annotations

from dataclasses import dataclass, replace

from workloads.records import figures
from workloads.records.figures import FigureSpec

from .conditions import Condition
from .table import Theme


@dataclass(frozen=True)
class Quantity:
    """A quantity; the first of `figures` that exists on the device is shown. The figures are alike in all else.

    `optional`: if no trial has a value, one line says why instead of a table.
    """

    name: str
    figures: tuple[FigureSpec, ...]
    optional: bool = False
    theme: Theme = Theme.RUN

    def figure(self, condition: Condition) -> FigureSpec | None:
        """Return the figure for the condition's kind of device; None if there is none."""
        return self.find_figure(condition.placement.device_kind)

    def find_figure(self, kind: str) -> FigureSpec | None:
        """Return the figure for a kind of device."""
        return next((spec for spec in self.figures if spec.device in (None, kind)), None)

    def title(self, condition: Condition) -> str:
        """Format the title with the condition's cores and epochs; empty if the device has no such figure."""
        spec = self.figure(condition)
        cores = "core" if condition.placement.threads == 1 else f"{condition.placement.threads} cores"
        return spec.title.format(cores=cores, epochs=condition.passes.epochs) if spec else ""

    @property
    def unit(self) -> str:
        """Unit of all its figures."""
        return self.figures[0].unit

    @property
    def decimals(self) -> int | None:
        """Number of decimal places; None = three significant digits."""
        return self.figures[0].decimals

    @property
    def better(self) -> int:
        """Direction: 1 = more is better, -1 = less, 0 = neither."""
        return self.figures[0].better


def _optional(name: str, theme: Theme, *specs: FigureSpec) -> Quantity:
    return Quantity(name, specs, True, theme)


USAGE = Quantity("usage", (figures.GPU_USAGE, figures.CPU_USAGE), theme=Theme.USAGE)
USAGE_BUSY = _optional("usage-busy", Theme.USAGE, figures.GPU_BUSY, figures.CPU_BUSY)
MEMORY = Quantity("memory", (figures.PROCESS_GPU_MEMORY, figures.HOST_MEMORY), theme=Theme.MEMORY)
ACCURACY = Quantity("accuracy", (figures.ACCURACY,), theme=Theme.ACCURACY)
SPEED = Quantity("speed", (figures.SPEED,), theme=Theme.SPEED)
STEP_TIME = Quantity("step-time", (figures.STEP_TIME,), theme=Theme.SPEED)
ENERGY = _optional("energy", Theme.USAGE, figures.ENERGY_PER_IMAGE, figures.CPU_ENERGY_PER_IMAGE)
MAIN = (SPEED, MEMORY, ACCURACY, USAGE)
QUANTITIES = (
    *MAIN,
    USAGE_BUSY,
    STEP_TIME,
    _optional("epoch-time", Theme.SPEED, figures.EPOCH_TIME),
    _optional("evaluation-speed", Theme.SPEED, figures.EVALUATION_SPEED),
    _optional("work", Theme.SPEED, figures.WORK),
    _optional("product-share", Theme.SPEED, figures.PRODUCT_SHARE),
    _optional("power", Theme.USAGE, figures.POWER),
    ENERGY,
    _optional("page-faults", Theme.USAGE, figures.PAGE_FAULTS),
    _optional("sm-active", Theme.USAGE, figures.SM_ACTIVE),
    _optional("sm-occupancy", Theme.USAGE, figures.SM_OCCUPANCY),
    _optional("tensor-active", Theme.USAGE, figures.TENSOR_ACTIVE),
    _optional("dram-active", Theme.USAGE, figures.DRAM_ACTIVE),
    _optional("import-time", Theme.START_UP, figures.IMPORT),
    _optional("first-step", Theme.START_UP, figures.FIRST_STEP),
    _optional("warm-up", Theme.START_UP, figures.WARM_UP),
)

# Columns of the memory's tables. Two are renamed and printed differently because they are shown side by side.
PROCESS_PEAK = Quantity(
    "process_peak",
    (
        replace(figures.PROCESS_GPU_MEMORY, label="Process peak", decimals=None),
        replace(figures.HOST_MEMORY, label="Peak resident in the window", decimals=None),
    ),
)
ALLOCATOR_PEAK = Quantity("allocator_peak", (figures.ALLOCATOR_PEAK,))
MEMORY_KINDS = (
    PROCESS_PEAK,
    Quantity("device_rise", (figures.DEVICE_RISE, figures.HOST_MEMORY_PSS)),
    ALLOCATOR_PEAK,
    Quantity("allocator_reserved", (figures.ALLOCATOR_RESERVED,)),
)
MEMORY_PARTS = tuple(Quantity(part, (spec,)) for part, spec in figures.MEMORY_PARTS.items())
NOT_ALWAYS_THERE = ("statistics", "dataset")  # only some workloads and feeds have these parts
STEPS_PEAK = Quantity("steps_peak", (figures.STEPS_PEAK,))
WAITED_STEP_PEAK = Quantity("waited_step_peak", (figures.WAITED_STEP_PEAK,))
QUEUED_STEPS = Quantity("queued_steps", (figures.QUEUED_STEPS,))
EXACT_ACTIVATIONS = Quantity("activations_exact", (figures.EXACT_ACTIVATIONS,))
POOL_INDICES = Quantity("pool_indices", (figures.POOL_INDICES,))
CONTEXT = Quantity("context", (figures.DEVICE_CONTEXT, figures.HOST_CONTEXT))
