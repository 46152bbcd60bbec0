"""Programs that a profile starts and that no environment brings: looked for before anything runs."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType

from runner.environments.definition import read_profiles, read_program
from runner.project import Project
from runner.request.parser import BadInput
from workloads.records.build import Column, column_of


def need_programs(
    project: Project,
    columns: Mapping[str, Collection[str]],
    isolation: str,
    results: Path,
    pythons: Mapping[str, Path] = MappingProxyType({}),
) -> None:
    """Raises BadInput where a column's workers would not find such a program, or it would not find their files; an
    image has none of them. `pythons` are interpreters of the user's, by build.

    `columns` are by series; they are those of "" for a study without series.
    """
    lacking: dict[str, tuple[str, str]] = {}
    for series, column in ((series, column_of(name)) for series, names in columns.items() for name in names):
        program, profile = _find_program(project, column), column.mode.profile
        asks = f"--profile {profile}: {column.framework} needs the program {program}"
        if program and isolation == "docker":
            raise BadInput(f"{asks}, which its image does not have: use --isolation venv")
        places = {results: "name another --results"}
        if python := pythons.get(column.installed):
            places[python] = "name another --python"
        elif isolation == "venv":
            places[project.environments] = "use a checkout elsewhere"
        if program and (where := next(filter(_is_split, places), None)):
            faulty = f"{column.framework} starts it wrongly for a path with a space, quote or backslash"
            raise BadInput(f"{asks}; {faulty}: {where}; {places[where]}, or leave {profile} out")
        if program and shutil.which(program) is None:
            lacking.setdefault(series, (profile, asks))
    if lacking:
        profile, asks = next(iter(lacking.values()))
        advice = f"leave {profile} out" if "" in lacking else f"leave out {profile}, or series {' '.join(lacking)}"
        if others := [series for series in columns if series not in lacking]:
            advice = f"choose series without it: --series {' '.join(others)}"
        raise BadInput(f"{asks}, which is not on this machine's PATH: install it, or {advice}")


def _is_split(path: Path) -> bool:
    """True if a compiler's command line does not keep the path in one piece: PyTorch joins its arguments unquoted."""
    try:
        return shlex.split(str(path.absolute())) != [str(path.absolute())]
    except ValueError:  # a quote that does not end
        return True


def _find_program(project: Project, column: Column) -> str | None:
    """Return the program that the column's profile starts; None if it needs none, or the framework has no such one."""
    if column.mode.profile not in read_profiles(project, column.framework):
        return None
    return read_program(project, column.framework, column.mode.profile)
