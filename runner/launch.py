"""Start one worker under the sampler, wait for it, end its whole process group."""

from __future__ import annotations

import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol

from runner.project import Project
from workloads.records.files import LOG_FILE, SAMPLER_FILE, SAMPLES_FILE
from workloads.records.job import Job, Kind, Placement

WORKER = "adapters.worker"
SAMPLER_START_S = 20.0
GRACE_S = 2.0
GPU_GRACE_S = 10.0  # a driver is asked once more who is on the card, and may be slow to answer or to forget

# What a worker inherits; everything else it gets is said here or in environment.toml.
INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "SSL_CERT_FILE")


@dataclass(frozen=True)
class Outcome:
    """How the worker's process ended; a negative exit code is the signal that killed it."""

    exit_code: int
    timed_out: bool
    wall_s: float


def worker_environment(placement: Placement, variables: dict[str, str]) -> dict[str, str]:
    """Small and the same for every framework: thread counts, the device by UUID, the definition's variables."""
    threads = str(placement.threads)
    environment = {
        "PYTHONUNBUFFERED": "1",
        "PYTHONHASHSEED": "0",
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "" if placement.device == "cpu" else placement.device,
    }
    return environment | placement.variables | variables


class LaunchFailed(Exception):
    """Worker or sampler could not be started; the message is the reason of the `failed` trial."""


class Worker(Protocol):
    """A worker that runs on this machine."""

    @property
    def pid(self) -> int:
        """Of the process that the sampler follows with all its children."""

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

    def start(self, folder: Path, job: Job, log: IO[str]) -> Worker:
        """`python -m adapters.worker FOLDER`, on the first `threads` cores. Raises LaunchFailed, OSError."""


def run_worker(folder: Path, job: Job, launcher: Launcher) -> Outcome:
    """Blocks until the worker has ended or its time is up. Raises LaunchFailed."""
    placement = job.trial.placement
    with (
        sampler(launcher.project, folder, placement) as sampling,
        (folder / LOG_FILE).open("w", encoding="utf-8") as log,
    ):
        started, timed_out = time.monotonic(), False
        if job.kind is Kind.OVERHEAD:
            (folder / SAMPLER_FILE).write_text(str(sampling.pid))
        try:
            worker = launcher.start(folder, job, log)
        except OSError as error:
            raise LaunchFailed(f"the worker could not be started: {error}") from error
        try:
            watch(sampling, worker.pid)
            worker.wait(timeout=job.trial.timeout_s)
        except subprocess.TimeoutExpired:
            timed_out = True
        except BrokenPipeError as error:
            raise LaunchFailed("the sampler, python -m runner.sampler, ended before the worker started") from error
        finally:
            exit_code = worker.end()
        return Outcome(exit_code, timed_out, time.monotonic() - started)


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

    def environment(self, placement: Placement) -> dict[str, str]:
        """All the variables that a worker has."""
        inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
        return inherited | self.project.import_variables | worker_environment(placement, self.variables)

    def start(self, folder: Path, job: Job, log: IO[str]) -> Worker:
        """Its affinity is set before it starts: thread pools of any kind inherit it."""
        allowed = os.sched_getaffinity(0)
        os.sched_setaffinity(0, cores(job.trial.placement))
        try:
            child = Child(
                [self.interpreter, "-m", WORKER, str(folder)],
                cwd=self.project.root,
                env=self.environment(job.trial.placement),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a group of its own: ended whole, and out of reach of the terminal's Ctrl-C
            )
            limit_data(child.pid, job.trial.placement.memory_limit_bytes)
            return child
        finally:
            os.sched_setaffinity(0, allowed)


def limit_data(pid: int, limit_bytes: int | None) -> None:
    """Of a local worker: what it and its children may each take of private memory that can be written (RLIMIT_DATA).

    All that it has by then counts, so that it is set just behind its start loosens nothing.
    """
    if limit_bytes is not None:
        with suppress(ProcessLookupError):  # it has ended already
            _, most = resource.prlimit(pid, resource.RLIMIT_DATA)
            limit_bytes = limit_bytes if most == resource.RLIM_INFINITY else min(limit_bytes, most)
            resource.prlimit(pid, resource.RLIMIT_DATA, (limit_bytes, limit_bytes))


class Child(subprocess.Popen[bytes]):
    """The group of processes of a local worker, of which this one is the leader."""

    def end(self) -> int:
        """The whole group is killed."""
        end_group(self)
        return self.returncode


@contextmanager
def sampler(project: Project, folder: Path, placement: Placement) -> Iterator[subprocess.Popen[str]]:
    """Starts it, to be told the worker's process id by `watch`; ends it behind the block. Raises LaunchFailed."""
    command = [sys.executable, "-m", "runner.sampler", str(folder / SAMPLES_FILE)]
    if placement.device != "cpu":
        command.append(placement.device)
    process = subprocess.Popen(
        command, cwd=project.root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdin and process.stdout
    try:
        answered, _, _ = select.select([process.stdout], [], [], SAMPLER_START_S)
        if not answered or process.stdout.readline().strip() != "ready":
            raise LaunchFailed(f"the sampler, python -m runner.sampler, did not start within {SAMPLER_START_S:.0f} s")
        yield process
    finally:
        process.send_signal(signal.SIGCONT)  # a worker that measures its cost may have died while it stood still
        with suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(GRACE_S if placement.device == "cpu" else GPU_GRACE_S)
        except subprocess.TimeoutExpired:
            end_group(process)
        process.stdout.close()


def watch(sampling: subprocess.Popen[str], pid: int) -> None:
    """Tell the sampler which process the worker is. Raises BrokenPipeError where the sampler has ended."""
    print(pid, file=sampling.stdin, flush=True)


def end_group(process: subprocess.Popen[Any]) -> None:
    """Kill what is left of the process's group, and reap it."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
