"""What every command needs before its first worker starts: inputs, environments, the plan, a worker's folder."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from rich.console import Console
from rich.prompt import Confirm

from runner.command import inputs
from runner.command.cli import Request
from runner.command.parser import BadInput
from runner.command.plan import Plan, planned_trials, with_finished
from runner.environments import containers, definition, images, venv
from runner.environments.code import code_digest
from runner.environments.containers import ImageMissing
from runner.environments.definition import Environment, EnvironmentUnavailable
from runner.environments.engine import Engine, EngineError, find_engine
from runner.environments.images import Image
from runner.launch import Local, Way
from runner.machine import description
from workloads.records.job import InputFile, Installation, Job, Placement

ATTEMPTS = "attempts"  # of a results folder: trials that were run again at once
NEWER_GPUS = {"cuda": "cuda-nvidia"}  # the image for GPUs that the environment on the left holds no code for


def write_data(request: Request, console: Console) -> dict[str, InputFile]:
    """The data set as files in the results folder, downloaded where it is not here. Raises datasets.DataError."""
    splits = inputs.load_splits(request.study, request.data_dir, request.project.data, console)
    return inputs.write_data(request.study, splits, request.results)


def make_environments(request: Request, console: Console) -> tuple[dict[str, Way], dict[str, str]]:
    """({framework: how its workers are started}, {framework: why they cannot be}). Raises BadInput where containers
    are asked for and the engine, its GPU runtime or an image is missing.
    """
    ready: dict[str, Way] = {}
    unavailable: dict[str, str] = {}
    for framework in request.frameworks:
        try:
            environment = environment_of(framework, request)
            if request.isolation == "docker":
                ready[framework] = container_of(environment, request, console)
                continue
            if request.isolation == "venv":
                venv.make(environment, console.print)
            elif not definition.installed(environment):
                raise EnvironmentUnavailable(f"{environment.label} is not installed in this Python")
            ready[framework] = local(environment, request.isolation)
        except EnvironmentUnavailable as error:
            unavailable[framework] = str(error)
            console.print(f"{framework}: unsupported: {error}", style="yellow")
    return ready, unavailable


def environment_of(framework: str, request: Request) -> Environment:
    """The one for the request's device. Raises EnvironmentUnavailable where it holds no code for this GPU."""
    environment = definition.read(request.project, framework, request.device_kind)
    gpu = next((gpu for gpu in request.gpus if gpu.uuid == request.device), None)
    if gpu is None or not environment.lacks(gpu.capability):
        return environment
    reason = (
        f"{environment.label}'s {environment.device_kind} build holds code for GPUs up to compute capability "
        f"{environment.newest_capability}; this {gpu.name} has {gpu.capability}"
    )
    newer = NEWER_GPUS[request.device_kind]
    if newer in definition.variants(request.project, framework):
        environment = definition.read(request.project, framework, newer)
        if not environment.lacks(gpu.capability):
            if request.isolation == "docker":
                return environment
            reason += f"; with --isolation docker the image {newer} is taken, which holds it"
    raise EnvironmentUnavailable(reason)


def local(environment: Environment, isolation: str) -> Local:
    """Workers by the environment's interpreter; with isolation "here" by the one that runs this."""
    interpreter, site_packages = str(environment.interpreter), environment.site_packages
    if isolation == "here":
        interpreter, site_packages = sys.executable, definition.SITE_PACKAGES
    return Local(interpreter, definition.worker_variables(environment, site_packages), environment.project)


def container_of(environment: Environment, request: Request, console: Console) -> Way:
    """Tried once, as a trial's container is started. Raises BadInput, EnvironmentUnavailable."""
    image = Image(environment)
    try:
        engine = find_engine()
        try:
            way = containers.find(engine, image)
        except ImageMissing as error:
            offer(engine, image, error, console)
            way = containers.find(engine, image)
        console.print(f"{environment.label}: image {image.reference} ({way.image_id[:12]}), {engine.told}")
        return way.tried(request.results.resolve(), placement_of(request))
    except EngineError as error:
        raise BadInput(f"--isolation docker: {error}") from error


def offer(engine: Engine, image: Image, missing: ImageMissing, console: Console) -> None:
    """Build it, where there is somebody to ask. Raises EngineError."""
    command = image.build_command
    somebody = console.is_terminal and sys.stdin.isatty()
    if not (somebody and Confirm.ask(f"{missing}. Build it now ({command})?", console=console, default=True)):
        raise EngineError(f"{missing}: {command} builds it")
    images.build(engine, image)


def placement_of(request: Request) -> Placement:
    """Of every trial of the request."""
    return Placement(request.device, request.threads, description.deciding_variables(), request.memory_limit_bytes)


def plan_of(
    request: Request, digests: dict[str, str], repeats: range, written: dict[int, dict[str, InputFile]]
) -> Plan:
    """Of these repeats; `digests` are by framework, `written` is {repeat: {name: input}}."""
    trials = planned_trials(
        request.study,
        {name: Installation(request.isolation, digest) for name, digest in digests.items()},
        placement_of(request),
        {name for name in request.frameworks if definition.preallocates(request.project, name, request.device_kind)},
        repeats,
        written,
    )
    return with_finished(trials, request.results)


def digests_of(request: Request) -> dict[str, str]:
    """What stands for each framework's environment, and for the code that runs in it, in its trials: asked once a run,
    during which neither may change.
    """
    found = {}
    for framework in request.frameworks:
        try:
            environment = environment_of(framework, request)
            if request.isolation == "docker":
                packages = containers.find(find_engine(), Image(environment)).digest
            else:
                packages = definition.digest_here() if request.isolation == "here" else environment.digest
        except (EnvironmentUnavailable, EngineError):
            packages = "none"
        found[framework] = f"{packages}-{code_digest(request.project, framework)}"
    return found


def fresh_folder(results: Path, job: Job) -> Path:
    """The worker's folder, empty: an earlier attempt that did not finish is replaced."""
    folder = job.folder(results)
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    return folder


def put_aside(folder: Path) -> Path:
    """Move a trial's folder out of the trials, where the next attempt comes; its new place, below ATTEMPTS."""
    attempts = folder.parent.parent / ATTEMPTS
    attempts.mkdir(exist_ok=True)
    number = 1 + len(list(attempts.glob(f"{folder.name}-*")))
    return folder.rename(attempts / f"{folder.name}-{number}")
