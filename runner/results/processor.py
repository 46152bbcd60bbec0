"""The figures of the processor beside its usage: its quota, what that withheld, and the energy of its packages."""

from __future__ import annotations

from typing import Any

import numpy as np

from runner.results.window import NO_WINDOW, all_unknown, growth, in_window, unknown
from workloads.records import figures as registry
from workloads.records.events import Event
from workloads.records.figures import Figure, Method
from workloads.records.job import TrialSpec
from workloads.records.samples import Samples, SteadyWindow

SOURCE = "cpu.stat of the worker's control groups"
NO_QUOTA = "no control group of the worker has a CPU quota"


def cpu_quota(events: dict[str, Any], samples: Samples, spec: TrialSpec, meter: dict[str, Any]) -> dict[str, Figure]:
    """Return CPU_QUOTA, the tightest one in cores, and CPU_THROTTLED; both null if there is no quota.

    The kernel sums the time over the cores on which the group waited, so the share is of window x cores allotted.
    """
    account = meter.get("cpu_quota") or {}
    quota_cores = account.get("quota_cores")
    if quota_cores is None:
        reason = NO_QUOTA if account else "the sampler left no account of it (meter.json)"
        return dict.fromkeys((registry.CPU_QUOTA.name, registry.CPU_THROTTLED.name), unknown(SOURCE, reason))
    source = account["source"] or SOURCE
    quota = Figure(quota_cores, f"cpu.max or cpu.cfs_quota_us beside {source}")
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
        return unknown(source, account["reason"])
    if (window := SteadyWindow.of(events)) is None:
        return unknown(source, NO_WINDOW)
    grown = growth(samples, "throttled_s", window)
    if grown is None:
        failure = account["first_failure"]
        reason = failure["reason"] if failure else "the readings do not reach both edges of the window"
        return unknown(source, reason)
    intervals, count = grown
    waited = float(intervals[:, 1].sum() / intervals[:, 0].sum())
    return Figure(min(100.0, 100 * waited / spec.placement.threads), source, count, method=Method.COUNTER)


ENERGY_SPECS = (registry.CPU_ENERGY, registry.CPU_ENERGY_PER_IMAGE)


def package_energy(events: dict[str, Any], samples: Samples, meter: dict[str, Any]) -> dict[str, Figure]:
    """Return SPECS; null if the counters did not answer, or their readings do not reach over the window."""
    account = meter.get("package_energy") or {}
    source = f"{account.get('source') or 'RAPL'}, difference between the edges of the steady window"
    window = SteadyWindow.of(events)
    if window is None:
        return all_unknown(ENERGY_SPECS, source, NO_WINDOW)
    known = ~np.isnan(samples["package_energy_uj"])
    times = samples["t_ns"][known]
    count = int(np.sum(in_window(samples, window) & known))
    grown = growth(samples, "package_energy_uj", window) if count else None
    # The gap between a short segment's edges and its readings is treated like the rest of the window.
    joules = float(grown[0][:, 1].sum() / grown[0][:, 0].sum()) * window.seconds / 1e6 if grown else 0.0
    if not account:
        reason = "the sampler left no account of it (meter.json)"
    elif account["reason"]:
        reason = str(account["reason"])
    elif not count or times[0] > window.edges[0] or times[-1] < window.edges[1]:
        failure = account["first_failure"]
        reason = failure["reason"] if failure else "the readings do not reach over both edges of the window"
    elif joules <= 0:
        reason = "the counter stood still"
    else:
        whole = Figure(joules, source, count, method=Method.COUNTER)
        images = events[Event.WINDOW_ENDED]["images"]
        per_image = Figure(joules / images, f"{source}; by the images of the window", count, method=Method.COUNTER)
        return {registry.CPU_ENERGY.name: whole, registry.CPU_ENERGY_PER_IMAGE.name: per_image}
    return all_unknown(ENERGY_SPECS, source, reason)
