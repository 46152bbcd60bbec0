"""Choose the frameworks of a request: what `all`, `everything` and names mean here."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Any

from runner.environments import definition
from runner.machine import description
from runner.project import Project
from runner.request import own_code
from runner.request.own_code import OwnModel
from runner.request.parser import BadInput, need_known
from workloads.records.build import ALL, EVERYTHING, column_of
from workloads.study import Study


def choose_columns(
    project: Project,
    study: Study,
    trained: Mapping[str, Mapping[str, Any]],
    isolation: str,
    pythons: Collection[str],
    models: Mapping[str, OwnModel],
) -> dict[str, tuple[str, ...]]:
    """Return {series: its columns}: its frameworks and builds, each in its profiles and precisions. Raises BadInput.

    `trained` has the study and the placement of each series. A series with frameworks of its own takes only builds and
    models of these.
    """
    own = {each.name for each in study.series if "frameworks" in each.keys}
    chosen = {}
    for name, part in trained.items():
        requested, kind = part["study"].frameworks, part["placement"].device_kind
        chosen[name] = choose_frameworks(project, requested, isolation, pythons, kind, only_named=name in own)
    columns = {}
    for name, part in trained.items():
        each = part["study"]
        builds = own_code.add_models(chosen[name], () if name in own else each.frameworks, models)
        if name and not builds:
            raise BadInput(f"series {name}: {own_code.OPTION} leaves it no framework: choose others with --series")
        columns[name] = own_code.list_columns(builds, each.profiles, each.precisions)
    asks = "no chosen series includes it" if study.series else "--framework does not include it"
    own_code.need_asked([build for builds in chosen.values() for build in builds], pythons, models, asks)
    return columns


def choose_frameworks(
    project: Project,
    requested: tuple[str, ...],
    isolation: str,
    pythons: Collection[str],
    device_kind: str,
    only_named: bool = False,
) -> tuple[str, ...]:
    """Return the requested frameworks in the project's order. `pythons` are builds that have an interpreter of the
    user's; with `only_named`, those of other frameworks stay out. With isolation "here", ALL and EVERYTHING mean those
    of this Python; in an image, the image's own.
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
    asked = {*names, *meant}
    joining = [build for build in pythons if not only_named or asked & {build, column_of(build).framework}]
    chosen = own_code.order_builds(project, asked, joining)
    if isolation == "docker" and (outside := [name for name in chosen if project.is_outside(name)]):
        raise BadInput(
            f"--isolation docker: there is no image of {', '.join(outside)} from --adapters; use --isolation venv"
        )
    return chosen
