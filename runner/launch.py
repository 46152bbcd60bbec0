"""Start one worker under the sampler, wait for it, end its whole process group."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from runner.attendance import Attendance, EventLooks, Worker
from runner.family import Child
from runner.log import CappedLog
from runner.machine.allotment import find_device
from runner.owned import GRACE_S
from runner.project import Project
from runner.spare import Sampling, Spare, end_sampler, start_sampler
from workloads.records.build import DEFAULT
from workloads.records.files import LOG_FILE, SAMPLER_LOG_FILE, SAMPLES_FILE
from workloads.records.job import Job, Placement
from workloads.records.status import Status

WORKER = "adapters.worker"
SAMPLER = (sys.executable, "-m", "runner.sampler")
SAMPLER_START_S = 20.0
GPU_GRACE_S = 10.0  # the driver is asked once more who uses the GPU, and may be slow to answer or to forget
FIRST_TO_BE_KILLED = 1000  # of /proc/PID/oom_score_adj, see proc(5)

# Variables that a worker inherits; everything else it gets is set here or in environment.toml.
INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "SSL_CERT_FILE")
# Variables that also reach model code which is imported or compared with its import, never a measured trial: folders of
# weights that it may load, and the way to those that it downloads.
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
FOR_MODEL_CODE = ("TORCH_HOME", "HF_HOME", "XDG_CACHE_HOME", *PROXIES, *(name.lower() for name in PROXIES))


@dataclass(frozen=True)
class WorkerOutcome:
    """Ending of the worker's process; a negative exit code is the signal that killed it.

    `sampler_lost` and `hung` are clauses: why it was not measured to its end, and why it was ended before its timeout.
    """

    exit_code: int
    timed_out: bool
    wall_s: float
    sampler_lost: str | None = None
    hung: str | None = None
    killed_first: bool = False  # True if the kernel, out of memory, would have killed it before all others
    times_apart_s: float | None = None  # of its events, see EventTimes.apart_s; None if they were not observed
    out_of_memory: bool = False  # True if the kernel killed it because memory ran out
    doubtful_events: tuple[EventLooks, ...] = ()  # see EventTimes.doubtful


def build_worker_environment(placement: Placement, variables: dict[str, str]) -> dict[str, str]:
    """Return the same small environment for all frameworks: thread counts, device UUIDs, the definition's variables."""
    threads = str(placement.device_threads)
    gpus = ",".join([find_device(placement.device), *placement.others])
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
    """The reason why no worker of a framework can be started, and the status of its trials.

    UNSUPPORTED means that the framework cannot run here, FAILED that something is missing which should exist.
    """

    reason: str
    status: Status = Status.UNSUPPORTED


class Output(Protocol):
    """Destination of a worker's output: a file, or a pipe's descriptor."""

    def fileno(self) -> int:
        """Return the descriptor for subprocess."""


class Launcher(Protocol):
    """The way to start a framework's workers: `Local`, or `containers.InContainer`."""

    @property
    def project(self) -> Project:
        """The project that holds the worker's code and its environment."""

    @property
    def conditions(self) -> dict[str, Any]:
        """The machine's conditions for such a worker, where they differ from the runner's."""

    @property
    def profile_variables(self) -> dict[str, dict[str, str]]:
        """Environment variables that only the workers of a profile get, by profile."""

    @property
    def spare(self) -> Spare | None:
        """The samplers that wait for its workers; None if each is started when it is needed."""

    def start(self, folder: Path, job: Job, log: Output) -> Worker:
        """Start `python -m adapters.worker FOLDER` on the first `threads` cores; it waits for `go`. Raises
        LaunchFailed, OSError.
        """


def run_worker(folder: Path, job: Job, launcher: Launcher) -> WorkerOutcome:
    """Run a worker until it has ended, its timeout is over, or it can no longer be measured. Raises LaunchFailed."""
    with (
        open_sampler(launcher.project, folder, job.trial.placement, launcher.spare) as sampling,
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
        return WorkerOutcome(
            exit_code, attendance.timed_out, attendance.over_s - started, attendance.sampler_lost(), attendance.hung,
            killed_first, attendance.times.apart_s(), doubtful_events=attendance.times.doubtful(),
        )  # fmt: skip


def expose(pid: int) -> bool:
    """Make this process the first that the kernel kills when memory runs out; return True if this was permitted."""
    try:
        Path(f"/proc/{pid}/oom_score_adj").write_text(str(FIRST_TO_BE_KILLED))
    except OSError:  # another user's in a container, or it has ended already
        return False
    return True


def list_cores(placement: Placement) -> list[int]:
    """The worker's cores: the first `threads` of those that this process may use."""
    return sorted(os.sched_getaffinity(0))[: placement.threads]


def _inherit(names: Iterable[str]) -> dict[str, str]:
    return {name: os.environ[name] for name in names if name in os.environ}


@dataclass(frozen=True)
class Packages:
    """Packages of a local worker, whose digest begins that of its trials' installation."""

    files: tuple[Path, ...]  # and folders: if none of them changed, neither did the digest
    digest: Callable[[], str]  # of the packages as they are now. Raises OSError, ValueError


@dataclass(frozen=True)
class Local:
    """Start workers with an interpreter of this machine, as children of this process."""

    interpreter: str
    variables: dict[str, str]
    project: Project
    conditions: dict[str, Any] = field(default_factory=dict)  # in addition to the runner's
    profile_variables: dict[str, dict[str, str]] = field(default_factory=dict)
    spare: Spare | None = None
    packages: Packages | None = None  # None: nobody asks if they change

    def environment(self, placement: Placement, profile: str = DEFAULT) -> dict[str, str]:
        """Return all the variables that a worker has."""
        inherited = _inherit(INHERITED)
        variables = self.variables | self.profile_variables.get(profile, {})
        return inherited | self.project.import_variables | build_worker_environment(placement, variables)

    @property
    def for_model_code(self) -> Local:
        """The same interpreter, for code of the user's outside of trials."""
        return replace(self, variables=_inherit(FOR_MODEL_CODE) | self.variables)

    def start(self, folder: Path, job: Job, log: Output) -> Worker:
        """Start the worker with its affinity already set: thread pools of any kind inherit it."""
        allowed = os.sched_getaffinity(0)
        os.sched_setaffinity(0, list_cores(job.trial.placement))
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
def open_sampler(
    project: Project, folder: Path, placement: Placement, spare: Spare | None = None
) -> Iterator[Sampling]:
    """Yield a sampler that has taken its first row and waits for the worker's process id (`watch`). It ends after the
    block, and a spare for the next worker starts. Raises LaunchFailed, OSError.
    """
    errors = folder / SAMPLER_LOG_FILE
    with errors.open("wb") as log:
        process = (spare.take() if spare else None) or start_sampler(SAMPLER, project.root, log.fileno())
    try:
        ask_sampler(process, folder, placement)
        yield process
    finally:
        process.send_signal(signal.SIGCONT)  # a worker that measures its cost may have died while it was stopped
        with suppress(BrokenPipeError):
            print("over", file=process.stdin, flush=True)
        if spare:
            spare.make(SAMPLER, project.root)
        end_sampler(process, GRACE_S if placement.device == "cpu" else GPU_GRACE_S)
        if not errors.stat().st_size:
            errors.unlink()


def ask_sampler(process: Sampling, folder: Path, placement: Placement) -> None:
    """Return once the sampler has taken its first row into this folder. Raises LaunchFailed."""
    assert process.stdout
    asked = {
        "samples": str((folder / SAMPLES_FILE).absolute()),
        "errors": str((folder / SAMPLER_LOG_FILE).absolute()),
        "gpus": [] if placement.device == "cpu" else [find_device(placement.device), *placement.others],
    }
    with suppress(BrokenPipeError):  # it has ended, and does not answer
        print(json.dumps(asked), file=process.stdin, flush=True)
    answered, _, _ = select.select([process.stdout], [], [], SAMPLER_START_S)
    if not answered or process.stdout.readline().strip() != "ready":
        raise LaunchFailed(f"the sampler, python -m runner.sampler, did not start within {SAMPLER_START_S:.0f} s")


def watch(sampling: Sampling, pid: int) -> None:
    """Tell the sampler which process the worker is. Raises BrokenPipeError if the sampler has ended."""
    print(pid, file=sampling.stdin, flush=True)
