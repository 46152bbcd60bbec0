"""Figures of a stored trial computed anew from its events and samples, and held against those in its result.

Written apart from the runner: a slip in the one is then no slip in the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from workloads.records import figures as registry
from workloads.records.checks import FEWEST_SAMPLES
from workloads.records.events import Event, Events
from workloads.records.figures import Method
from workloads.records.files import EVENTS_FILE, SAMPLES_FILE
from workloads.records.result import TrialResult
from workloads.records.samples import PERIOD_S, Samples
from workloads.records.status import Status

RELATIVE = 1e-6
USAGE_POINTS, GPU_POINTS = 1.0, 5.0  # the driver's own samples, preferred to the polled ones, are others
GPU_PERIOD_S = 1.0  # the longest that NVML's utilisation looks back
USAGE = (registry.CPU_USAGE.name, registry.CPU_BUSY.name, registry.FOREIGN_CPU.name)
OF_EPOCHS = registry.FOREIGN_CPU_EPOCHS.name
START_UP = {
    registry.IMPORT.name: (Event.STARTED, Event.IMPORTED),
    registry.OPEN.name: (Event.IMPORTED, Event.OPENED),
    registry.LOAD.name: (Event.OPENED, Event.LOADED),
    registry.BUILD.name: (Event.LOADED, Event.BUILT),
    registry.FIRST_STEP.name: (Event.BUILT, Event.FIRST_STEP),
    registry.WARM_UP.name: (Event.FIRST_STEP, Event.WARMED_UP),
}
OF_WINDOW = (registry.WINDOW.name, registry.SPEED.name, registry.STEP_TIME.name)
COUNTED = (registry.ENERGY.name, registry.POWER.name)
FROM_EVENTS = (*START_UP, registry.ACCURACY.name, *OF_WINDOW)

Segment = tuple[float, float]  # of the steady window: its edges in ns of the monotonic clock
Values = dict[str, float]  # by the names of figures; what the files do not tell is not there


def segments_of(events: Events) -> list[Segment]:
    """None of a trial that did not get to the end of its steady window."""
    by_name = {event["event"]: event for event in events}
    if Event.WINDOW_ENDED not in by_name:
        return []
    return [(float(start), float(end)) for start, end in by_name[Event.WINDOW_ENDED]["segments"]]


def differences(
    result: TrialResult, events: Events, samples: Samples, of_other_gpus: Sequence[Samples], told: Values
) -> list[str]:
    """A line for each figure that is not what the files give, and one that names those they do not give.

    `told`: values that other files of the trial give. Without a window in the events its figures are left alone: that
    it is gone is a finding of its own.
    """
    if result.status is not Status.OK and not result.figures:
        return []  # its launch failed, and nothing was assembled
    window = segments_of(events)
    values = from_events(events, result.spec.passes.epochs, result.spec.placement.devices)
    values |= foreign_in_epochs(events, samples, result.spec.placement.threads)
    if window:
        values = from_samples(samples, window, result.spec.placement.threads, _quota_cores(result)) | values
        values |= gpu_usage([samples, *of_other_gpus], window)
        values |= gpu_energy([samples, *of_other_gpus], window)
    values = told | values
    of_window = (*OF_WINDOW, registry.HOST_MEMORY.name, *USAGE) if window else ()
    lines, silent = [], []
    for name in dict.fromkeys((*START_UP, registry.ACCURACY.name, *of_window, *values)):
        figure = result.figures.get(name)
        if name in COUNTED and (figure is None or figure.method is not Method.COUNTER):
            continue  # by readings of the power
        if figure is None or figure.value is None:
            if name in values and (name in FROM_EVENTS or (figure is not None and name in told)):
                lines.append(f"{name}: stored: {'null' if figure else 'nothing'}; recomputed: {values[name]:.9g}")
        elif name not in values:
            silent.append(name)
        elif not abs(figure.value - values[name]) <= _tolerance(name, values[name]):
            lines.append(f"{name}: stored: {figure.value:.9g}; recomputed: {values[name]:.9g}")
    if silent:
        lines.append(f"{', '.join(silent)}: cannot be recomputed: {EVENTS_FILE} and {SAMPLES_FILE} do not tell")
    return lines


def _tolerance(name: str, recomputed: float) -> float:
    if name == registry.GPU_USAGE.name:
        return GPU_POINTS
    return USAGE_POINTS if name in (*USAGE, OF_EPOCHS) else RELATIVE * abs(recomputed)


def from_events(events: Events, epochs: int, devices: int = 1) -> Values:
    """Start-up times and accuracy; and of the window its length, the speed, and the kernel's peak of memory, which of
    several devices is the first one's alone.
    """
    by_name = {event["event"]: event for event in events}
    values = {}
    for name, (start, end) in START_UP.items():
        if start in by_name and end in by_name:
            # On a GPU the sampler is waited for once the device is open: that is no part of loading.
            waited = name == registry.LOAD.name and Event.CONTEXT_SAMPLED in by_name
            since = by_name[Event.CONTEXT_SAMPLED if waited else start]
            values[name] = (by_name[end]["t_ns"] - since["t_ns"]) / 1e9
    evaluated = [event for event in events if event["event"] == Event.EPOCH_EVALUATED]
    if evaluated and len(evaluated) == epochs:
        values[registry.ACCURACY.name] = evaluated[-1]["test_accuracy"]
    if window := segments_of(events):
        window_s, ended = sum(end - start for start, end in window) / 1e9, by_name[Event.WINDOW_ENDED]
        values |= {registry.WINDOW.name: window_s, registry.SPEED.name: ended["images"] / window_s}
        values[registry.STEP_TIME.name] = window_s / ended["steps"]
        if devices == 1 and ended.get("peak_resident_bytes") is not None:
            values[registry.HOST_MEMORY.name] = ended["peak_resident_bytes"]
        counts = {"page_faults": registry.PAGE_FAULTS.name, "context_switches": registry.CONTEXT_SWITCHES.name}
        if devices == 1:
            values |= {name: ended[key] / ended["steps"] for key, name in counts.items() if key in ended}
    return values


def _quota_cores(result: TrialResult) -> float:
    """CPU quota of the worker's control groups; without end where there is none."""
    figure = result.figures.get(registry.CPU_QUOTA.name)
    return math.inf if figure is None or figure.value is None else float(figure.value)


def from_samples(samples: Samples, window: list[Segment], threads: int, quota_cores: float = math.inf) -> Values:
    """Usage of the CPU and what its quota withheld, %, the processor's energy, and the highest resident size of the
    process tree.
    """
    values = {}
    cpu, cores = (_increases(samples, column, window) for column in ("cpu_s", "cores_cpu_s"))
    if cpu is not None:
        lengths, used = cpu
        busy = used > 0
        share = 100 / min(threads, quota_cores)
        values[registry.CPU_USAGE.name] = share * used.sum() / lengths.sum()
        if busy.any():
            values[registry.CPU_BUSY.name] = share * used[busy].sum() / lengths[busy].sum()
        if cores is not None:
            foreign_cores = cores[1].sum() / cores[0].sum() - used.sum() / lengths.sum()
            values[registry.FOREIGN_CPU.name] = 100 / threads * max(0.0, foreign_cores)
    throttled = _increases(samples, "throttled_s", window)
    if throttled is not None:
        share = 100 / threads * throttled[1].sum() / throttled[0].sum()
        values[registry.CPU_THROTTLED.name] = min(100.0, share)
    energy = _increases(samples, "package_energy_uj", window)
    if energy is not None:
        whole_s = sum(end - start for start, end in window) / 1e9
        values[registry.CPU_ENERGY.name] = energy[1].sum() / energy[0].sum() * whole_s / 1e6
    resident = _readings(samples, "host_memory_bytes", window, PERIOD_S)
    if len(resident):
        values[registry.HOST_MEMORY.name] = resident.max()
    return {name: float(value) for name, value in values.items()}


def foreign_in_epochs(events: Events, samples: Samples, threads: int) -> Values:
    """The share of the cores that others took from `built` to the last evaluation, in percent.

    Nothing in fewer than FEWEST_SAMPLES.
    """
    by_name = {event["event"]: event for event in events}
    if not {Event.BUILT, Event.EPOCH_EVALUATED} <= by_name.keys():
        return {}
    span = [(float(by_name[Event.BUILT]["t_ns"]), float(by_name[Event.EPOCH_EVALUATED]["t_ns"]))]
    cpu, cores = (_increases(samples, column, span) for column in ("cpu_s", "cores_cpu_s"))
    if cpu is None or cores is None or len(_readings(samples, "cpu_s", span, PERIOD_S)) < FEWEST_SAMPLES:
        return {}
    taken = (cores[1].sum() / cores[0].sum() - cpu[1].sum() / cpu[0].sum()) * 100 / threads
    return {OF_EPOCHS: float(max(0.0, taken))}


def gpu_usage(every: Sequence[Samples], window: list[Segment]) -> Values:
    """In %, the mean of all GPUs, where each has readings enough."""
    polled = [_readings(samples, "gpu_percent", window, GPU_PERIOD_S) for samples in every]
    if min(map(len, polled)) < FEWEST_SAMPLES:
        return {}
    return {registry.GPU_USAGE.name: float(np.mean([each.mean() for each in polled]))}


def gpu_energy(every: Sequence[Samples], window: list[Segment]) -> Values:
    """J over a window of one segment, by the counters of all GPUs, and W; empty where one of them has no counter."""
    if len(window) > 1:
        return {}
    (edges,) = window
    joules = 0.0
    for samples in every:
        known = ~np.isnan(samples["energy_mj"])
        times, sums = samples["t_ns"][known], samples["energy_mj"][known]
        if not len(times) or times[0] > edges[0] or times[-1] < edges[1]:
            return {}
        first, last = np.interp(edges, times, sums)
        joules += (last - first) / 1e3
    return {registry.ENERGY.name: joules, registry.POWER.name: joules / (edges[1] - edges[0]) * 1e9}


def _increases(samples: Samples, column: str, window: list[Segment]) -> tuple[np.ndarray, np.ndarray] | None:
    """(seconds, increase) of a running sum between the readings of the window.

    Where it is one segment its edges are interpolated, and the last reading ends it where none is behind the edge. None
    where no two readings lie in one segment.
    """
    known = ~np.isnan(samples[column])
    times, sums = samples["t_ns"][known], samples[column][known]
    if len(_readings(samples, column, window, PERIOD_S)) < 2:
        return None
    if len(window) == 1:
        inside = times[(times >= window[0][0] + PERIOD_S * 1e9) & (times <= window[0][1])]
        at = [np.unique([window[0][0], *inside, min(window[0][1], times.max())])]
    else:  # of short segments nobody knows the sum at an edge
        at = [times[(times >= start) & (times <= end)] for start, end in window]
    lengths = np.concatenate([np.diff(each) / 1e9 for each in at])
    if not len(lengths):
        return None
    return lengths, np.concatenate([np.diff(np.interp(each, times, sums)) for each in at])


def _readings(samples: Samples, column: str, window: list[Segment], period_s: float) -> np.ndarray:
    """Known readings that describe the window alone: a reading looks back over `period_s`."""
    times, values = samples["t_ns"], samples[column]
    known = np.zeros(len(times), bool)
    for start, end in window:
        known |= (times >= start + period_s * 1e9) & (times <= end) & ~np.isnan(values)
    return values[known]
