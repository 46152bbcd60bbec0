"""What every command needs before its first worker starts: inputs, environments, the plan, a worker's folder."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from rich.console import Console

from runner import environments, inputs, machine
from runner.cli import Request
from runner.environments import Environment, EnvironmentUnavailable
from runner.plan import TRIALS, Plan, make_plan
from workloads.trial import InputFile, TrialSpec


def write_data(request: Request, console: Console) -> dict[str, InputFile]:
    """The data set as files in the results folder, downloaded where it is not here. Raises datasets.DataError."""
    splits = inputs.load_splits(request.study, request.data_dir, environments.ROOT / "data", console)
    return inputs.write_data(request.study, splits, request.results)


def make_environments(request: Request, console: Console) -> tuple[dict[str, Environment], dict[str, str]]:
    """({framework: environment}, {framework: why it has none}); `here` takes this Python as it is."""
    ready: dict[str, Environment] = {}
    unavailable: dict[str, str] = {}
    for framework in request.frameworks:
        try:
            environment = environments.read(framework, request.device_kind)
            if request.isolation == "venv":
                environments.make(environment, console.print)
            ready[framework] = environment
        except EnvironmentUnavailable as error:
            unavailable[framework] = str(error)
            console.print(f"{framework}: unsupported: {error}", style="yellow")
    return ready, unavailable


def plan_of(request: Request, repeats: range, written: dict[int, dict[str, InputFile]]) -> Plan:
    return make_plan(
        request.study,
        digests(request),
        request.device,
        request.threads,
        request.isolation,
        machine.allocator_variables(),
        {name for name in request.frameworks if environments.preallocates(name, request.device_kind)},
        repeats,
        written,
        request.results,
    )


def digests(request: Request) -> dict[str, str]:
    """What stands for each framework's environment, and for the code that runs in it, in its trials."""
    found = {}
    for framework in request.frameworks:
        try:
            environment = environments.read(framework, request.device_kind)
            packages = environments.digest_here() if request.isolation == "here" else environment.digest
        except EnvironmentUnavailable:
            packages = "none"
        found[framework] = f"{packages}-{environments.digest_code(framework)}"
    return found


def fresh_folder(results: Path, spec: TrialSpec, room: str = TRIALS) -> Path:
    """The trial's folder, empty: an earlier attempt that did not finish is replaced."""
    folder = (results / room / spec.id).resolve()
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    return folder


def started_with(spec: TrialSpec, environment: Environment) -> tuple[str, dict[str, str]]:
    """(interpreter, variables) of a worker."""
    if spec.isolation == "here":
        return sys.executable, environments.worker_variables(environment, environments.SITE_PACKAGES)
    return str(environment.interpreter), environments.worker_variables(environment)
