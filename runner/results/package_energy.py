"""The energy of the processor's packages over the steady window, by the kernel's counters."""

from __future__ import annotations

from typing import Any

import numpy as np

from runner.results.window import NO_WINDOW, all_unknown, growth, in_window
from workloads.records import figures as registry
from workloads.records.events import Event
from workloads.records.figures import Figure, Method
from workloads.records.samples import Samples
from workloads.records.steady_window import SteadyWindow

SPECS = (registry.CPU_ENERGY, registry.CPU_ENERGY_PER_IMAGE)


def package_energy(events: dict[str, Any], samples: Samples, meter: dict[str, Any]) -> dict[str, Figure]:
    """Return SPECS; null if the counters did not answer, or their readings do not reach over the window."""
    account = meter.get("package_energy") or {}
    source = f"{account.get('source') or 'RAPL'}, difference between the edges of the steady window"
    window = SteadyWindow.of(events)
    if window is None:
        return all_unknown(SPECS, source, NO_WINDOW)
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
    return all_unknown(SPECS, source, reason)
