"""Handle --python FRAMEWORK[@LABEL]=PATH: builds of frameworks that already exist, each with an interpreter."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

from runner.environments import definition
from runner.environments.definition import EnvironmentUnavailable
from runner.environments.interpreter import BadInterpreter, Interpreter, check
from runner.project import Project
from runner.request.parser import BadInput, known
from workloads.records.build import LABEL, MARK, Mode, column_of
from workloads.records.job import Placement

OPTION = "--python"


def named(arguments: Sequence[str], project: Project, isolation: str) -> dict[str, Path]:
    """Return {build: its interpreter}; nothing is started. Raises BadInput."""
    builds: dict[str, Path] = {}
    for argument in arguments:
        build, equals, path = argument.partition("=")
        if not equals or not path:
            raise BadInput(f"{OPTION} {argument}: give FRAMEWORK=PATH or FRAMEWORK{MARK}LABEL=PATH")
        framework, labelled, label = build.partition(MARK)
        known("framework", framework, project.frameworks)
        if labelled and not LABEL.fullmatch(label):
            raise BadInput(f"{OPTION} {argument}: a label is 1 to 20 of a-z, 0-9, . and -, got {label!r}")
        if column_of(build).installed != build:
            raise BadInput(
                f"{OPTION} {argument}: {label!r} ends as a profile's or a precision's label does; give "
                "another, and --profile or --precision"
            )
        if build in builds:
            raise BadInput(f"{OPTION} names {build} twice; give builds of one framework labels: {build}{MARK}nightly")
        builds[build] = Path(path)
    if builds and isolation == "docker":
        raise BadInput(f"{OPTION} {arguments[0]}: an interpreter of this machine runs in no container of an image")
    return builds


def in_order(project: Project, requested: Collection[str], builds: Collection[str]) -> tuple[str, ...]:
    """Return the requested frameworks, each followed by its labelled builds, which always run. Raises BadInput."""
    for build in builds:
        if build not in requested and MARK not in build:
            raise BadInput(f"{OPTION} {build}: --framework does not ask for it")
    labelled = {name: sorted(build for build in builds if build.startswith(name + MARK)) for name in project.frameworks}
    return tuple(
        build for name in project.frameworks for build in ([name] if name in requested else []) + labelled[name]
    )


def in_modes(builds: Sequence[str], profiles: Sequence[str], precisions: Sequence[str]) -> tuple[str, ...]:
    """Return each build in each of these modes, which a study's tables show next to each other."""
    return tuple(
        str(replace(column_of(build), mode=Mode(*mode))) for build in builds for mode in product(profiles, precisions)
    )


def checked(builds: Mapping[str, Path], project: Project, placement: Placement) -> dict[str, Interpreter]:
    """Return each interpreter, tested. Raises BadInput."""
    interpreters = {}
    for build, path in builds.items():
        try:
            environment = definition.read(project, column_of(build).framework, placement.device_kind)
            interpreters[build] = check(path, environment, placement)
        except (BadInterpreter, EnvironmentUnavailable) as error:
            raise BadInput(f"{OPTION} {build}={path}: {error}") from error
    return interpreters
