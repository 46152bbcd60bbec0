"""Workers in containers, one for each trial, metered from this machine like any other process of it.

A container sees the results folder (to read), its own trial's folder (to write) and, on a GPU, that card: no network,
no engine, no privileges. Its files belong to the user who runs this.
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

from runner.environments.definition import Environment
from runner.environments.engine import Engine, EngineError, in_words, run
from runner.environments.images import Image
from runner.launch import WORKER, LaunchFailed, Output, Worker, cores, worker_environment
from runner.log import CappedLog
from runner.machine import cgroups
from runner.owned import GRACE_S
from runner.project import Project
from workloads.lifeline import ATTENDED
from workloads.records.job import Job, Placement
from workloads.temporary import temporary_folder

START_S = 60.0  # an engine unpacks nothing at the start of a container, but its disk may be busy
POLL_S = 0.02
ENGINE_FAILED = 125  # exit code of `run` where the engine, not the program, went wrong
BY_SIGNAL = 128  # and above: the first process was killed by the signal of the difference

RESULTS = Path("/results")
IMAGE_ROOT = Path("/opt/batchwise")  # where docker/Dockerfile puts this checkout
BASE_LABEL = "org.opencontainers.image.base.name"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

# What the container tells of itself before any trial: that it shares this kernel and its clock, and can write.
PROBE = (
    "import json, os, pathlib, platform, sys; "
    "(pathlib.Path(sys.argv[1]) / 'written').touch(); "
    f"print(json.dumps([pathlib.Path('{BOOT_ID}').read_text(), ' '.join(platform.libc_ver()), "
    "platform.python_version(), sorted(os.sched_getaffinity(0))]))"
)


class ImageMissing(EngineError):
    """It has to be built."""


@dataclass(frozen=True)
class InContainer:
    """By an image of this checkout: `image_id` is what the engine calls it."""

    engine: Engine
    image: Image
    image_id: str
    base: str  # as the image says
    variables: dict[str, str]
    libc: str | None = None  # of the image; known once it was tried
    python: str | None = None

    @property
    def project(self) -> Project:
        """The image's."""
        return self.image.project

    @property
    def conditions(self) -> dict[str, Any]:
        """The C library of the image and what the container is; the kernel and the hardware are the host's."""
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
        """The definition's."""
        return self.image.environment.profile_variables

    @property
    def digest(self) -> str:
        """Of all that decides what is in the image beside our code; an image built again of the same is the same."""
        return hashlib.sha256(f"{self.image.environment_digest} {self.base}".encode()).hexdigest()[:16]

    def start(self, folder: Path, job: Job, log: Output) -> Worker:
        """In a new container. Raises LaunchFailed with the engine's words where it does not start."""
        name, program = f"batchwise-{job.id}-{secrets.token_hex(4)}", ["-m", WORKER, ATTENDED]
        variables = self.variables | self.profile_variables.get(job.trial.task.profile, {})
        client = subprocess.Popen(
            run_line(
                replace(self, variables=variables),
                name,
                (folder / job.results).resolve(),
                folder,
                job.trial.placement,
                program,
            ),
            stdin=subprocess.PIPE,  # closed when this process ends, and then the container ends
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
        """The same, with what one container told that was started as a trial's is. Raises EngineError."""
        results.mkdir(parents=True, exist_ok=True)
        with temporary_folder(".probe-", results) as temporary:
            folder = temporary / "trial"
            folder.mkdir()
            name = f"batchwise-probe-{secrets.token_hex(4)}"
            answer = run(*run_line(self, name, results, folder, placement, ["-c", PROBE]), timeout_s=START_S)
            if answer.returncode != 0:
                self.engine.remove(name)  # one that was too slow is still there
                raise EngineError(f"{self.image.reference}: {in_words(answer.stderr, self.engine.program)}")
            boot_id, libc, python, cores_given = json.loads(answer.stdout.splitlines()[-1])
            if boot_id != BOOT_ID.read_text() or not (folder / "written").exists():
                raise EngineError(
                    f"{self.engine.title} runs containers on another kernel than this one (in a virtual machine, or "
                    "remote): their clock and processes cannot be metered from here; run the image by itself instead"
                )
            if cores_given != cores(placement):
                raise EngineError(
                    f"{self.engine.title} gave a container the cores {cores_given} and not {cores(placement)}: "
                    "let it limit them (rootless engines need the control group `cpuset` delegated), or use "
                    "--isolation venv"
                )
        return replace(self, libc=libc, python=python)


@dataclass
class Container:
    """A running one, and the engine's client that waits for it."""

    engine: Engine
    name: str
    client: subprocess.Popen[bytes]
    pid: int = 0  # of the worker as the host counts it; after `await_start`

    def await_start(self, log: Output) -> None:
        """Until it has a process of this machine, or has ended already. Raises LaunchFailed."""
        deadline = time.monotonic() + START_S
        while (pid := self.engine.has_pid(self.name)) is None:
            if self.client.poll() is not None:
                if self.client.returncode == ENGINE_FAILED:
                    output = log.last() if isinstance(log, CappedLog) else ""
                    raise LaunchFailed(f"no container: {in_words(output, self.engine.program)}")
                pid = self.client.pid  # ended: there is nothing to sample, and the log says why
                break
            if time.monotonic() > deadline:
                raise LaunchFailed(f"the container did not start within {START_S:.0f} s")
            time.sleep(POLL_S)
        self.pid = pid

    def go(self) -> None:
        """Its worker begins."""
        assert self.client.stdin
        with suppress(BrokenPipeError):  # it has ended already
            self.client.stdin.write(b"\n")
            self.client.stdin.flush()

    def wait(self, timeout: float) -> int:
        """Of the container, as `Worker` says."""
        return signalled(self.client.wait(timeout))

    def end(self) -> int:
        """Remove the container, also one that is only just coming into being."""
        assert self.client.stdin
        with suppress(BrokenPipeError):
            self.client.stdin.close()
        self.engine.remove(self.name)
        try:
            self.client.wait(GRACE_S)
        except subprocess.TimeoutExpired:  # it had not come into being yet, and may have by now
            self.client.kill()
            self.client.wait()
            self.engine.remove(self.name)
        return signalled(self.client.returncode)


def signalled(exit_code: int) -> int:
    """As of a child process: negative where a signal killed it."""
    number = exit_code - BY_SIGNAL
    return -number if number in set(signal.Signals) else exit_code


def run_line(
    launcher: InContainer, name: str, results: Path, folder: Path, placement: Placement, program: list[str]
) -> list[str]:
    """The engine's whole command: `python PROGRAM FOLDER`, both folders as the container sees them."""
    engine, inside = launcher.engine, RESULTS / folder.relative_to(results)
    environment = worker_environment(placement, launcher.variables) | {"PYTHONPATH": str(IMAGE_ROOT), "HOME": "/tmp"}
    line = [engine.program, "run", "--rm", "--interactive", "--name", name, "--pull", "never"]
    line += ["--entrypoint", "python"]
    line += ["--network", "none", "--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--workdir", "/"]
    line += ["--security-opt", "no-new-privileges", "--security-opt", "label=disable", *owner(engine)]
    line += ["--cpuset-cpus", ",".join(map(str, cores(placement)))]
    if (limit := cgroups.cpu_limit()) is not None:  # the runner's, whose control group a container is not in
        line += ["--cpus", f"{limit:g}"]
    if placement.memory_limit_bytes is not None:
        line += [word for name in ("--memory", "--memory-swap") for word in (name, f"{placement.memory_limit_bytes}b")]
    if placement.device == "cpu":
        environment["NVIDIA_VISIBLE_DEVICES"] = "void"  # some engines give every container every card
    else:
        card = ["--gpus", f"device={placement.device}"]
        line += card if engine.kind == "docker" else ["--device", f"nvidia.com/gpu={placement.device}"]
    line += mount(results, RESULTS, "readonly") + mount(folder, inside)
    line += [word for name, value in environment.items() for word in ("--env", f"{name}={value}")]
    return [*line, launcher.image_id, *program, str(inside)]


def owner(engine: Engine) -> list[str]:
    """So that what a container writes belongs to this user."""
    if engine.rootless and engine.kind == "docker":
        return ["--user", "0:0"]  # which is this user outside
    user = ["--user", f"{os.getuid()}:{os.getgid()}"]
    return [*user, "--userns", "keep-id"] if engine.rootless else user


def mount(source: Path, target: Path, *options: str) -> list[str]:
    """Arguments that show `source` of the host as `target` in the container."""
    return ["--mount", ",".join(["type=bind", f"source={source}", f"target={target}", *options])]


def variables_inside(environment: Environment) -> dict[str, str]:
    """The definition's, for an image of it; its base's own search path is not kept."""
    site_packages = replace(environment, project=Project.at(IMAGE_ROOT)).site_packages
    return {name: value.format(site_packages=site_packages) for name, value in environment.variables.items()}


def find(engine: Engine, image: Image) -> InContainer:
    """The image as it is here. Raises ImageMissing where it is not, or not that of this checkout."""
    stored = engine.inspect(image.reference)
    if stored is None:
        raise ImageMissing(f"there is no image {image.reference}")
    labels = (stored.get("Config") or {}).get("Labels") or stored.get("Labels") or {}
    for name, value in image.labels.items():
        if labels.get(name) != value:
            what = name.removeprefix("batchwise.")
            raise ImageMissing(f"image {image.reference} was built of another {what} than that of this checkout")
    base = labels.get(BASE_LABEL, "unknown")
    variables = variables_inside(image.environment)
    return InContainer(engine, image, stored["Id"].removeprefix("sha256:"), base, variables)
