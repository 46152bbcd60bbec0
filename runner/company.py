"""Who else was on the GPU, before, during and after the worker's life."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from runner.readings import Readings
from workloads.samples import Samples
from workloads.trial import Check, Event, Events

ALONE = "alone on the device"
APART_S = 3.0  # a list of the processes is asked for once a second


def _phases(samples: Samples, meter: dict[str, Any]) -> dict[str, NDArray[np.bool_]]:
    """Rows by the worker's life: the first is from before it; those behind the clocks' second reading, after it."""
    clocks = meter.get("clocks", [])
    times = samples["t_ns"]
    before = np.arange(len(times)) == 0
    after = ~before & (times >= (clocks[1]["monotonic_ns"] if len(clocks) > 1 else np.inf))
    return {"before": before, "during": ~before & ~after, "after": after}


def company(samples: Samples, meter: dict[str, Any]) -> str | None:
    """Who else was on the device, and when; None where nobody was seen."""
    others = samples["foreign_processes"]
    most = {when: np.nanmax(others[rows], initial=0) for when, rows in _phases(samples, meter).items()}
    if not any(most.values()):
        return None
    times = ", ".join(when for when, count in most.items() if count)
    return f"{max(most.values()):.0f} other process(es) on the device ({times} the worker's life)"


def alone(samples: Samples, meter: dict[str, Any], events: Events) -> Check:
    """Whether the worker had the device to itself. What the driver did not list, or not then, cannot be told."""
    account = meter.get("gpu") or {}
    graphics = account.get("graphics_processes")
    beside = f"; {graphics} with graphics, which are not counted" if graphics else ""
    if others := company(samples, meter):
        return Check(ALONE, False, f"{others}{beside}")
    if unseen := _unseen(samples, meter, events):
        why = Readings((0, 0), samples, {}, account).silence("processes", "foreign_processes")
        whole = "; ".join(filter(None, [why, *unseen.values()]))
        return Check(ALONE, False, f"cannot be told {', '.join(unseen)}: {whole}{beside}")
    lists = int(np.sum(~np.isnan(samples["foreign_processes"])))
    return Check(ALONE, True, f"{lists} lists of the processes on it{beside}")


def _unseen(samples: Samples, meter: dict[str, Any], events: Events) -> dict[str, str]:
    """{when: why} there is no list: before the worker, from its first event until it was measured, and after it."""
    times, known = samples["t_ns"], ~np.isnan(samples["foreign_processes"])
    phases = _phases(samples, meter)
    unseen = {}
    if not (known & phases["before"]).any():
        unseen["before"] = "no list before the worker"
    if events:
        end_ns = next((event["t_ns"] for event in events if event["event"] == Event.FINISHED), events[-1]["t_ns"])
        life = events[0]["t_ns"], end_ns
        listed = times[known & phases["during"] & (times >= life[0]) & (times <= life[1])]
        hole_s = float(np.diff(np.concatenate([life[:1], listed, life[1:]])).max()) / 1e9
        if hole_s > APART_S or not len(listed):
            unseen["during"] = f"no list for {hole_s:.1f} s"
    if not (known & phases["after"]).any():
        unseen["after"] = "no list after the worker"
    return unseen
