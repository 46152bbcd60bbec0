"""Run each trial's worker in a container, metered from this machine like any other process.

A container sees the results folder (to read), its own trial's folder (to write) and, on a GPU, that card. It has no
network, no engine and no privileges. Its files belong to the user who runs this.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from runner.attendance import Worker
from runner.environments.definition import Environment
from runner.environments.engine import Engine, EngineError, explain_output, run
from runner.environments.images import Image
from runner.launch import WORKER, LaunchFailed, Output, build_worker_environment, list_cores
from runner.log import CappedLog
from runner.owned import GRACE_S
from runner.project import Project
from runner.spare import Spare
from workloads import control_groups
from workloads.lifeline import ATTENDED
from workloads.records.job import Job, Placement
from workloads.temporary import temporary_folder

START_S = 60.0  # an engine unpacks nothing when a container starts, but its disk may be busy
POLL_S = 0.02
ENGINE_FAILED = 125  # exit code of `run` if the engine failed, not the program
BY_SIGNAL = 128  # and above: the first process was killed by the signal with the remaining number

RESULTS = Path("/results")
IMAGE_ROOT = Path("/opt/batchwise")  # where docker/Dockerfile puts this checkout
BASE_LABEL = "org.opencontainers.image.base.name"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

# What the container reports before any trial: that it shares this kernel and its clock, can write, and reads our code.
PROBE = (
    f"import json, os, pathlib, platform, sys, {WORKER}; "
    "(pathlib.Path(sys.argv[1]) / 'written').touch(); "
    f"print(json.dumps([pathlib.Path('{BOOT_ID}').read_text(), ' '.join(platform.libc_ver()), "
    "platform.python_version(), sorted(os.sched_getaffinity(0))]))"
)


class ImageMissing(EngineError):
    """The image has to be built."""


@dataclass(frozen=True)
class InContainer:
    """Launcher that uses an image of this checkout; `image_id` is the engine's id of it."""

    engine: Engine
    image: Image
    image_id: str
    base: str  # as the image reports it
    variables: dict[str, str]
    libc: str | None = None  # of the image; known after a probe
    python: str | None = None
    spare: Spare | None = None

    @property
    def project(self) -> Project:
        """The image's project."""
        return self.image.project

    @property
    def conditions(self) -> dict[str, Any]:
        """C library of the image, and what the container is. The kernel and the hardware are the host's."""
        container = {
            "engine": self.engine.title,
            "image": self.image.reference,
            "image_id": self.image_id,
            "base": self.base,
            "python": self.python,
        }
        return {"libc": self.libc, "container": container}

    @property
    def profile_variables(self) -> dict[str, dict[str, str]]:
        """Profile variables of the definition."""
        return self.image.environment.profile_variables

    @property
    def digest(self) -> str:
        """Digest of the image's contents, except our code. Rebuilding the same image keeps the digest."""
        return hashlib.sha256(f"{self.image.environment_digest} {self.base}".encode()).hexdigest()[:16]

    def start(self, folder: Path, job: Job, log: Output) -> Worker:
        """Start the job in a new container. Raises LaunchFailed with the engine's words where it does not start."""
        name, program = f"batchwise-{job.id}-{secrets.token_hex(4)}", ["-m", WORKER, ATTENDED]
        variables = self.variables | self.profile_variables.get(job.trial.task.profile, {})
        client = subprocess.Popen(
            build_run_line(
                replace(self, variables=variables),
                name,
                (folder / job.results).resolve(),
                folder,
                job.trial.placement,
                program,
            ),
            stdin=subprocess.PIPE,  # closed when this process ends, which ends the container
            stdout=log.fileno(),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        container = Container(self.engine, name, client)
        try:
            container.await_start(log)
        except BaseException:
            container.end()
            raise
        return container

    def tried(self, results: Path, placement: Placement) -> InContainer:
        """Start a probe container like a trial's, and return the launcher with its answers. Raises EngineError."""
        results.mkdir(parents=True, exist_ok=True)
        with temporary_folder(".probe-", results) as temporary:
            folder = temporary / "trial"
            folder.mkdir()
            name = f"batchwise-probe-{secrets.token_hex(4)}"
            answer = run(*build_run_line(self, name, results, folder, placement, ["-c", PROBE]), timeout_s=START_S)
            if answer.returncode != 0:
                self.engine.remove(name)  # a container that was too slow still exists
                raise EngineError(f"{self.image.reference}: {explain_output(answer.stderr, self.engine.program)}")
            boot_id, libc, python, cores_given = json.loads(answer.stdout.splitlines()[-1])
            if boot_id != BOOT_ID.read_text() or not (folder / "written").exists():
                raise EngineError(
                    f"{self.engine.title} runs containers on another kernel than this one (in a virtual machine, or "
                    "remote): their clock and processes cannot be metered from here; run the image by itself instead"
                )
            if cores_given != list_cores(placement):
                raise EngineError(
                    f"{self.engine.title} gave a container the cores {cores_given} and not {list_cores(placement)}: "
                    "allow it to limit them (rootless engines need the control group `cpuset` delegated), or use "
                    "--isolation venv"
                )
        return replace(self, libc=libc, python=python)


@dataclass
class Container:
    """A running container, and the engine's client that waits for it."""

    engine: Engine
    name: str
    client: subprocess.Popen[bytes]
    pid: int = 0  # of the worker on the host; set by `await_start`

    def await_start(self, log: Output) -> None:
        """Wait until it has a process on this machine, or has already ended. Raises LaunchFailed."""
        deadline = time.monotonic() + START_S
        while (pid := self.engine.has_pid(self.name)) is None:
            if self.client.poll() is not None:
                if self.client.returncode == ENGINE_FAILED:
                    output = log.last() if isinstance(log, CappedLog) else ""
                    raise LaunchFailed(f"no container: {explain_output(output, self.engine.program)}")
                pid = self.client.pid  # ended: there is nothing to sample, and the log says why
                break
            if time.monotonic() > deadline:
                raise LaunchFailed(f"the container did not start within {START_S:.0f} s")
            time.sleep(POLL_S)
        self.pid = pid

    def go(self) -> None:
        """Let its worker begin."""
        assert self.client.stdin
        with suppress(BrokenPipeError):  # it has ended already
            self.client.stdin.write(b"\n")
            self.client.stdin.flush()

    def wait(self, timeout: float) -> int:
        """Wait for the container and return its exit code, as `Worker` defines it."""
        return convert_exit_code(self.client.wait(timeout))

    def end(self) -> int:
        """Remove the container, even one that is still being created."""
        assert self.client.stdin
        with suppress(BrokenPipeError):
            self.client.stdin.close()
        self.engine.remove(self.name)
        try:
            self.client.wait(GRACE_S)
        except subprocess.TimeoutExpired:  # it was not created yet, and may be by now
            self.client.kill()
            self.client.wait()
            self.engine.remove(self.name)
        return convert_exit_code(self.client.returncode)


def convert_exit_code(exit_code: int) -> int:
    """Return the exit code as of a child process: negative where a signal killed it."""
    number = exit_code - BY_SIGNAL
    return -number if number in set(signal.Signals) else exit_code


def build_run_line(
    launcher: InContainer, name: str, results: Path, folder: Path, placement: Placement, program: list[str]
) -> list[str]:
    """Return the engine's whole command: `python PROGRAM FOLDER`, with both folders as the container sees them."""
    engine, inside = launcher.engine, RESULTS / folder.relative_to(results)
    environment = build_worker_environment(placement, launcher.variables) | {
        "PYTHONPATH": str(IMAGE_ROOT),
        "HOME": "/tmp",
    }
    line = [engine.program, "run", "--rm", "--interactive", "--name", name, "--pull", "never"]
    line += ["--entrypoint", "python"]
    line += ["--network", "none", "--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--workdir", "/"]
    line += ["--security-opt", "no-new-privileges", "--security-opt", "label=disable", *build_owner_options(engine)]
    line += ["--cpuset-cpus", ",".join(map(str, list_cores(placement)))]
    if (
        limit := control_groups.cpu_limit()
    ) is not None:  # the runner's limit; a container is outside its control group
        line += ["--cpus", f"{limit:g}"]
    if placement.memory_limit_bytes is not None:
        line += [word for name in ("--memory", "--memory-swap") for word in (name, f"{placement.memory_limit_bytes}b")]
    if placement.device == "cpu":
        environment["NVIDIA_VISIBLE_DEVICES"] = "void"  # some engines give every container all cards
    else:
        card = ["--gpus", f"device={placement.device}"]
        line += card if engine.kind == "docker" else ["--device", f"nvidia.com/gpu={placement.device}"]
    line += build_mount(results, RESULTS, "readonly") + build_mount(folder, inside)
    line += [word for name, value in environment.items() for word in ("--env", f"{name}={value}")]
    return [*line, launcher.image_id, *program, str(inside)]


def build_owner_options(engine: Engine) -> list[str]:
    """Return options by which the files that a container writes belong to this user."""
    if engine.rootless and engine.kind == "docker":
        return ["--user", "0:0"]  # root inside is this user outside
    user = ["--user", f"{os.getuid()}:{os.getgid()}"]
    return [*user, "--userns", "keep-id"] if engine.rootless else user


def build_mount(source: Path, target: Path, *options: str) -> list[str]:
    """Return arguments that mount `source` of the host as `target` in the container."""
    return ["--mount", ",".join(["type=bind", f"source={source}", f"target={target}", *options])]


def build_variables(environment: Environment) -> dict[str, str]:
    """Return the definition's variables for its image; its base's own search path is not kept."""
    site_packages = replace(environment, project=Project.at(IMAGE_ROOT)).site_packages
    return {name: value.format(site_packages=site_packages) for name, value in environment.variables.items()}


def find(engine: Engine, image: Image) -> InContainer:
    """Return a launcher for the local image. Raises ImageMissing where it is missing, or not from this checkout."""
    stored = engine.inspect(image.reference)
    if stored is None:
        raise ImageMissing(f"there is no image {image.reference}")
    labels = (stored.get("Config") or {}).get("Labels") or stored.get("Labels") or {}
    for name, value in image.labels.items():
        if labels.get(name) != value:
            what = name.removeprefix("batchwise.")
            raise ImageMissing(f"image {image.reference} was built from another {what} than this checkout's")
    base = labels.get(BASE_LABEL, "unknown")
    variables = build_variables(image.environment)
    return InContainer(engine, image, stored["Id"].removeprefix("sha256:"), base, variables)
