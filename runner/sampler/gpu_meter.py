"""The GPU's meter: one device through NVML, found by its UUID, asked only what it answered at the start.

Nothing here raises: what the driver does not tell is an empty cell, and the account says why.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pynvml

from runner.results.gpu_contention import RISE_BYTES
from runner.sampler.nvml_buffers import DriverBuffer, Gpm
from runner.sampler.nvml_query import UNANSWERED, Implausible, Metric, Row, Way, told
from workloads.records.files import DRIVER_SAMPLES_FILE
from workloads.records.samples import PERIOD_S

SLOW_PERIOD_S = 1.0  # a process list takes milliseconds and a driver-wide lock; clocks and temperature change slowly
RATE_PERIOD_S = 1.0  # a utilisation rate covers the last 1/6 to 1 s
LINGER_S = 1.0  # how long a driver may list a process that has ended
LINGER_STEPS = 5


def gpu_percent(handle: Any) -> Row:
    """Share of the last rate period in which a kernel ran. Raises NVMLError."""
    return {"gpu_percent": pynvml.nvmlDeviceGetUtilizationRates(handle).gpu}


def _memory(info: Any) -> Row:
    if info.used > info.total:
        raise Implausible(f"{info.used} bytes in use of {info.total}")
    return {"device_memory_bytes": info.used}


def instant_power(handle: Any) -> Row:
    """NVML answers this call even where the field itself is not to be had."""
    field = pynvml.nvmlDeviceGetFieldValues(handle, [pynvml.NVML_FI_DEV_POWER_INSTANT])[0]
    if field.nvmlReturn != pynvml.NVML_SUCCESS:
        raise pynvml.NVMLError(field.nvmlReturn)
    return {"power_mw": field.value.uiVal}


def way(name: str, column: str, *arguments: int, **more: Any) -> Way:
    """A call of nvidia-ml-py whose answer is the column's value as it is."""
    call = getattr(pynvml, name)
    return Way(name, lambda handle: {column: call(handle, *arguments)}, **more)


def plain_metrics() -> dict[str, Metric]:
    """Those whose readings stand for themselves."""
    quick = {name: Metric(ways, PERIOD_S) for name, ways in quick_ways().items()}
    return quick | {name: Metric(ways, SLOW_PERIOD_S) for name, ways in slow_ways().items()}


def quick_ways() -> dict[str, tuple[Way, ...]]:
    """Of what is read with every row; the best way is named first."""
    return {
        "gpu_percent": (Way("nvmlDeviceGetUtilizationRates", gpu_percent, period_s=RATE_PERIOD_S),),
        "device_memory_bytes": (
            Way(
                "nvmlDeviceGetMemoryInfo_v2",
                lambda handle: _memory(pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)),
            ),
            Way(
                "nvmlDeviceGetMemoryInfo",
                lambda handle: _memory(pynvml.nvmlDeviceGetMemoryInfo(handle)),
                note="the driver's own reserve included",
            ),
        ),
        "energy_mj": (way("nvmlDeviceGetTotalEnergyConsumption", "energy_mj"),),
        "power_mw": (
            Way("nvmlDeviceGetFieldValues", instant_power, note="NVML_FI_DEV_POWER_INSTANT"),
            way("nvmlDeviceGetPowerUsage", "power_mw", note="on Ampere and newer the last second's mean", period_s=1.0),
        ),
    }


def slow_ways() -> dict[str, tuple[Way, ...]]:
    """Of what changes slowly; the best way is named first."""
    core = pynvml.NVML_TEMPERATURE_GPU
    return {
        "sm_clock_mhz": (way("nvmlDeviceGetClockInfo", "sm_clock_mhz", pynvml.NVML_CLOCK_SM, note="SM"),),
        "memory_clock_mhz": (way("nvmlDeviceGetClockInfo", "memory_clock_mhz", pynvml.NVML_CLOCK_MEM, note="memory"),),
        "temperature_c": (
            way("nvmlDeviceGetTemperatureV", "temperature_c", core),
            way("nvmlDeviceGetTemperature", "temperature_c", core),
        ),
        "throttle_reasons": (
            way("nvmlDeviceGetCurrentClocksEventReasons", "throttle_reasons"),
            way("nvmlDeviceGetCurrentClocksThrottleReasons", "throttle_reasons"),
        ),
        "power_limit_mw": (way("nvmlDeviceGetEnforcedPowerLimit", "power_limit_mw"),),
    }


class Processes:
    """Who is on the device: the worker's tree, and others."""

    def __init__(self, missing: dict[str, str], total_bytes: int | None) -> None:
        self.missing, self.total_bytes = missing, total_bytes
        self.own: set[int] = set()
        self.phase = "before"  # "before" | "during" | "after" the worker's life

    def ways(self) -> tuple[Way, ...]:
        """The newest form of the call first."""
        names = ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2")
        return tuple(Way(name, partial(self._ask, getattr(pynvml, name))) for name in names)

    def _ask(self, call: Callable[[Any], list[Any]], handle: Any) -> Row:
        """Where no id listed is the worker's (a container's differ), one of them may still be the worker."""
        listed = call(handle)
        ours = {process.pid for process in listed} & self.own
        others = {process.pid for process in listed} - ours
        unknown = self.phase == "during" and not ours
        row: Row = {"foreign_processes": max(0, len(others) - unknown)}
        if self.phase == "during":
            row |= self._memory([process for process in listed if process.pid in ours])
        return row

    def _garbage(self, process: Any) -> bool:
        used = process.usedGpuMemory
        wrong = used is not None and self.total_bytes is not None and used > self.total_bytes
        if wrong:
            self.missing["garbage"] = f"process {process.pid} is said to use {used} bytes of {self.total_bytes}"
        return wrong

    def _memory(self, ours: list[Any]) -> Row:
        column = "process_memory_bytes"
        if not ours:
            self.missing.setdefault(column, "none of the ids listed is the worker's (a container's differ)")
        elif any(self._garbage(process) for process in ours):
            self.missing[column] = self.missing["garbage"]
        elif any(process.usedGpuMemory is None for process in ours):
            self.missing[column] = "the driver lists the process without its memory"
        else:
            self.missing.pop(column, None)
            return {column: sum(process.usedGpuMemory for process in ours)}
        return {}


class GpuMeter:
    """Samples of one GPU. `folder` gets the driver's own samples."""

    def __init__(self, uuid: str, folder: Path) -> None:
        self.uuid = uuid
        self.metrics: dict[str, Metric] = {}
        self.remark = ""
        self.graphics: int | None = None  # most processes listed with graphics, the worker's aside
        self.reason: str | None = None
        self.lowest_bytes = float("inf")  # of the device's memory since the processes were listed last
        call = "nvmlInit"
        try:
            pynvml.nvmlInit()
            call = "nvmlDeviceGetHandleByUUID"
            self.handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        except UNANSWERED as error:
            self.reason = told(call, error)
            return
        with suppress(*UNANSWERED):
            if pynvml.nvmlDeviceGetMigMode(self.handle)[0]:
                self.remark = "MIG mode is on"
        self._list_metrics(folder / DRIVER_SAMPLES_FILE)
        for metric in self.metrics.values():
            metric.probe(self.handle)
        self._see_graphics()

    def _see_graphics(self) -> None:
        """A desktop's are no company that computes: they are counted, and mark no trial."""
        with suppress(*UNANSWERED):
            listed = {process.pid for process in pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3(self.handle)}
            self.graphics = max(self.graphics or 0, len(listed - self.processes.own))

    def _list_metrics(self, driver_samples: Path) -> None:
        total_bytes = None
        with suppress(*UNANSWERED):
            total_bytes = pynvml.nvmlDeviceGetMemoryInfo(self.handle).total
        processes, gpm = Metric((), SLOW_PERIOD_S), Metric((), SLOW_PERIOD_S)
        self.processes = Processes(processes.missing, total_bytes)
        processes.ways = self.processes.ways()
        counters, buffer = Gpm(gpm.missing), DriverBuffer(driver_samples)
        gpm.ways = (Way("nvmlGpmMetricsGet", counters.ask, start=counters.start),)
        drained = Way("nvmlDeviceGetSamples", buffer.ask, note="the driver's own samples", start=buffer.start)
        self.metrics = plain_metrics() | {
            "gpm": gpm,
            "driver_samples": Metric((drained,), SLOW_PERIOD_S),
            "processes": processes,  # last: it takes longest
        }

    def sample(self, own: set[int] | None) -> Row:
        """What is due now; `own` are the ids of the worker's tree, None before there is one."""
        if self.reason:
            return {}
        if own is not None:
            self.processes.own |= own
            self.processes.phase = "during"
        row = self._ask(lambda metric: metric.due(time.monotonic()))
        processes = self.metrics["processes"]
        if self._risen(row) and processes.way is not None:
            row |= processes.ask(self.handle, out_of_turn=True)
        return row

    def _risen(self, row: Row) -> bool:
        """Whether the device's memory has risen since the processes were listed: one may have come."""
        used = row.get("device_memory_bytes")
        if used is None:
            return False
        risen = "foreign_processes" not in row and used - self.lowest_bytes > RISE_BYTES
        self.lowest_bytes = used if risen or "foreign_processes" in row else min(self.lowest_bytes, used)
        return risen

    def last(self) -> Row:
        """Everything once more, when the worker has ended: who is still there?"""
        if self.reason:
            return {}
        self.processes.phase = "after"
        self._see_graphics()
        row = self._ask(lambda metric: metric.way is not None)
        for _ in range(LINGER_STEPS):
            if not row.get("foreign_processes"):
                break
            time.sleep(LINGER_S / LINGER_STEPS)
            row |= self.metrics["processes"].ask(self.handle)
        return row

    def _ask(self, wanted: Callable[[Metric], bool]) -> Row:
        row: Row = {}
        for metric in self.metrics.values():
            if wanted(metric):
                row |= metric.ask(self.handle)
        return row

    def account(self) -> dict[str, Any]:
        """What answers, what does not and why, and what it costs: for meter.json."""
        return {
            "uuid": self.uuid,
            "reason": self.reason,
            "remark": self.remark or None,
            "graphics_processes": self.graphics,
            "metrics": {name: metric.account(self.remark) for name, metric in self.metrics.items()},
        }
