"""The stand-in for the driver's library: built, given traces, and replayed in made-up time."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Collection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import ROOT

from runner.ask import Ended
from runner.launch import WorkerOutcome
from runner.results.assemble import assemble
from runner.sampler.meter import Sampler, Schedule
from workloads.records.events import Event
from workloads.records.job import TrialSpec
from workloads.records.result import TrialResult
from workloads.records.status import Status
from workloads.records.stored_events import read_events

Trace = list[tuple[float, dict[str, float]]]  # (ms, what changes at that time)
Moments = dict[int, list[Callable[[], object]]]  # ms: calls made at that time

UUID = "GPU-00000000-1111-2222-3333-444444444444"
UUID_B = "GPU-99999999-8888-7777-6666-555555555555"
MIB = 2**20
SECOND = 10**9
ZERO_NS = 5_000 * SECOND  # of the made-up monotonic clock
MADE_UP_EPOCH_NS = 1_700_000_000 * SECOND  # as in the C source

FOREVER_MS = 10_000_000
COLUMNS = ("gpu", "memory", "used", "process", "power", "sm", "mem", "degrees", "throttle")
IDLE: dict[str, float] = {"gpu": 0, "memory": 0, "used": 500, "process": 0, "power": 60,
        "sm": 345, "mem": 2619, "degrees": 40, "throttle": 1}  # fmt: skip

BATCH = {"images": 320}  # ten steps of the spec's batch size: the trial counts correctly

# Idle, 3 s at 90 %, 1 s at 30 %, idle. Between 1.95 s and 8.05 s.
STEPS: Trace = [
    (0, {}),
    (950, {"used": 900, "process": 400}),
    (2950, {"gpu": 90, "memory": 40, "used": 2500, "process": 2000, "power": 260, "sm": 1980, "degrees": 60,
            "throttle": 0}),
    (4450, {"used": 4500, "process": 4000, "degrees": 71, "throttle": 0x4 | 0x20, "sm": 1380}),
    (5950, {"gpu": 30, "memory": 10, "power": 160, "degrees": 65, "throttle": 0}),
    (6950, {"gpu": 0, "memory": 0, "power": 60, "sm": 345, "degrees": 50, "throttle": 1}),
]  # fmt: skip
WINDOW = 1.95, 8.05
ENERGY_J = 60 * 1.0 + 260 * 3.0 + 160 * 1.0 + 60 * 1.1
WINDOW_S = 6.1


def build(folder: Path, *flags: str) -> Path:
    """Compile the library; return its folder, for LD_LIBRARY_PATH."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler: the stand-in for the driver's library cannot be built")
    source = ROOT / "tests" / "gpu" / "nvml_stand_in.c"
    command = ["cc", *flags, "-shared", "-fPIC", "-Wall", "-Werror", "-Wl,-soname,libnvidia-ml.so.1", str(source)]
    subprocess.run([*command, "-o", str(folder / "libnvidia-ml.so.1")], check=True)
    return folder


def write_trace(path: Path, steps: Trace) -> Path:
    """Write a trace of (ms, what changes then); energy is the integral of the power, in mJ."""
    state: dict[str, float] = dict(IDLE)
    energy_mj, lines, before_ms = 0.0, [], steps[0][0]
    for t_ms, changes in [*steps, (FOREVER_MS, {})]:
        energy_mj += state["power"] * (t_ms - before_ms)
        state, before_ms = state | changes, t_ms
        values = [state[name] * (1000 if name == "power" else 1) for name in COLUMNS]
        lines.append(",".join(str(value) for value in [t_ms, *values[:4], energy_mj, *values[4:]]))
    path.write_text("\n".join(lines) + "\n")
    return path


class Replay:
    """A sampler's files of a trial whose time is made up: every reading is taken exactly when it is due."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, steps: Trace, **variables: str) -> None:
        self.folder, self.now_ms = folder, 0.0
        self.out_of_memory: str | None = None  # the message with which the worker ended
        self.clock_set_ms = 0  # how far the machine's epoch was put forward
        self.pid_file = folder / "pid"
        self.pid_file.write_text("")
        trace = write_trace(folder / "trace.csv", steps)
        told = {"NVML_TRACE": str(trace), "NVML_T0": str(ZERO_NS), "NVML_PID_FILE": str(self.pid_file)}
        for name in ("NVML_NOW_MS", "NVML_CLOCK_MS"):
            monkeypatch.setenv(name, "0")  # so that it is restored when the test ends
        for name, value in (told | variables).items():
            monkeypatch.setenv(name, value)
        time = SimpleNamespace(
            monotonic=lambda: self.now_ns() / SECOND,
            monotonic_ns=self.now_ns,
            time_ns=lambda: self.now_ns() + MADE_UP_EPOCH_NS + self.clock_set_ms * 10**6,
            perf_counter_ns=self.now_ns,
            sleep=lambda seconds: self.set(self.now_ms + seconds * 1000),
        )
        for module in ("gpu_meter", "meter", "nvml"):
            monkeypatch.setattr(f"runner.sampler.{module}.time", time)
        self.set(0)

    def now_ns(self) -> int:
        return ZERO_NS + int(self.now_ms * 1e6)

    def set(self, now_ms: float) -> None:
        self.now_ms = now_ms
        os.environ["NVML_NOW_MS"] = str(now_ms)

    def set_clock(self, ahead_ms: int) -> None:
        """Set the clock of the machine and its driver forward, as a time service does."""
        self.clock_set_ms = ahead_ms
        os.environ["NVML_CLOCK_MS"] = str(ahead_ms)

    def run(
        self,
        seconds: float,
        *uuids: str,
        at: Moments | None = None,
        stalled: Collection[int] = (),
        seed: int | None = None,
    ) -> dict[str, Any]:
        """Write a row every 100 ms, the last one after the worker's end; `at` maps a time in ms to the calls made then.

        At the times in `stalled`, also in ms, the sampler does nothing. With a seed its own schedule sets the times.
        Returns meter.json. The worker is this process.
        """
        with (self.folder / "samples.csv").open("w", newline="") as file:
            sampler = Sampler(self.folder / "samples.csv", file, uuids or (UUID,))
            assert sampler.gpu
            sampler.write({"t_ns": self.now_ns()} | sampler.gpu.sample(None))
            for other in sampler.others:
                other.sample(None)
            self.pid_file.write_text(str(os.getpid()))
            schedule = None if seed is None else Schedule(seed, self.now_ms / 1000)
            for tick in range(1, int(seconds * 10) + 1):
                self.set(tick * 100 if schedule is None else 1000 * schedule.next_s(self.now_ms / 1000))
                for happens in (at or {}).get(tick * 100, ()):
                    happens()
                if tick * 100 not in stalled:
                    sampler.write({"t_ns": self.now_ns()} | sampler.gpu.sample({os.getpid()}))
                    for other in sampler.others:
                        other.sample({os.getpid()})
            self.pid_file.write_text(str(ended_process()))
            self.set(self.now_ms + 50)
            sampler.end({"cpu_s": 0.1, "wall_s": seconds, "samples": sampler.rows})
        account: dict[str, Any] = json.loads((self.folder / "meter.json").read_text())
        return account

    def result(self, spec: TrialSpec, start_s: float, end_s: float, images: int = 1000) -> TrialResult:
        """Assemble the result of a trial whose steady window is from `start_s` to `end_s`."""
        start_ns, end_ns = (ZERO_NS + round(edge_s * SECOND) for edge_s in (start_s, end_s))
        counted = {"steps": 10, "images": images, "segments": [[start_ns, end_ns]]}
        events = [
            {"event": Event.WINDOW_STARTED, "t_ns": start_ns},
            {"event": Event.WINDOW_ENDED, "t_ns": end_ns, **counted},
            {"event": Event.FINISHED, "t_ns": end_ns},
        ]
        (self.folder / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
        status = Status.OUT_OF_MEMORY if self.out_of_memory else Status.OK
        outcome = WorkerOutcome(0, False, 12.0)
        ended = Ended(read_events(self.folder / "events.jsonl"), outcome, status, self.out_of_memory)
        return assemble(self.folder, spec, ended, {}, "2026-01-01T00:00:00+00:00", {})


def ended_process() -> int:
    """Return an id that no process has any more."""
    with subprocess.Popen(["true"]) as ended:
        pass
    return ended.pid


def load(folder: Path) -> None:
    """Load the library into this process: nvidia-ml-py then finds it by its soname."""
    ctypes.CDLL(str(folder / "libnvidia-ml.so.1"))


def switched(folder: Path, from_ms: int, to_ms: int | None = None) -> Moments:
    """Make the calls of NVML_FAIL fail between two times: the `at` of a run. Needs NVML_FAIL_FROM."""
    lost = folder / "lost"
    moments: Moments = {from_ms: [lost.touch]}
    return moments | ({to_ms: [lost.unlink]} if to_ms else {})
