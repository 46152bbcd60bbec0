"""The sampler's readings of one GPU, cut to the steady window, or the reason why no reading spans it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runner.results.window import in_window, unknown
from workloads.records.figures import Figure
from workloads.records.samples import PERIOD_S, Samples
from workloads.records.steady_window import SteadyWindow

Floats = NDArray[np.float64]
Edges = tuple[float, float]  # ns of the monotonic clock


@dataclass(frozen=True)
class Cut:
    """Readings of one column; `gap` says why they do not represent the window, None if they do."""

    times: Floats
    values: Floats
    gap: str | None

    def figure(self, source: str, reduce: Callable[[Floats], Any], scale: float = 1.0) -> Figure:
        """Reduce the values to a figure; null with the reason if they do not represent the window."""
        if self.gap is not None:
            return unknown(source, self.gap)
        return Figure(float(reduce(self.values)) * scale, source, len(self.values))


@dataclass(frozen=True)
class Account:
    """The report of meter.json on one GPU: the calls that answered, and why others did not."""

    gpu: dict[str, Any]  # empty if the sampler left none

    def metric(self, name: str) -> dict[str, Any]:
        """The report on one of the sampler's metrics; empty if there is none."""
        account: dict[str, Any] = self.gpu.get("metrics", {}).get(name, {})
        return account

    def source(self, name: str) -> str:
        """The call that answered, for the figure's source."""
        return self.metric(name).get("source") or "NVML"

    def silence(self, name: str, column: str) -> str | None:
        """Return why the sampler got no answer, or not always one."""
        metric = self.metric(name)
        if not metric:
            return self.gpu.get("reason") or "the sampler left no account of this GPU (meter.json)"
        if metric["reason"]:
            return str(metric["reason"])
        if reason := metric.get("missing", {}).get(column):
            return str(reason)
        if metric["failures"]:
            failed = f"{metric['failures']} of {metric['calls']} calls failed"
            return f"{metric['first_failure']['reason']}; {failed}"
        return None


@dataclass(frozen=True)
class Readings(Account):
    """A sampler's readings of one GPU, seen through the steady window."""

    edges: Edges
    samples: Samples
    driver: Samples

    def inside(self, column: str, holes: bool = False) -> Cut:
        """Return the readings that describe only the window.

        `holes`: only the edges matter, as with a running sum, from which a hole in the window hides nothing.
        """
        window = SteadyWindow((self.edges,))
        chosen = in_window(self.samples, window, self._period_s(column)) & ~np.isnan(self.samples[column])
        times = self.samples["t_ns"][chosen]
        return Cut(times, self.samples[column][chosen], self.gap(times, times, column, column, holes))

    def _period_s(self, name: str) -> float:
        return self.metric(name).get("period_s") or 0.0

    def around(self, column: str, holes: bool = False) -> Cut:
        """Return all readings, if some lie before the window, in it, and after it."""
        known = ~np.isnan(self.samples[column])
        times, gap = self.samples["t_ns"][known], self.inside(column, holes).gap
        if gap is None and (times[0] > self.edges[0] or times[-1] < self.edges[1]):
            gap = self.silence(column, column) or "the readings do not reach over both edges of the window"
        return Cut(times, self.samples[column][known], gap)

    def gap(self, starts: Floats, ends: Floats, name: str, column: str, holes: bool = False) -> str | None:
        """Return why a mean of the readings does not represent the window: too few at one of its edges, or around a
        hole.

        `starts` and `ends`, in ns, bound the time that each reading covers; they are equal for a reading of one moment.
        """
        silence = self.silence(name, column)
        if not len(ends):
            return silence or f"no reading lies in the window of {(self.edges[1] - self.edges[0]) / 1e9:.1f} s"
        every_s = self.metric(name).get("every_s", PERIOD_S)
        edge_s, hole_s = max(3 * PERIOD_S, 1.5 * every_s), 3 * every_s  # a slow metric has few readings in a window
        early_s = (self.edges[1] - ends[-1]) / 1e9
        late_s = (starts[0] - self.edges[0]) / 1e9 - self._period_s(name)
        longest_s = float(np.max(starts[1:] - ends[:-1], initial=0)) / 1e9
        if early_s > edge_s:
            fault = f"the readings end {early_s:.1f} s before the window"
        elif late_s > edge_s:
            fault = f"the readings start {late_s:.1f} s after the window"
        elif longest_s > hole_s and not holes:
            fault = f"no reading for {longest_s:.1f} s"
        else:
            return None
        return "; ".join(filter(None, [fault, silence]))


def one_a_moment(driver: Samples) -> Samples:
    """Return the driver's samples with each of its time stamps once, in their order.

    A sample covers the time since the stamp before it, so a second one with the same stamp covers no time. A repeated
    value is dropped. Several different values are averaged, since none is better than another. Stamps are the driver's
    (epoch_us): `t_ns` of the same stamp differs by microseconds between two answers.
    """
    _, first = np.unique(np.stack([driver["epoch_us"], driver["gpu_percent"]]), axis=1, return_index=True)
    pairs = {name: values[np.sort(first)] for name, values in driver.items()}
    _, first, group = np.unique(pairs["epoch_us"], return_index=True, return_inverse=True)
    means = np.bincount(group, pairs["gpu_percent"]) / np.bincount(group)
    order = np.argsort(first)
    moments = {name: values[first[order]] for name, values in pairs.items()}
    return moments | {"gpu_percent": means[order]}
