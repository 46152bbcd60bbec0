"""The figures of one GPU or of several over the steady window, each with its source, or why it has no value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from runner.results.gpu_power import compute_busy_mean, compute_power_and_energy
from runner.results.gpu_window import Account, Cut, Floats, Readings, check_alone, drop_repeated_times
from runner.results.memory import collect_device
from runner.results.window import NO_WINDOW, make_all_unknown, make_unknown
from workloads.records import figures as registry
from workloads.records.columns import DRIVER_COLUMNS
from workloads.records.events import Event, Events
from workloads.records.figures import Figure, Method
from workloads.records.files import OTHER_DRIVER_SAMPLES_FILE, OTHER_SAMPLES_FILE
from workloads.records.job import TrialSpec
from workloads.records.result import Check
from workloads.records.samples import Samples, SteadyWindow, read_samples

DRIVER_SAMPLES = 10  # with fewer in the window its utilisation is polled
GPM_COLUMNS = tuple(spec.name for spec in registry.GPM)  # the sampler's columns are named like the figures
NAMES = tuple(spec.name for spec in registry.FIGURES.values() if spec.device == "cuda" and spec.windowed)

# Reasons why a clock is not higher, by NVML's bits. An idle GPU and clocks set by the user are not slowed down.
SLOWING = {
    0x004: "software power cap",
    0x008: "hardware slowdown",
    0x010: "sync boost",
    0x020: "software thermal slowdown",
    0x040: "hardware thermal slowdown",
    0x080: "hardware power brake",
    0x100: "display clock setting",
}


def compute_gpu_figures(
    events: dict[str, Any], samples: Samples, driver: Samples, meter: dict[str, Any]
) -> dict[str, Figure]:
    """Return every one of NAMES; null if the trial did not reach the end of its window, or that has several
    segments. Readings look back up to a second, and the driver does not say since when.
    """
    if (window := SteadyWindow.read(events)) is None:
        return dict.fromkeys(NAMES, make_unknown("NVML", NO_WINDOW))
    if len(window.segments) > 1:
        return dict.fromkeys(
            NAMES, make_unknown("NVML", f"the steady window is cut into {len(window.segments)} segments")
        )
    readings = Readings(meter.get("gpu") or {}, window.edges, samples, driver)
    images = events[Event.WINDOW_ENDED]["images"]
    return {
        **compute_utilisation(readings),
        **{column: average_gpm(readings, column) for column in GPM_COLUMNS},
        **compute_power_and_energy(readings, images),
        registry.SM_CLOCK.name: summarise(readings, "sm_clock_mhz", "mean"),
        registry.MEMORY_CLOCK.name: summarise(readings, "memory_clock_mhz", "mean"),
        registry.TEMPERATURE.name: summarise(readings, "temperature_c", "max"),
        registry.POWER_LIMIT.name: summarise(readings, "power_limit_mw", "min", 1e-3),
        registry.THROTTLED.name: compute_throttled_share(readings),
    }


def summarise(readings: Readings, column: str, how: str, scale: float = 1.0) -> Figure:
    """Reduce the readings in the window; `how` is mean, max or min."""
    word = {"mean": "mean over", "max": "highest in", "min": "lowest in"}[how]
    delay = "" if how == "min" else readings.delay  # a lowest reading is a limit's, which no load changes
    source = f"{readings.source(column)}, {word} the steady window{delay}"
    return readings.inside(column).figure(source, getattr(np, how), scale)


def compute_utilisation(readings: Readings) -> dict[str, Figure]:
    """Return the usage from the driver's own samples if enough of them lie in the window, else polled."""
    driver = _driver_samples(readings)
    if isinstance(driver, str):
        polled_source = f"{readings.source('gpu_percent')} polled at 10 Hz (driver's own samples: {driver})"
        source = f"{polled_source}{readings.delay}"
        polled = readings.inside("gpu_percent")
        if polled.gap is not None:
            return make_all_unknown((registry.GPU_USAGE, registry.GPU_BUSY), source, polled.gap)
        values, method = polled.values, Method.POLLED
    else:
        source, values, method = readings.source("driver_samples"), driver, Method.DRIVER_SAMPLES
    mean = Figure(float(values.mean()), f"{source}, mean over the steady window", len(values), method=method)
    busy = compute_busy_mean(values, values > 0, f"{source}, mean of samples above 0")
    return {registry.GPU_USAGE.name: mean, registry.GPU_BUSY.name: replace(busy, method=method)}


def _driver_samples(readings: Readings) -> Floats | str:
    """Return values of the driver's samples whose period lies in the window, or why they are not used."""
    silence = readings.explain_missing("driver_samples", "gpu_percent")
    driver = drop_repeated_times(readings.driver)
    times = driver["t_ns"]
    whole = np.zeros(len(times), bool)
    whole[1:] = (times[:-1] >= readings.edges[0]) & (times[1:] <= readings.edges[1])
    if whole.sum() < DRIVER_SAMPLES:
        return silence or f"{whole.sum()} in the window"
    inside = times[(times >= readings.edges[0]) & (times <= readings.edges[1])]
    hole_ns = float(np.diff(np.concatenate([readings.edges[:1], inside, readings.edges[1:]])).max())
    if hole_ns > 3 * float(np.median(np.diff(times))):
        return "; ".join(filter(None, [f"none for {hole_ns / 1e9:.1f} s", silence]))
    return driver["gpu_percent"][whole]


def average_gpm(readings: Readings, column: str) -> Figure:
    """Average a column over the window. A row holds the mean since the previous row with any of the columns, so
    pairs wholly in the window count by length.
    """
    source = f"{readings.source('gpm')} (GPM), mean over the steady window, weighted by time"
    ended = ~np.all([np.isnan(readings.samples[name]) for name in GPM_COLUMNS], axis=0)
    times, values = readings.samples["t_ns"][ended], readings.samples[column][ended]
    whole = np.zeros(len(times), bool)
    whole[1:] = (times[:-1] >= readings.edges[0]) & (times[1:] <= readings.edges[1]) & ~np.isnan(values[1:])
    cut = Cut(times[whole], values[whole], readings.gap(times[:-1][whole[1:]], times[whole], "gpm", column))
    lengths = np.diff(times, prepend=np.nan)[whole]
    return cut.figure(source, lambda means: np.average(means, weights=lengths))


def compute_throttled_share(readings: Readings) -> Figure:
    """Return the share of the samples at which something slowed the clocks down."""
    source = f"{readings.source('throttle_reasons')}, share of samples in the steady window"
    masks = readings.inside("throttle_reasons")
    if masks.gap is not None:
        return make_unknown(source, masks.gap)
    bits = masks.values.astype(np.int64)
    seen = [word for bit, word in SLOWING.items() if (bits & bit).any()]
    share = 100 * float(((bits & sum(SLOWING)) != 0).mean())
    return Figure(share, f"{source}; {', '.join(seen) or 'nothing slowed the clocks'}", len(bits))


def add_memory_accounts(figures: dict[str, Figure], meter: dict[str, Any]) -> dict[str, Figure]:
    """Add to the figures of device memory the call that reported them, or the driver's reason if none did.

    If the list of processes reports no memory of the worker's, the device's rise is used for it.
    """
    account = Account(meter.get("gpu") or {})
    device = (registry.DEVICE_MEMORY, registry.DEVICE_BASELINE, registry.DEVICE_RISE)
    columns = [(registry.PROCESS_GPU_MEMORY, "processes", "process_memory_bytes")]
    columns += [(spec, "device_memory_bytes", "device_memory_bytes") for spec in device]
    explained = {}
    for spec, metric, column in columns:
        figure, silence = figures[spec.name], account.explain_missing(metric, column)
        if figure.value is None and silence:
            explained[spec.name] = replace(figure, reason=silence)
        elif figure.value is not None and account.metric(metric).get("source"):
            explained[spec.name] = replace(figure, source=f"{figure.source} ({account.source(metric)})")
    rise, process = figures[registry.DEVICE_RISE.name], figures[registry.PROCESS_GPU_MEMORY.name]
    if process.value is None and rise.value is not None:
        reason = account.explain_missing("processes", "process_memory_bytes") or process.reason
        call = account.source("device_memory_bytes")
        source = f"{call}: highest of the trial, less its baseline; the list of processes did not give it: {reason}"
        explained[registry.PROCESS_GPU_MEMORY.name] = replace(rise, source=source, method=Method.DEVICE_RISE)
    return explained


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


def read_other_gpus(trial_dir: Path, spec: TrialSpec, meter: dict[str, Any]) -> tuple[OfGpu, ...]:
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


def combine_gpus(events: dict[str, Any], gpus: Sequence[OfGpu]) -> dict[str, Figure]:
    """Return the combined figures of the GPUs; a single one's are returned unchanged."""
    first, *others = every = [collect_gpu_figures(events, each) for each in gpus]
    return {name: combine_figure(name, [figures[name] for figures in every]) for name in first} if others else first


def collect_gpu_figures(events: dict[str, Any], gpu: OfGpu) -> dict[str, Figure]:
    """Return the figures of one GPU."""
    held = collect_device(events, gpu.samples)
    return held | compute_gpu_figures(events, gpu.samples, gpu.driver, gpu.meter) | add_memory_accounts(held, gpu.meter)


def combine_figure(name: str, figures: Sequence[Figure]) -> Figure:
    """Combine one figure of several GPUs; unknown if it is unknown for one of them."""
    how, reduce = _rule(name)
    for number, figure in enumerate(figures, start=1):
        if figure.value is None:
            return make_unknown(figure.source, f"GPU {number} of {len(figures)}: {figure.reason}")
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


def count_others(gpus: Sequence[OfGpu]) -> dict[str, Figure]:
    """Return FOREIGN_PROCESSES: the most that were on one of them; `check_alone_on_all` says who was there and when."""
    source = "NVML: lists of the processes on the device, the most before, during and after the worker's life"
    counts = np.concatenate([each.samples["foreign_processes"] for each in gpus])
    known = counts[~np.isnan(counts)]
    figure = (
        Figure(int(known.max()), source, len(known)) if len(known) else make_unknown(source, "there was no such list")
    )
    return {registry.FOREIGN_PROCESSES.name: figure}


def check_alone_on_all(gpus: Sequence[OfGpu], events: Events) -> Check:
    """Check that the worker had each GPU to itself."""
    checks = [check_alone(each.samples, each.meter, events) for each in gpus]
    if len(checks) == 1:
        return checks[0]
    told = [f"GPU {number}: {check.detail}" for number, check in enumerate(checks, start=1)]
    failed = [line for line, check in zip(told, checks, strict=True) if not check.passed]
    return Check(checks[0].name, not failed, "; ".join(failed or told))
