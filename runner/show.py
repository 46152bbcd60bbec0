"""Print lines around the rows of a command's trials: the choices, a plan, how a run ended."""

from __future__ import annotations

import os
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

from rich.console import Console

from runner import progress, rebuild
from runner.environments import definition
from runner.environments.definition import Environment
from runner.gate.probes import lacks_evidence
from runner.launch import list_cores
from runner.machine import locks
from runner.machine.description import IMAGE_VARIABLE, count_cores, list_deciding_variables
from runner.progress import NAME_WIDTH, format_duration
from runner.project import Project
from runner.request import inputs, own_code
from runner.request.cli import Request
from runner.request.plan import Plan, build_series_plan
from runner.results import memory
from runner.setup import collect_installations
from runner.stable import CellSpeeds, describe_coverage
from runner.storage import StoredTrials, read_trials
from workloads.datasets import DATASETS
from workloads.networks import WORKLOADS
from workloads.records.job import AUGMENTATIONS, Placement
from workloads.records.memory_line import FEWEST_TO_LEAVE_ONE_OUT, Line
from workloads.records.result import TrialResult
from workloads.records.status import FINDINGS, Status
from workloads.spec import OPTIMIZER_NAMES, SCHEDULE_NAMES, Workload
from workloads.study import Study, list_studies
from workloads.study_file import read
from workloads.words import format_count

LIST_WIDTH = 120  # characters of a line


def print_failures(results: list[TrialResult], console: Console) -> None:
    """Print the number of trials per status, a line for each that went wrong, and one for all that were disturbed.

    Prints no counts where nothing went wrong, because the report's first lines have them.
    """
    wrong = [result for result in results if result.status not in (*FINDINGS, Status.CONTENDED)]
    if wrong:
        counts = Counter(str(result.status) for result in results)
        ended = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
        console.print(f"{format_count(len(results), 'trial')}: {ended}")
    for result in wrong:
        console.print(f"  {result.spec.id}: {result.status}: {result.reason}")
    if disturbed := progress.summarise_disturbed(results):
        console.print(disturbed)


def print_left_out(plan: Plan, results: Path, console: Console) -> None:
    """Print which part of the plan is not run because it was measured before."""
    if plan.finished:
        verb = "is" if len(plan.trials) == 1 else "are"
        trials = f"{len(plan.finished)} of {format_count(len(plan.trials), 'trial')}"
        console.print(f"{trials} {verb} finished in {results}: not run again")
    if lacking := [result for result in plan.finished.values() if lacks_evidence(result)]:
        console.print(f"{len(lacking)} of those are measured, but not judged: {lacking[0].reason}")


def print_stored(results: Path | None, console: Console) -> None:
    """Print how many trials of a results folder ended with each status, and what cannot be read there."""
    if results is None:
        return
    found = read_trials(results)
    counts = Counter(str(result.status) for result in found.results.values())
    lines = {status: str(count) for status, count in sorted(counts.items())}
    lines |= {"unfinished": str(len(found.unfinished))} if found.unfinished else {}
    console.print(str(results), style="bold")
    for status, count in (lines or {"trials": "none"}).items():
        console.print(f"  {status:<14}{count}")
    print_unreadable(found, console)


def print_unreadable(found: StoredTrials, console: Console) -> None:
    """Print a line for each result that cannot be read."""
    for item in found.unreadable:
        console.print(f"{item.path}: cannot be read: {item.reason}")


def print_stability(cells: list[CellSpeeds], console: Console) -> None:
    """Print how each cell's repeats ended, and the real coverage of the intervals."""
    for cell in cells:
        console.print(f"  {cell.line()}")
    if any(cell.stable for cell in cells):
        console.print(f"  {describe_coverage()}")


def print_inventory(project: Project, pythons: Sequence[str], console: Console) -> None:
    """Print frameworks with the states of their environments, user builds, workloads, data sets and studies.

    `pythons` names the builds. Raises BadInput.
    """
    here = Placement("cpu", count_cores(), list_deciding_variables())
    interpreters = own_code.check_builds(own_code.name_builds(pythons, project, ""), project, here)
    sections: dict[str, Mapping[str, str]] = {
        "frameworks": {framework: _framework(project, framework) for framework in project.frameworks},
        **({"your builds": {name: each.summary for name, each in interpreters.items()}} if interpreters else {}),
        "workloads": {each.name: _workload(each) for each in WORKLOADS.values()},
        "data sets": {
            each.name: f"{each.train_count:,} + {each.test_count:,} images: {each.summary}"
            for each in DATASETS.values()
        },
        "training": {  # by the names of the options
            "optimizer": ", ".join(OPTIMIZER_NAMES),
            "schedule": ", ".join(SCHEDULE_NAMES),
            "augment": ", ".join(AUGMENTATIONS),
        },
        "studies": {name: _study(read(path)) for name, path in list_studies().items()},
    }
    for heading, lines in sections.items():
        console.print(heading, style="bold")
        width = max(map(len, lines), default=0) + 4
        for name, text in lines.items():
            first, *others = textwrap.wrap(text, LIST_WIDTH - width, break_on_hyphens=False) or [""]
            console.print("\n".join([f"  {name}".ljust(width) + first, *(" " * width + line for line in others)]))


def _study(study: Study) -> str:
    return study.summary + (f"; series: {', '.join(study.parts)}" if study.series else "")


def _workload(workload: Workload) -> str:
    shape = " x ".join(map(str, workload.input_shape))
    counts = f"{workload.parameter_count:,} parameters, {workload.multiply_adds:,} multiply-adds per image of {shape}"
    return f"{counts}: {workload.summary}" + (f"; {workload.differs}" if workload.differs else "")


def _framework(project: Project, framework: str) -> str:
    kinds = definition.list_variants(project, framework)
    environments = [definition.read(project, framework, kind) for kind in kinds if kind in ("cpu", "cuda")]
    if not environments:
        states = [f"only as an image: {', '.join(kinds)}"]
    elif IMAGE_VARIABLE in os.environ:
        states = ["in this image" if definition.is_installed(environments[0]) else "not in this image"]
    else:
        states = [f"{each.device_kind}: {each.state}, {describe_disk(each)}" for each in environments]
    label, pins = definition.read_label(project, framework), environments[0].requires if environments else ()
    role = "" if framework in definition.list_thesis(project) else ", not part of all"
    role = ", the referee" + role if definition.is_referee(project, framework) else role
    outside = f"; in {project.folder(framework)}" if project.is_outside(framework) else ""
    return "; ".join([f"{label}{role}", *([" ".join(pins)] if pins else []), *states]) + outside


def describe_disk(environment: Environment) -> str:
    """Return the size of its folder: measured where it is, else as declared, else why it is unknown."""
    if environment.is_made:
        return f"{measure_folder(environment.folder) / 2**20:,.0f} MiB"
    return f"about {environment.disk_mib:,} MiB" if environment.disk_mib else "disk unknown: not measured yet"


def measure_folder(folder: Path) -> int:
    """Return the bytes that its files take on the disk; links are not followed, a file of two names counts once."""
    found = (os.lstat(os.path.join(room, name)) for room, *names in os.walk(folder) for name in chain(*names))
    return sum({(each.st_dev, each.st_ino): 512 * each.st_blocks for each in found}.values())


def print_plan(request: Request, console: Console) -> None:
    """Print trials in their order, with estimates in seconds and warnings where memory may not suffice."""
    found = read_trials(request.results)
    print_unreadable(found, console)
    owed = list(_from_files(found))
    planned = build_series_plan(request, collect_installations(request), range(request.study.repeats), {})
    planned = planned.with_stored([*found.results.values(), *owed])
    estimates, placement = planned.estimates_s, request.placement
    for framework, model in request.models.items():
        console.print(f"{framework}: {model.path}:{model.function}, custom code, not compared")
    for build, interpreter in request.interpreters.items():
        console.print(f"{build}: {interpreter.summary}")
    for told in _accumulated(request):
        console.print(told)
    lines = memory.fit_memory_lines(found.results.values())
    capacity = memory.find_capacity_bytes(placement.device, request.gpus, placement.memory_limit_bytes)
    if request.elsewhere:
        capacity = None  # other machines have their own memory
    width = max(map(len, planned.series.values()), default=-2) + 2
    for number, spec in enumerate(planned.trials, start=1):
        states = ["finished" if spec.id in planned.finished else f"about {format_duration(estimates[spec.id])}"]
        cell, repeat = spec.cell, spec.draw.repeat
        series = planned.series.get(spec.id, "")
        name = (
            f"{number:>4}  {series:<{width}}{cell.framework:<{NAME_WIDTH}} batch {cell.batch_size:>5}  repeat {repeat}"
        )
        line = lines.get(spec.memory_id)
        if line and capacity and spec.id not in planned.finished:
            states += filter(None, [memory.warn_of_memory(spec, line, capacity)])
        console.print("  ".join([name, spec.placement.device, *states]))
    for told in (*_memory(planned, lines), *_schedules(request)):
        console.print(told)
    total = f"{format_count(len(planned.to_run), 'trial')} to run, about {format_duration(sum(estimates.values()))}"
    console.print(f"{total}; a rough guess for trials unlike any measured on this machine")
    if request.until_stable is not None:
        console.print(f"then single repeats until stable, at most {request.until_stable} in all")


def print_held(request: Request, console: Console) -> None:
    """Print a line if other runs hold cores or GPUs that this one needs on this machine."""
    placement = request.placement
    gpus = [] if placement.device == "cpu" else [placement.device, *request.other_gpus]
    held = [] if request.elsewhere else locks.describe_held([] if gpus else list_cores(placement), gpus)
    if held:
        console.print(f"{'; '.join(held)}; a run would be refused now")


def _accumulated(request: Request) -> Iterator[str]:
    """Yield a line for each series whose updates have several batches, or are made on several devices."""
    for name, part in request.parts.items():
        if part.study.accumulate > 1:
            yield f"{_prefix(name)}each update uses {part.study.accumulate} batches"
        if part.study.devices > 1:
            threads = f", {part.placement.device_threads} thread(s) each" * (part.placement.device == "cpu")
            yield f"{_prefix(name)}one model on {part.study.devices} devices{threads}: batch sizes are per device"


def _memory(planned: Plan, lines: Mapping[str, Line]) -> Iterator[str]:
    """Yield what is known about each framework's memory, by series; a framework without data gets one line."""
    unknown = []
    for spec in {spec.memory_id: spec for spec in planned.trials}.values():
        framework = spec.cell.framework
        if spec.memory_id in lines:
            series = _prefix(planned.series.get(spec.id, ""))
            yield series + memory.describe_line(framework, lines[spec.memory_id])
        elif framework not in unknown:
            unknown.append(framework)
            needed = f"needs {FEWEST_TO_LEAVE_ONE_OUT} measured batch sizes"
            yield f"{framework}: peak memory not estimated ({needed}); the run does not need it"


def _prefix(series: str) -> str:
    """Return the prefix for lines about a series; empty for a study without series."""
    return f"{series}: " if series else ""


def _from_files(found: StoredTrials) -> Iterator[TrialResult]:
    """Yield results that a run would make from the files of trials that were measured to their end."""
    torn = (item.path.parent for item in found.unreadable if not item.other_schema)
    for folder in (*torn, *found.unfinished):
        with suppress(ValueError):
            result = rebuild.rebuild_result(folder)
            if result is not None:
                yield result


def _schedules(request: Request) -> Iterator[str]:
    """Yield a line for each batch size; none where all steps have one rate."""
    for series, part in request.parts.items():
        for name, rates in inputs.compute_rates(part.study, part.dataset.train_count).items():
            size, steps = (
                name.rpartition("/")[2],
                f"{format_count(len(rates), 'step')}, {min(rates):.3g} to {max(rates):.3g}",
            )
            yield f"{_prefix(series)}batch {size:>5}: learning rates of {steps}; after them {rates[-1]:.3g}"
