"""The command line: from words to a checked request. Bad input is one clear line and exit code 2, nothing started."""

from __future__ import annotations

import argparse
import difflib
import importlib.util
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from runner.command import stable
from runner.environments import definition
from runner.machine import cgroups, description
from runner.project import DEFINITION_FILE, Project
from workloads import study as studies
from workloads.catalogue import WORKLOADS
from workloads.datasets import DATASETS
from workloads.records.status import Status
from workloads.spec import OPTIMIZER_NAMES
from workloads.study import Study, StudyError

RETRIES = 3
RETRIED = (Status.CONTENDED.value,)  # what may turn out otherwise at once; the next run tries all that failed again
LEAST_MEMORY_MIB = 64  # below, Python itself does not start
MOUNT_HINT = '; give the container a folder and its owner: -v "$PWD/results:/results" --user "$(id -u):$(id -g)"'


class BadInput(ValueError):
    """What is wrong, where, and what to do: one line."""


@dataclass(frozen=True)
class Request:
    """What the command line asks for, checked as far as possible without starting anything."""

    project: Project
    study: Study
    frameworks: tuple[str, ...]
    device: str
    gpus: tuple[description.Gpu, ...]
    threads: int
    isolation: str
    memory_limit_bytes: int | None  # of a trial's container
    data_dir: Path | None
    results: Path
    plan_only: bool
    until_stable: int | None  # repeats at most, where they go on until the speeds are known well enough
    retry: frozenset[Status]  # a trial that ends so is run again at once, RETRIES times at most

    @property
    def device_kind(self) -> str:
        """ "cpu" or "cuda"."""
        return "cpu" if self.device == "cpu" else "cuda"


class Parser(argparse.ArgumentParser):
    """Raises BadInput where argparse would end the process."""

    def error(self, message: str) -> NoReturn:
        """Raises BadInput."""
        raise BadInput(f"{message} (see {self.prog} --help)")


def parser() -> Parser:
    """Of `python -m runner`; what is not given is None."""
    words = Parser(
        prog="python -m runner",
        description="Train one CNN in several deep-learning frameworks, per batch size, and measure it from outside.",
        epilog="python -m runner overhead --help: what the measuring itself costs",
        allow_abbrev=False,
    )
    words.add_argument("--list", action="store_true", help="frameworks, workloads, data sets and studies; runs nothing")
    words.add_argument("--plan", action="store_true", help="print the trials and an estimate; runs nothing")
    add_shared(words)
    words.add_argument(
        "--study", default="quick", metavar="NAME|FILE", help="a study's name or TOML file (default: quick)"
    )
    words.add_argument("--workload", metavar="NAME")
    words.add_argument("--dataset", metavar="NAME")
    words.add_argument("--data-dir", type=Path, help="folder with the published files (default: $BATCHWISE_DATA, else "
                       "the project's data/, where they are downloaded)")  # fmt: skip
    words.add_argument("--epochs", type=whole, metavar="N")
    words.add_argument("--repeat", type=whole, metavar="N", help="fresh-process repeats of every cell")
    words.add_argument("--seed", type=whole, metavar="N", help="repeat r draws weights and batch order with seed + r")
    words.add_argument("--optimizer", metavar="NAME", help=", ".join(OPTIMIZER_NAMES))
    words.add_argument("--learning-rate", type=_number, metavar="RATE")
    words.add_argument("--feed", metavar="host|device", help="where the training split lives (default: host)")
    words.add_argument("--last-batch", metavar="keep|drop", help="what becomes of the last, smaller batch")
    words.add_argument("--window", type=_number, metavar="SECONDS", help="length of the steady window")
    words.add_argument("--timeout", type=_number, metavar="SECONDS", help="time limit of a trial")
    words.add_argument(
        "--retry",
        nargs="+",
        default=[],
        metavar="STATUS",
        help=f"run a trial that ended so ({', '.join(RETRIED)}) again at once, at most {RETRIES} times",
    )
    words.add_argument("--until-stable", nargs="?", type=whole, const=stable.LIMIT, metavar="LIMIT",
                       help=f"more repeats until each mean speed's 95 %% interval is within {100 * stable.TOLERATED:g} "
                       f"%% of it, with {stable.FEWEST} repeats and again with one more, or there are LIMIT (default: "
                       f"{stable.LIMIT}); an interval that was waited for is worth less than 95 %%")  # fmt: skip
    return words


def add_shared(words: Parser) -> None:
    """What `python -m runner overhead` understands too."""
    words.add_argument("--framework", nargs="+", metavar="NAME", help="all, or names (default: the study's)")
    words.add_argument("--adapters", type=Path, metavar="DIR", help="a folder of frameworks of one's own, DIR/NAME as "
                       "`python -m adapters new NAME --into DIR` writes it, beside the project's")  # fmt: skip
    words.add_argument("--batch-size", nargs="+", type=whole, metavar="N")
    words.add_argument("--device", metavar="auto|cpu|cuda:N|UUID")
    words.add_argument("--threads", type=whole, metavar="N", help="cores and threads of a worker (default: all)")
    words.add_argument("--results", type=Path, metavar="DIR", help="default: results/STUDY")
    words.add_argument("--isolation", metavar="venv|docker|here", help="each trial in its framework's virtual "
                       "environment, in a container of its image (Docker or Podman), or in this Python as it is "
                       "(default: venv; in an image: here)")  # fmt: skip
    words.add_argument("--memory-limit", type=whole, metavar="MIB", help="of a trial's container")


def whole(text: str) -> int:
    """An argument as int. Raises ArgumentTypeError."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def known(kind: str, name: str, names: Iterable[str]) -> str:
    """The name, or BadInput that offers those close to it."""
    names = sorted(names)
    if name in names:
        return name
    close = difflib.get_close_matches(name, names, n=2, cutoff=0.5)
    offer = f"did you mean {' or '.join(close)}?" if close else f"known are {', '.join(names)}"
    raise BadInput(f"unknown {kind} {name!r}: {offer}")


def with_adapters(project: Project, folder: Path | None) -> Project:
    """The project with the frameworks of this folder beside its own. Raises BadInput."""
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
            for kind in definition.variants(changed, name):
                definition.read(changed, name, kind)
        except (KeyError, ValueError) as error:
            what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            raise BadInput(f"--adapters {folder}: {name}/{DEFINITION_FILE}: {what}") from error
    return changed


def request(words: argparse.Namespace, project: Project) -> Request:
    """Raises BadInput."""
    project = with_adapters(project, words.adapters)
    study = _study(words)
    if words.until_stable is not None:
        need_scipy("--until-stable")
        study = study.changed(repeats=max(study.repeats, stable.FEWEST))
        least = max(study.repeats, stable.FEWEST + 1)
        if words.until_stable < least:
            raise BadInput(
                f"--until-stable {words.until_stable}: must be {least} or more: the repeats that are run anyway, and "
                f"one beyond the {stable.FEWEST} of the first interval"
            )
    known("workload", study.workload, WORKLOADS)
    dataset = DATASETS[known("data set", study.dataset, DATASETS)]
    if dataset.classes > WORKLOADS[study.workload].classes:
        raise BadInput(f"data set {study.dataset} has more classes than workload {study.workload} tells apart")
    if study.last_batch == "drop" and max(study.batch_sizes) > dataset.train_count:
        raise BadInput(
            f"batch size {max(study.batch_sizes)} is larger than the training split of {study.dataset} "
            f"({dataset.train_count} images) and last_batch is drop: nothing would be trained"
        )
    isolation = known("isolation", words.isolation or default_isolation(), ("venv", "docker", "here"))
    gpus = description.gpus()
    if not study.device.startswith(("cuda:", "GPU-")):
        known("device", study.device, ["auto", "cpu", "cuda", *(f"cuda:{index}" for index in range(len(gpus)))])
    try:
        device = description.resolve_device(study.device, gpus)
    except description.NoSuchDevice as error:
        raise BadInput(str(error)) from error
    cores = description.cores()
    if study.threads is not None and study.threads > cores:
        raise BadInput(f"--threads {study.threads}: this process may use {cores} cores")
    named = os.environ.get("BATCHWISE_DATA")
    if dataset.files and description.IMAGE_VARIABLE in os.environ and not (named or words.data_dir):
        raise BadInput(f"--dataset {study.dataset}: give the image its files: -v DIR:/data:ro -e BATCHWISE_DATA=/data")
    frameworks = _frameworks(project, study.frameworks, isolation)
    if isolation == "docker" and (outside := [name for name in frameworks if project.is_outside(name)]):
        raise BadInput(
            f"--isolation docker: there is no image of {', '.join(outside)} from --adapters; use --isolation venv"
        )
    retry = frozenset(Status(known("status to retry", status, RETRIED)) for status in words.retry)
    results = words.results or Path("results") / study.name
    memory_limit_bytes = _for_containers(words.memory_limit, isolation, results)
    return Request(
        project=project,
        study=study,
        frameworks=frameworks,
        device=device,
        gpus=tuple(gpus),
        threads=study.threads or cores,
        isolation=isolation,
        memory_limit_bytes=memory_limit_bytes,
        data_dir=words.data_dir or (Path(named) if named else None),
        results=_results(results, writable=not words.plan),
        plan_only=words.plan,
        until_stable=words.until_stable,
        retry=retry,
    )


def _study(words: argparse.Namespace) -> Study:
    shipped = studies.studies()
    is_file = words.study.endswith(".toml") or "/" in words.study
    path = Path(words.study) if is_file else shipped[known("study", words.study, shipped)]
    asked: dict[str, Any] = {
        "workload": words.workload,
        "dataset": words.dataset,
        "frameworks": words.framework and tuple(words.framework),
        "batch_sizes": words.batch_size and tuple(words.batch_size),
        "epochs": words.epochs,
        "repeats": words.repeat,
        "seed": words.seed,
        "optimizer": words.optimizer and known("optimizer", words.optimizer, OPTIMIZER_NAMES),
        "learning_rate": words.learning_rate,
        "feed": words.feed and known("feed", words.feed, ("host", "device")),
        "last_batch": words.last_batch and known("last batch", words.last_batch, ("keep", "drop")),
        "device": words.device,
        "threads": words.threads,
        "window_s": words.window,
        "timeout_s": words.timeout,
    }
    try:
        return studies.read(path).changed(**{key: value for key, value in asked.items() if value is not None})
    except StudyError as error:
        raise BadInput(str(error)) from error


def need_scipy(what: str) -> None:
    """Raises BadInput where there is none, as in an image."""
    if importlib.util.find_spec("scipy") is None:
        raise BadInput(f"{what}: its intervals need scipy, which this Python (an image's) has not: run it outside")


def default_isolation() -> str:
    """In an image its own Python, else virtual environments."""
    return "here" if description.IMAGE_VARIABLE in os.environ else "venv"


def _frameworks(project: Project, asked: tuple[str, ...], isolation: str) -> tuple[str, ...]:
    """Of `all`, in this Python as it is, those that it has."""
    found = project.frameworks
    named = [known("framework", name, [*found, "all"]) for name in asked]
    rivals = [name for name in found if not definition.is_referee(project, name)]
    if isolation == "here":
        rivals = [name for name in rivals if definition.installed(definition.read(project, name, "cpu"))]
        if named == ["all"] and not rivals:
            raise BadInput("--isolation here: no framework is installed in this Python; use --isolation venv")
    return tuple(name for name in found if name in named or ("all" in named and name in rivals))


def _for_containers(memory_limit_mib: int | None, isolation: str, results: Path) -> int | None:
    """The limit in bytes: what is asked for, or what holds for this process, whose containers are not in its groups."""
    if isolation != "docker":
        if memory_limit_mib is not None:
            raise BadInput(f"--memory-limit {memory_limit_mib}: only a container has one; use --isolation docker")
        return None
    if memory_limit_mib is not None and memory_limit_mib < LEAST_MEMORY_MIB:
        raise BadInput(f"--memory-limit {memory_limit_mib}: must be {LEAST_MEMORY_MIB} MiB or more")
    if "," in str(results.resolve()):
        raise BadInput(f"--results {results}: no container can be given a path with a comma; name another folder")
    if "LD_PRELOAD" in description.deciding_variables():
        raise BadInput("LD_PRELOAD is set: a container has no such file; unset it, or use --isolation venv")
    own = cgroups.memory_limit_bytes()
    return own if memory_limit_mib is None else min(memory_limit_mib * 2**20, own or sys.maxsize)


def _results(folder: Path, writable: bool) -> Path:
    """The folder, made and tried out where something will be written to it."""
    if not writable:
        return folder
    probe = folder / ".writable"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_text("")
        probe.unlink()
    except OSError as error:
        hint = MOUNT_HINT if description.IMAGE_VARIABLE in os.environ else ""
        raise BadInput(f"--results {folder}: cannot be written: {error.strerror or error}{hint}") from error
    return folder
