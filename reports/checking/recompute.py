"""Recompute the figures of a stored trial from its events and samples, and compare them with those in its result.

Written independently of the runner, so that an error in one is not repeated in the other.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from workloads.records import figures as registry
from workloads.records.checks import CONTENDED_PERCENT, ENERGY_TOLERANCE, FEWEST_SAMPLES
from workloads.records.columns import PERIOD_S
from workloads.records.events import Event, Events
from workloads.records.figures import Figure, Method
from workloads.records.files import EVENTS_FILE, SAMPLES_FILE
from workloads.records.result import TrialResult
from workloads.records.samples import Samples
from workloads.records.status import Status

RELATIVE = 1e-6
USAGE_POINTS, GPU_POINTS = 1.0, 5.0  # the driver's own samples, which are preferred, differ from the polled ones
CLOCKS = 0.02  # of a clock: the runner leaves out readings at an edge that also describe the time before it
GPU_PERIOD_S = 1.0  # the longest period that NVML's utilisation, or its power, covers
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
COUNTED = (registry.ENERGY.name, registry.POWER.name)  # by counters or by readings of the power, as their method says
READ = (*COUNTED, registry.ENERGY_INTEGRATED.name)
ENERGIES = (
    *READ, registry.ENERGY_PER_IMAGE.name, registry.CPU_ENERGY.name, registry.CPU_ENERGY_PER_IMAGE.name
)  # fmt: skip
# More of others than this makes a trial contended, so one that is called ok must say what they took.
OTHERS = dict.fromkeys((registry.FOREIGN_CPU.name, OF_EPOCHS), CONTENDED_PERCENT) | {registry.FOREIGN_PROCESSES.name: 0}
EPOCHS_SINCE = 4  # version of the measurement: older results lack the share of the epochs
FROM_EVENTS = (*START_UP, registry.ACCURACY.name, *OF_WINDOW)

Segment = tuple[float, float]  # of the steady window: its edges in ns of the monotonic clock
Values = dict[str, float]  # by names of figures; values that the files do not give are missing


def list_segments(events: Events) -> list[Segment]:
    """List the segments of the steady window; empty if the trial did not reach its end."""
    by_name = {event["event"]: event for event in events}
    if Event.WINDOW_ENDED not in by_name:
        return []
    return [(float(start), float(end)) for start, end in by_name[Event.WINDOW_ENDED]["segments"]]


def find_differences(
    result: TrialResult, events: Events, samples: Samples, of_other_gpus: Sequence[Samples], told: Values
) -> list[str]:
    """Write a line for each figure that differs from what the files give, and one for those they do not give.

    `told`: values from other files of the trial. Without a window in the events its figures are not compared, because a
    missing window is a separate finding.
    """
    if result.status is not Status.OK and not result.figures:
        return []  # its launch failed, and no result was assembled
    window = list_segments(events)
    values = told | _recompute(result, events, samples, [samples, *of_other_gpus])
    of_window = (*OF_WINDOW, registry.HOST_MEMORY.name, *USAGE, *ENERGIES) if window else ()
    lines, silent = [], []
    for name in dict.fromkeys((*START_UP, registry.ACCURACY.name, *of_window, *values)):
        figure = result.figures.get(name)
        if figure is None or figure.value is None:
            read = name in FROM_EVENTS or (figure is not None and name in told)
            if name in values and (read or _hides_others(result, name, values[name])):
                lines.append(f"{name}: stored: {'null' if figure else 'nothing'}; recomputed: {values[name]:.9g}")
        elif name not in values:
            silent.append(name)
        elif not abs(figure.value - values[name]) <= _tolerance(name, figure, values[name]):
            lines.append(f"{name}: stored: {figure.value:.9g}; recomputed: {values[name]:.9g}")
    if silent:
        lines.append(f"{', '.join(silent)}: cannot be recomputed: {EVENTS_FILE} and {SAMPLES_FILE} do not show it")
    return lines


def _hides_others(result: TrialResult, name: str, value: float) -> bool:
    """True if a trial called ok does not say what others took, although that made it contended."""
    if result.status is not Status.OK or not value > OTHERS.get(name, math.inf):
        return False
    version = result.machine.get("measurement_version")
    return name in result.figures or name != OF_EPOCHS or (isinstance(version, int) and version >= EPOCHS_SINCE)


def _recompute(result: TrialResult, events: Events, samples: Samples, of_gpus: Sequence[Samples]) -> Values:
    """Compute the values that events and samples give; GPUs' energy and power by the method that the result names."""
    window, threads = list_segments(events), result.spec.placement.threads
    values = recompute_from_events(events, result.spec.passes.epochs, result.spec.placement.devices)
    values |= recompute_foreign_percent(events, samples, threads)
    if window:
        values = recompute_from_samples(samples, window, threads, _quota_cores(result)) | values
        values |= recompute_gpu_usage(of_gpus, window)
        figures = result.figures
        counted = {name for name in COUNTED if name in figures and figures[name].method is Method.COUNTER}
        read = recompute_gpu_power(of_gpus, window, registry.read_value(figures, registry.POWER))
        values |= {name: value for name, value in read.items() if name not in counted}
        values |= {name: value for name, value in recompute_gpu_energy(of_gpus, window).items() if name in counted}
    return values


def _tolerance(name: str, figure: Figure, recomputed: float) -> float:
    if name in READ and figure.method is not Method.COUNTER:
        return ENERGY_TOLERANCE * abs(recomputed)
    if name in (registry.GPU_USAGE.name, registry.GPU_BUSY.name, registry.THROTTLED.name):
        return GPU_POINTS
    if name in (registry.SM_CLOCK.name, registry.MEMORY_CLOCK.name):
        return CLOCKS * recomputed
    return USAGE_POINTS if name in (*USAGE, OF_EPOCHS) else RELATIVE * abs(recomputed)


def recompute_from_events(events: Events, epochs: int, devices: int = 1) -> Values:
    """Compute start-up times, accuracy, and for the window its length, speed and peak memory by the kernel.

    The peak is computed only for a single device.
    """
    by_name = {event["event"]: event for event in events}
    values = {}
    for name, (start, end) in START_UP.items():
        if start in by_name and end in by_name:
            # On a GPU the worker waits for the sampler after opening the device, which is not loading.
            waited = name == registry.LOAD.name and Event.CONTEXT_SAMPLED in by_name
            since = by_name[Event.CONTEXT_SAMPLED if waited else start]
            values[name] = (by_name[end]["t_ns"] - since["t_ns"]) / 1e9
    evaluated = [event for event in events if event["event"] == Event.EPOCH_EVALUATED]
    if evaluated and len(evaluated) == epochs and evaluated[-1].get("test_accuracy") is not None:
        values[registry.ACCURACY.name] = evaluated[-1]["test_accuracy"]
    if window := list_segments(events):
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
    """CPU quota of the worker's control groups, in cores; infinite if there is none."""
    figure = result.figures.get(registry.CPU_QUOTA.name)
    return math.inf if figure is None or figure.value is None else float(figure.value)


def recompute_from_samples(
    samples: Samples, window: list[Segment], threads: int, quota_cores: float = math.inf
) -> Values:
    """Compute CPU usage and throttling in %, the processor's energy, and the peak resident size of the process tree."""
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


def recompute_foreign_percent(events: Events, samples: Samples, threads: int) -> Values:
    """Share of the cores that other processes took from `built` to the last evaluation, in percent.

    Empty for fewer than FEWEST_SAMPLES.
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


def recompute_gpu_usage(every: Sequence[Samples], window: list[Segment]) -> Values:
    """Mean usage of all GPUs in %, if each has enough readings."""
    polled = [_readings(samples, "gpu_percent", window, GPU_PERIOD_S) for samples in every]
    if min(map(len, polled)) < FEWEST_SAMPLES:
        return {}
    return {registry.GPU_USAGE.name: float(np.mean([each.mean() for each in polled]))}


def recompute_gpu_energy(every: Sequence[Samples], window: list[Segment]) -> Values:
    """Energy in J over a window of one segment, by the counters of all GPUs, and power in W.

    Empty if one GPU has no counter that moves.
    """
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
        if first == last:  # it stands still, and tells nothing
            return {}
        joules += (last - first) / 1e3
    return {registry.ENERGY.name: joules, registry.POWER.name: joules / (edges[1] - edges[0]) * 1e9}


def recompute_gpu_power(every: Sequence[Samples], window: list[Segment], stored_w: float | None) -> Values:
    """Energy in J over a window of one segment, and mean power in W, by readings of the power of all GPUs.

    Some drivers' readings are means of the second before, and readings without the usage may be left out: of the means
    with and without those, the one nearest to the stored power counts. Empty if one GPU has no reading.
    """
    if len(window) > 1:
        return {}
    (edges,) = window
    joules, means = 0.0, []
    for samples in every:
        known = ~np.isnan(samples["power_mw"])
        times, powers = samples["t_ns"][known], samples["power_mw"][known]
        if not len(times):
            return {}
        at = np.unique([*edges, *times[(times > edges[0]) & (times < edges[1])]])
        watts = np.interp(at, times, powers) / 1e3
        joules += float(np.sum((watts[1:] + watts[:-1]) / 2 * np.diff(at))) / 1e9
    for period_s, column in itertools.product((0.0, GPU_PERIOD_S), ("power_mw", "gpu_percent")):
        known_in_both = ({**each, "power_mw": each["power_mw"] + 0 * each[column]} for each in every)
        inside = [_readings(each, "power_mw", window, period_s) for each in known_in_both]
        if all(map(len, inside)):
            means.append(sum(float(readings.mean()) for readings in inside) / 1e3)
    nearest = {registry.POWER.name: min(means, key=lambda mean: abs(mean - (stored_w or 0.0)))} if means else {}
    return {registry.ENERGY.name: joules, registry.ENERGY_INTEGRATED.name: joules} | nearest


def _increases(samples: Samples, column: str, window: list[Segment]) -> tuple[np.ndarray, np.ndarray] | None:
    """Return (seconds, increase) of a running sum between the readings of the window.

    In a window of one segment the edges are interpolated. If there is no reading after its end, the last reading ends
    it. Returns None if no segment has two readings.
    """
    known = ~np.isnan(samples[column])
    times, sums = samples["t_ns"][known], samples[column][known]
    if len(_readings(samples, column, window, PERIOD_S)) < 2:
        return None
    if len(window) == 1:
        inside = times[(times >= window[0][0] + PERIOD_S * 1e9) & (times <= window[0][1])]
        at = [np.unique([window[0][0], *inside, min(window[0][1], times.max())])]
    else:  # for short segments the sum at an edge is unknown
        at = [times[(times >= start) & (times <= end)] for start, end in window]
    lengths = np.concatenate([np.diff(each) / 1e9 for each in at])
    if not len(lengths):
        return None
    return lengths, np.concatenate([np.diff(np.interp(each, times, sums)) for each in at])


def _readings(samples: Samples, column: str, window: list[Segment], period_s: float) -> np.ndarray:
    """Select the known readings that describe the window only; a reading covers the last `period_s`."""
    times, values = samples["t_ns"], samples[column]
    known = np.zeros(len(times), bool)
    for start, end in window:
        known |= (times >= start + period_s * 1e9) & (times <= end) & ~np.isnan(values)
    return values[known]
