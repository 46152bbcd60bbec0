"""Build a framework's environment as an image.

python -m runner.environments.images [FRAMEWORK ...] [--device KIND ...] [-- OPTIONS]

Base, pins, system libraries and smoke import come from its environment.toml; docker/Dockerfile is the same for all.
"""

from __future__ import annotations

from workloads import program

if __name__ == "__main__":
    program.interrupt_at_once()
    program.start_again()
    program.report_missing_packages()

import hashlib
import os
import subprocess
import sys
import tomllib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

from runner import owned
from runner.environments.code import code_digest
from runner.environments.definition import (
    BadDefinition,
    Environment,
    EnvironmentUnavailable,
    list_thesis,
    list_variants,
    read,
)
from runner.environments.engine import Engine, EngineError, explain_output, find_engine
from runner.git import ask_git
from runner.machine.description import NO_COMMIT, read_commit
from runner.project import Project
from workloads.command_line import CommandLine

RECIPE = (
    "docker/Dockerfile",
    "docker/environment.py",
    "runner/project.py",
    "runner/environments/definition.py",
    "runner/environments/installers.py",
    "runner/environments/venv.py",
    "runner/owned.py",
    "workloads/program.py",
    "workloads/lifeline.py",
    "workloads/records/build.py",
    "runner/requirements.txt",
)
LATEST = "cuda"  # the image that `docker run --gpus all batchwise/FRAMEWORK` uses
LAST_LINES = 40  # kept of a failed build: enough to contain the engine's own error


@dataclass(frozen=True)
class Image:
    """Image of an environment: what is built, and under which names."""

    environment: Environment

    @property
    def project(self) -> Project:
        """The environment's project."""
        return self.environment.project

    @property
    def reference(self) -> str:
        """Tag by which the engine knows it."""
        return f"batchwise/{self.environment.framework}:{self.environment.device_kind}"

    @property
    def tags(self) -> list[str]:
        """Tags: the device; also with version and commit. The GPU image is `latest`, too."""
        name, kind = self.reference.split(":")
        released = f"{self.reference}-{read_version(self.project)}"
        tags = [self.reference, released, f"{released}-{read_commit(self.project) or NO_COMMIT}"]
        return [*tags, f"{name}:latest"] if kind == LATEST else tags

    @property
    def labels(self) -> dict[str, str]:
        """Labels that must match for an image to belong to this checkout."""
        return {
            "batchwise.environment": self.environment_digest,
            "batchwise.code": code_digest(self.project, self.environment.framework),
        }

    @cached_property
    def environment_digest(self) -> str:
        """Digest of everything that decides what is in the image, except the code that runs in it."""
        text = repr((self.environment.digest, self.environment.base, sorted(self.environment.system_libraries.items())))
        recipe = b"\0".join((self.project.root / path).read_bytes() for path in RECIPE)
        return hashlib.sha256(text.encode() + recipe).hexdigest()[:16]

    @property
    def arguments(self) -> dict[str, str]:
        """Build arguments of docker/Dockerfile."""
        recipe = (*RECIPE, f"adapters/{self.environment.framework}/environment.toml")
        return {
            "BASE": self.environment.base,
            "FRAMEWORK": self.environment.framework,
            "DEVICE": self.environment.device_kind,
            "SYSTEM_PACKAGES": " ".join(sorted(set(self.environment.system_libraries.values()))),
            "SOURCE_DATE_EPOCH": str(read_commit_time(self.project, *recipe)),
            "GPUS": "void" if self.environment.device_kind == "cpu" else "all",
            "VERSION": read_version(self.project),
            "COMMIT": read_commit(self.project) or NO_COMMIT,
            "CREATED": datetime.fromtimestamp(read_commit_time(self.project), UTC).isoformat(),
            "ENVIRONMENT_DIGEST": self.labels["batchwise.environment"],
            "CODE_DIGEST": self.labels["batchwise.code"],
        }


def read_version(project: Project) -> str:
    """Return the version of Batchwise."""
    text = (project.root / "pyproject.toml").read_text(encoding="utf-8")
    return str(tomllib.loads(text)["project"]["version"])


def read_commit_time(project: Project, *paths: str) -> int:
    """Return the time of the last commit, or of the last that changed one of these paths; 0 if git names none."""
    try:
        return int(ask_git(project.root, "log", "-1", "--format=%ct", "--", *paths).strip() or 0)
    except (OSError, subprocess.CalledProcessError):
        return 0


def build_line(engine: Engine, image: Image, options: Sequence[str] = ()) -> list[str]:
    """Return the engine's build command; `options` come last, so that they may replace an argument."""
    line = [engine.program, "build", "--file", "docker/Dockerfile"]
    if engine.kind == "podman":
        line += ["--timestamp", image.arguments["SOURCE_DATE_EPOCH"]]
    line += [word for name, value in image.arguments.items() for word in ("--build-arg", f"{name}={value}")]
    line += [word for tag in image.tags for word in ("--tag", tag)]
    return [*line, *options, "."]


def build(engine: Engine, image: Image, options: Sequence[str] = ()) -> None:
    """Build the image and show the engine's output. Raises EngineError."""
    last_lines: deque[str] = deque(maxlen=LAST_LINES)
    with owned.hold(
        build_line(engine, image, options),
        cwd=image.project.root,
        env=os.environ | {"DOCKER_BUILDKIT": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            last_lines.append(line)
        process.wait()
    if process.returncode != 0:
        raise EngineError(f"{image.reference} was not built: {explain_output(''.join(last_lines), engine.program)}")


def list_images(project: Project, frameworks: Sequence[str], device_kinds: Sequence[str]) -> list[Image]:
    """Return the images that are defined. Raises EnvironmentUnavailable where a requested one is not defined."""
    return [
        Image(read(project, framework, kind))
        for framework in frameworks or list_thesis(project)
        for kind in device_kinds or [kind for kind in ("cpu", "cuda") if kind in list_variants(project, framework)]
    ]


def main(arguments: list[str]) -> int:
    """Return the exit code: 0; 1 where an image was not built; 2 for bad input, with one line; 130 after Ctrl-C."""
    return program.run_making("images", build_images, arguments)


def build_images(arguments: list[str]) -> int:
    """Build the images that are named, and return the exit code. Raises KeyboardInterrupt."""
    split = arguments.index("--") if "--" in arguments else len(arguments)
    parser = CommandLine(
        prog="python -m runner.environments.images",
        description="Build batchwise/FRAMEWORK:DEVICE with Docker or Podman, whichever is installed.",
        epilog="Arguments after -- go to the engine's build, e.g. -- --secret id=pip.conf,src=/etc/pip.conf",
    )
    parser.add_argument("frameworks", nargs="*", metavar="FRAMEWORK", help="frameworks (default: the thesis' three)")
    parser.add_argument("--device", nargs="+", metavar="KIND", default=[], help="cpu, cuda (default: both); "
                        "cuda-nvidia for MXNet on GPUs newer than Ada")  # fmt: skip
    chosen = parser.parse_args(arguments[:split])
    project = Project.of_this_code()
    try:
        if unknown := set(chosen.frameworks) - set(project.frameworks):
            raise EnvironmentUnavailable(f"unknown framework {', '.join(sorted(unknown))}")
        wanted = list_images(project, chosen.frameworks, chosen.device)
        engine = find_engine()
    except (BadDefinition, EnvironmentUnavailable, EngineError) as error:
        print(f"images: {error}", file=sys.stderr)
        return 2
    failed = 0
    for image in wanted:
        print(f"images: building {', '.join(image.tags)} with {engine.title}", flush=True)
        try:
            build(engine, image, arguments[split + 1 :])
        except EngineError as error:
            print(f"images: {error}", file=sys.stderr)
            failed += 1
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
