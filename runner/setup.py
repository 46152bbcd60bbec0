"""Prepare what every command needs before its first worker starts: environments, a worker's folder."""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.prompt import Confirm

from runner.environments import containers, definition, images, venv
from runner.environments.code import code_digest
from runner.environments.containers import ImageMissing
from runner.environments.definition import Environment, EnvironmentUnavailable, InstallationFailed
from runner.environments.engine import Engine, EngineError, find_engine
from runner.environments.images import Image
from runner.launch import Launcher, Local, Packages, Unavailable
from runner.machine import description
from runner.machine.description import Gpu
from runner.project import Project
from runner.request.cli import Request
from runner.request.parser import BadInput
from runner.request.plan import read_result
from runner.spare import Spare
from runner.storage import room_aside
from workloads.records import files, processor
from workloads.records.build import OF_CUDNN, column_of
from workloads.records.files import RESULT_FILE, sync
from workloads.records.job import ANY_GPU, OF_THE_CALLER, Installation, Job, Kind
from workloads.records.result import TrialResult
from workloads.records.status import UNMEASURED, Status

ELSEWHERE = "its trials run on GPUs of other machines"
NEWER_GPUS = {"cuda": "cuda-nvidia"}  # the image for GPUs that the environment on the left has no code for


def make_environments(request: Request, console: Console) -> dict[str, Launcher | Unavailable]:
    """Return {framework: how its workers are started, or why they cannot be}.

    Raises BadInput where containers are requested and the engine, its GPU runtime or an image is missing.
    """
    launchers: dict[str, Launcher | Unavailable] = {}
    if request.placement.device == ANY_GPU:
        return dict.fromkeys(request.frameworks, Unavailable(ELSEWHERE))
    in_venv: dict[str, Environment] = {}
    for framework in request.installed:
        if framework in request.interpreters:
            launchers[framework] = replace(request.interpreters[framework].launcher(), spare=request.spare)
            continue
        try:
            environment = find_environment(framework, request)
            if request.isolation == "docker":
                launchers[framework] = build_container_launcher(environment, request, console)
                continue
            if request.isolation == "venv":
                in_venv[framework] = environment
            elif not definition.is_installed(environment):
                raise InstallationFailed(f"{environment.label} is not installed in this Python")
            launchers[framework] = build_local_launcher(environment, request.isolation, request.spare)
        except EnvironmentUnavailable as error:
            launchers[framework] = build_unavailable(error)
    not_made = venv.make_side_by_side(in_venv.values(), console.print)
    launchers |= {framework: build_unavailable(error) for framework, error in not_made.items()}
    for framework, launcher in launchers.items():
        if isinstance(launcher, Unavailable):
            console.print(f"{framework}: {launcher.status}: {launcher.reason}", style="yellow")
    kind, gpu = request.placement.device_kind, find_gpu(request)
    return {
        framework: find_refusal(request.project, framework, kind, gpu) or launchers[column_of(framework).installed]
        for framework in request.frameworks
    }


def build_unavailable(error: EnvironmentUnavailable) -> Unavailable:
    """Return how its framework's trials end: after a failed installation as failed, not as unsupported."""
    return Unavailable(str(error), Status.FAILED if isinstance(error, InstallationFailed) else Status.UNSUPPORTED)


def find_refusal(project: Project, framework: str, device_kind: str, gpu: Gpu | None) -> Unavailable | None:
    """Return why this column cannot be measured on this machine, whatever is installed; `gpu` is None on a CPU."""
    reason = _refusal(project, framework, device_kind, gpu)
    return None if reason is None else Unavailable(reason)


def _refusal(project: Project, framework: str, device_kind: str, gpu: Gpu | None) -> str | None:
    mode = column_of(framework).mode
    if mode.profile not in definition.read_profiles(project, framework):
        return definition.explain_no_profile(project, framework, mode.profile)
    if device_kind == "cpu":
        if mode.profile in OF_CUDNN:
            return f"profile {mode.profile}: it sets how cuDNN picks convolutions, and a CPU has no cuDNN"
        return processor.explain_lack(mode.precision, description.read_cpu_flags(processor.COMPUTES))
    return processor.explain_gpu_lack(mode.precision, gpu.capability if gpu else None)


def find_gpu(request: Request) -> Gpu | None:
    """Return the GPU of the request's device; None on a CPU."""
    return next((gpu for gpu in request.gpus if gpu.uuid == request.placement.device), None)


def find_environment(framework: str, request: Request) -> Environment:
    """Return the environment for the request's device. Raises EnvironmentUnavailable where it cannot use this GPU."""
    return choose_environment(
        request.project, framework, request.placement.device_kind, find_gpu(request), request.isolation
    )


def choose_environment(project: Project, framework: str, kind: str, gpu: Gpu | None, isolation: str) -> Environment:
    """Return the environment for this kind of device. Raises EnvironmentUnavailable where it cannot use this GPU."""
    environment = definition.read(project, framework, kind)
    if gpu is None or not environment.lacks(gpu.capability):
        return environment
    reason = (
        f"{environment.label}'s {environment.device_kind} build has code for GPUs up to compute capability "
        f"{environment.newest_capability}; this {gpu.name} has {gpu.capability}"
    )
    newer = NEWER_GPUS[kind]
    if newer in definition.list_variants(project, framework):
        environment = definition.read(project, framework, newer)
        if not environment.lacks(gpu.capability):
            if isolation == "docker":
                return environment
            reason += f"; --isolation docker uses the image {newer}, which supports it"
    raise EnvironmentUnavailable(reason)


def build_local_launcher(environment: Environment, isolation: str, spare: Spare | None = None) -> Local:
    """Return a launcher with the environment's interpreter; with isolation "here" with the one that runs this."""
    interpreter, site_packages = str(environment.interpreter), environment.site_packages
    packages = Packages((environment.marker,), environment.read_made_digest)
    if isolation == "here":
        interpreter, site_packages = sys.executable, definition.SITE_PACKAGES
        packages = Packages(tuple(map(Path, sys.path)), definition.digest_interpreter)
    variables = definition.build_worker_variables(environment, site_packages)
    return Local(interpreter, variables, environment.project, {}, environment.profile_variables, spare, packages)


def build_container_launcher(environment: Environment, request: Request, console: Console) -> Launcher:
    """Return a container launcher, tested once as a trial starts it. Raises BadInput, EnvironmentUnavailable."""
    image = Image(environment)
    try:
        engine = find_engine()
        try:
            launcher = containers.find(engine, image)
        except ImageMissing as error:
            offer(engine, image, error, console)
            launcher = containers.find(engine, image)
        console.print(f"{environment.label}: image {image.reference} ({launcher.image_id[:12]}), {engine.title}")
        return replace(launcher.tried(request.results.resolve(), request.placement), spare=request.spare)
    except EngineError as error:
        raise BadInput(f"--isolation docker: {error}") from error


def offer(engine: Engine, image: Image, missing: ImageMissing, console: Console) -> None:
    """Build the image if a person can be asked and says yes. Raises EngineError."""
    command = f"make images FRAMEWORK={image.environment.framework} DEVICE={image.environment.device_kind}"
    interactive = console.is_terminal and sys.stdin.isatty()
    if not (interactive and Confirm.ask(f"{missing}. Build it now ({command})?", console=console, default=True)):
        raise EngineError(f"{missing}: {command} builds it")
    images.build(engine, image)


def collect_installations(request: Request) -> dict[str, Installation]:
    """Return {framework: digests of its environment and of the code that runs in it, as trials record them}.

    They are read once per run; one in which they change ends (`storage.Storage`).
    """
    digests = {}
    for framework in request.installed:
        if framework in request.interpreters:
            digests[framework] = request.interpreters[framework].digest
            continue
        try:
            environment = find_environment(framework, request)
            if request.isolation == "docker":
                digests[framework] = containers.find(find_engine(), Image(environment)).digest
            else:
                digests[framework] = (
                    definition.digest_interpreter() if request.isolation == "here" else environment.digest
                )
        except (EnvironmentUnavailable, EngineError):
            digests[framework] = "none"
    known = {
        framework: Installation(
            OF_THE_CALLER if framework in request.interpreters else request.isolation,
            f"{packages}-{code_digest(request.project, framework)}",
        )
        for framework, packages in digests.items()
    }
    return {framework: known[column_of(framework).installed] for framework in request.frameworks}


def collect_conditions(request: Request) -> dict[str, Any]:
    """Return the conditions of the machine, and what is the same for every framework and batch size."""
    return description.describe(request.project, request.placement.device, request.gpus) | {
        "device": request.placement.device,
        "threads": request.placement.threads,
        "workload": request.study.workload,
        "dataset": request.study.dataset,
        **({} if request.source is None else {"source": asdict(request.source)}),
        "variables": request.placement.variables,
    }


def make_fresh_folder(results: Path, job: Job) -> Path:
    """Return the worker's folder, empty: an earlier attempt, however it ended, is put aside whole."""
    folder = job.folder(results)
    if folder.exists() and any(folder.iterdir()):
        put_aside(folder, job.kind)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def put_aside(folder: Path, kind: Kind = Kind.TRIAL) -> Path:
    """Move a worker's folder out of the next attempt's way, and return its new path.

    A trial goes below ATTEMPTS, any other job next to the next attempt.
    """
    return files.move_aside(folder, room_aside(folder, kind))


def find_next_aside(folder: Path, kind: Kind = Kind.TRIAL) -> Path:
    """Return the path to which this folder's attempt is moved when the next one starts."""
    return files.next_attempt_path(room_aside(folder, kind), folder.name)


def count_attempts(folder: Path, kind: Kind = Kind.TRIAL) -> int:
    """Count the attempts at the job of this folder; one that was left out does not count."""
    earlier = files.attempts_of(room_aside(folder, kind), folder.name)
    results = (read_result(each / RESULT_FILE) for each in earlier)
    return 1 + sum(result is None or result.status is not Status.SKIPPED for result in results)


def find_last_aside(folder: Path, kind: Kind = Kind.TRIAL) -> tuple[Path, TrialResult] | None:
    """Return the last attempt put aside that measured something: an interrupted run may have left no other."""
    for path in reversed(files.attempts_of(room_aside(folder, kind), folder.name)):
        if (result := read_result(path / RESULT_FILE)) and result.status not in UNMEASURED:
            return path, result
    return None


def put_back(aside: Path, folder: Path, kind: Kind = Kind.TRIAL) -> Path:
    """Move an attempt that was put aside back, and return the new path of the later one, which is put aside."""
    later = put_aside(folder, kind)
    aside.rename(folder)
    for changed in {aside.parent, folder.parent}:
        sync(changed)
    return later
