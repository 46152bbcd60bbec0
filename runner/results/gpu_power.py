"""Power and energy of a GPU over the steady window, each with its error.

If the device counts its energy, the mean power is energy over time: readings of a power that swings with the steps may
all lie at its top. Without a counter it is the mean of the readings. Its interval comes from the spread of their
blocks, and also holds if successive readings are alike.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from runner.results.gpu_window import Cut, Floats, Readings
from runner.results.window import make_unknown
from workloads.records import figures as registry
from workloads.records.figures import Figure, Method
from workloads.statistics import CONFIDENCE_PERCENT, estimate_mean

SHORTEST_BLOCK_S = 0.5  # several steps, and several readings; longer if a reading looks back further
FEWEST_BLOCKS, MOST_BLOCKS = 3, 10


def compute_power_and_energy(readings: Readings, images: int) -> dict[str, Figure]:
    """Return figures of power and energy, the device's counter first."""
    window_s = (readings.edges[1] - readings.edges[0]) / 1e9
    counted, resolution_j = _counted(readings)
    integrated, sampled_error_w = _integrated(readings), _sampled_error(readings)
    mean, busy = _sampled_power(readings)
    if counted.value is not None:
        source = f"{counted.source}; by the seconds of the window"
        mean = replace(counted, value=counted.value / window_s, source=source)
        error = _scaled(resolution_j, 1 / window_s, "; by the seconds of the window")
        resolution = _scaled(resolution_j, 100 / counted.value, "; by the energy of the window")
    else:
        error, resolution = sampled_error_w, resolution_j
    energy = counted
    if counted.value is None and integrated.value is not None:
        energy = replace(integrated, source=f"{integrated.source}; no counter: {counted.reason}")
    return {
        registry.POWER.name: mean,
        registry.POWER_ERROR.name: error,
        registry.POWER_BUSY.name: busy,
        registry.ENERGY.name: energy,
        registry.ENERGY_RESOLUTION.name: resolution,
        registry.ENERGY_INTEGRATED.name: integrated,
        registry.ENERGY_INTEGRATED_ERROR.name: _scaled(sampled_error_w, window_s, "; times the window"),
        registry.ENERGY_PER_IMAGE.name: _scaled(energy, 1 / images, "; by the images of the window"),
    }


def compute_busy_mean(values: Floats, busy: NDArray[np.bool_], source: str) -> Figure:
    """Return the mean of the samples in which the GPU was in use."""
    if not busy.any():
        return make_unknown(source, "the GPU was in use in none of the samples")
    return Figure(float(values[busy].mean()), source, int(busy.sum()))


def _scaled(figure: Figure, factor: float, words: str) -> Figure:
    """Return the figure times the factor, with the words after its source; a null one stays as it is."""
    if figure.value is None:
        return figure
    return replace(figure, value=figure.value * factor, source=f"{figure.source}{words}")


def _sampled_power(readings: Readings) -> tuple[Figure, Figure]:
    """Return (mean of all samples, mean of those at which the GPU was in use), in W.

    If utilisation is known, samples without it are left out of both: otherwise they could be the highest of all.
    """
    powers, call = readings.inside("power_mw"), readings.source("power_mw")
    whole = powers.figure(f"{call}, mean over the steady window{readings.delay}", np.mean, 1e-3)
    mean = replace(whole, method=Method.POLLED)
    source = f"{call}, mean of samples with utilisation above 0 in the steady window"
    gap = powers.gap or readings.inside("gpu_percent").gap
    if gap is not None:
        return mean, make_unknown(source, gap)
    used = readings.samples["gpu_percent"][np.isin(readings.samples["t_ns"], powers.times)]
    known = ~np.isnan(used)
    watts = powers.values[known] / 1e3
    if known.any() and not known.all():
        reduced = f"{mean.source}; {np.sum(~known)} readings without the utilisation left out"
        mean = replace(mean, value=float(watts.mean()), source=reduced, samples=int(known.sum()))
    return mean, compute_busy_mean(watts, used[known] > 0, source)


def _sampled_error(readings: Readings) -> Figure:
    """Return half of the 95 % interval of the mean power by its readings, W: Student's t over means of time blocks."""
    source = f"{readings.source('power_mw')}, half of the {CONFIDENCE_PERCENT} % interval of the mean, by means of"
    powers = readings.inside("power_mw")
    if powers.gap is not None:
        return make_unknown(f"{source} blocks", powers.gap)
    block_s = max(SHORTEST_BLOCK_S, readings.metric("power_mw").get("period_s") or 0.0)
    count = min(MOST_BLOCKS, int((powers.times[-1] - powers.times[0]) / 1e9 / block_s))
    if count < FEWEST_BLOCKS:
        return make_unknown(
            f"{source} blocks", f"the readings fill {count} blocks of {block_s:g} s, {FEWEST_BLOCKS} needed"
        )
    edges = np.linspace(powers.times[0], powers.times[-1], count + 1)[1:-1]
    blocks = np.split(powers.values / 1e3, np.searchsorted(powers.times, edges))
    means = [float(block.mean()) for block in blocks if len(block)]
    half = estimate_mean(means).half_width
    return Figure(half, f"{source} {len(means)} blocks", len(powers.values), method=Method.POLLED)


def _counted(readings: Readings) -> tuple[Figure, Figure]:
    """Return (energy of the window by the device's counter, a step of it at an edge: what it may hide), in J."""
    source = f"{readings.source('energy_mj')}, difference between the edges of the steady window"
    sums = readings.around("energy_mj", holes=True)
    if sums.gap is None and np.any(np.diff(sums.values) < 0):
        sums = replace(sums, gap="the counter went back")
    if sums.gap is None and not _rise(sums, readings.edges):  # as some virtual cards have it: no measurement
        sums = replace(sums, gap="the counter stood still in the window")
    counted = sums.figure(source, lambda _: _rise(sums, readings.edges) / 1e3)
    if counted.value is None:
        return counted, make_unknown(source, str(counted.reason))
    counted = replace(counted, samples=len(readings.inside("energy_mj", holes=True).times), method=Method.COUNTER)
    largest = f"{readings.source('energy_mj')}, largest step of the counter at an edge of the steady window"
    return counted, replace(counted, value=_largest_step(sums, readings.edges) / 1e3, source=largest)


def _rise(sums: Cut, edges: tuple[float, float]) -> float:
    """Return the counter's rise between the edges, mJ, interpolated at both."""
    first, last = np.interp(edges, sums.times, sums.values)
    return float(last - first)


def _largest_step(sums: Cut, edges: tuple[float, float]) -> float:
    """Return the counter's rise over an edge, or the one before it, whichever is more.

    A reading may be as old as the counter's last step, so energy used since then is counted on the other side.
    """
    risen = np.flatnonzero(np.diff(sums.values) > 0) + 1
    if not len(risen):
        return 0.0
    before = np.concatenate([[0], risen[:-1]])
    steps = sums.values[risen] - sums.values[before]
    after = np.searchsorted(sums.times[risen], edges)
    near = np.unique(np.clip(np.concatenate([after - 1, after]), 0, len(steps) - 1))
    return float(steps[near].max())


def _integrated(readings: Readings) -> Figure:
    """Return the energy of the window by the readings of the power, J."""
    source = f"{readings.source('power_mw')}, integrated over the steady window (trapezoids){readings.delay}"
    powers = readings.around("power_mw")
    if powers.gap is not None:
        return make_unknown(source, powers.gap)
    times, edges = powers.times, readings.edges
    within = (times > edges[0]) & (times < edges[1])
    at = np.concatenate([[edges[0]], times[within], [edges[1]]])
    watts = np.interp(at, times, powers.values) / 1e3
    joules = np.sum((watts[1:] + watts[:-1]) / 2 * np.diff(at / 1e9))  # numpy's own function has two names
    return Figure(float(joules), source, int(within.sum()), method=Method.INTEGRATED)
