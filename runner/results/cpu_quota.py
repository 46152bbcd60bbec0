"""The CPU quota of the worker's control groups, and the time that it withheld in the steady window."""

from __future__ import annotations

from typing import Any

from runner.results.window import NO_WINDOW, growth, unknown
from workloads.records import figures as registry
from workloads.records.figures import Figure, Method
from workloads.records.job import TrialSpec
from workloads.records.samples import Samples
from workloads.records.steady_window import SteadyWindow

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
