"""The sampler, a separate process: python -m runner.sampler.

A line of JSON on its standard input starts it. It samples the idle device, prints "ready" and reads the worker's
process id. It then samples at 10 Hz (runner.sampler.meter) until standard input says that it is over, or closes.
Times are those of the monotonic clock. CPU times are sums since the start, so a mean over any window is a difference.
An empty cell is a value the machine did not give. The report, meter.json, says why the GPU's, the packages' and the
quota's are empty, and what the sampling itself cost. It also has, for each process of the worker's tree, its processor
time and highest resident size.
"""

from __future__ import annotations

import contextlib
import csv
import os
import random
import time
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import psutil

from runner.machine.counters import POWERCAP, CpuQuota, PackageEnergy
from runner.sampler.gpu_meter import GpuMeter
from runner.sampler.nvml import Row
from runner.sampler.owner import Owner
from workloads.processor_time import find_busy_s
from workloads.records.columns import COLUMNS, PERIOD_S
from workloads.records.files import (
    DRIVER_SAMPLES_FILE,
    METER_FILE,
    OTHER_DRIVER_SAMPLES_FILE,
    OTHER_SAMPLES_FILE,
    write_json,
)


def derive_seed(name: str) -> int:
    """Return the seed for the trial of this name: repeats differ, and the same trial is sampled at the same moments."""
    return zlib.crc32(name.encode())


class Schedule:
    """Moments in seconds of the monotonic clock, one in each period since the start."""

    def __init__(self, seed: int, started_s: float) -> None:
        """The first moment lies in the period that begins now."""
        self.started_s = started_s
        self._random = random.Random(seed)
        self._number = -1

    def next_s(self, now_s: float) -> float:
        """Return the moment of the next row, `now_s` if it has passed; fully missed periods are left out."""
        self._number = max(self._number + 1, int((now_s - self.started_s) // PERIOD_S))
        return max(now_s, self.started_s + (self._number + self._random.random()) * PERIOD_S)


class Strays:
    """Children that the runner did not start. Kernels without CONFIG_PROC_CHILDREN list none."""

    def __init__(self, runner: int, worker: int) -> None:
        """Record the children that the runner has now: it started them, since the worker has not begun."""
        self.tasks = Path("/proc") / str(runner) / "task"
        self.known = self._children() | {worker}

    def find(self) -> list[psutil.Process]:
        """Return the living strays, with their descendants."""
        found = []
        for pid in self._children() - self.known:
            with suppress(psutil.NoSuchProcess):
                stray = psutil.Process(pid)
                found += [stray, *stray.children(recursive=True)]
        return found

    def _children(self) -> set[int]:
        pids: set[int] = set()
        for file in self.tasks.glob("*/children"):
            with suppress(OSError):  # a thread that has ended
                pids |= {int(pid) for pid in file.read_text().split()}
        return pids


RENEW_S = 1.0  # finding the descendants is a walk through /proc


@dataclass
class ProcessTree:
    """The worker, its descendants, and processes that left those; the list of them is renewed once a second."""

    root: psutil.Process
    cores: list[int]  # its affinity, which its children inherit
    quota: CpuQuota
    strays: Strays
    processes: list[psutil.Process] = field(default_factory=list)
    renewed_at: float = float("-inf")
    seen: dict[int, dict[str, float]] = field(default_factory=dict)  # by process id; PyTorch's ranks are one each

    @property
    def ids(self) -> set[int]:
        """Process ids of the worker and its descendants, as last listed."""
        return {self.root.pid, *(process.pid for process in self.processes)}

    def sample(self) -> Row:
        """Return processor seconds and resident bytes of the tree; empty once all of it has ended."""
        if not self.processes:
            self._renew()
        cpu_s, memory_bytes, alive = 0.0, 0, 0
        for process in self.processes:
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied), process.oneshot():
                times = process.cpu_times()
                resident = process.memory_info().rss
                own_s = times.user + times.system + times.children_user + times.children_system
                cpu_s += own_s
                memory_bytes += resident
                peak_bytes = max(resident, self.seen.get(process.pid, {}).get("peak_resident_bytes", 0))
                self.seen[process.pid] = {"cpu_s": round(own_s, 2), "peak_resident_bytes": peak_bytes}
                alive += resident > 0  # a zombie has none
        if time.monotonic() - self.renewed_at >= RENEW_S:  # after the readings: it walks through all of /proc
            self._renew()
        if not alive:
            return {}
        return {"cpu_s": cpu_s, "host_memory_bytes": memory_bytes}

    def sample_cores(self) -> Row:
        """Return the seconds in which the worker's cores were busy, whoever used them; empty where the kernel does not
        say.
        """
        busy_s = find_busy_s(self.cores)
        return {} if busy_s is None else {"cores_cpu_s": round(busy_s, 2)}

    def _renew(self) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            self.processes = [self.root, *self.root.children(recursive=True), *self.strays.find()]
        self.renewed_at = time.monotonic()


def sample(tree: ProcessTree | None, gpu: GpuMeter | None, packages: PackageEnergy) -> Row:
    """Read one row, device and processor first, so that their readings are closest to the row's time."""
    row: Row = {"t_ns": time.monotonic_ns()}
    if gpu is not None:
        row |= gpu.sample(tree.ids if tree else None)
    row |= packages.sample()
    if tree is not None:
        row |= tree.sample_cores() | tree.sample() | tree.quota.sample()
    return row


def read_clocks() -> dict[str, int]:
    """Read the same moment on both clocks: the driver's own samples are stamped with the epoch."""
    return {"monotonic_ns": time.monotonic_ns(), "epoch_ns": time.time_ns()}


class OtherGpu:
    """One GPU after the first, with its own samples: the columns of a processor are empty."""

    def __init__(self, uuid: str, number: int, folder: Path) -> None:
        self.meter = GpuMeter(uuid, folder / OTHER_DRIVER_SAMPLES_FILE.format(number))
        self.file = (folder / OTHER_SAMPLES_FILE.format(number)).open("w", newline="", encoding="utf-8")
        self.writer = csv.DictWriter(self.file, COLUMNS, restval="")
        self.writer.writeheader()

    def sample(self, worker_ids: set[int] | None) -> None:
        """Write a row of what is due now."""
        self.write(self.meter.sample(worker_ids))

    def write(self, row: Row) -> None:
        """Append and flush."""
        self.writer.writerow({"t_ns": time.monotonic_ns()} | row)
        self.file.flush()


class Sampler:
    """Appends rows to the samples; each has left the process before the next is taken.

    The first row is from before the worker. The worker's end is at the second pair of `clocks` in the report.
    """

    def __init__(self, samples: Path, file: TextIO, uuids: Sequence[str], powercap: Path = POWERCAP) -> None:
        self.file = file
        self.writer = csv.DictWriter(file, COLUMNS, restval="")
        self.writer.writeheader()
        self.account = samples.parent / METER_FILE
        self.gpu = GpuMeter(uuids[0], samples.parent / DRIVER_SAMPLES_FILE) if uuids else None
        self.others = [OtherGpu(uuid, number, samples.parent) for number, uuid in enumerate(uuids[1:], start=1)]
        self.packages = PackageEnergy(powercap)
        self.clocks = [read_clocks()]
        self.seed = derive_seed(samples.parent.name)  # a trial's folder is named by its id
        self.rows = 0
        self.processes: dict[int, dict[str, float]] = {}
        self.quota: CpuQuota | None = None  # known once there is a worker

    def write(self, row: Row) -> None:
        """Append and flush, so that a reader meanwhile sees whole rows."""
        self.writer.writerow(row)
        self.file.flush()
        self.rows += 1

    def store_account(self, cost: dict[str, float] | None) -> None:
        """Write meter.json; `cost` is the sampler's own, None while it runs."""
        gpu = self.gpu.account() if self.gpu else None
        packages = self.packages.account()
        told: dict[str, Any] = {"gpu": gpu, "package_energy": packages, "clocks": self.clocks, "sampler": cost}
        told["schedule_seed"] = self.seed
        if self.others:
            told["other_gpus"] = [other.meter.account() for other in self.others]
        if self.quota:
            told["cpu_quota"] = self.quota.account()
        write_json(self.account, told | {"processes": [{"pid": pid, **seen} for pid, seen in self.processes.items()]})

    def follow(self, tree: ProcessTree, owner: Owner) -> None:
        """Sample until it is over; then read what is left on the device, and write the report."""
        started_s, cpu_before_s, rows_before = time.monotonic(), time.process_time(), self.rows
        schedule = Schedule(self.seed, started_s)
        self.processes, self.quota = tree.seen, tree.quota
        while not owner.over.wait(schedule.next_s(now_s := time.monotonic()) - now_s):
            self.write(sample(tree, self.gpu, self.packages))
            for other in self.others:
                other.sample(tree.ids)
        cost = {
            "cpu_s": time.process_time() - cpu_before_s,
            "wall_s": time.monotonic() - started_s,
            "samples": self.rows - rows_before,
        }
        self.end(cost)

    def end(self, cost: dict[str, float]) -> None:
        """Write the report first: the driver may no longer answer, and the runner does not wait for long."""
        self.clocks.append(read_clocks())
        self.store_account(cost)
        if self.gpu:
            self.write({"t_ns": time.monotonic_ns()} | self.gpu.last())
            for other in self.others:
                other.write(other.meter.last())
            self.store_account(cost)


def main(samples: Path, uuids: Sequence[str]) -> None:
    """Print "ready", read the worker's process id (or that there is none) and sample until it has ended."""
    trees: list[ProcessTree] = []
    owner = Owner(lambda: [process for tree in trees for process in tree.processes])
    with samples.open("w", newline="", encoding="utf-8") as file:
        sampler = Sampler(samples, file, uuids)
        sampler.store_account(None)
        sampler.write(sample(None, sampler.gpu, sampler.packages))
        for other in sampler.others:
            other.sample(None)
        print("ready", flush=True)
        pid = owner.worker()
        if pid is None:
            return
        try:
            worker = psutil.Process(pid)
            trees.append(ProcessTree(worker, worker.cpu_affinity(), CpuQuota(pid), Strays(os.getppid(), pid)))
        except psutil.NoSuchProcess:  # it has ended already
            return
        sampler.follow(trees[0], owner)
