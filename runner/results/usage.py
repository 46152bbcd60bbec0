"""The usage of a trial's cores: by its processes, and by others, in the steady window and in the epochs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runner.results.window import NO_WINDOW, compute_growth, make_all_unknown, make_unknown, select_window
from workloads.processor_time import compute_foreign_share
from workloads.records import figures as registry
from workloads.records.checks import FEWEST_SAMPLES
from workloads.records.events import Event, Events
from workloads.records.figures import Figure
from workloads.records.job import TrialSpec
from workloads.records.samples import Samples, SteadyWindow

FOREIGN_SOURCE = "sampler at 10 Hz: busy time of the allotted cores less the trial's"
NO_CORES = "the samples do not say how busy the allotted cores were (cores_cpu_s, from /proc/stat)"
OTHER_CORES = "the kernel reports these cores less busy than the trial (/proc/stat): not its cores"


def compute_usage(
    events: dict[str, Any], samples: Samples, spec: TrialSpec, quota_cores: float | None = None
) -> dict[str, Figure]:
    """Return CPU %, the share of the cores allotted (`threads`), or of a quota below that. Return foreign CPU %, the
    share of the same cores that others used, including the sampler.
    """
    specs = (registry.CPU_USAGE, registry.CPU_BUSY, registry.FOREIGN_CPU)
    source = "sampler at 10 Hz: user and system time of the process tree over the steady window"
    usable = min(float(spec.placement.threads), quota_cores or math.inf)
    if usable < spec.placement.threads:
        source += f", as a share of the CPU quota of {usable:g} cores"
    window = SteadyWindow.read(events)
    if window is None:
        return make_all_unknown(specs, source, NO_WINDOW)
    tree, cores = compute_growth(samples, "cpu_s", window), compute_growth(samples, "cores_cpu_s", window)
    if tree is None:
        inside = int(np.sum(select_window(samples, window) & ~np.isnan(samples["cpu_s"])))
        few = f"{inside} samples, which do not reach both edges of the window: the sampler ended, or began late"
        return make_all_unknown(specs, source, few)
    intervals, count = tree
    busy = intervals[intervals[:, 1] > 0]
    return {
        registry.CPU_USAGE.name: Figure(100 * _rate(intervals) / usable, source, count),
        registry.CPU_BUSY.name: Figure(
            100 * float(busy[:, 1].sum() / busy[:, 0].sum()) / usable,
            f"{source}; intervals between samples in which there was any",
            len(busy),
        )
        if len(busy)
        else make_unknown(source, "the process tree used no CPU in any interval between samples"),
        registry.FOREIGN_CPU.name: _compute_foreign(tree, cores, spec, FOREIGN_SOURCE),
    }


def compute_foreign_in_epochs(events: Events, samples: Samples, spec: TrialSpec) -> dict[str, Figure]:
    """Return FOREIGN_CPU_EPOCHS, from the first epoch's start to the last evaluation's end; null in short epochs."""
    name, source = registry.FOREIGN_CPU_EPOCHS.name, f"{FOREIGN_SOURCE}, over all epochs and their evaluations"
    starts = [event["t_ns"] for event in events if event["event"] == Event.BUILT]
    ends = [event["t_ns"] for event in events if event["event"] == Event.EPOCH_EVALUATED]
    if not starts or not ends:
        return {name: make_unknown(source, "no epoch was evaluated")}
    epochs = SteadyWindow(((starts[-1], ends[-1]),))
    tree, cores = compute_growth(samples, "cpu_s", epochs), compute_growth(samples, "cores_cpu_s", epochs)
    if tree is None or tree[1] < FEWEST_SAMPLES:
        return {name: make_unknown(source, f"fewer than {FEWEST_SAMPLES} samples in the epochs")}
    return {name: _compute_foreign(tree, cores, spec, source)}


def _compute_foreign(
    tree: tuple[NDArray[np.float64], int],
    cores: tuple[NDArray[np.float64], int] | None,
    spec: TrialSpec,
    source: str,
) -> Figure:
    """Return the share of the allotted cores used outside the process tree, in %; both grew as `compute_growth` says.

    It is null where the samples do not say it, or are of other cores.
    """
    if cores is None:
        return make_unknown(source, NO_CORES)
    (intervals, count), seconds = tree, float(tree[0][:, 0].sum())
    busy_s, own_s = seconds * _rate(cores[0]), float(intervals[:, 1].sum())
    percent = compute_foreign_share(0.0, busy_s, own_s, seconds, spec.placement.threads)
    return make_unknown(source, OTHER_CORES) if percent is None else Figure(max(0.0, percent), source, count)


def _rate(intervals: NDArray[np.float64]) -> float:
    """Return the increase per second over all of the intervals."""
    return float(intervals[:, 1].sum() / intervals[:, 0].sum())
