"""The GPU's meter: one device through NVML, found by its UUID, asked only for what it answered at the start.

Nothing here raises: what the driver does not report is an empty cell, and the report says why.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pynvml

from runner.sampler.nvml import UNANSWERED, DriverBuffer, Gpm, Implausible, NvmlMetric, Query, Row, describe_refusal
from workloads.records.columns import PERIOD_S, RISE_BYTES

SLOW_PERIOD_S = 1.0  # a process list takes milliseconds and a driver-wide lock; clocks and temperature change slowly
RATE_PERIOD_S = 1.0  # a utilisation rate covers the last 1/6 to 1 s
LINGER_S = 1.0  # time for which a driver may list a process that has ended
LINGER_STEPS = 5


def read_gpu_percent(handle: Any) -> Row:
    """Return the share of the last rate period in which a kernel ran. Raises NVMLError."""
    return {"gpu_percent": pynvml.nvmlDeviceGetUtilizationRates(handle).gpu}


def read_device_memory(handle: Any, **version: int) -> Row:
    """Return the memory of the whole device. Raises Implausible, NVMLError."""
    info = pynvml.nvmlDeviceGetMemoryInfo(handle, **version)
    if info.used > info.total:
        raise Implausible(f"{info.used} bytes in use of {info.total}")
    return {"device_memory_bytes": info.used}


def read_instant_power(handle: Any) -> Row:
    """Return the power at this instant. NVML answers the call even if the field is not available. Raises NVMLError."""
    field = pynvml.nvmlDeviceGetFieldValues(handle, [pynvml.NVML_FI_DEV_POWER_INSTANT])[0]
    if field.nvmlReturn != pynvml.NVML_SUCCESS:
        raise pynvml.NVMLError(field.nvmlReturn)
    return {"power_mw": field.value.uiVal}


def build_query(name: str, column: str, *arguments: int, **more: Any) -> Query:
    """Return a call of nvidia-ml-py whose answer is the column's value."""
    call = getattr(pynvml, name)
    return Query(name, lambda handle: {column: call(handle, *arguments)}, **more)


def build_quick_queries() -> dict[str, tuple[Query, ...]]:
    """Return the queries for what is read with every row, the best one first."""
    return {
        "gpu_percent": (Query("nvmlDeviceGetUtilizationRates", read_gpu_percent, period_s=RATE_PERIOD_S),),
        "device_memory_bytes": (
            Query("nvmlDeviceGetMemoryInfo_v2", partial(read_device_memory, version=pynvml.nvmlMemory_v2)),
            Query("nvmlDeviceGetMemoryInfo", read_device_memory, note="the driver's own reserve included"),
        ),
        "energy_mj": (build_query("nvmlDeviceGetTotalEnergyConsumption", "energy_mj"),),
        "power_mw": (
            Query("nvmlDeviceGetFieldValues", read_instant_power, note="NVML_FI_DEV_POWER_INSTANT"),
            build_query(
                "nvmlDeviceGetPowerUsage", "power_mw", note="on Ampere and newer the last second's mean", period_s=1.0
            ),
        ),
    }


def build_slow_queries() -> dict[str, tuple[Query, ...]]:
    """Return the queries for what changes slowly, the best one first."""
    sm, memory, core = pynvml.NVML_CLOCK_SM, pynvml.NVML_CLOCK_MEM, pynvml.NVML_TEMPERATURE_GPU
    return {
        "sm_clock_mhz": (build_query("nvmlDeviceGetClockInfo", "sm_clock_mhz", sm, note="SM"),),
        "memory_clock_mhz": (build_query("nvmlDeviceGetClockInfo", "memory_clock_mhz", memory, note="memory"),),
        "temperature_c": (
            build_query("nvmlDeviceGetTemperatureV", "temperature_c", core),
            build_query("nvmlDeviceGetTemperature", "temperature_c", core),
        ),
        "throttle_reasons": (
            build_query("nvmlDeviceGetCurrentClocksEventReasons", "throttle_reasons"),
            build_query("nvmlDeviceGetCurrentClocksThrottleReasons", "throttle_reasons"),
        ),
        "power_limit_mw": (build_query("nvmlDeviceGetEnforcedPowerLimit", "power_limit_mw"),),
    }


class GpuProcesses:
    """The processes on the device: the worker's tree, and others."""

    def __init__(self, total_bytes: int | None) -> None:
        names = ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2")
        queries = (Query(name, partial(self._ask, getattr(pynvml, name))) for name in names)
        self.metric = NvmlMetric(tuple(queries), SLOW_PERIOD_S)
        self.total_bytes = total_bytes
        self.worker_ids: set[int] = set()
        self.phase = "before"  # "before" | "during" | "after" the worker's life

    def _ask(self, call: Callable[[Any], list[Any]], handle: Any) -> Row:
        """List the processes. If no id listed is the worker's (a container's differ), one may still be the worker."""
        listed = call(handle)
        ours = [process for process in listed if process.pid in self.worker_ids]
        others = {process.pid for process in listed} - self.worker_ids
        unknown = self.phase == "during" and not ours
        row: Row = {"foreign_processes": max(0, len(others) - unknown)}
        if self.phase == "during":
            column, missing = "process_memory_bytes", self._doubt(ours)
            if missing is None:
                self.metric.missing.pop(column, None)
                row[column] = sum(process.usedGpuMemory for process in ours)
            elif ours:
                self.metric.missing[column] = missing
            else:
                self.metric.missing.setdefault(column, missing)
        return row

    def _doubt(self, ours: list[Any]) -> str | None:
        """Return why the memory use of the worker's processes is unknown; None if the list reports it."""
        if not ours:
            return "none of the ids listed is the worker's (a container's differ)"
        for process in ours:
            if process.usedGpuMemory and self.total_bytes and process.usedGpuMemory > self.total_bytes:
                return f"process {process.pid} is said to use {process.usedGpuMemory} bytes of {self.total_bytes}"
        if any(process.usedGpuMemory is None for process in ours):
            return "the driver lists the process without its memory"
        if not any(process.usedGpuMemory for process in ours):
            return "the driver lists the process with 0 bytes (as in a container)"
        return None


class GpuMeter:
    """Samples of one GPU. `driver_samples` is the file for the driver's samples."""

    def __init__(self, uuid: str, driver_samples: Path) -> None:
        self.uuid = uuid
        self.metrics: dict[str, NvmlMetric] = {}
        self.remark = ""
        self.graphics: int | None = None  # most processes listed with graphics, without the worker's
        self.reason: str | None = None
        self.lowest_bytes = float("inf")  # of the device's memory since the processes were last listed
        call = "nvmlInit"
        try:
            pynvml.nvmlInit()
            call = "nvmlDeviceGetHandleByUUID"
            self.handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        except UNANSWERED as error:
            self.reason = describe_refusal(call, error)
            return
        with suppress(*UNANSWERED):
            if pynvml.nvmlDeviceGetMigMode(self.handle)[0]:
                self.remark = "MIG mode is on"
        total_bytes = None
        with suppress(*UNANSWERED):
            total_bytes = pynvml.nvmlDeviceGetMemoryInfo(self.handle).total
        self.processes = GpuProcesses(total_bytes)
        self.metrics = {
            **{name: NvmlMetric(queries, PERIOD_S) for name, queries in build_quick_queries().items()},
            **{name: NvmlMetric(queries, SLOW_PERIOD_S) for name, queries in build_slow_queries().items()},
            "gpm": Gpm(SLOW_PERIOD_S).metric,
            "driver_samples": DriverBuffer(driver_samples, SLOW_PERIOD_S).metric,
            "processes": self.processes.metric,  # last: it takes longest
        }
        for metric in self.metrics.values():
            metric.probe(self.handle)
        self._see_graphics()

    def _see_graphics(self) -> None:
        """Count a desktop's processes: they compute nothing, and mark no trial."""
        with suppress(*UNANSWERED):
            listed = {process.pid for process in pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3(self.handle)}
            self.graphics = max(self.graphics or 0, len(listed - self.processes.worker_ids))

    def sample(self, worker_ids: set[int] | None) -> Row:
        """Return what is due now; `worker_ids` are those of the worker's tree, None before there is one."""
        if self.reason:
            return {}
        if worker_ids is not None:
            self.processes.worker_ids |= worker_ids
            self.processes.phase = "during"
        row = self._ask(lambda metric: metric.due(time.monotonic()))
        processes = self.processes.metric
        if self._risen(row) and processes.query is not None:
            row |= processes.ask(self.handle, out_of_turn=True)
        return row

    def _risen(self, row: Row) -> bool:
        """True if the device's memory has risen since the processes were listed: one may have come."""
        used = row.get("device_memory_bytes")
        if used is None:
            return False
        risen = "foreign_processes" not in row and used - self.lowest_bytes > RISE_BYTES
        self.lowest_bytes = used if risen or "foreign_processes" in row else min(self.lowest_bytes, used)
        return risen

    def last(self) -> Row:
        """Read everything once more after the worker has ended, to see which processes are still there."""
        if self.reason:
            return {}
        self.processes.phase = "after"
        self._see_graphics()
        row = self._ask(lambda metric: metric.query is not None)
        for _ in range(LINGER_STEPS):
            if not row.get("foreign_processes"):
                break
            time.sleep(LINGER_S / LINGER_STEPS)
            row |= self.processes.metric.ask(self.handle)
        return row

    def _ask(self, wanted: Callable[[NvmlMetric], bool]) -> Row:
        row: Row = {}
        for metric in self.metrics.values():
            if wanted(metric):
                row |= metric.ask(self.handle)
        return row

    def account(self) -> dict[str, Any]:
        """Return the report for meter.json: what answers, what does not and why, and what it costs."""
        return {
            "uuid": self.uuid,
            "reason": self.reason,
            "remark": self.remark or None,
            "graphics_processes": self.graphics,
            "metrics": {name: metric.account(self.remark) for name, metric in self.metrics.items()},
        }
