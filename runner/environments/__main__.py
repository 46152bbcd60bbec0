"""python -m runner.environments [cpu|cuda]: make every framework's environment."""

from __future__ import annotations

import sys

from runner.environments.definition import BadDefinition, EnvironmentUnavailable, is_referee, read
from runner.environments.venv import make, shown
from runner.machine.description import gpus
from runner.project import Project


def main(arguments: list[str]) -> int:
    """python -m runner.environments [cpu|cuda]: make every framework's, by default for this machine's device."""
    project = Project.of_this_code()
    device_kind = arguments[0] if arguments else "cuda" if gpus() else "cpu"
    failed = 0
    for framework in project.frameworks:
        try:
            environment = read(project, framework, device_kind)
            make(environment, print)
            print(f"{environment.label}: {shown(environment.folder)} is {environment.state}")
        except EnvironmentUnavailable as error:
            print(f"{framework}: unsupported: {error}", file=sys.stderr)
            failed += not is_referee(project, framework)
        except BadDefinition as error:
            print(f"environments: {error}", file=sys.stderr)
            return 2
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
