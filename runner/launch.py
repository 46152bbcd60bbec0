"""Start one worker under the sampler, wait for it, end its whole process group."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from runner.attendance import Attendance
from runner.event_times import EventLooks
from runner.family import Child
from runner.log import CappedLog
from runner.machine.allotment import device_here
from runner.owned import GRACE_S
from runner.project import Project
from runner.spare import SPARE, Sampling, end, started
from workloads.records.build import DEFAULT
from workloads.records.files import LOG_FILE, SAMPLER_LOG_FILE, SAMPLES_FILE
from workloads.records.job import Job, Placement
from workloads.records.status import Status

WORKER = "adapters.worker"
SAMPLER = (sys.executable, "-m", "runner.sampler")
SAMPLER_START_S = 20.0
GPU_GRACE_S = 10.0  # a driver is asked once more who is on the card, and may be slow to answer or to forget
FIRST_TO_BE_KILLED = 1000  # of /proc/PID/oom_score_adj, see proc(5)

# What a worker inherits; everything else it gets is said here or in environment.toml.
INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "SSL_CERT_FILE")


@dataclass(frozen=True)
class Outcome:
    """How the worker's process ended; a negative exit code is the signal that killed it.

    `sampler_lost` and `hung` are clauses: why it was not measured to its end, why it was ended before its time was up.
    """

    exit_code: int
    timed_out: bool
    wall_s: float
    sampler_lost: str | None = None
    hung: str | None = None
    killed_first: bool = False  # whether the kernel, out of memory, would have taken it before all others
    times_apart_s: float | None = None  # of its events, see EventTimes.apart_s; None where nobody looked
    out_of_memory: bool = False  # whether the kernel killed it for want of memory
    doubtful_events: tuple[EventLooks, ...] = ()  # see EventTimes.doubtful


def worker_environment(placement: Placement, variables: dict[str, str]) -> dict[str, str]:
    """Small and the same for every framework: thread counts, the device by UUID, the definition's variables."""
    threads = str(placement.device_threads)
    gpus = ",".join([device_here(placement.device), *placement.others])
    environment = {
        "PYTHONUNBUFFERED": "1",
        "PYTHONHASHSEED": "0",
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "" if placement.device == "cpu" else gpus,
    }
    return environment | placement.variables | variables


class LaunchFailed(Exception):
    """Worker or sampler could not be started; the message is the reason of the `failed` trial."""


@dataclass(frozen=True)
class Unavailable:
    """Why no worker of a framework can be started, and how its trials end for that.

    UNSUPPORTED is for what the framework cannot do here, FAILED for what should have been there and is not.
    """

    reason: str
    status: Status = Status.UNSUPPORTED


class Output(Protocol):
    """Where a worker's output goes: a file's, or a pipe's descriptor."""

    def fileno(self) -> int:
        """For subprocess."""


class Worker(Protocol):
    """A worker that runs on this machine, or waits for its go-ahead; it ends with this process."""

    @property
    def pid(self) -> int:
        """Of the process that the sampler follows with all its children."""

    def go(self) -> None:
        """Let it begin."""

    def wait(self, timeout: float) -> int:
        """Its exit code, negative where a signal killed it. Raises subprocess.TimeoutExpired after so many seconds."""

    def end(self) -> int:
        """Kill whatever is left of it, and reap it; its exit code."""


class Launcher(Protocol):
    """How a framework's workers are started: `Local`, or `containers.InContainer`."""

    @property
    def project(self) -> Project:
        """Where the worker's code and its environment lie."""

    @property
    def conditions(self) -> dict[str, Any]:
        """What the machine's conditions are for such a worker where they differ from the runner's own."""

    @property
    def profile_variables(self) -> dict[str, dict[str, str]]:
        """By profile: what its workers find in their environment beside what all do."""

    def start(self, folder: Path, job: Job, log: Output) -> Worker:
        """`python -m adapters.worker FOLDER`, on the first `threads` cores; it does nothing yet. Raises LaunchFailed,
        OSError.
        """


def run_worker(folder: Path, job: Job, launcher: Launcher) -> Outcome:
    """Blocks until the worker has ended, its time is up, or it cannot be measured on. Raises LaunchFailed."""
    with (
        sampler(launcher.project, folder, job.trial.placement) as sampling,
        CappedLog(folder / LOG_FILE) as log,
    ):
        started = time.monotonic()
        attendance = Attendance(folder, job, sampling, log)
        try:
            worker = launcher.start(folder, job, log)
        except OSError as error:
            raise LaunchFailed(f"the worker could not be started: {error}") from error
        try:
            killed_first = expose(worker.pid)
            watch(sampling, worker.pid)
            worker.go()
            attendance.wait(worker)
        except BrokenPipeError as error:
            raise LaunchFailed("the sampler, python -m runner.sampler, ended before the worker started") from error
        finally:
            exit_code = worker.end()
        attendance.times.look()
        return Outcome(
            exit_code, attendance.timed_out, attendance.over_s - started, attendance.sampler_lost(), attendance.hung,
            killed_first, attendance.times.apart_s(), doubtful_events=attendance.times.doubtful(),
        )  # fmt: skip


def expose(pid: int) -> bool:
    """Make it the first that the kernel ends where the machine's memory does; whether that may be said."""
    try:
        Path(f"/proc/{pid}/oom_score_adj").write_text(str(FIRST_TO_BE_KILLED))
    except OSError:  # another user's in a container, or it has ended already
        return False
    return True


def cores(placement: Placement) -> list[int]:
    """The worker's: the first `threads` of those that this process may use."""
    return sorted(os.sched_getaffinity(0))[: placement.threads]


@dataclass(frozen=True)
class Local:
    """By an interpreter of this machine, as a child of this process."""

    interpreter: str
    variables: dict[str, str]
    project: Project
    conditions: dict[str, Any] = field(default_factory=dict)  # beside the runner's own
    profile_variables: dict[str, dict[str, str]] = field(default_factory=dict)

    def environment(self, placement: Placement, profile: str = DEFAULT) -> dict[str, str]:
        """All the variables that a worker has."""
        inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
        variables = self.variables | self.profile_variables.get(profile, {})
        return inherited | self.project.import_variables | worker_environment(placement, variables)

    def start(self, folder: Path, job: Job, log: Output) -> Worker:
        """Its affinity is set before it starts: thread pools of any kind inherit it."""
        allowed = os.sched_getaffinity(0)
        os.sched_setaffinity(0, cores(job.trial.placement))
        try:
            child = Child(
                [self.interpreter, "-m", WORKER, str(folder)],
                cwd=self.project.root,
                env=self.environment(job.trial.placement, job.trial.task.profile),
                stdin=subprocess.DEVNULL,
                stdout=log.fileno(),
                stderr=subprocess.STDOUT,
            )
        finally:
            os.sched_setaffinity(0, allowed)
        try:
            child.limit(job.trial.placement)
        except OSError:
            child.end()
            raise
        return child


@contextmanager
def sampler(project: Project, folder: Path, placement: Placement) -> Iterator[Sampling]:
    """One that has taken its first row, to be told the worker's process id by `watch`; it ends behind the block, and
    one for the next worker begins. Raises LaunchFailed, OSError.
    """
    errors = folder / SAMPLER_LOG_FILE
    with errors.open("wb") as log:
        process = SPARE.take() or started(SAMPLER, project.root, log.fileno())
    try:
        ask_sampler(process, folder, placement)
        yield process
    finally:
        process.send_signal(signal.SIGCONT)  # a worker that measures its cost may have died while it stood still
        with suppress(BrokenPipeError):
            print("over", file=process.stdin, flush=True)
        SPARE.make(SAMPLER, project.root)
        end(process, GRACE_S if placement.device == "cpu" else GPU_GRACE_S)
        if not errors.stat().st_size:
            errors.unlink()


def ask_sampler(process: Sampling, folder: Path, placement: Placement) -> None:
    """Returns when it has taken its first row into this folder. Raises LaunchFailed."""
    assert process.stdout
    asked = {
        "samples": str((folder / SAMPLES_FILE).absolute()),
        "errors": str((folder / SAMPLER_LOG_FILE).absolute()),
        "gpus": [] if placement.device == "cpu" else [device_here(placement.device), *placement.others],
    }
    with suppress(BrokenPipeError):  # it has ended, and does not answer
        print(json.dumps(asked), file=process.stdin, flush=True)
    answered, _, _ = select.select([process.stdout], [], [], SAMPLER_START_S)
    if not answered or process.stdout.readline().strip() != "ready":
        raise LaunchFailed(f"the sampler, python -m runner.sampler, did not start within {SAMPLER_START_S:.0f} s")


def watch(sampling: Sampling, pid: int) -> None:
    """Tell the sampler which process the worker is. Raises BrokenPipeError where the sampler has ended."""
    print(pid, file=sampling.stdin, flush=True)
