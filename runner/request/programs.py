"""Programs that a profile starts and that no environment brings: looked for before anything runs."""

from __future__ import annotations

import shutil
from collections.abc import Iterable

from runner.environments.definition import read_profiles, read_program
from runner.project import Project
from runner.request.parser import BadInput
from workloads.records.build import column_of


def need_programs(project: Project, columns: Iterable[str], isolation: str) -> None:
    """Raises BadInput where a column's workers would not find such a program; an image has none of them."""
    for column in map(column_of, columns):
        profile = column.mode.profile
        if profile not in read_profiles(project, column.framework):
            continue
        program = read_program(project, column.framework, profile)
        asks = f"--profile {profile}: {column.framework} needs the program {program}"
        if program and isolation == "docker":
            raise BadInput(f"{asks}, which its image does not have: use --isolation venv")
        if program and shutil.which(program) is None:
            raise BadInput(f"{asks}, which is not on this machine's PATH: install it, or leave {profile} out")
