"""The figures of one trial, cut from events and samples by the steady window: speed, and the processor's quota and
energy.

`events` are the worker's by name, the last of each.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.records import figures as registry
from workloads.records.columns import PERIOD_S
from workloads.records.events import Count, Event
from workloads.records.figures import Figure, FigureSpec, Method
from workloads.records.job import TrialSpec
from workloads.records.samples import Samples, SteadyWindow

NO_WINDOW = "the trial did not reach the end of its steady window"


def make_unknown(source: str, reason: str) -> Figure:
    """Return a figure that is null, with its reason."""
    return Figure(None, source, reason=reason)


def explain_uncounted(spec: TrialSpec) -> str:
    """Return why nothing is counted from the layers of a trial: no workload to count, or custom code in its place."""
    if spec.task.own_code:
        return "custom code: its layers are unknown"
    return f"there is no workload {spec.task.workload} to count"


def make_counted(source: str, count: Count) -> Figure:
    """Return bytes; null if the count is the reason why there is none."""
    return Figure(count, source) if isinstance(count, int) else make_unknown(source, count)


def make_all_unknown(specs: Iterable[FigureSpec], source: str, reason: str) -> dict[str, Figure]:
    """Return {name: null figure} for each."""
    return {spec.name: make_unknown(source, reason) for spec in specs}


def compute_speed(events: dict[str, Any]) -> dict[str, Figure]:
    """Return WINDOW and STEP_TIME in s, SPEED in images/s; null without a steady window."""
    source = "worker: steady window, synchronised at its edges"
    window = SteadyWindow.read(events)
    if window is None:
        return make_all_unknown((registry.WINDOW, registry.SPEED, registry.STEP_TIME), source, NO_WINDOW)
    window_s, ended = window.seconds, events[Event.WINDOW_ENDED]
    return {
        registry.WINDOW.name: Figure(window_s, source),
        registry.SPEED.name: Figure(ended["images"] / window_s, f"{source}; images passed to the framework"),
        registry.STEP_TIME.name: Figure(
            window_s / ended["steps"], f"{source}; losses returned", samples=ended["steps"]
        ),
    }


def compute_call_times(events: dict[str, Any]) -> dict[str, Figure]:
    """Return quantiles, in s, of the window's call times; a call trains for 0.05 to 0.1 s, or for one longer step."""
    source = "worker: time between the losses of one call and of the next, steady window"
    times = events.get(Event.WINDOW_ENDED, {}).get("calls_s")
    if not times:
        return make_all_unknown(registry.CALL_TIMES, source, NO_WINDOW if times is None else "no call in the window")
    values = np.quantile(times, [0.5, 0.95, 0.99, 1.0])
    return {
        spec.name: Figure(float(value), source, len(times))
        for spec, value in zip(registry.CALL_TIMES, values, strict=True)
    }


def compute_interruptions(events: dict[str, Any], spec: TrialSpec) -> dict[str, Figure]:
    """Return page faults and voluntary context switches of the worker's process, per step of the steady window."""
    source = "kernel: getrusage(2) of the worker's process at the edges of the steady window"
    if Event.WINDOW_ENDED not in events:
        return make_all_unknown(registry.INTERRUPTIONS, source, NO_WINDOW)
    if spec.placement.devices > 1:
        return make_all_unknown(
            registry.INTERRUPTIONS, source, "of several devices' processes only the first is counted"
        )
    ended = events[Event.WINDOW_ENDED]
    counts = {registry.PAGE_FAULTS: ended.get("page_faults"), registry.CONTEXT_SWITCHES: ended.get("context_switches")}
    return {
        each.name: make_unknown(source, "the worker did not count them; workers of earlier versions do not")
        if count is None
        else Figure(count / ended["steps"], source, samples=ended["steps"])
        for each, count in counts.items()
    }


def find_divergence(events: dict[str, Any]) -> dict[str, Figure]:
    """Return the first step, counted from 1, whose loss was not a number."""
    source = "worker: losses of all epochs and of the steady window"
    if Event.WINDOW_ENDED not in events:
        return make_all_unknown((registry.DIVERGED_STEP,), source, NO_WINDOW)
    step = events[Event.WINDOW_ENDED].get("diverged_step")
    return {
        registry.DIVERGED_STEP.name: make_unknown(source, "every loss is a number")
        if step is None
        else Figure(step, source)
    }


def select_window(samples: Samples, window: SteadyWindow, period_s: float = PERIOD_S) -> NDArray[np.bool_]:
    """Select the readings that describe only the window."""
    return window.holds(samples["t_ns"], period_s)


def compute_start_up(events: dict[str, Any]) -> dict[str, Figure]:
    """Return the seconds of each phase before training proper; the first step compiles if a framework does."""
    # The wait in which the sampler sees a bare context on a GPU is not part of loading.
    ready = Event.CONTEXT_SAMPLED if Event.CONTEXT_SAMPLED in events else Event.OPENED
    spans = {
        registry.IMPORT: (Event.STARTED, Event.IMPORTED),
        registry.OPEN: (Event.IMPORTED, Event.OPENED),
        registry.LOAD: (ready, Event.LOADED),
        registry.BUILD: (Event.LOADED, Event.BUILT),
        registry.FIRST_STEP: (Event.BUILT, Event.FIRST_STEP),
        registry.WARM_UP: (Event.FIRST_STEP, Event.WARMED_UP),
    }
    figures = {}
    for spec, (start, end) in spans.items():
        source = f"worker: from {start} to {end}"
        if start in events and end in events:
            figures[spec.name] = Figure((events[end]["t_ns"] - events[start]["t_ns"]) / 1e9, source)
        else:
            missing = start if start not in events else end
            figures[spec.name] = make_unknown(source, f"the worker did not report {missing}")
    return figures


def compute_growth(samples: Samples, column: str, window: SteadyWindow) -> tuple[NDArray[np.float64], int] | None:
    """Return [(seconds, increase)] of a running sum between the readings in the window, and their number.

    For a window of one segment the edges are interpolated if readings lie on both sides of them. Otherwise the sum is
    unknown up to the edge, and the intervals end with what is known. Segments cut from epochs are too short for that:
    they count from their first reading to their last. None if the readings do not span the window.
    """
    known = ~np.isnan(samples[column])
    inside = known & select_window(samples, window)
    if inside.sum() < 2:
        return None
    times, sums = samples["t_ns"][known], samples[column][known]
    slack_ns = 3 * PERIOD_S * 1e9
    if times[0] > window.edges[0] + slack_ns or times[-1] < window.edges[1] - slack_ns:
        return None
    intervals = []
    for start, end in window.segments:
        read = times[(times >= start) & (times <= end)]
        if len(window.segments) == 1:
            read = np.unique([max(start, times[0]), *samples["t_ns"][inside], min(end, times[-1])])
        intervals.append(np.stack([np.diff(read) / 1e9, np.diff(np.interp(read, times, sums))], axis=1))
    every = np.concatenate(intervals)
    return (every, int(inside.sum())) if len(every) else None


QUOTA_SOURCE = "cpu.stat of the worker's control groups"
NO_QUOTA = "no control group of the worker has a CPU quota"


def cpu_quota(events: dict[str, Any], samples: Samples, spec: TrialSpec, meter: dict[str, Any]) -> dict[str, Figure]:
    """Return CPU_QUOTA, the tightest one in cores, and CPU_THROTTLED; both null if there is no quota.

    The kernel sums the time over the cores on which the group waited, so the share is of window x cores allotted.
    """
    account = meter.get("cpu_quota") or {}
    quota_cores = account.get("quota_cores")
    if quota_cores is None:
        reason = NO_QUOTA if account else "the sampler wrote no report on it (meter.json)"
        return dict.fromkeys((registry.CPU_QUOTA.name, registry.CPU_THROTTLED.name), make_unknown(QUOTA_SOURCE, reason))
    source = account["source"] or QUOTA_SOURCE
    quota = Figure(quota_cores, f"cpu.max or cpu.cfs_quota_us next to {source}")
    throttled = _throttled(events, samples, spec, account, source)
    return {registry.CPU_QUOTA.name: quota, registry.CPU_THROTTLED.name: throttled}


def _throttled(
    events: dict[str, Any], samples: Samples, spec: TrialSpec, account: dict[str, Any], source: str
) -> Figure:
    """Return the share of the cores' time, %; at most 100, since others in the group wait, too."""
    source += (
        ": time withheld in the steady window, as a share of it on each core allotted; throttled in "
        f"{account['throttled_periods']} of {account['periods']} periods of the worker's life"
    )
    if account["reason"]:
        return make_unknown(source, account["reason"])
    if (window := SteadyWindow.read(events)) is None:
        return make_unknown(source, NO_WINDOW)
    grown = compute_growth(samples, "throttled_s", window)
    if grown is None:
        failure = account["first_failure"]
        reason = failure["reason"] if failure else "the readings do not reach both edges of the window"
        return make_unknown(source, reason)
    intervals, count = grown
    waited = float(intervals[:, 1].sum() / intervals[:, 0].sum())
    return Figure(min(100.0, 100 * waited / spec.placement.threads), source, count, method=Method.COUNTER)


ENERGY_SPECS = (registry.CPU_ENERGY, registry.CPU_ENERGY_PER_IMAGE)


def package_energy(events: dict[str, Any], samples: Samples, meter: dict[str, Any]) -> dict[str, Figure]:
    """Return ENERGY_SPECS; null if the counters did not answer, or not over the whole window."""
    account = meter.get("package_energy") or {}
    source = f"{account.get('source') or 'RAPL'}, difference between the edges of the steady window"
    window = SteadyWindow.read(events)
    if window is None:
        return make_all_unknown(ENERGY_SPECS, source, NO_WINDOW)
    known = ~np.isnan(samples["package_energy_uj"])
    times, sums = samples["t_ns"][known], samples["package_energy_uj"][known]
    reset = (np.diff(sums) < 0) & (times[1:] > window.edges[0]) & (times[:-1] < window.edges[1])
    count = int(np.sum(select_window(samples, window) & known))
    grown = compute_growth(samples, "package_energy_uj", window) if count else None
    # The gap between a short segment's edges and its readings is treated like the rest of the window.
    joules = float(grown[0][:, 1].sum() / grown[0][:, 0].sum()) * window.seconds / 1e6 if grown else 0.0
    if not account:
        reason = "the sampler wrote no report on it (meter.json)"
    elif account["reason"]:
        reason = str(account["reason"])
    elif not count or times[0] > window.edges[0] or times[-1] < window.edges[1]:
        failure = account["first_failure"]
        reason = failure["reason"] if failure else "the readings do not reach both edges of the window"
    elif reset.any() or joules <= 0:
        reason = "the counter was reset in the window" if reset.any() else "the counter stood still"
    else:
        whole = Figure(joules, source, count, method=Method.COUNTER)
        images = events[Event.WINDOW_ENDED]["images"]
        per_image = Figure(joules / images, f"{source}; by the images of the window", count, method=Method.COUNTER)
        return {registry.CPU_ENERGY.name: whole, registry.CPU_ENERGY_PER_IMAGE.name: per_image}
    return make_all_unknown(ENERGY_SPECS, source, reason)
