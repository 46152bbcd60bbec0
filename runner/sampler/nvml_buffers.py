"""Readers of what the GPU's driver buffered since it was last asked: its samples, and GPM on Hopper and newer."""

from __future__ import annotations

import csv
import math
import time
from pathlib import Path
from typing import Any

import pynvml

from runner.sampler.nvml_query import Implausible, Metric, Query, Row, Withdrawn, refusal
from workloads.records.samples import DRIVER_COLUMNS

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
        self.metric = Metric((query,), every_s)
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
        self.metric = Metric((Query("nvmlGpmMetricsGet", self.ask, start=self.start),), every_s)

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
                self.metric.missing[column] = refusal(
                    f"GPM metric {metric.metricId}", pynvml.NVMLError(metric.nvmlReturn)
                )
            elif math.isfinite(metric.value):
                row[column] = round(metric.value, 3)
        return row
