"""The figures of one trial: speed, usage and memory, cut from events and samples by the steady window."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runner.meter import COLUMNS, PERIOD_S
from workloads.trial import Event, Figure, TrialSpec

NVML_PERIOD_S = 1.0  # the driver's utilisation rate covers the last 1/6 to 1 s

Samples = dict[str, NDArray[np.float64]]


def read_samples(path: Path) -> Samples:
    """Columns as float arrays, NaN where a cell is empty; a last row that a kill cut short is left out."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if None not in row.values()]
    return {name: np.array([float(row[name] or "nan") for row in rows]) for name in COLUMNS}


def window(found: dict[str, Any]) -> tuple[float, float] | None:
    """Edges of the steady window, in ns of the monotonic clock; None where the trial did not get that far."""
    if Event.WINDOW_ENDED not in found:
        return None
    return found[Event.WINDOW_STARTED]["t_ns"], found[Event.WINDOW_ENDED]["t_ns"]


NO_WINDOW = "the trial did not reach the end of its steady window"


def unknown(source: str, reason: str) -> Figure:
    return Figure(None, source, reason=reason)


def speed(found: dict[str, Any]) -> dict[str, Figure]:
    source = "worker: steady window, synchronised at its edges"
    edges = window(found)
    if edges is None:
        return dict.fromkeys(("window_s", "images_per_s", "step_time_s"), unknown(source, NO_WINDOW))
    window_s = (edges[1] - edges[0]) / 1e9
    ended = found[Event.WINDOW_ENDED]
    return {
        "window_s": Figure(window_s, source),
        "images_per_s": Figure(ended["images"] / window_s, f"{source}; images handed to the framework"),
        "step_time_s": Figure(window_s / ended["steps"], f"{source}; losses returned", samples=ended["steps"]),
    }


def in_window(samples: Samples, edges: tuple[float, float], period_s: float = PERIOD_S) -> NDArray[np.bool_]:
    """A reading at t describes the period before t: readings whose period starts before the window are left out."""
    return (samples["t_ns"] >= edges[0] + period_s * 1e9) & (samples["t_ns"] <= edges[1])


def _rate(samples: Samples, column: str, edges: tuple[float, float]) -> tuple[float | None, int]:
    """Mean rate of a running sum over the window, edges interpolated; and the samples inside."""
    known = ~np.isnan(samples[column])
    inside = known & in_window(samples, edges)
    if inside.sum() < 2 or samples["t_ns"][known][-1] < edges[1] - 3 * PERIOD_S * 1e9:
        return None, int(inside.sum())
    sums = np.interp(edges, samples["t_ns"][known], samples[column][known])
    return float((sums[1] - sums[0]) / ((edges[1] - edges[0]) / 1e9)), int(inside.sum())


def usage(found: dict[str, Any], samples: Samples, spec: TrialSpec) -> dict[str, Figure]:
    """CPU %: of the cores allotted (`threads`); foreign CPU %: what others, the sampler too, took of the same cores."""
    source = "sampler at 10 Hz: user and system time of the process tree over the steady window"
    edges = window(found)
    if edges is None:
        return {name: unknown(source, NO_WINDOW) for name in ("cpu_percent", "foreign_cpu_percent", "gpu_percent")}
    own, count = _rate(samples, "cpu_s", edges)
    machine, _ = _rate(samples, "cores_cpu_s", edges)
    few = f"{count} samples in the window"
    figures: dict[str, Figure] = {}
    if own is None or machine is None:
        figures["cpu_percent"] = figures["foreign_cpu_percent"] = unknown(source, few)
    else:
        figures["cpu_percent"] = Figure(100 * own / spec.threads, source, count)
        foreign = Figure(
            100 * max(0.0, machine - own) / spec.threads,
            "sampler at 10 Hz: busy time of the allotted cores less the trial's",
            count,
        )
        figures["foreign_cpu_percent"] = foreign
    gpu_source = "NVML utilisation rate polled at 10 Hz, mean over the steady window"
    gpu = samples["gpu_percent"][in_window(samples, edges, NVML_PERIOD_S)]
    gpu = gpu[~np.isnan(gpu)]
    if spec.device == "cpu":
        figures["gpu_percent"] = unknown(gpu_source, "the trial ran on the CPU")
    elif len(gpu):
        figures["gpu_percent"] = Figure(float(gpu.mean()), gpu_source, len(gpu))
    else:
        figures["gpu_percent"] = unknown(gpu_source, "NVML gave no utilisation for this device")
    return figures


def memory(found: dict[str, Any], samples: Samples, spec: TrialSpec) -> dict[str, Figure]:
    """Bytes: host resident size in the window and over the trial; device memory; what the adapter counted."""
    edges = window(found)
    inside = in_window(samples, edges) if edges else np.zeros(len(samples["t_ns"]), bool)
    figures = {
        "host_memory_bytes": _highest(
            samples["host_memory_bytes"][inside], "resident size of the process tree, highest in the steady window"
        ),
        "host_memory_peak_bytes": _highest(
            samples["host_memory_bytes"], "resident size of the process tree, highest of the whole trial"
        ),
    }
    if spec.device != "cpu":
        device = samples["device_memory_bytes"]
        # The process list is read once a second and the frameworks' pools only grow, so the whole trial is searched.
        process = _highest(samples["process_memory_bytes"], "NVML memory of the process, highest of the trial")
        baseline = _highest(device[:1], "NVML memory used on the device before the trial")
        peak = _highest(device, "NVML memory used on the device, highest of the trial")
        if process.value is None and peak.value is not None and baseline.value is not None:
            source = "NVML memory used on the device less its baseline: the driver lists no such process (a container?)"
            process = Figure(peak.value - baseline.value, source, peak.samples)
        figures["process_gpu_memory_bytes"] = process
        figures["device_memory_bytes"] = peak
        figures["device_memory_baseline_bytes"] = baseline
    for kind, counted in found.get(Event.FINISHED, {}).get("memory", {}).items():
        source = "the framework's adapter, at the end of the trial"
        figures[f"{kind}_bytes"] = (
            Figure(counted, source) if counted is not None else unknown(source, "the framework does not tell here")
        )
    return figures


def _highest(values: NDArray[np.float64], source: str) -> Figure:
    known = values[~np.isnan(values)]
    if not len(known):
        return unknown(source, "no sample gave it")
    return Figure(float(known.max()), source, len(known))
