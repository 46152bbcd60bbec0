"""python -m runner: plan the trials of a study, run each in a fresh process, store and show what came of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from rich.console import Console

from runner.ask import ask
from runner.command import cli, inputs, overhead, parser, stable
from runner.command.parser import RETRIES
from runner.command.plan import TRIALS, Plan, read_stored
from runner.command.progress import Display, duration, row
from runner.command.setup import digests_of, fresh_folder, make_environments, plan_of, put_aside, write_data
from runner.environments import definition
from runner.gate import trial_end
from runner.gate.judge import REFEREE_MULTIPLY_ADDS, Gate, group
from runner.launch import LaunchFailed, Way
from runner.machine import description
from runner.memory_worker import MemoryWorker
from runner.project import Project
from runner.results import memory_forecast
from runner.results.assemble import assemble
from runner.results.memory import Told
from workloads.catalogue import WORKLOADS
from workloads.datasets import DATASETS, DataError
from workloads.records.files import RESULT_FILE, write_json
from workloads.records.job import Job, Kind, TrialSpec
from workloads.records.memory_line import FEWEST_TO_LEAVE_ONE_OUT
from workloads.records.result import TrialResult
from workloads.records.status import FINDINGS, Status
from workloads.study import read, studies

EXIT_FAILED, EXIT_BAD_INPUT, EXIT_INTERRUPTED = 1, 2, 130


def main(arguments: list[str] | None = None) -> int:
    """Exit code: 0; 1 where a trial did not end well; 2 for bad input, with one line on stderr; 130 after Ctrl-C."""
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # a path never stops a run
    console = Console(highlight=False, markup=False, soft_wrap=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends the worker as Ctrl-C does
    arguments = sys.argv[1:] if arguments is None else arguments
    project = Project.of_this_code()
    try:
        if arguments[:1] == ["overhead"]:
            request, pairs = overhead.request(arguments[1:], project)
            with FileLock(request.results / ".lock", timeout=0):
                return overhead.run(request, pairs, console)
        options = parser.run_parser().parse_args(arguments)
        if options.list:
            show_list(cli.with_adapters(project, options.adapters), console)
            return 0
        request = cli.request(options, project)
        if request.plan_only:
            show_plan(request, console)
            return 0
        with FileLock(request.results / ".lock", timeout=0):
            return run(request, console)
    except (parser.BadInput, definition.BadDefinition, DataError) as error:
        print(f"runner: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except Timeout:
        print(
            f"runner: {request.results} is in use by another run; wait for it or name another --results",
            file=sys.stderr,
        )
        return EXIT_BAD_INPUT
    except OSError as error:
        print(f"runner: {error.filename or 'system'}: {error.strerror}; what was finished is kept", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        kept = "every finished trial is kept. The same command goes on from here."
        if arguments[:1] == ["overhead"]:
            kept = "what was measured is kept; the same command measures all of it again."
        print(f"\nrunner: interrupted; {kept}", file=sys.stderr)
        return EXIT_INTERRUPTED


def run(request: cli.Request, console: Console) -> int:
    """Everything between a checked request and the exit code."""
    data = write_data(request, console)
    ready, unavailable = make_environments(request, console)
    digests = digests_of(request)

    def run_repeats(repeats: range, cells: Collection[stable.Key] | None = None) -> list[TrialResult]:
        """Of all cells, or of some."""
        written = inputs.write_repeats(request.study, data, repeats, request.results)
        plan = plan_of(request, digests, repeats, written)
        if cells is not None:
            plan = plan.of_cells(cells)
        if plan.finished:
            note = f"{len(plan.finished)} of {len(plan.trials)} trials are finished in {request.results}: left out"
            console.print(note)
        return run_trials(plan, request, ready, unavailable, console)

    results = run_repeats(range(request.study.repeats))
    if request.until_stable is not None:
        results += stable.further(results, read_stored(request.results))
        results = stable.follow(results, request.study.repeats, request.until_stable, run_repeats)
        stored = stable.to_json(stable.cells(results), request.until_stable)
        write_json(request.results / stable.STABLE_FILE, stored)
    reported = report(request, console)  # whatever became of the trials
    code = summarise(results, console) or reported
    if request.until_stable is not None:
        cells = stable.cells(results)
        for cell in cells:
            console.print(f"  {cell.told()}")
        if any(cell.stable for cell in cells):
            console.print(f"  {stable.worth()}")
    return code


def report(request: cli.Request, console: Console) -> int:
    """Its exit code. An image has no reports: they are made from the stored files wherever the project is."""
    if not (request.project.root / "reports").is_dir():
        console.print(f"measured; the report is made outside of the image: python -m reports {request.results}")
        return 0
    command = [sys.executable, "-m", "reports", str(request.results.resolve())]
    return EXIT_FAILED if subprocess.run(command, cwd=request.project.root).returncode else 0


def run_trials(
    plan: Plan, request: cli.Request, ready: dict[str, Way], unavailable: dict[str, str], console: Console
) -> list[TrialResult]:
    """One after another, each stored as soon as it is known; a failed one never stops the run.

    After each, the gate looks again at all in the folder that it may be held against. Returns the plan's trials.
    """
    gate, memory = Gate(request.results, request.project), MemoryWorker(request.results, plan.trials)
    known = judge(gate, read_stored(request.results), request.results)
    if plan.to_run:
        conditions = description.describe(request.project, request.device, list(request.gpus))
        with Display(console, plan.estimates_s) as display:
            for spec in plan.to_run:
                display.start(spec)
                label = definition.label(request.project, spec.cell.framework)
                machine = conditions | {"framework_label": label}
                for retries_left in reversed(range(RETRIES + 1)):
                    folder = fresh_folder(request.results, Job(Kind.TRIAL, spec))
                    if spec.cell.framework in ready:
                        way = ready[spec.cell.framework]
                        evidence, account = gate.gather(spec, way), memory.gather(spec, way)
                        result = run_trial(folder, spec, way, machine, account)
                        end = trial_end.gather(request.project, folder, spec, REFEREE_MULTIPLY_ADDS)
                        result = replace(result, evidence=evidence, end=end)
                    else:
                        reason = unavailable[spec.cell.framework]
                        result = TrialResult(spec, Status.UNSUPPORTED, reason, now(), 0.0, machine=machine)
                    write_json(folder / RESULT_FILE, result.to_json())
                    if result.status not in request.retry or not retries_left:
                        break
                    console.print(f"{row(result)}\n  run again; this attempt is kept in {put_aside(folder)}")
                others = [
                    other for other in known.values() if group(other.spec) == group(spec) and other.spec.id != spec.id
                ]
                known |= judge(gate, [*others, result], request.results)
                display.finish(known[spec.id])
    return [known[spec.id] for spec in plan.trials]


def judge(gate: Gate, trials: Iterable[TrialResult], results: Path) -> dict[str, TrialResult]:
    """{id: trial as the gate sees it now}; those that it sees otherwise than before are stored again."""
    trials = list(trials)
    judged = gate.judge(trials)
    for before, after in zip(trials, judged, strict=True):
        if after != before:
            write_json(results / TRIALS / after.spec.id / RESULT_FILE, after.to_json())
    return {trial.spec.id: trial for trial in judged}


def run_trial(folder: Path, spec: TrialSpec, way: Way, conditions: dict[str, Any], account: Told) -> TrialResult:
    """One worker in a process of its own, measured; its result, whatever became of it."""
    conditions = conditions | way.conditions
    load = {"load_average_before": description.load_average()}
    started_at = now()
    try:
        ended = ask(Job(Kind.TRIAL, spec), folder, way)
    except LaunchFailed as error:
        return TrialResult(spec, Status.FAILED, str(error), started_at, 0.0, machine=conditions | load)
    load["load_average_after"] = description.load_average()
    return assemble(folder, spec, ended, conditions | load, started_at, account)


def now() -> str:
    """ISO 8601, UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def summarise(results: list[TrialResult], console: Console) -> int:
    """Exit code 1 and a list where a trial went wrong. Out of memory and diverged are findings, not failures."""
    wrong = [result for result in results if result.status not in FINDINGS]
    counts = Counter(str(result.status) for result in results)
    counted = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    console.print(f"{len(results)} trials: {counted}")
    for result in wrong:
        console.print(f"  {result.spec.id}: {result.status}: {result.reason}")
    return EXIT_FAILED if wrong else 0


def show_list(project: Project, console: Console) -> None:
    """Frameworks with the states of their environments, workloads, data sets and studies."""

    def line(name: str, text: str) -> None:
        console.print(f"  {name:<14}{text}")

    console.print("frameworks", style="bold")
    for framework in project.frameworks:
        kinds = [kind for kind in definition.variants(project, framework) if kind in ("cpu", "cuda")]
        states = [f"{kind}: {definition.read(project, framework, kind).state}" for kind in kinds]
        if description.IMAGE_VARIABLE in os.environ:
            installed = definition.installed(definition.read(project, framework, "cpu"))
            states = ["in this image" if installed else "not in it"]
        role = "; referee, not part of all" if definition.is_referee(project, framework) else ""
        outside = f"; in {project.folder(framework)}" if project.is_outside(framework) else ""
        line(framework, ", ".join(states) + role + outside)
    console.print("workloads", style="bold")
    for workload in WORKLOADS.values():
        line(workload.name, f"{workload.parameter_count:,} parameters: {workload.summary}")
    console.print("data sets", style="bold")
    for dataset in DATASETS.values():
        line(dataset.name, f"{dataset.train_count:,} + {dataset.test_count:,} images: {dataset.summary}")
    console.print("studies", style="bold")
    for name, path in studies().items():
        line(name, read(path).summary)


def show_plan(request: cli.Request, console: Console) -> None:
    """Trials in their order, with estimates in seconds and warnings where memory may not do."""
    plan = plan_of(request, digests_of(request), range(request.study.repeats), {})
    estimates = plan.estimates_s
    lines = memory_forecast.lines(read_stored(request.results))
    capacity = memory_forecast.capacity_bytes(request.device, request.gpus, request.memory_limit_bytes)
    for number, spec in enumerate(plan.trials, start=1):
        state = "finished" if spec.id in plan.finished else f"about {duration(estimates[spec.id])}"
        name = f"{number:>4}  {spec.cell.framework:<12} batch {spec.cell.batch_size:>5}  repeat {spec.draw.repeat}"
        line = lines.get(spec.memory_id)
        if (
            line
            and capacity
            and spec.id not in plan.finished
            and (doubt := memory_forecast.warning(spec, line, capacity))
        ):
            state += f"  {doubt}"
        console.print(f"{name}  {spec.placement.device}  {state}")
    for spec in {spec.memory_id: spec for spec in plan.trials}.values():
        if spec.memory_id in lines:
            console.print(memory_forecast.described(spec.cell.framework, lines[spec.memory_id]))
        else:
            console.print(
                f"{spec.cell.framework}: peak memory unknown: {FEWEST_TO_LEAVE_ONE_OUT} batch sizes must be measured"
            )
    total = f"{len(plan.to_run)} trials to run, about {duration(sum(estimates.values()))}"
    console.print(f"{total}; a rough guess where nothing like it has been measured in {request.results}")
    if request.until_stable is not None:
        console.print(f"then, until stable, single repeats up to {request.until_stable} in all: their number is open")


if __name__ == "__main__":
    sys.exit(main())
