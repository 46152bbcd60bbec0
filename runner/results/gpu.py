"""The figures of a GPU over the steady window, each with its source, or with the reason why it has no value."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runner.results.gpu_window import Account, Cut, Floats, Readings, one_a_moment
from runner.results.window import NO_WINDOW, all_unknown, unknown
from workloads.records import figures as registry
from workloads.records.events import Event
from workloads.records.figures import Figure, Method
from workloads.records.samples import Samples
from workloads.records.steady_window import SteadyWindow

DRIVER_SAMPLES = 10  # with fewer in the window its utilisation is polled
GPM_COLUMNS = tuple(spec.name for spec in registry.GPM)  # the sampler's columns are called as the figures
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


def gpu_figures(events: dict[str, Any], samples: Samples, driver: Samples, meter: dict[str, Any]) -> dict[str, Figure]:
    """Every one of NAMES; null where the trial did not get to the end of its window, or that has several segments:
    readings look back up to a second, and the driver does not say from when.
    """
    if (window := SteadyWindow.of(events)) is None:
        return dict.fromkeys(NAMES, unknown("NVML", NO_WINDOW))
    if len(window.segments) > 1:
        return dict.fromkeys(NAMES, unknown("NVML", f"the steady window is cut into {len(window.segments)} segments"))
    readings = Readings(meter.get("gpu") or {}, window.edges, samples, driver)
    images = events[Event.WINDOW_ENDED]["images"]
    return {
        **utilisation(readings),
        **{column: gpm(readings, column) for column in GPM_COLUMNS},
        **power(readings),
        **energy(readings, images),
        registry.SM_CLOCK.name: summary(readings, "sm_clock_mhz", "mean"),
        registry.MEMORY_CLOCK.name: summary(readings, "memory_clock_mhz", "mean"),
        registry.TEMPERATURE.name: summary(readings, "temperature_c", "max"),
        registry.POWER_LIMIT.name: summary(readings, "power_limit_mw", "min", 1e-3),
        registry.THROTTLED.name: throttled(readings),
    }


def summary(readings: Readings, column: str, how: str, scale: float = 1.0) -> Figure:
    """`how` is mean, max or min of the readings in the window."""
    word = {"mean": "mean over", "max": "highest in", "min": "lowest in"}[how]
    source = f"{readings.source(column)}, {word} the steady window"
    return readings.inside(column).figure(source, getattr(np, how), scale)


def utilisation(readings: Readings) -> dict[str, Figure]:
    """From the driver's own samples where enough of them lie in the window, else polled."""
    driver = _driver_samples(readings)
    if isinstance(driver, str):
        source = f"{readings.source('gpu_percent')} polled at 10 Hz (driver's own samples: {driver})"
        polled = readings.inside("gpu_percent")
        if polled.gap is not None:
            return all_unknown((registry.GPU_USAGE, registry.GPU_BUSY), source, polled.gap)
        values, method = polled.values, Method.POLLED
    else:
        source, values, method = readings.source("driver_samples"), driver, Method.DRIVER_SAMPLES
    mean = Figure(float(values.mean()), f"{source}, mean over the steady window", len(values), method=method)
    busy = _busy(values, values > 0, f"{source}, mean of samples above 0")
    return {registry.GPU_USAGE.name: mean, registry.GPU_BUSY.name: replace(busy, method=method)}


def _busy(values: Floats, busy: NDArray[np.bool_], source: str) -> Figure:
    if not busy.any():
        return unknown(source, "the GPU was in use in none of the samples")
    return Figure(float(values[busy].mean()), source, int(busy.sum()))


def _driver_samples(readings: Readings) -> Floats | str:
    """Values of the driver's samples whose period lies in the window; or why they are not taken."""
    silence = readings.silence("driver_samples", "gpu_percent")
    driver = one_a_moment(readings.driver)
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


def gpm(readings: Readings, column: str) -> Figure:
    """A row holds the mean since the row before that has any of the columns: pairs wholly in the window, by length."""
    source = f"{readings.source('gpm')} (registry.GPM), mean over the steady window, weighted by time"
    ended = ~np.all([np.isnan(readings.samples[name]) for name in GPM_COLUMNS], axis=0)
    times, values = readings.samples["t_ns"][ended], readings.samples[column][ended]
    whole = np.zeros(len(times), bool)
    whole[1:] = (times[:-1] >= readings.edges[0]) & (times[1:] <= readings.edges[1]) & ~np.isnan(values[1:])
    cut = Cut(times[whole], values[whole], readings.gap(times[:-1][whole[1:]], times[whole], "gpm", column))
    lengths = np.diff(times, prepend=np.nan)[whole]
    return cut.figure(source, lambda means: np.average(means, weights=lengths))


def power(readings: Readings) -> dict[str, Figure]:
    """Over all samples, and over those at which the GPU was in use.

    Where that is known, the samples at which it is not are left out of both: else they could be the highest of all.
    """
    mean = summary(readings, "power_mw", "mean", 1e-3)
    source = f"{readings.source('power_mw')}, mean of samples with utilisation above 0 in the steady window"
    powers = readings.inside("power_mw")
    gap = powers.gap or readings.inside("gpu_percent").gap
    if gap is not None:
        return {registry.POWER.name: mean, registry.POWER_BUSY.name: unknown(source, gap)}
    used = readings.samples["gpu_percent"][np.isin(readings.samples["t_ns"], powers.times)]
    known = ~np.isnan(used)
    watts = powers.values[known] / 1e3
    if known.any() and not known.all():
        reduced = f"{mean.source}; {np.sum(~known)} readings without the utilisation left out"
        mean = Figure(float(powers.values[known].mean()) / 1e3, reduced, int(known.sum()))
    return {registry.POWER.name: mean, registry.POWER_BUSY.name: _busy(watts, used[known] > 0, source)}


def energy(readings: Readings, images: int) -> dict[str, Figure]:
    """Joules over the window: by the device's counter where it has one, else integrated from its power."""
    integrated = _integrated(readings)
    counted = _counted(readings)
    if counted.value is None and integrated.value is not None:
        counted = replace(integrated, source=f"{integrated.source}; no counter: {counted.reason}")
    if counted.value is None:
        per_image = counted
    else:
        source = f"{counted.source}; by the images of the window"
        per_image = replace(counted, value=counted.value / images, source=source)
    return {
        registry.ENERGY.name: counted,
        registry.ENERGY_INTEGRATED.name: integrated,
        registry.ENERGY_PER_IMAGE.name: per_image,
    }


def _counted(readings: Readings) -> Figure:
    source = f"{readings.source('energy_mj')}, difference between the edges of the steady window"
    sums = readings.around("energy_mj", holes=True)
    if sums.gap is None and np.any(np.diff(sums.values) < 0):
        return unknown(source, "the counter went back")
    counted = sums.figure(source, lambda values: np.diff(np.interp(readings.edges, sums.times, values))[0] / 1e3)
    if counted.value is None:
        return counted
    return replace(counted, samples=len(readings.inside("energy_mj", holes=True).times), method=Method.COUNTER)


def _integrated(readings: Readings) -> Figure:
    source = f"{readings.source('power_mw')}, integrated over the steady window (trapezoids)"
    powers = readings.around("power_mw")
    if powers.gap is not None:
        return unknown(source, powers.gap)
    times, edges = powers.times, readings.edges
    within = (times > edges[0]) & (times < edges[1])
    at = np.concatenate([[edges[0]], times[within], [edges[1]]])
    watts = np.interp(at, times, powers.values) / 1e3
    joules = np.sum((watts[1:] + watts[:-1]) / 2 * np.diff(at / 1e9))  # numpy's own has two names
    return Figure(float(joules), source, int(within.sum()), method=Method.INTEGRATED)


def throttled(readings: Readings) -> Figure:
    """Share of the samples at which something slowed the clocks down."""
    source = f"{readings.source('throttle_reasons')}, share of samples in the steady window"
    masks = readings.inside("throttle_reasons")
    if masks.gap is not None:
        return unknown(source, masks.gap)
    bits = masks.values.astype(np.int64)
    seen = [word for bit, word in SLOWING.items() if (bits & bit).any()]
    share = 100 * float(((bits & sum(SLOWING)) != 0).mean())
    return Figure(share, f"{source}; {', '.join(seen) or 'nothing slowed the clocks'}", len(bits))


def memory_accounts(figures: dict[str, Figure], meter: dict[str, Any]) -> dict[str, Figure]:
    """The figures of device memory with the call that told them, or the driver's reason where none did.

    Where the list of processes tells no memory of the worker's, the device's rise stands for it.
    """
    account = Account(meter.get("gpu") or {})
    device = (registry.DEVICE_MEMORY, registry.DEVICE_BASELINE, registry.DEVICE_RISE)
    columns = [(registry.PROCESS_GPU_MEMORY, "processes", "process_memory_bytes")]
    columns += [(spec, "device_memory_bytes", "device_memory_bytes") for spec in device]
    explained = {}
    for spec, metric, column in columns:
        figure, silence = figures[spec.name], account.silence(metric, column)
        if figure.value is None and silence:
            explained[spec.name] = replace(figure, reason=silence)
        elif figure.value is not None and account.metric(metric).get("source"):
            explained[spec.name] = replace(figure, source=f"{figure.source} ({account.source(metric)})")
    rise, process = figures[registry.DEVICE_RISE.name], figures[registry.PROCESS_GPU_MEMORY.name]
    if process.value is None and rise.value is not None:
        reason = account.silence("processes", "process_memory_bytes") or process.reason
        call = account.source("device_memory_bytes")
        source = f"{call}: highest of the trial, less its baseline; the list of processes did not give it: {reason}"
        explained[registry.PROCESS_GPU_MEMORY.name] = replace(rise, source=source, method=Method.DEVICE_RISE)
    return explained
