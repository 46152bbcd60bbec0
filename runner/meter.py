"""The sampler, a process of its own: python -m runner.meter SAMPLES_CSV [GPU_UUID].

It samples the idle device, prints "ready", reads the worker's process id from standard input, and samples at 10 Hz
until standard input closes. Times are those of the monotonic clock. CPU times are sums since the start, so a mean
over any window is a difference. An empty cell is a value the machine did not give.
"""

from __future__ import annotations

import contextlib
import csv
import os
import select
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

import psutil
import pynvml

PERIOD_S = 0.1
SLOW_PERIOD_S = 1.0  # process lists are expensive: a driver-wide lock on the GPU, a walk through /proc on the CPU

COLUMNS = (
    "t_ns",
    "cpu_s",  # user + system time of the worker's process tree
    "cores_cpu_s",  # busy time of the cores that the worker may use, whoever used them, stolen time included
    "host_memory_bytes",  # resident size, summed over the tree
    "gpu_percent",  # share of the driver's last period with a kernel resident
    "device_memory_bytes",
    "process_memory_bytes",  # of the worker's tree on the device
    "foreign_processes",  # on the device, outside the worker's tree
)
Row = dict[str, float | int | None]


@dataclass
class ProcessTree:
    """The worker and its descendants; the list of descendants is renewed once a second."""

    root: psutil.Process
    cores: list[int]  # its affinity, which its children inherit
    processes: list[psutil.Process] = field(default_factory=list)
    renewed_at: float = float("-inf")

    def sample(self) -> Row:
        if time.monotonic() - self.renewed_at >= SLOW_PERIOD_S:
            with contextlib.suppress(psutil.NoSuchProcess):
                self.processes = [self.root, *self.root.children(recursive=True)]
            self.renewed_at = time.monotonic()
        cpu_s, memory_bytes, alive = 0.0, 0, 0
        for process in self.processes:
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied), process.oneshot():
                times = process.cpu_times()
                resident = process.memory_info().rss
                cpu_s += times.user + times.system + times.children_user + times.children_system
                memory_bytes += resident
                alive += resident > 0  # a zombie has none
        if not alive:
            return {}
        return {"cpu_s": cpu_s, "host_memory_bytes": memory_bytes}


class GpuMeter:
    """One GPU through NVML, opened once. A query that fails leaves its cell empty."""

    def __init__(self, uuid: str) -> None:
        pynvml.nvmlInit()
        self.handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        self.listed_at = float("-inf")

    def sample(self, tree: ProcessTree | None) -> Row:
        row: Row = {}
        with contextlib.suppress(pynvml.NVMLError):
            row["gpu_percent"] = pynvml.nvmlDeviceGetUtilizationRates(self.handle).gpu
        with contextlib.suppress(pynvml.NVMLError):
            info = pynvml.nvmlDeviceGetMemoryInfo(self.handle, version=pynvml.nvmlMemory_v2)
            row["device_memory_bytes"] = info.used
        if time.monotonic() - self.listed_at >= SLOW_PERIOD_S:
            self.listed_at = time.monotonic()
            with contextlib.suppress(pynvml.NVMLError, pynvml.NVMLLibraryMismatchError):
                row |= self.processes(tree)
        return row

    def processes(self, tree: ProcessTree | None) -> Row:
        """Where the worker is not among the listed ids (a container's differ), company cannot be told from it."""
        listed = {p.pid: p.usedGpuMemory for p in pynvml.nvmlDeviceGetComputeRunningProcesses_v3(self.handle)}
        if tree is None:
            return {"foreign_processes": len(listed)}
        own = {process.pid for process in tree.processes} & set(listed)
        if not own:
            return {}
        used = [listed[pid] for pid in own]
        row: Row = {"foreign_processes": len(listed) - len(own)}
        if None not in used:
            row["process_memory_bytes"] = sum(used)
        return row


def busy_s(cores: list[int]) -> float:
    """Sum over the cores of all time that was not idle, since boot."""
    every = psutil.cpu_times(percpu=True)
    return sum(t.user + t.nice + t.system + t.irq + t.softirq + t.steal for t in (every[core] for core in cores))


def sample(tree: ProcessTree | None, gpu: GpuMeter | None) -> Row:
    row: Row = {"t_ns": time.monotonic_ns()}
    if tree is not None:
        row |= {"cores_cpu_s": round(busy_s(tree.cores), 2)} | tree.sample()
    if gpu is not None:
        row |= gpu.sample(tree)
    return row


def closed(stream: TextIO) -> bool:
    """Whether the runner has closed its end: it ends sampling by that, and so does its own death."""
    readable, _, _ = select.select([stream], [], [], 0)
    return bool(readable) and stream.readline() == ""


def main(samples: Path, uuid: str | None) -> None:
    with samples.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="")
        writer.writeheader()
        gpu = GpuMeter(uuid) if uuid else None
        writer.writerow(sample(None, gpu))
        file.flush()
        print("ready", flush=True)
        answer = sys.stdin.readline().strip()
        if not answer:
            return
        try:
            worker = psutil.Process(int(answer))
            tree = ProcessTree(worker, worker.cpu_affinity())
        except psutil.NoSuchProcess:  # it has ended already
            return
        due = time.monotonic()
        while not closed(sys.stdin):
            writer.writerow(sample(tree, gpu))
            file.flush()
            due = max(due + PERIOD_S, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))
    if tree.root.is_running():  # the runner ends the worker before it closes this: it has been killed itself
        with contextlib.suppress(ProcessLookupError):
            os.killpg(tree.root.pid, signal.SIGKILL)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None)
