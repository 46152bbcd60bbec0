"""python -m runner.environments [cpu|cuda] [FRAMEWORK ...]: make environments.

Without names: those of the thesis' frameworks and of the referee.
"""

from __future__ import annotations

from workloads import program

if __name__ == "__main__":
    program.interrupt_at_once()
    program.start_again()
    program.report_missing_packages()

import sys

from runner.environments.definition import (
    BadDefinition,
    EnvironmentUnavailable,
    InstallationFailed,
    is_referee,
    list_core,
    read,
)
from runner.environments.venv import make_side_by_side, shorten_path
from runner.machine.allotment import UnclearGpus, list_visible_gpus, refuse_divided
from runner.machine.description import list_gpus
from runner.project import Project


def main(arguments: list[str]) -> int:
    """Make the environments, by default for this machine's device, and return the exit code; 130 after Ctrl-C."""
    return program.run_making("environments", make_named, arguments)


def make_named(arguments: list[str]) -> int:
    """Make the environments that are named, and return the exit code. Raises KeyboardInterrupt."""
    project = Project.of_this_code()
    device_kind, *names = arguments if arguments[:1] and arguments[0] in ("cpu", "cuda") else [find_kind(), *arguments]
    if unknown := [name for name in names if name not in project.frameworks]:
        print(
            f"environments: unknown framework {unknown[0]!r}; known: {', '.join(project.frameworks)}", file=sys.stderr
        )
        return 2
    unavailable: dict[str, EnvironmentUnavailable] = {}
    environments = []
    try:
        wanted = names or list_core(project)
    except BadDefinition as error:
        print(f"environments: {error}", file=sys.stderr)
        return 2
    for framework in wanted:
        try:
            environments.append(read(project, framework, device_kind))
        except EnvironmentUnavailable as error:
            unavailable[framework] = error
        except BadDefinition as error:
            print(f"environments: {error}", file=sys.stderr)
            return 2
    unavailable |= make_side_by_side(environments, print)
    for environment in (each for each in environments if each.framework not in unavailable):
        print(f"{environment.label}: {shorten_path(environment.folder)} is {environment.state}")
    failed = {framework for framework, why in unavailable.items() if isinstance(why, InstallationFailed)}
    for framework, why in unavailable.items():
        print(f"{framework}: {'failed' if framework in failed else 'unsupported'}: {why}", file=sys.stderr)
    return int(any(framework in failed or not is_referee(project, framework) for framework in unavailable))


def find_kind() -> str:
    """Return "cuda" if the user lets this process see a GPU that can be measured, else "cpu"."""
    try:
        first = list_visible_gpus(list_gpus()).gpus[:1]
        refuse_divided(first)
        return "cuda" if first else "cpu"
    except UnclearGpus as error:
        print(f"environments: {error}; making those for the CPU", file=sys.stderr)
        return "cpu"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
