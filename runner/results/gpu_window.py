"""The sampler's readings of one GPU, cut to the steady window, and other processes on it.

Other processes are looked for before, during and after the worker's life.

Two sources show them. One is the list of processes, read once a second and whenever the device's memory has risen by
more than RISE_BYTES since the last list. The other is that memory itself, read at 10 Hz. A process that comes and goes
between two lists takes a context, so the memory rises and falls. If the list of that moment names another process, the
trial is contended. If no list of that moment explains the rise, by another process or by more memory of the worker, its
owner is unknown. The frameworks' pools only grow, but a library may take memory and release it at once.

Not detected:
- a process that comes and goes within the 0.1 s between two rows, or holds no more than RISE_BYTES;
- memory that no list explains and that stays through two lists: a driver keeps some in addition to the worker's;
- memory below what the device held before the worker: up to USED_MIB, or more with a desktop on it;
- work that takes no memory: the usage does not name its owner.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runner.results.window import make_unknown, select_window
from workloads.records.check_name import CheckName
from workloads.records.columns import PERIOD_S, RISE_BYTES, USED_MIB
from workloads.records.events import Event, Events
from workloads.records.figures import Figure
from workloads.records.result import Check
from workloads.records.samples import Samples, SteadyWindow

Floats = NDArray[np.float64]
# Cards of others held power and clocks for 0.55 s, and power stayed up to 5 s after a load (issue 39): of a window of
# 5 s this was up to 20 % of the energy, of usage up to 18 points.
SHORT_S = 10.0
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
            return make_unknown(source, self.gap)
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

    def explain_missing(self, name: str, column: str) -> str | None:
        """Return why the sampler got no answer, or not always one."""
        metric = self.metric(name)
        if not metric:
            return self.gpu.get("reason") or "the sampler wrote no report on this GPU (meter.json)"
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
        chosen = select_window(self.samples, window, self._period_s(column)) & ~np.isnan(self.samples[column])
        times = self.samples["t_ns"][chosen]
        return Cut(times, self.samples[column][chosen], self.gap(times, times, column, column, holes))

    @property
    def delay(self) -> str:
        """Clause for the source of a polled figure of a short window; empty for a longer one."""
        if (self.edges[1] - self.edges[0]) / 1e9 >= SHORT_S:
            return ""
        return f"; readings may lag a change of load by seconds, which matters in a window below {SHORT_S:g} s"

    def _period_s(self, name: str) -> float:
        return self.metric(name).get("period_s") or 0.0

    def around(self, column: str, holes: bool = False) -> Cut:
        """Return all readings, if some lie before the window, in it, and after it."""
        known = ~np.isnan(self.samples[column])
        times, gap = self.samples["t_ns"][known], self.inside(column, holes).gap
        if gap is None and (times[0] > self.edges[0] or times[-1] < self.edges[1]):
            gap = self.explain_missing(column, column) or "the readings do not reach both edges of the window"
        return Cut(times, self.samples[column][known], gap)

    def gap(self, starts: Floats, ends: Floats, name: str, column: str, holes: bool = False) -> str | None:
        """Return why a mean of the readings does not represent the window: too few at one of its edges, or around a
        hole.

        `starts` and `ends`, in ns, bound the time that each reading covers; they are equal for a reading of one moment.
        """
        silence = self.explain_missing(name, column)
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


def drop_repeated_times(driver: Samples) -> Samples:
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


APART_S = 3.0  # a list of the processes is asked for once a second


def _phases(samples: Samples, meter: dict[str, Any]) -> dict[str, NDArray[np.bool_]]:
    """Assign rows to the worker's life: the first is before it; those after the clocks' second reading are after it."""
    clocks = meter.get("clocks", [])
    times = samples["t_ns"]
    before = np.arange(len(times)) == 0
    after = ~before & (times >= (clocks[1]["monotonic_ns"] if len(clocks) > 1 else np.inf))
    return {"before": before, "during": ~before & ~after, "after": after}


def describe_foreign_processes(samples: Samples, meter: dict[str, Any]) -> str | None:
    """Return the number of other processes on the device, and when they were there; None if none was seen."""
    others = samples["foreign_processes"]
    most = {when: np.nanmax(others[rows], initial=0) for when, rows in _phases(samples, meter).items()}
    if not any(most.values()):
        return None
    times = ", ".join(when for when, count in most.items() if count)
    return f"{max(most.values()):.0f} other process(es) on the device ({times} the worker's life)"


def check_alone(samples: Samples, meter: dict[str, Any], events: Events) -> Check:
    """Check that the worker had the device to itself. Times without a list of the driver are reported as unknown."""
    account = Account(meter.get("gpu") or {})
    graphics = account.gpu.get("graphics_processes")
    uncounted = f"; {graphics} with graphics, which are not counted" if graphics else ""
    if others := describe_foreign_processes(samples, meter):
        return Check(CheckName.ALONE, False, f"{others}{uncounted}")
    if unseen := _unseen(samples, meter, events):
        silence = account.explain_missing("processes", "foreign_processes")
        reasons = "; ".join(filter(None, [silence, *unseen.values()]))
        return Check(CheckName.ALONE, False, f"unknown {', '.join(unseen)}: {reasons}{uncounted}")
    lists = int(np.sum(~np.isnan(samples["foreign_processes"])))
    return Check(CheckName.ALONE, True, f"{lists} lists of the processes on it{uncounted}")


def _unseen(samples: Samples, meter: dict[str, Any], events: Events) -> dict[str, str]:
    """Return {when: why} there is no list: before the worker, between its first event and its finish, and after it."""
    times, known = samples["t_ns"], ~np.isnan(samples["foreign_processes"])
    phases = _phases(samples, meter)
    unseen = {}
    if not (known & phases["before"]).any():
        unseen["before"] = "no list before the worker"
    # In a container the driver may leave out the processes of others, but not their memory.
    held = samples["device_memory_bytes"][phases["before"] & (samples["foreign_processes"] == 0)]
    if (held > USED_MIB * 2**20).any() and not (meter.get("gpu") or {}).get("graphics_processes"):
        unseen["before"] = f"{held[0] / 2**20:,.0f} MiB in use that no list explains"
    if events:
        end_ns = next((event["t_ns"] for event in events if event["event"] == Event.FINISHED), events[-1]["t_ns"])
        life = events[0]["t_ns"], end_ns
        listed = times[known & phases["during"] & (times >= life[0]) & (times <= life[1])]
        hole_s = float(np.diff(np.concatenate([life[:1], listed, life[1:]])).max()) / 1e9
        if hole_s > APART_S or not len(listed):
            unseen["during"] = f"no list for {hole_s:.1f} s"
    if rise := _unlisted(samples, phases):
        unseen.setdefault("during", rise)
    if not (known & phases["after"]).any():
        unseen["after"] = "no list after the worker"
    return unseen


def _unlisted(samples: Samples, phases: dict[str, NDArray[np.bool_]]) -> str | None:
    """Return how much memory came and went between two lists without an owner in either; None if none did.

    Foreign memory is the device's memory less the worker's. The worker's is in the list of this row, else the larger of
    the lists before and after it. Foreign memory cannot be less than the device held before the worker; if it seems so,
    the worker grew while the row was read. A row is reported if its foreign memory is more than RISE_BYTES above both
    the list before it and the list after it.
    """
    there = ~np.isnan(samples["device_memory_bytes"])
    used, others = samples["device_memory_bytes"][there], samples["foreign_processes"][there]
    during = phases["during"][there]
    worker_bytes = np.where(during, samples["process_memory_bytes"][there], 0.0)
    nearest = np.fmax(_last_known(worker_bytes), _last_known(worker_bytes[::-1])[::-1])
    foreign_bytes = used - np.where(np.isnan(worker_bytes), np.nan_to_num(nearest), worker_bytes)
    foreign_bytes = np.maximum(foreign_bytes, foreign_bytes[:1])
    of_lists = np.where(np.isnan(others), np.nan, foreign_bytes)
    before = _last_known(np.append(np.nan, of_lists))[:-1]
    behind = _last_known(np.append(np.nan, of_lists[::-1]))[:-1][::-1]
    rise = foreign_bytes - np.maximum(before, behind)
    unexplained = rise[during & (rise > RISE_BYTES) & ~(others > 0)]
    if not len(unexplained):
        return None
    return f"{unexplained.max() / 2**20:.0f} MiB came and went that no list shows, in {len(unexplained)} row(s)"


def _last_known(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each value, or the one before it if it is NaN; NaN if there is none before."""
    known = np.maximum.accumulate(np.where(np.isnan(values), -1, np.arange(len(values))))
    return np.where(known >= 0, values[known], np.nan)
