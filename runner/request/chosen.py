"""Choose the frameworks of a request: what `all`, `everything` and names mean here."""

from __future__ import annotations

import os
from collections.abc import Collection

from runner.environments import definition
from runner.machine import description
from runner.project import Project
from runner.request import own_code
from runner.request.parser import BadInput, need_known
from workloads.records.build import ALL, EVERYTHING


def choose_frameworks(
    project: Project, requested: tuple[str, ...], isolation: str, pythons: Collection[str], device_kind: str
) -> tuple[str, ...]:
    """Return the requested frameworks in the project's order. `pythons` are builds that have an interpreter of the
    user's. With isolation "here", ALL and EVERYTHING mean those of this Python; in an image, the image's own.
    """
    present = project.frameworks
    names = [need_known("framework", name, [*present, *pythons, ALL, EVERYTHING]) for name in requested]
    meant = definition.list_defined(project, device_kind) if EVERYTHING in names else []
    meant += definition.list_thesis(project) if ALL in names else []
    if isolation == "here" and description.IMAGE_VARIABLE in os.environ and meant:
        meant = [description.read_image_framework()]
    if isolation == "here":
        meant = [n for n in meant if n in pythons or definition.is_installed(definition.read(project, n, "cpu"))]
        if set(names) <= {ALL, EVERYTHING} and not meant and not pythons:
            raise BadInput("--isolation here: no framework is installed in this Python; use --isolation venv")
    chosen = own_code.order_builds(project, [*names, *meant], pythons)
    if isolation == "docker" and (outside := [name for name in chosen if project.is_outside(name)]):
        raise BadInput(
            f"--isolation docker: there is no image of {', '.join(outside)} from --adapters; use --isolation venv"
        )
    return chosen
