"""The figures of a trial on several GPUs: those of each one's readings, combined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from runner.results.gpu import gpu_figures, memory_accounts
from runner.results.gpu_contention import alone
from runner.results.memory import device
from runner.results.window import unknown
from workloads.records import figures as registry
from workloads.records.events import Events
from workloads.records.figures import Figure
from workloads.records.files import OTHER_DRIVER_SAMPLES_FILE, OTHER_SAMPLES_FILE
from workloads.records.job import TrialSpec
from workloads.records.result import Check
from workloads.records.samples import DRIVER_COLUMNS, Samples, read_samples

ADDED = {spec.name for spec in (
    registry.ENERGY, registry.ENERGY_INTEGRATED, registry.ENERGY_PER_IMAGE, registry.POWER, registry.POWER_BUSY,
    registry.POWER_LIMIT, registry.PROCESS_GPU_MEMORY, registry.DEVICE_MEMORY, registry.DEVICE_BASELINE,
    registry.DEVICE_RISE, registry.DEVICE_CONTEXT, registry.POWER_ERROR, registry.ENERGY_INTEGRATED_ERROR,
)}  # fmt: skip
HIGHEST = {registry.TEMPERATURE.name, registry.ENERGY_RESOLUTION.name}  # figures in neither are averaged


@dataclass(frozen=True)
class OfGpu:
    """A sampler's readings of one GPU; `meter` is the report on it, with the clocks of all."""

    samples: Samples
    driver: Samples
    meter: dict[str, Any]


def of_others(trial_dir: Path, spec: TrialSpec, meter: dict[str, Any]) -> tuple[OfGpu, ...]:
    """Read the readings of the GPUs after the first. Raises ValueError with file and reason for an invalid file."""
    accounts = [*meter.get("other_gpus", []), *[None] * len(spec.placement.others)]
    return tuple(
        OfGpu(
            read_samples(trial_dir / OTHER_SAMPLES_FILE.format(number)),
            read_samples(trial_dir / OTHER_DRIVER_SAMPLES_FILE.format(number), DRIVER_COLUMNS),
            {**meter, "gpu": accounts[number - 1]},
        )
        for number in range(1, 1 + len(spec.placement.others))
    )


def of_gpus(events: dict[str, Any], gpus: Sequence[OfGpu]) -> dict[str, Figure]:
    """Return the combined figures of the GPUs; a single one's are returned unchanged."""
    first, *others = every = [of_gpu(events, each) for each in gpus]
    return {name: combined(name, [figures[name] for figures in every]) for name in first} if others else first


def of_gpu(events: dict[str, Any], gpu: OfGpu) -> dict[str, Figure]:
    """Return the figures of one GPU."""
    held = device(events, gpu.samples)
    return held | gpu_figures(events, gpu.samples, gpu.driver, gpu.meter) | memory_accounts(held, gpu.meter)


def combined(name: str, figures: Sequence[Figure]) -> Figure:
    """Combine one figure of several GPUs; unknown if it is unknown for one of them."""
    how, reduce = _rule(name)
    for number, figure in enumerate(figures, start=1):
        if figure.value is None:
            return unknown(figure.source, f"GPU {number} of {len(figures)}: {figure.reason}")
    values = [figure.value for figure in figures if figure.value is not None]
    each = ", ".join(f"{value:.6g}" for value in values)
    source = f"{how} of {len(figures)} GPUs ({each}): {figures[0].source}"
    methods = {figure.method for figure in figures}
    return replace(
        figures[0], value=reduce(values), source=source, method=figures[0].method if len(methods) == 1 else None
    )


def _rule(name: str) -> tuple[str, Callable[[Sequence[float]], float]]:
    if name in ADDED:
        return "sum", sum
    return ("highest", max) if name in HIGHEST else ("mean", mean)


def others_on(gpus: Sequence[OfGpu]) -> dict[str, Figure]:
    """Return FOREIGN_PROCESSES: the most that were on one of them; `alone_on_all` says who was there and when."""
    source = "NVML: lists of the processes on the device, the most before, during and after the worker's life"
    counts = np.concatenate([each.samples["foreign_processes"] for each in gpus])
    known = counts[~np.isnan(counts)]
    figure = Figure(int(known.max()), source, len(known)) if len(known) else unknown(source, "there was no such list")
    return {registry.FOREIGN_PROCESSES.name: figure}


def alone_on_all(gpus: Sequence[OfGpu], events: Events) -> Check:
    """Check that the worker had each GPU to itself."""
    checks = [alone(each.samples, each.meter, events) for each in gpus]
    if len(checks) == 1:
        return checks[0]
    told = [f"GPU {number}: {check.detail}" for number, check in enumerate(checks, start=1)]
    failed = [line for line, check in zip(told, checks, strict=True) if not check.passed]
    return Check(checks[0].name, not failed, "; ".join(failed or told))
