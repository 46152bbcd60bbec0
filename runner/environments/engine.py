"""Find this machine's container engine, Docker or Podman: which one answers, and what its errors mean."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from typing import Any

ANSWER_S = 30.0  # a daemon that was just started takes seconds

# Engine output and its meaning; the first match counts.
MEANINGS = (
    (r"no space left on device", "the disk is full: free some space, e.g. with `{program} system prune`"),
    (r"could not select device driver|unresolvable CDI devices|nvidia\.com/gpu",
     "the GPU runtime is missing: install the NVIDIA Container Toolkit and configure {program} for it, or use "
     "--device cpu"),
    (r"permission denied.*docker.*sock|dial unix .*permission denied",
     "this user may not use the daemon: join its group, or use Podman"),
    (r"buildx component is missing", "Docker cannot build without its plugin buildx: install it, or Podman"),
    (r"controller `?cpuset`? is not available",
     "this engine may not set the cores of a container: delegate the control group `cpuset` to this user"),
    (r"cannot connect to the docker daemon|is the docker daemon running|docker\.sock: connect",
     "the Docker daemon does not answer: start it (systemctl start docker), or install Podman"),
)  # fmt: skip


class EngineError(Exception):
    """The engine cannot be used; the message is one line: what is missing and what to do about it."""


@dataclass(frozen=True)
class Engine:
    """A container engine. `rootless` means that the root of a container is this user."""

    kind: str  # "docker" | "podman"
    program: str
    version: str
    rootless: bool = False

    @property
    def title(self) -> str:
        """Kind and version, as stored in the conditions."""
        return f"{self.kind} {self.version}"

    def ask(self, *words: str) -> str:
        """Return the output of one of its commands. Raises EngineError."""
        answer = run(self.program, *words)
        if answer.returncode != 0:
            raise EngineError(explain_output(answer.stderr or answer.stdout, self.kind))
        return answer.stdout.strip()

    def inspect(self, image: str) -> dict[str, Any] | None:
        """Return the engine's description of an image; None where it is not here. Raises EngineError."""
        answer = run(self.program, "image", "inspect", image)
        if answer.returncode == 0:
            description: dict[str, Any] = json.loads(answer.stdout)[0]
            return description
        if re.search(r"no such image|image not known|not found", answer.stderr, re.IGNORECASE):
            return None
        raise EngineError(explain_output(answer.stderr, self.kind))

    def has_pid(self, container: str) -> int | None:
        """Return the host's process id of the container's first process; None while there is none."""
        answer = run(self.program, "container", "inspect", "--format", "{{.State.Pid}}", container)
        pid = answer.stdout.strip()
        return int(pid) if answer.returncode == 0 and pid.isdigit() and pid != "0" else None

    def remove(self, container: str) -> None:
        """Kill and remove the container, if it exists."""
        run(self.program, "rm", "--force", "--volumes", container)


def run(*command: str, timeout_s: float | None = None) -> subprocess.CompletedProcess[str]:
    """Run an engine's command. A timeout, by default ANSWER_S, is returned as a failed command that reports it."""
    limit_s = timeout_s or ANSWER_S
    try:
        return subprocess.run(
            command, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL, timeout=limit_s
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"{command[0]} did not answer within {limit_s:.0f} s")


def find_engine() -> Engine:
    """Return Docker where its daemon answers, else Podman. Raises EngineError."""
    programs = [name for name in ("docker", "podman") if shutil.which(name)]
    if not programs:
        raise EngineError("no container engine: install Docker or Podman, or use --isolation venv")
    errors = []
    for program in programs:
        version = run(program, "--version")
        kind = "podman" if "podman" in version.stdout.lower() else "docker"  # some systems name Podman `docker`
        field = "{{.Client.Version}}" if kind == "podman" else "{{.Server.Version}}"
        answer = run(program, "version", "--format", field)
        if answer.returncode == 0 and answer.stdout.strip():
            return Engine(kind, program, answer.stdout.strip(), _rootless(program, kind))
        errors.append(explain_output(answer.stderr or answer.stdout, kind))
    raise EngineError(errors[0])


def _rootless(program: str, kind: str) -> bool:
    if kind == "podman":
        return os.geteuid() != 0
    return "rootless" in run(program, "info", "--format", "{{.SecurityOptions}}").stdout


def explain_output(output: str, program: str = "docker") -> str:
    """Return one line: what an engine's output means, or else its last line with an error."""
    for pattern, meaning in MEANINGS:
        if re.search(pattern, output, re.IGNORECASE):
            return meaning.format(program=program)
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()] or lines or ["no output from the container engine"]
    return errors[-1]
