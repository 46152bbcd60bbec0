"""Handle what is the user's own: models from their code, and builds of frameworks that already exist.

--model FRAMEWORK=FILE.py:FUNCTION is trained in place of a network. --python FRAMEWORK[@LABEL]=PATH is an interpreter
that has the framework.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from runner.environments import definition
from runner.environments.definition import EnvironmentUnavailable
from runner.environments.interpreter import BadInterpreter, Interpreter, check
from runner.project import Project
from runner.request.parser import BadInput, need_known
from workloads.networks import NAME, WORKLOADS
from workloads.records.build import LABEL, MARK, Mode, column_of
from workloads.records.job import InputFile, Placement, TrialSpec
from workloads.records.network import OwnCode

OPTION, PYTHON = "--model", "--python"
NAMELESS = "own-code"  # the workload name if the file's name cannot be one
OF_A_NETWORK = ("network", "weights")  # inputs that custom code does not have


@dataclass(frozen=True)
class OwnModel:
    """Custom model of one framework: the text of its file, and the function in it."""

    framework: str
    path: Path
    function: str
    text: bytes

    @property
    def workload(self) -> str:
        """Name used in place of a network's name."""
        name = self.path.stem.lower().replace("_", "-")
        return name if NAME.fullmatch(name) and name not in WORKLOADS else NAMELESS

    def code(self, classes: int, input_shape: tuple[int, ...]) -> OwnCode:
        """Return the custom code as a trial records it."""
        digest = hashlib.sha256(self.text).hexdigest()[:12]
        return OwnCode(self.framework, self.path.name, self.function, digest, classes, input_shape)


# Packages that show which framework custom code imports.
PACKAGES = {
    "torch": "pytorch",
    "torchvision": "pytorch",
    "keras": "tensorflow",
    "tensorflow": "tensorflow",
    "mxnet": "mxnet",
    "flax": "jax",
    "jax": "jax",
}


def find_framework(path: Path) -> str | None:
    """Return the framework that a Python file imports; None where it imports none, or cannot be read."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, ValueError, SyntaxError):
        return None
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = [
        name
        for node in imports
        for name in ([each.name for each in node.names] if isinstance(node, ast.Import) else [node.module or ""])
    ]
    return next((PACKAGES[name.partition(".")[0]] for name in names if name.partition(".")[0] in PACKAGES), None)


def offer(framework: str, path: Path = Path("FILE.py")) -> str:
    """Return a hint, appended to an error, on how to train a model in a framework's own code."""
    return f"; to train a model in code of {framework}, give {OPTION} {framework}={path}:FUNCTION"


def parse_models(arguments: Sequence[str], project: Project) -> dict[str, OwnModel]:
    """Return {framework: its custom model}; the files are read, not run. Raises BadInput."""
    models: dict[str, OwnModel] = {}
    for argument in arguments:
        framework, equals, place = argument.partition("=")
        path, colon, function = place.rpartition(":")
        if not (equals and colon and path and function):
            raise BadInput(f"{OPTION} {argument}: give FRAMEWORK=FILE.py:FUNCTION")
        need_known("framework", framework, project.frameworks)
        if definition.is_referee(project, framework):
            raise BadInput(f"{OPTION} {argument}: {framework} is the referee, which trains no custom models")
        if framework in models:
            raise BadInput(f"{OPTION} names {framework} twice; run each in its own results folder")
        file = Path(os.path.expanduser(path))
        models[framework] = OwnModel(framework, file, function, read_code(file, function, f"{OPTION} {argument}"))
    return models


def read_code(path: Path, function: str, option: str) -> bytes:
    """Return the file's text and check that it defines the function. Raises BadInput."""
    try:
        text = path.read_bytes()
        tree = ast.parse(text)
    except OSError as error:
        raise BadInput(f"{option}: {path}: {error.strerror}") from error
    except (SyntaxError, ValueError, RecursionError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise BadInput(f"{option}: {path}{line}: {str(error).splitlines()[0]}") from error
    names = list(_defined(tree))
    if function not in names:
        close = difflib.get_close_matches(function, names, n=1)
        offer = f"did you mean {close[0]}?" if close else f"it defines {', '.join(names) or 'nothing'}"
        raise BadInput(f"{option}: {path} defines no {function}: {offer}")
    return text


def list_defined(path: Path) -> list[str]:
    """List the functions and classes of a Python file; none if it cannot be read."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return []
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]


def _defined(tree: ast.Module) -> list[str]:
    """Return the names defined at the top level: functions, classes, assigned names."""
    names = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        names += [target.id for target in targets if isinstance(target, ast.Name)]
    return names


def add_models(
    frameworks: tuple[str, ...], requested: Sequence[str], models: Mapping[str, OwnModel]
) -> tuple[str, ...]:
    """Return the chosen `frameworks` that have a model, or all of them if no models are given.

    Raises BadInput where a framework was requested by name but has no model.
    """
    if not models:
        return frameworks
    without = [build for build in frameworks if column_of(build).framework not in models]
    if asked := [build for build in without if build in requested or build != column_of(build).framework]:
        raise BadInput(f"{OPTION} names no model for {asked[0]}: give it one, too, or leave it out")
    return tuple(build for build in frameworks if build not in without)


def need_asked(chosen: Collection[str], builds: Collection[str], models: Collection[str], reason: str) -> None:
    """Raises BadInput, with this reason, for an interpreter or a model that no chosen build uses."""
    for build in builds:
        if build not in chosen:
            raise BadInput(f"{PYTHON} {build}: {reason}")
    for framework in models:
        if framework not in (column_of(build).framework for build in chosen):
            raise BadInput(f"{OPTION} {framework}: {reason}")


def make_input_name(framework: str) -> str:
    """Return the name of its file among the inputs of all frameworks."""
    return f"model of {framework}"


def build_trial(
    spec: TrialSpec, models: Mapping[str, OwnModel], classes: int, input_shape: tuple[int, ...]
) -> TrialSpec:
    """Return the trial with its framework's custom code in place of the network, if there is any."""
    framework = spec.cell.column.framework
    if framework not in models:
        return spec
    model = models[framework]
    task = replace(spec.task, workload=model.workload, network="", own_code=model.code(classes, input_shape))
    inputs: dict[str, InputFile] = {n: f for n, f in spec.inputs.items() if n not in map(make_input_name, models)}
    if make_input_name(framework) in spec.inputs:
        inputs["model"] = spec.inputs[make_input_name(framework)]
    return replace(spec, task=task, inputs=inputs, unproven="")


def name_builds(arguments: Sequence[str], project: Project, isolation: str) -> dict[str, Path]:
    """Return {build: its interpreter}; nothing is started. Raises BadInput."""
    builds: dict[str, Path] = {}
    for argument in arguments:
        build, equals, path = argument.partition("=")
        if not equals or not path:
            raise BadInput(f"{PYTHON} {argument}: give FRAMEWORK=PATH or FRAMEWORK{MARK}LABEL=PATH")
        framework, labelled, label = build.partition(MARK)
        need_known("framework", framework, project.frameworks)
        if labelled and not LABEL.fullmatch(label):
            raise BadInput(f"{PYTHON} {argument}: a label is 1 to 20 of a-z, 0-9, . and -, got {label!r}")
        if column_of(build).installed != build:
            raise BadInput(
                f"{PYTHON} {argument}: {label!r} ends like the label of a profile or precision; give "
                "another, and --profile or --precision"
            )
        if build in builds:
            raise BadInput(f"{PYTHON} names {build} twice; give builds of one framework labels: {build}{MARK}nightly")
        builds[build] = Path(path)
    if builds and isolation == "docker":
        raise BadInput(f"{PYTHON} {arguments[0]}: an interpreter of this machine cannot run in a container")
    return builds


def order_builds(project: Project, requested: Collection[str], builds: Collection[str]) -> tuple[str, ...]:
    """Return the requested frameworks, each followed by its labelled builds, which always run."""
    labelled = {name: sorted(build for build in builds if build.startswith(name + MARK)) for name in project.frameworks}
    return tuple(
        build for name in project.frameworks for build in ([name] if name in requested else []) + labelled[name]
    )


def list_columns(builds: Sequence[str], profiles: Sequence[str], precisions: Sequence[str]) -> tuple[str, ...]:
    """Return each build in each of these modes, which a study's tables show next to each other."""
    return tuple(
        str(replace(column_of(build), mode=Mode(*mode))) for build in builds for mode in product(profiles, precisions)
    )


def check_builds(builds: Mapping[str, Path], project: Project, placement: Placement) -> dict[str, Interpreter]:
    """Return each interpreter, tested. Raises BadInput."""
    interpreters = {}
    for build, path in builds.items():
        try:
            environment = definition.read(project, column_of(build).framework, placement.device_kind)
            interpreters[build] = check(path, environment, placement)
        except (BadInterpreter, EnvironmentUnavailable) as error:
            raise BadInput(f"{PYTHON} {build}={path}: {error}") from error
    return interpreters
