"""The memory figures of one trial, from its events and samples and from the memory worker's report.

The line through the peaks of stored trials says which trials of a plan will not fit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

from runner.machine.description import Gpu
from runner.results.window import explain_uncounted, make_all_unknown, make_counted, make_unknown, select_window
from workloads import control_groups
from workloads.activations import FLOAT32_BYTES, activation_bytes
from workloads.records import figures as registry
from workloads.records.build import FLOAT64, REDUCED
from workloads.records.disturbance import is_withheld
from workloads.records.events import Count, Event
from workloads.records.figures import HOST_MEMORY_PEAK, PROCESS_GPU_MEMORY, Figure, Method
from workloads.records.job import ON_DEMAND, TrialSpec
from workloads.records.memory_line import FEWEST_TO_LEAVE_ONE_OUT, Line, fit_line
from workloads.records.result import TrialResult
from workloads.records.samples import Samples, SteadyWindow
from workloads.records.status import Status
from workloads.spec import Workload

ALLOCATOR_KINDS = ("allocator_peak", "allocator_reserved")
IN_USE_PARTS = ("activations", "workspace")  # read from what the allocator has in use; the others are sums of arrays
WHOLE_STEP_TOLERANCE = 0.05  # of one step's activations and inputs

# For one batch size: a MEMORY_TOLD event, in it the PRODUCT_TIMED of the same worker; or the "reason" why there is
# none.
MemoryAccount = dict[str, Any]
NOT_ASKED: MemoryAccount = {
    "reason": "the memory worker has not run yet: run the same command again, on the same computer"
}


def collect_parts(account: MemoryAccount, counts: dict[str, Count]) -> dict[str, Figure]:
    """Return bytes of every part, and of the peaks of the steps that were divided into them.

    `counts` come from the trial's worker at its end, for parts that the memory worker does not report.
    """
    figures = {}
    chunks = Method.CHUNKS if account.get("in_chunks") else None
    for part, spec in registry.MEMORY_PARTS.items():
        size, count = account.get("parts", {}).get(part), counts.get(part)
        if size is not None:
            method = chunks if part in IN_USE_PARTS else None
            figures[spec.name] = Figure(size, "memory worker: instrumented steps of this batch size", method=method)
        elif isinstance(count, int):
            figures[spec.name] = Figure(count, "the framework's adapter, at the end of the trial")
        else:
            figures[spec.name] = make_unknown("memory worker", explain_no_split(account))
    return figures | collect_peaks(account, chunks)


def collect_peaks(account: MemoryAccount, chunks: Method | None) -> dict[str, Figure]:
    """Return the peak of steps called together, of one that is waited for, and what explains the difference."""
    if "parts" not in account:  # the peaks are reported with them
        specs = (registry.STEPS_PEAK, registry.WAITED_STEP_PEAK, registry.QUEUED_STEPS, registry.POOL_INDICES)
        return make_all_unknown(specs, "memory worker", explain_no_split(account))
    highest_in_use = "memory worker: highest in use by the framework's allocator"
    indices = account.get("pool_indices", "this memory worker did not report it")
    source = "memory worker: what the pools of this batch size keep in addition to their values"
    return {
        registry.STEPS_PEAK.name: Figure(
            account["peak"], f"{highest_in_use}, {account['steps']} steps called together", method=chunks
        ),
        registry.WAITED_STEP_PEAK.name: Figure(
            account["step_peak"], f"{highest_in_use}, steps that are each waited for", method=chunks
        ),
        registry.QUEUED_STEPS.name: find_queued_steps(account),
        registry.POOL_INDICES.name: make_counted(source, indices),
    }


def find_queued_steps(account: MemoryAccount) -> Figure:
    """Return activations and inputs of the steps that were queued while another held its most: whole steps of them.

    A framework that runs ahead takes a step's memory when the step is called. So the peak of steps called together is
    above that of a waited step, by whole steps if the peaks of their parts coincide. The difference is reported if it
    is within WHOLE_STEP_TOLERANCE of a whole number of steps, at least one; else it is unexplained.
    """
    source = "memory worker: the peak of steps called together less that of one that is waited for, in whole steps"
    if not account.get("runs_ahead"):
        return make_unknown(source, "this framework takes no memory for a step while an earlier one runs")
    if account.get("planned"):
        return make_unknown(source, explain_no_split(account))
    a_step = (account["parts"]["activations"] or 0) + (account["parts"]["inputs"] or 0)
    more = account["peak"] - account["step_peak"]
    steps = round(more / a_step) if a_step > 0 else 0
    if steps < 1 or abs(more - steps * a_step) > WHOLE_STEP_TOLERANCE * a_step:
        ratio = f"{more / a_step:.2f} times" if a_step > 0 else "not to be compared with"
        reason = f"{more / 2**20:.2f} MiB more, {ratio} a step's activations and inputs: not a whole number of steps"
        return make_unknown(source, reason)
    return Figure(steps * a_step, source, samples=steps)


def compute_exact_activations(spec: TrialSpec, workload: Workload | None) -> Figure:
    """Return the bytes that the backward pass of the network needs, whatever the framework."""
    source = "counted from the layers of the workload, nothing measured: what the backward pass needs"
    if workload is None or spec.task.own_code:
        return make_unknown(source, explain_uncounted(spec))
    if spec.task.precision in REDUCED:
        return make_unknown(source, f"which values are kept in {spec.task.precision} is the framework's choice")
    value_bytes = 2 * FLOAT32_BYTES if spec.task.precision == FLOAT64 else FLOAT32_BYTES
    return Figure(activation_bytes(workload, spec.cell.batch_size, value_bytes), source)


def explain_no_split(account: MemoryAccount) -> str:
    """Return why the parts of the memory do not add up to a split; bytes are named in MiB."""
    if "parts" not in account:
        return str(account.get("reason", "the memory worker was not run"))
    if account.get("planned"):
        return "the framework's compiler plans the memory of a whole step: its parts cannot be separated"
    more = sum(part or 0 for part in account["parts"].values()) - account["step_peak"]
    return f"a step never holds all parts at once: together they are {more / 2**20:.2f} MiB more than its peak"


def collect_memory(
    events: dict[str, Any], samples: Samples, spec: TrialSpec, workload: Workload | None, account: MemoryAccount | None
) -> dict[str, Figure]:
    """Return bytes, as counted by the kernel and the framework's allocator. `account` is None before it is measured."""
    counts = read_counts(events)
    figures = collect_parts(NOT_ASKED if account is None else account, counts) | collect_host(
        events, samples, spec.placement.devices
    )
    figures |= collect_allocator(counts, figures[registry.STEPS_PEAK.name])
    return figures | {registry.EXACT_ACTIVATIONS.name: compute_exact_activations(spec, workload)}


def read_counts(events: dict[str, Any]) -> dict[str, Count]:
    """Return the framework's counts at the end of the measurement, by kind; a reason for each that is unknown."""
    event = events.get(Event.ALLOCATOR_COUNTED, {"reason": "the trial did not get that far"})
    return event["counts"] if "counts" in event else dict.fromkeys(ALLOCATOR_KINDS, event["reason"])


def collect_allocator(counts: dict[str, Count], steps_peak: Figure) -> dict[str, Figure]:
    """Return the trial's counters; if the framework counts only in instrumented steps, the peak of those."""
    source = "the framework's allocator, over the whole trial"
    peak, reserved = (counts.get(kind, "the framework does not report it") for kind in ALLOCATOR_KINDS)
    return {
        registry.ALLOCATOR_PEAK.name: Figure(peak, source) if isinstance(peak, int) else steps_peak,
        registry.ALLOCATOR_RESERVED.name: make_counted(source, reserved),
    }


def collect_host(events: dict[str, Any], samples: Samples, devices: int = 1) -> dict[str, Figure]:
    """Return figures of the worker's resident memory, bytes: the peak by the kernel, all else by the samples. With
    several devices, which may be one process each, all come from the samples: the kernel counts only the first.
    """
    window = SteadyWindow.read(events)
    inside = select_window(samples, window) if window else np.zeros(len(samples["t_ns"]), bool)
    before = events.get(Event.WINDOW_STARTED, {}).get("peak_resident_bytes")
    peak = events.get(Event.WINDOW_ENDED, {}).get("peak_resident_bytes") if devices == 1 else None
    sampled = samples["host_memory_bytes"]
    # A copy of the worker may run until `opened` (adapters.kernels); work after `finished` takes memory, too.
    opened, finished = (events.get(event, {}).get("t_ns") for event in (Event.OPENED, Event.FINISHED))
    measured = sampled[(samples["t_ns"] >= (opened or 0)) & (samples["t_ns"] <= (finished or np.inf))]
    trial = np.array([before or np.nan, peak or np.nan, *measured])
    if peak is not None:
        kernel = "peak resident size of the worker in the steady window (VmHWM, reset at its start)"
        window_peak = Figure(peak, kernel, method=Method.COUNTER)
    else:
        polled = "resident size of the process tree, polled at 10 Hz, highest in the steady window"
        window_peak = replace(find_highest(sampled[inside], polled), method=Method.POLLED)
    missing = "this kernel did not report it, or the trial did not get that far"
    proportional = events.get(Event.HOST_COUNTED, {}).get("proportional_bytes") or missing
    if devices > 1:
        proportional = "the trial has several devices, which may each be a process: only the worker's own was read"
    context = events.get(Event.OPENED, {}).get("resident_bytes") or missing
    return {
        registry.HOST_MEMORY.name: window_peak,
        registry.HOST_MEMORY_PEAK.name: find_highest(
            trial, "resident size, highest of the whole trial: VmHWM and 10 Hz poll"
        ),
        registry.HOST_MEMORY_PSS.name: make_counted("PSS of the worker at the end of the steady window", proportional),
        registry.HOST_CONTEXT.name: make_counted("resident size of the worker when import and open were done", context),
    }


def collect_device(events: dict[str, Any], samples: Samples) -> dict[str, Figure]:
    """Return what the device held until the trial had been measured."""
    finished = events.get(Event.FINISHED, {}).get("t_ns", np.inf)
    until = samples["t_ns"] <= finished
    used = samples["device_memory_bytes"]
    # The process list is read once a second and the frameworks' pools only grow, so the whole trial is searched.
    process = find_highest(samples["process_memory_bytes"][until], "NVML memory of the process, highest of the trial")
    baseline = find_highest(used[:1], "NVML memory used on the device before the trial")
    peak = find_highest(used[until], "NVML memory used on the device, highest of the trial")
    rise = _above(peak, baseline, "NVML memory used on the device, highest of the trial, less its baseline")
    opened, sampled = (events.get(event, {}).get("t_ns", np.nan) for event in (Event.OPENED, Event.CONTEXT_SAMPLED))
    bare = find_highest(
        used[(samples["t_ns"] > opened) & (samples["t_ns"] <= sampled)], "NVML, after the first operation"
    )
    source = "NVML memory used on the device after the framework's first operation, less its baseline"
    return {
        registry.PROCESS_GPU_MEMORY.name: replace(process, method=Method.PROCESS_LIST),
        registry.DEVICE_MEMORY.name: peak,
        registry.DEVICE_BASELINE.name: baseline,
        registry.DEVICE_RISE.name: rise,
        registry.DEVICE_CONTEXT.name: _above(bare, baseline, source),
    }


def _above(figure: Figure, baseline: Figure, source: str) -> Figure:
    if figure.value is None or baseline.value is None:
        return make_unknown(source, figure.reason or baseline.reason or "")
    return Figure(figure.value - baseline.value, source, figure.samples)


def find_highest(values: NDArray[np.float64], source: str) -> Figure:
    """Return the largest number among them, unknown if there is none."""
    known = values[~np.isnan(values)]
    if not len(known):
        return make_unknown(source, "no sample has it")
    return Figure(float(known.max()), source, len(known))


def find_capacity_bytes(device: str, gpus: tuple[Gpu, ...], limit_bytes: int | None = None) -> int | None:
    """Return the memory of the GPU, or of the host and its limits; None if the driver does not report it."""
    if device != "cpu":
        return next((gpu.memory_bytes for gpu in gpus if gpu.uuid == device), None)
    limits = (psutil.virtual_memory().total, control_groups.memory_limit_bytes(), limit_bytes)
    return min(limit for limit in limits if limit is not None)


def find_peak_bytes(result: TrialResult) -> float | None:
    """Return the peak of the process, in bytes; None if the trial says nothing about the needs of its batch size.

    The figure of several GPUs is their sum, and each has its own capacity: their mean counts.
    """
    if result.status not in (Status.OK, Status.CONTENDED) or result.spec.cell.allocator != ON_DEMAND:
        return None
    placement = result.spec.placement
    spec, share = (HOST_MEMORY_PEAK, 1) if placement.device == "cpu" else (PROCESS_GPU_MEMORY, placement.devices)
    figure = result.figures.get(spec.name)
    return figure.value / share if figure and figure.value and not is_withheld(result, spec) else None


def fit_memory_lines(stored: Iterable[TrialResult]) -> dict[str, Line]:
    """Return {`TrialSpec.memory_id`: line of the peak over batch size}, through the highest of the repeats."""
    peaks: dict[str, dict[int, float]] = {}
    for result in stored:
        if (highest := find_peak_bytes(result)) is not None:
            sizes, batch_size = peaks.setdefault(result.spec.memory_id, {}), result.spec.cell.batch_size
            sizes[batch_size] = max(highest, sizes.get(batch_size, 0))
    fitted = {name: fit_line(sizes) for name, sizes in peaks.items() if len(sizes) >= FEWEST_TO_LEAVE_ONE_OUT}
    return {name: line for name, line in fitted.items() if line}


def warn_of_memory(spec: TrialSpec, line: Line, capacity: int) -> str | None:
    """Return one line for a trial whose predicted peak, with the line's error, is above the capacity in bytes."""
    predicted, error = line.at(spec.cell.batch_size), line.left_out_error or 0.0
    if predicted * (1 + error) <= capacity:
        return None
    will = "will not" if predicted * (1 - error) > capacity else "may not"
    return f"{will} fit: {predicted / 2**30:.1f} GiB predicted, {capacity / 2**30:.1f} GiB available"


def describe_line(framework: str, line: Line) -> str:
    """Return one line: the fit, in MiB, and its quality."""
    return (
        f"{framework}: peak memory = {line.fixed_bytes / 2**20:.0f} MiB + {line.per_sample_bytes / 2**20:.3f} MiB "
        f"x batch size ({line.n} sizes, R^2 {line.r_squared:.4f}, a size left out is predicted within "
        f"{100 * (line.left_out_error or 0):.1f} %)"
    )
