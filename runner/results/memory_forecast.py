"""Forecast which trials of a plan will not fit into memory, from the line through the peaks of stored trials."""

from __future__ import annotations

from collections.abc import Iterable

import psutil

from runner.machine import cgroups
from runner.machine.description import Gpu
from workloads.records.disturbance import withheld
from workloads.records.figures import HOST_MEMORY_PEAK, PROCESS_GPU_MEMORY
from workloads.records.job import ON_DEMAND, TrialSpec
from workloads.records.memory_line import FEWEST_TO_LEAVE_ONE_OUT, Line, fit_line
from workloads.records.result import TrialResult
from workloads.records.status import Status


def capacity_bytes(device: str, gpus: tuple[Gpu, ...], limit_bytes: int | None = None) -> int | None:
    """Return the memory of the GPU, or of the host and its limits; None if the driver does not report it."""
    if device != "cpu":
        return next((gpu.memory_bytes for gpu in gpus if gpu.uuid == device), None)
    limits = (psutil.virtual_memory().total, cgroups.memory_limit_bytes(), limit_bytes)
    return min(limit for limit in limits if limit is not None)


def peak(result: TrialResult) -> float | None:
    """Return the peak of the process, in bytes; None if the trial says nothing about the needs of its batch size."""
    if result.status not in (Status.OK, Status.CONTENDED) or result.spec.cell.allocator != ON_DEMAND:
        return None
    spec = HOST_MEMORY_PEAK if result.spec.placement.device == "cpu" else PROCESS_GPU_MEMORY
    figure = result.figures.get(spec.name)
    return figure.value or None if figure and not withheld(result, spec) else None


def lines(stored: Iterable[tuple[str, int, float | None]]) -> dict[str, Line]:
    """Return {`TrialSpec.memory_id`: line of the peak over batch size}, through the highest of the repeats. `stored`
    has (that id, batch size, peak in bytes).
    """
    peaks: dict[str, dict[int, float]] = {}
    for name, batch_size, highest in stored:
        if highest is not None:
            sizes = peaks.setdefault(name, {})
            sizes[batch_size] = max(highest, sizes.get(batch_size, 0))
    fitted = {name: fit_line(sizes) for name, sizes in peaks.items() if len(sizes) >= FEWEST_TO_LEAVE_ONE_OUT}
    return {name: line for name, line in fitted.items() if line}


def warning(spec: TrialSpec, line: Line, capacity: int) -> str | None:
    """Return one line for a trial whose predicted peak, with the line's error, is above the capacity in bytes."""
    predicted, error = line.at(spec.cell.batch_size), line.left_out_error or 0.0
    if predicted * (1 + error) <= capacity:
        return None
    will = "will not" if predicted * (1 - error) > capacity else "may not"
    return f"{will} fit: {predicted / 2**30:.1f} GiB predicted, {capacity / 2**30:.1f} GiB there"


def described(framework: str, line: Line) -> str:
    """Return one line: the fit, in MiB, and its quality."""
    return (
        f"{framework}: peak memory = {line.fixed_bytes / 2**20:.0f} MiB + {line.per_sample_bytes / 2**20:.3f} MiB "
        f"x batch size ({line.n} sizes, R^2 {line.r_squared:.4f}, a size left out is met within "
        f"{100 * (line.left_out_error or 0):.1f} %)"
    )
