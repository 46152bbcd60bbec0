"""Metrics of the GPU's driver: the queries that may give one, a record of the answers, and the driver's own buffers."""

from __future__ import annotations

import csv
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pynvml

from workloads.records.columns import DRIVER_COLUMNS, LARGEST, PERIOD_S

Row = dict[str, float | int | None]


class Implausible(Exception):
    """The driver's answer cannot be true; the message says why."""


class Withdrawn(Implausible):
    """No answer to this query can be trusted: it is not asked again."""


UNANSWERED = (pynvml.NVMLError, pynvml.NVMLLibraryMismatchError, Implausible)


def describe_refusal(call: str, error: Exception) -> str:
    """Return the call and the driver's message, on one line."""
    code = f" (NVML error {error.value})" if isinstance(error, pynvml.NVMLError) else ""
    return f"{call}: {error}{code}"


@dataclass(frozen=True)
class Query:
    """One call that answers. `ask` takes NVML's handle; raises one of UNANSWERED."""

    call: str
    ask: Callable[[Any], Row]
    note: str = ""  # what a reader of the figure should know about this query
    period_s: float = 0.0  # a reading describes this period before it
    start: Callable[[Any], Any] | None = None  # the first call, if readings continue from the previous one

    @property
    def source(self) -> str:
        """The call and its note, for a figure's source."""
        return f"NVML {self.call}{', ' if self.note else ''}{self.note}"


@dataclass
class NvmlMetric:
    """One metric, probed once: the first query that is answered is used, and without one it is not asked again."""

    queries: tuple[Query, ...]
    every_s: float
    query: Query | None = None
    refusals: list[str] = field(default_factory=list)
    probe_us: float = 0.0  # the last call that the probe made
    asked_at: float = float("-inf")
    calls: int = 0
    busy_ns: int = 0
    failures: int = 0
    first_failure: dict[str, Any] | None = None
    missing: dict[str, str] = field(default_factory=dict)  # {column: why the driver's answer lacks it}

    def probe(self, handle: Any) -> None:
        """Choose the query; reasons why those before it failed go to `refusals`."""
        for query in self.queries:
            started = time.perf_counter_ns()
            try:
                (query.start or query.ask)(handle)
                self.query = query
            except UNANSWERED as error:
                self.refusals.append(describe_refusal(query.call, error))
            self.probe_us = (time.perf_counter_ns() - started) / 1e3
            if self.query:
                break
        if self.query and self.query.start:
            self.asked_at = time.monotonic()

    def due(self, now_s: float) -> bool:
        """True if the metric is due: with every row, or once in several. Rows come late, then early."""
        waited = self.every_s <= PERIOD_S or now_s - self.asked_at >= self.every_s - PERIOD_S / 2
        return self.query is not None and waited

    def ask(self, handle: Any, out_of_turn: bool = False) -> Row:
        """Return the answer, empty after a failure, which is counted. `out_of_turn` leaves the schedule unchanged."""
        assert self.query
        if not out_of_turn:
            self.asked_at = time.monotonic()
        self.calls += 1
        started = time.perf_counter_ns()
        try:
            row = self.query.ask(handle)
            if wrong := [value for value in row.values() if value is not None and abs(value) > LARGEST]:
                raise Implausible(f"{wrong[0]:g} is too large to be measured")
            return row
        except UNANSWERED as error:
            self.failures += 1
            reason = describe_refusal(self.query.call, error)
            self.first_failure = self.first_failure or {"t_ns": time.monotonic_ns(), "reason": reason}
            if isinstance(error, Withdrawn):
                self.refusals.append(reason)
                self.query = None
            return {}
        finally:
            self.busy_ns += time.perf_counter_ns() - started

    def account(self, remark: str) -> dict[str, Any]:
        """Return the report for meter.json; `remark` is added to the reason why nothing answers."""
        return {
            "source": self.query.source if self.query else None,
            "reason": None if self.query else "; ".join([*self.refusals, *([remark] if remark else [])]),
            "tried_before": self.refusals if self.query else [],
            "period_s": self.query.period_s if self.query else None,
            "every_s": self.every_s,
            "probe_us": round(self.probe_us, 1),
            "mean_us": round(self.busy_ns / self.calls / 1e3, 1) if self.calls else None,
            "calls": self.calls,
            "failures": self.failures,
            "first_failure": self.first_failure,
            "missing": self.missing,
        }


LATEST_S = 2.0  # the driver samples several times a second: its newest sample is no older, and not from the future

# Members of NVML's union of values, by its type.
VALUES = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")

GPM_METRICS = {
    "sm_active_percent": pynvml.NVML_GPM_METRIC_SM_UTIL,
    "sm_occupancy_percent": pynvml.NVML_GPM_METRIC_SM_OCCUPANCY,
    "tensor_active_percent": pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL,
    "dram_active_percent": pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL,
}


class DriverBuffer:
    """Drains the driver's ring buffer of utilisation samples into a separate file, in monotonic time."""

    def __init__(self, path: Path, every_s: float) -> None:
        query = Query("nvmlDeviceGetSamples", self.ask, note="the driver's own samples", start=self.start)
        self.metric = NvmlMetric((query,), every_s)
        self.path = path
        self.seen_us = 0

    def start(self, handle: Any) -> None:
        """Leave out what is older than the trial."""
        self.seen_us = max((at_us for at_us, _ in self._newer(handle)), default=0)
        with self.path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerow(DRIVER_COLUMNS)

    def _newer(self, handle: Any) -> list[tuple[int, float]]:
        """Return (epoch microseconds, percent), oldest first, each pair once: some answers repeat a sample."""
        kind = pynvml.NVML_GPU_UTILIZATION_SAMPLES
        try:
            value_type, samples = pynvml.nvmlDeviceGetSamples(handle, kind, self.seen_us)
        except pynvml.NVMLError_NotFound:  # none is newer
            return []
        if not 0 <= value_type < len(VALUES):
            raise Implausible(f"values of unknown type {value_type}")
        member = VALUES[value_type]
        pairs = {(sample.timeStamp, getattr(sample.sampleValue, member)) for sample in samples}
        return sorted((at_us, percent) for at_us, percent in pairs if at_us > self.seen_us)

    def ask(self, handle: Any) -> Row:
        """Write the new samples to the file; the row gets none of them."""
        newer = self._newer(handle)
        monotonic_ns, epoch_ns = time.monotonic_ns(), time.time_ns()
        if not newer:
            return {}
        self.seen_us = newer[-1][0]
        ahead_s = self.seen_us / 1e6 - epoch_ns / 1e9
        if abs(ahead_s) > LATEST_S:
            raise Withdrawn(f"its newest sample is {ahead_s:+.1f} s from now: the driver has another clock")
        with self.path.open("a", newline="", encoding="utf-8") as file:
            rows = [(at_us * 1000 - epoch_ns + monotonic_ns, at_us, percent) for at_us, percent in newer]
            csv.writer(file).writerows(rows)
        return {}


class Gpm:
    """Means between two samples of the hardware's counters; each pair starts where the one before ended."""

    def __init__(self, every_s: float) -> None:
        self.metric = NvmlMetric((Query("nvmlGpmMetricsGet", self.ask, start=self.start),), every_s)

    def start(self, handle: Any) -> None:
        """Take the first of two samples. Raises Implausible before Hopper, NVMLError."""
        if not pynvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
            raise Implausible("this GPU has none (Hopper and newer do)")
        self.earlier, self.later = pynvml.nvmlGpmSampleAlloc(), pynvml.nvmlGpmSampleAlloc()
        pynvml.nvmlGpmSampleGet(handle, self.earlier)

    def ask(self, handle: Any) -> Row:
        """Return the means since the last pair. A failed pair is not lost: the next one starts where it did."""
        pynvml.nvmlGpmSampleGet(handle, self.later)
        request = pynvml.c_nvmlGpmMetricsGet_t()
        request.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        request.numMetrics = len(GPM_METRICS)
        request.sample1, request.sample2 = self.earlier, self.later
        for index, number in enumerate(GPM_METRICS.values()):
            request.metrics[index].metricId = number
        pynvml.nvmlGpmMetricsGet(request)
        self.earlier, self.later = self.later, self.earlier
        row: Row = {}
        for index, column in enumerate(GPM_METRICS):
            metric = request.metrics[index]
            if metric.nvmlReturn != pynvml.NVML_SUCCESS:
                self.metric.missing[column] = describe_refusal(
                    f"GPM metric {metric.metricId}", pynvml.NVMLError(metric.nvmlReturn)
                )
            elif abs(metric.value) <= LARGEST:  # no NaN either
                row[column] = round(metric.value, 3)
        return row
