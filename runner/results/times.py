"""The times that a worker reports, compared with the runner's clock and with the sampler's."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from runner.ask import Ended
from runner.attendance import EventLooks
from runner.launch import WorkerOutcome
from workloads.records.check_name import CheckName
from workloads.records.events import Event
from workloads.records.job import TrialSpec
from workloads.records.result import Check
from workloads.records.samples import Samples, SteadyWindow
from workloads.words import show_both

CALLS_APART_S = 0.1  # of 765 published windows none was more than 0.004 s off
# No event can be seen before its time. Times are of one clock, which cannot be set, so this is generous.
LATE_S = 0.1
# An event is written right after its time is taken, but a busy disk or machine delays a write by a second or two.
TIMES_APART_S = 3.0
# A delayed worker does not compute meanwhile. After SETTLE_S, in which idle threads may still spin (0.2 s in Intel's
# OpenMP), it uses nothing. One with a slow clock trains on: this much of a core, or more, is no delay.
SETTLE_S, WORKING_CORES, LEAST_S = 0.2, 0.2, 0.03  # processor time is counted in steps of 0.01 s


def check_times(spec: TrialSpec, ended: Ended, samples: Samples) -> Iterator[Check]:
    """Compare the worker's times with the runner's clock, and its calls with its window, if they were observed."""
    if ended.outcome is not None and (apart_s := ended.outcome.times_apart_s) is not None:
        begun_s = _begun_s(ended)
        if begun_s <= LATE_S:
            yield _times(spec, ended.outcome, apart_s, samples)
        else:
            detail = f"the first segment begins {begun_s:.2f} s after the window that it begins"
            yield Check(CheckName.TIMES, False, detail)
    window, calls_s = SteadyWindow.read(ended.last), ended.last.get(Event.WINDOW_ENDED, {}).get("calls_s")
    if window is not None and calls_s:
        allowed_s = len(window.segments) * (CALLS_APART_S + max(calls_s))  # a last update may outlast its loss
        detail = (
            f"calls of {sum(calls_s):.2f} s in a window of {window.seconds:.2f} s ({allowed_s:.2f} s apart are allowed)"
        )
        yield Check(CheckName.CALLS_ADD_UP, abs(sum(calls_s) - window.seconds) <= allowed_s, detail)


def _begun_s(ended: Ended) -> float:
    """Return seconds from the window's start to its first segment's, which should be equal; 0.0 without a window."""
    window = SteadyWindow.read(ended.last)
    return 0.0 if window is None else (window.edges[0] - ended.last[Event.WINDOW_STARTED]["t_ns"]) / 1e9


def _times(spec: TrialSpec, outcome: WorkerOutcome, apart_s: float, samples: Samples) -> Check:
    late_s = max([apart_s, *(looks.apart_s for looks in outcome.doubtful_events)])
    worst_s, side, allowed_s = (late_s, "late", LATE_S) if late_s > 0 else (abs(apart_s), "early", TIMES_APART_S)
    if worst_s <= allowed_s and (worked := _worked_on(spec, outcome, samples)):
        return Check(CheckName.TIMES, False, worked)
    shown, allowed = show_both(worst_s, allowed_s, "f", digits=2, fewer=1)
    detail = f"the times of its events are up to {shown} s {side} ({allowed} s allowed)"
    return Check(CheckName.TIMES, worst_s <= allowed_s, detail)


def _worked_on(spec: TrialSpec, outcome: WorkerOutcome, samples: Samples) -> str | None:
    """Name the event after whose time the worker computed on, before it was written; None if there is none.

    Returns None if others than the writer may compute meanwhile: custom code and several devices have further
    processes. Under a memory limit the kernel may work for the writer.
    """
    if spec.task.own_code or spec.placement.devices > 1 or spec.placement.memory_limit_bytes is not None:
        return None
    used = {looks: compute_used_s(looks, samples) for looks in outcome.doubtful_events}
    working = {looks: found for looks, found in used.items() if found[0] >= max(LEAST_S, WORKING_CORES * found[1])}
    if not working:
        return None
    looks = max(working, key=lambda each: working[each][0])
    return (
        f"an event was written {-looks.apart_s:.2f} s or more after its time, and the worker did not wait: "
        f"it used {working[looks][0]:.2f} s of processor time in {working[looks][1]:.2f} s of these"
    )


def compute_used_s(looks: EventLooks, samples: Samples) -> tuple[float, float]:
    """Return (processor seconds, seconds) between two samples; zeros if there are none. They run from the first one
    SETTLE_S after an event's time to the last before the look that did not see it.
    """
    inside = (samples["t_ns"] >= looks.t_ns + SETTLE_S * 1e9) & (samples["t_ns"] <= looks.after_ns)
    inside &= ~np.isnan(samples["cpu_s"])
    times, sums = samples["t_ns"][inside], samples["cpu_s"][inside]
    if not len(times):
        return 0.0, 0.0
    return float(sums[-1] - sums[0]), float(times[-1] - times[0]) / 1e9
