"""Turn the command line's options into a checked request. Bad input gives one line and exit code 2; nothing starts."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from runner import stable
from runner.data.cache import CachedFile
from runner.data.own import OwnImages
from runner.environments import definition
from runner.environments.interpreter import Interpreter
from runner.estimate import Paces, find_results_folders, read_paces
from runner.git import explain_no_commit
from runner.machine import description
from runner.project import DEFINITION_FILE, RESULTS, Project
from runner.request import data_sets, inputs, own_code, source_code
from runner.request.block import Shard
from runner.request.chosen import choose_columns
from runner.request.own_code import OwnModel
from runner.request.parser import RETRIED, USUAL_STUDY, BadInput, build_study, need_known
from runner.request.placement import list_notes, place_study
from runner.request.programs import need_programs
from runner.request.source_code import Importer, choose_device_kind
from runner.spare import Spare
from workloads.datasets import Dataset
from workloads.records.build import column_of
from workloads.records.job import ImageSource, Placement
from workloads.records.status import Status
from workloads.source.imported import Imported
from workloads.spec import Workload
from workloads.study import Study, StudyError, list_studies
from workloads.study_file import read as read_study

MOUNT_HINT = '; give the container a folder and its owner: -v "$PWD/results:/results" --user "$(id -u):$(id -g)"'
ISOLATIONS = ("venv", "docker", "here")


@dataclass(frozen=True)
class Request:
    """Request of the command line, checked as far as possible without starting anything."""

    project: Project
    study: Study
    workload: Workload  # as it is trained: own_data may add a layer in front
    dataset: Dataset
    images: OwnImages | None  # None for a published data set
    frameworks: tuple[str, ...]  # the columns of its tables: builds, in each of the study's profiles and precisions
    placement: Placement  # of every trial
    gpus: tuple[description.Gpu, ...]  # GPUs of this machine
    isolation: str
    models: dict[str, OwnModel]  # by framework: custom code in place of `workload`, which gives only the input shape
    interpreters: dict[str, Interpreter]  # of those `frameworks` that are the user's builds
    data_dir: Path | None
    results: Path
    plan_only: bool
    until_stable: int | None  # the most repeats, if they go on until the speeds are known well enough
    retry: frozenset[Status]  # a trial with such a status is run again at once, RETRIES times at most
    try_all: bool = False  # also batch sizes larger than one that ran out of memory
    ray: str | None = None  # address of the cluster that trials run on
    shard: Shard | None = None  # the part of the plan that this run does
    spare: Spare | None = None  # the sampler that waits between its workers, while the run holds its device
    node: str | None = None  # id of the only node of the Ray cluster that trials run on
    per_node_type: bool = False  # run the study once on each node type
    imported: Imported | None = None  # the source of `workload`, if it is not of the catalogue or a file of layers
    source: ImageSource | None = None  # this and what follows: as found by own_data.prepare_images
    arrays: dict[str, CachedFile] | None = None  # None for a published data set
    series: dict[str, Request] = field(default_factory=dict)  # requests of a study's series, each as a study of its own

    @property
    def parts(self) -> dict[str, Request]:
        """{series: its request}; {"": this request} for a study without series."""
        return self.series or {"": self}

    @property
    def elsewhere(self) -> bool:
        """True if its trials run on other machines."""
        return self.ray is not None

    @property
    def other_gpus(self) -> list[str]:
        """UUIDs of the GPUs that its trials use besides their first."""
        return sorted({uuid for part in self.parts.values() for uuid in part.placement.others})

    @cached_property
    def paces(self) -> Paces:
        """Paces of its results folder's trials and, if it runs here, of this machine's trials below RESULTS."""
        others = [] if self.elsewhere else find_results_folders(RESULTS)
        computers = {description.read_cpu_model(), *(gpu.name for gpu in self.gpus)}
        return read_paces(self.results, others, computers)

    @property
    def installed(self) -> tuple[str, ...]:
        """Builds of its columns, each once: what must be installed before any of them can run."""
        return tuple(dict.fromkeys(column_of(name).installed for name in self.frameworks))


def add_adapters(project: Project, folder: Path | None) -> Project:
    """Return the project with this folder's frameworks added to its own. Raises BadInput."""
    if folder is None:
        return project
    if not folder.is_dir():
        raise BadInput(f"--adapters {folder}: no such folder")
    changed = replace(project, adapters_outside=folder.resolve())
    names = [name for name in changed.frameworks if (folder / name / DEFINITION_FILE).is_file()]
    checkout = project.root / "adapters"
    if not names:
        raise BadInput(f"--adapters {folder}: no folder in it has an {DEFINITION_FILE}")
    for name in sorted(set(names)):
        if (checkout / name).exists() or (checkout / f"{name}.py").exists():
            raise BadInput(f"--adapters {folder}: {name} is a name of the project's own adapters; give it another")
        if not (folder / name / "adapter.py").is_file():
            raise BadInput(f"--adapters {folder}: {name} has no adapter.py")
        try:
            definition.read_label(changed, name)
        except definition.BadDefinition as error:
            raise BadInput(f"--adapters {error}") from error
    return changed


def build_request(options: argparse.Namespace, project: Project) -> Request:
    """Return the checked request of these options. Raises BadInput."""
    project = add_adapters(project, options.adapters)
    study = _with_repeats(build_study(options), options.until_stable)
    data_sets.refuse_data_dir(options.data_dir, study)
    isolation, gpus = _isolation(options.isolation), description.list_gpus()
    ray = getattr(options, "ray", None)  # an option of `python -m runner` only
    models = own_code.parse_models(options.models, project)
    pythons = own_code.name_builds(options.pythons, project, isolation)
    importer = Importer(project, pythons, isolation, choose_device_kind(gpus))
    trained = {name: _trained(part, options, project, bool(models), importer) for name, part in study.parts.items()}
    first = next(iter(trained.values()))
    study = study.changed(name=_run_name(study, first["study"], models))
    results = options.results or RESULTS / study.name
    for part in trained.values():
        part["study"] = each = part["study"].changed(name=study.name)
        part["placement"] = place_study(each, gpus, options.memory_limit, isolation, results, elsewhere=ray is not None)
    for name, columns in choose_columns(project, study, trained, isolation, pythons, models).items():
        trained[name]["frameworks"] = columns
    asked = Request(
        project=project,
        **first,
        gpus=tuple(gpus),
        isolation=isolation,
        models=models,
        interpreters=own_code.check_builds(pythons, project, first["placement"]),
        plan_only=options.plan,
        until_stable=options.until_stable,
        retry=frozenset(Status(need_known("status to retry", status, RETRIED)) for status in options.retry),
        try_all=options.try_all,
        ray=ray,
        shard=getattr(options, "shard", None),
        node=getattr(options, "node", None),
        per_node_type=getattr(options, "per_node_type", False),
        results=_results(results, writable=not options.plan),
    )
    asked = _of_series(asked, study, trained) if study.series else asked
    here = {} if asked.elsewhere else asked.parts
    need_programs(project, {name: part.frameworks for name, part in here.items()}, isolation, results, pythons)
    _print_notes(asked)
    return asked


def _print_notes(asked: Request) -> None:
    refused, parts = description.list_refused_gpus(), asked.parts.values()
    said = [note for part in parts for note in list_notes(part.study, asked.gpus, asked.elsewhere, refused)]
    if description.IMAGE_VARIABLE not in os.environ and (why := explain_no_commit(asked.project.root)):
        said.append(f"the commit of this code is unknown: results can be neither submitted nor published ({why})")
    for note in dict.fromkeys(said):
        print(f"runner: {note}", file=sys.stderr)


def _run_name(study: Study, trained: Study, models: Mapping[str, OwnModel]) -> str:
    """Return the study's name. The usual study with another network or data set is named after these two."""
    usual = read_study(list_studies()[USUAL_STUDY])
    if study.name != USUAL_STUDY:
        return study.name
    network = next((model.workload for model in models.values()), trained.workload)
    same = not models and (network, trained.dataset) == (usual.workload, usual.dataset)
    return study.name if same else f"{network}-{trained.dataset}"


def _trained(
    study: Study, options: argparse.Namespace, project: Project, own_code: bool, importer: Importer
) -> dict[str, Any]:
    """Return what a study without series trains and on what, as fields of its request. Raises BadInput, DataError."""
    data_dir = data_sets.find_data_dir(options.data_dir)
    dataset, images = data_sets.choose_data_set(study, data_dir or project.data)
    imported = source_code.find_workload(study, dataset, importer)
    workload = imported.workload
    data_sets.check(study, dataset, images, workload, own_code)
    initial = source_code.choose_initial(study, imported)
    # Networks and data sets from files have their own names.
    study = study.changed(workload=workload.name, dataset=dataset.name, initial=initial)
    _refuse_inputs(study, dataset)
    data_sets.need_files(data_dir, dataset)
    known = imported.weights is not None or imported.origin is not None or imported.unproven
    return {
        "study": study, "workload": workload, "imported": imported if known else None,
        "dataset": dataset, "images": images, "data_dir": data_dir,
    }  # fmt: skip


def _of_series(asked: Request, study: Study, trained: dict[str, dict[str, Any]]) -> Request:
    """Return the request with a part for each series. All of it takes the widest part's placement. Raises BadInput."""
    if asked.until_stable is not None and len(trained) > 1:
        names = ", ".join(trained)
        raise BadInput(f"--until-stable: study {study.name} has the series {names}: choose one of them with --series")
    known_parts: dict[tuple[Study, int, str], str] = {}
    for name, part in trained.items():
        threads = part["placement"].threads
        alone = replace(part["study"].without_columns, threads=None)
        twins = {known_parts.setdefault((alone, threads, column), name) for column in part["frameworks"]} - {name}
        if twins:
            raise BadInput(
                f"series {name} trains the same as {min(twins)}, in {threads} thread(s) on this machine: choose one of "
                "them with --series"
            )
    series = {name: replace(asked, **part) for name, part in trained.items()}
    widest = max((part.placement for part in series.values()), key=lambda placement: placement.threads)
    columns = tuple(dict.fromkeys(column for part in series.values() for column in part.frameworks))
    return replace(asked, study=study, placement=widest, frameworks=columns, series=series)


def _isolation(name: str | None) -> str:
    """Return the requested isolation, or "venv" by default; in an image the default is "here". Raises BadInput."""
    default = "here" if description.IMAGE_VARIABLE in os.environ else "venv"
    return need_known("isolation", name or default, ISOLATIONS)


def _with_repeats(study: Study, limit: int | None) -> Study:
    """Return the study with the repeats that a first interval needs. Raises BadInput where the limit leaves no more."""
    if limit is None:
        return study
    need_scipy("--until-stable")
    study = study.changed(repeats=max(study.repeats, stable.FEWEST))
    least = max(study.repeats, stable.FEWEST + 1)
    try:
        study.changed(repeats=max(limit, 1))  # raises where a results folder cannot hold so many
    except StudyError as error:
        raise BadInput(f"--until-stable {limit}: {error}") from error
    if limit < least:
        raise BadInput(
            f"--until-stable {limit}: must be {least} or more: at least the study's repeats, and one more than the "
            f"{stable.FEWEST} that the first interval needs"
        )
    return study


def _refuse_inputs(study: Study, dataset: Dataset) -> None:
    """Raises BadInput for impossible learning rates, and for an order of the images that exceeds this machine's memory.
    Every worker reads the whole order.
    """
    order_bytes = (study.epochs + 1) * dataset.train_count * np.dtype(np.int32).itemsize
    memory_bytes = psutil.virtual_memory().total
    if order_bytes > memory_bytes:
        raise BadInput(
            f"--epochs {study.epochs}: the order of {dataset.train_count} images takes {order_bytes / 2**30:.1f} GiB, "
            f"this machine has {memory_bytes / 2**30:.1f} GiB of memory"
        )
    inputs.compute_rates(study, dataset.train_count)


def need_scipy(what: str) -> None:
    """Raises BadInput where scipy is not installed, as in an image."""
    if importlib.util.find_spec("scipy") is None:
        raise BadInput(f"{what}: its intervals need scipy, which this container lacks: run it outside")


def _results(folder: Path, writable: bool) -> Path:
    """Return the results folder; if something will be written, create it and check that it can be written."""
    if not writable:
        return folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):  # without a name, so that shards started together do not meet in it
            pass
    except OSError as error:
        hint = MOUNT_HINT if description.IMAGE_VARIABLE in os.environ else ""
        raise BadInput(f"--results {folder}: cannot be written: {error.strerror or error}{hint}") from error
    return folder
