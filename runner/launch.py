"""Start one worker under the sampler, wait for it, end its whole process group."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from runner.environments import ROOT
from workloads.trial import LOG_FILE, SAMPLES_FILE, TrialSpec

SAMPLER_START_S = 20.0
GRACE_S = 2.0

# What a worker inherits; everything else it gets is said here or in environment.toml.
INHERITED = ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH", "SSL_CERT_FILE")


@dataclass(frozen=True)
class Outcome:
    """How the worker's process ended; a negative exit code is the signal that killed it."""

    exit_code: int
    timed_out: bool
    wall_s: float


def worker_environment(spec: TrialSpec, variables: dict[str, str]) -> dict[str, str]:
    """Small and the same for every framework: thread counts, the device by UUID, the definition's variables."""
    threads = str(spec.threads)
    environment = {name: os.environ[name] for name in INHERITED if name in os.environ}
    environment |= {
        "PYTHONPATH": str(ROOT),
        "PYTHONUNBUFFERED": "1",
        "PYTHONHASHSEED": "0",
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "" if spec.device == "cpu" else spec.device,
    }
    return environment | variables


def run_worker(trial_dir: Path, spec: TrialSpec, interpreter: str, variables: dict[str, str]) -> Outcome:
    """Blocks until the worker has ended or its time is up. Raises RuntimeError where the sampler does not start."""
    with sampler(trial_dir, spec) as watch, (trial_dir / LOG_FILE).open("w", encoding="utf-8") as log:
        started = time.monotonic()
        with cores_of(spec.threads):
            worker = subprocess.Popen(
                [interpreter, "-m", "adapters.worker", str(trial_dir)],
                cwd=ROOT,
                env=worker_environment(spec, variables),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a group of its own: ended whole, and out of reach of the terminal's Ctrl-C
            )
        try:
            watch(worker.pid)
            timed_out = False
            try:
                worker.wait(timeout=spec.timeout_s)
            except subprocess.TimeoutExpired:
                timed_out = True
        finally:
            end_group(worker)
        return Outcome(worker.returncode, timed_out, time.monotonic() - started)


@contextmanager
def sampler(trial_dir: Path, spec: TrialSpec) -> Iterator[Callable[[int], None]]:
    """The running sampler, as a function that is told the worker's process id."""
    command = [sys.executable, "-m", "runner.meter", str(trial_dir / SAMPLES_FILE)]
    if spec.device != "cpu":
        command.append(spec.device)
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdin and process.stdout
    try:
        if process.stdout.readline().strip() != "ready":
            raise RuntimeError(
                f"the sampler did not start: python -m runner.meter, exit code {process.wait(SAMPLER_START_S)}"
            )

        def watch(pid: int) -> None:
            assert process.stdin
            process.stdin.write(f"{pid}\n")
            process.stdin.flush()

        yield watch
    finally:
        process.stdin.close()
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            end_group(process)
        process.stdout.close()


@contextmanager
def cores_of(threads: int) -> Iterator[None]:
    """A process started inside inherits the first `threads` cores, so its thread pools of any kind stay on them."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(allowed)[:threads])
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def end_group(process: subprocess.Popen) -> None:
    """Kill what is left of the process's group, and reap it."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
