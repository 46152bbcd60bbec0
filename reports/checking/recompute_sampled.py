"""Recompute the figures of a trial that its samples give besides usage and energy: memory, clocks, GPM's counters.

Written independently of the runner, as `recompute` is. Several GPUs, whose figures are combined, are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.records import figures as registry
from workloads.records.events import Event, Events
from workloads.records.figures import Figure, Method
from workloads.records.result import TrialResult
from workloads.records.samples import Samples

from .recompute import Segment, Values

SLOWING = 0x004 | 0x008 | 0x010 | 0x020 | 0x040 | 0x080 | 0x100  # NVML's reasons why clocks are not higher
REDUCED_BY: dict[
    str, tuple[str, Callable[[NDArray[np.float64]], Any], float]
] = {  # {figure: (column of the samples, how its readings in the window are reduced, factor)}
    registry.SM_CLOCK.name: ("sm_clock_mhz", np.mean, 1.0),
    registry.MEMORY_CLOCK.name: ("memory_clock_mhz", np.mean, 1.0),
    registry.TEMPERATURE.name: ("temperature_c", np.max, 1.0),
    registry.POWER_LIMIT.name: ("power_limit_mw", np.min, 1e-3),
}
PER_IMAGE = ((registry.ENERGY, registry.ENERGY_PER_IMAGE), (registry.CPU_ENERGY, registry.CPU_ENERGY_PER_IMAGE))


def collect_sampled(result: TrialResult, events: Events, samples: Samples, window: Sequence[Segment]) -> Values:
    """Collect the values by names of figures; those that the files do not give are missing."""
    values = _derive(result.figures, events) | _host_peak(result, events, samples)
    if result.spec.placement.device_kind == "cpu" or result.spec.placement.others:
        return values
    values |= _memory(result.figures, events, samples)
    if (others := _known(samples["foreign_processes"])).size:
        values[registry.FOREIGN_PROCESSES.name] = float(others.max())
    return values | _windowed(result.figures, samples, window[0]) if len(window) == 1 else values


def _derive(figures: Mapping[str, Figure], events: Events) -> Values:
    """Return figures that are a ratio of others."""
    values: Values = {}
    ended = next((event for event in reversed(events) if event["event"] == Event.WINDOW_ENDED), None)
    for whole, each in PER_IMAGE:
        joules = registry.read_value(figures, whole)
        if ended and ended["images"] and joules is not None:
            values[each.name] = joules / ended["images"]
    work, product = (registry.read_value(figures, spec) for spec in (registry.WORK, registry.PRODUCT))
    if work is not None and product:
        values[registry.PRODUCT_SHARE.name] = 100 * work / product
    return values


def _host_peak(result: TrialResult, events: Events, samples: Samples) -> Values:
    """Return the highest resident size from `opened` to `finished`, by the samples and, on one device, the kernel."""
    by_name = {event["event"]: event for event in events}
    times = samples["t_ns"]
    first, last = (
        by_name.get(event, {}).get("t_ns", end) for event, end in ((Event.OPENED, 0), (Event.FINISHED, math.inf))
    )
    sizes = list(_known(samples["host_memory_bytes"][(times >= first) & (times <= last)]))
    edges = [Event.WINDOW_STARTED] + [Event.WINDOW_ENDED] * (result.spec.placement.devices == 1)
    sizes += [size for edge in edges if (size := by_name.get(edge, {}).get("peak_resident_bytes"))]
    return {registry.HOST_MEMORY_PEAK.name: float(max(sizes))} if sizes else {}


def _memory(figures: Mapping[str, Figure], events: Events, samples: Samples) -> Values:
    """Return the bytes that the device held until everything was measured."""
    by_name = {event["event"]: event["t_ns"] for event in events}
    times, used, mine = (samples[column] for column in ("t_ns", "device_memory_bytes", "process_memory_bytes"))
    until = times <= by_name.get(Event.FINISHED, math.inf)
    found: Values = {}
    if (held := _known(used[until])).size:
        found[registry.DEVICE_MEMORY.name] = float(held.max())
    method = figures[registry.PROCESS_GPU_MEMORY.name].method if registry.PROCESS_GPU_MEMORY.name in figures else None
    if method is not Method.DEVICE_RISE and (own := _known(mine[until])).size:
        found[registry.PROCESS_GPU_MEMORY.name] = float(own.max())
    if held.size and (before := _known(used[:1])).size:
        found[registry.DEVICE_BASELINE.name] = float(before[0])
        found[registry.DEVICE_RISE.name] = float(held.max() - before[0])
        if method is Method.DEVICE_RISE:
            found[registry.PROCESS_GPU_MEMORY.name] = found[registry.DEVICE_RISE.name]
        opened, seen = (by_name.get(event, math.nan) for event in (Event.OPENED, Event.CONTEXT_SAMPLED))
        if (bare := _known(used[(times > opened) & (times <= seen)])).size:
            found[registry.DEVICE_CONTEXT.name] = float(bare.max() - before[0])
    return found


def _windowed(figures: Mapping[str, Figure], samples: Samples, edges: Segment) -> Values:
    """Return what the driver read in the window; usage when busy only if it was polled."""
    times = samples["t_ns"]
    inside = (times >= edges[0]) & (times <= edges[1])
    found: Values = {}
    for name, (column, reduce, factor) in REDUCED_BY.items():
        if (readings := _known(samples[column][inside])).size:
            found[name] = float(reduce(readings)) * factor
    if (masks := _known(samples["throttle_reasons"][inside])).size:
        found[registry.THROTTLED.name] = 100 * float(((masks.astype(np.int64) & SLOWING) != 0).mean())
    busy = figures.get(registry.GPU_BUSY.name)
    polled = _known(samples["gpu_percent"][inside])
    if busy is not None and busy.method is Method.POLLED and (polled > 0).any():
        found[registry.GPU_BUSY.name] = float(polled[polled > 0].mean())
    return found | _counters(samples, edges)


def _counters(samples: Samples, edges: Segment) -> Values:
    """Return GPM's means, each weighted by the time since the row before that has any of them."""
    names = [spec.name for spec in registry.GPM]
    told = ~np.all([np.isnan(samples[name]) for name in names], axis=0)
    times = samples["t_ns"][told]
    if len(times) < 2:
        return {}
    whole = np.concatenate([[False], (times[:-1] >= edges[0]) & (times[1:] <= edges[1])])
    lengths = np.concatenate([[0.0], np.diff(times)])
    found = {}
    for name in names:
        values = samples[name][told]
        chosen = whole & ~np.isnan(values)
        if chosen.any():
            found[name] = float(np.average(values[chosen], weights=lengths[chosen]))
    return found


def _known(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return values[~np.isnan(values)]
