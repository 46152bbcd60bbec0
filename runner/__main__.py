"""python -m runner: plan the trials of a study, run each in a fresh process, store and show what came of it."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from rich.console import Console

from runner import cli, environments, inputs, machine
from runner.assemble import assemble
from runner.environments import Environment, EnvironmentUnavailable
from runner.gate import Gate, group
from runner.launch import LaunchFailed, run_worker
from runner.plan import TRIALS, Plan, make_plan, read_stored
from runner.progress import Display, duration
from workloads.catalogue import WORKLOADS
from workloads.datasets import DATASETS, DataError
from workloads.study import read, studies
from workloads.trial import RESULT_FILE, TRIAL_FILE, InputFile, Status, TrialResult, TrialSpec, write_json

EXIT_FAILED, EXIT_BAD_INPUT, EXIT_INTERRUPTED = 1, 2, 130


def main(arguments: list[str] | None = None) -> int:
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # a path never stops a run
    console = Console(highlight=False, markup=False, soft_wrap=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends the worker as Ctrl-C does
    try:
        words = cli.parser().parse_args(arguments)
        if words.list:
            show_list(console)
            return 0
        request = cli.request(words)
        if request.plan_only:
            show_plan(request, console)
            return 0
        with FileLock(request.results / ".lock", timeout=0):
            return run(request, console)
    except (cli.BadInput, DataError) as error:
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
        print(
            "\nrunner: interrupted; every finished trial is kept. The same command goes on from here.", file=sys.stderr
        )
        return EXIT_INTERRUPTED


def run(request: cli.Request, console: Console) -> int:
    """Everything between a checked request and the exit code."""
    splits = inputs.load_splits(request.study, request.data_dir, environments.ROOT / "data", console)
    written = inputs.write_inputs(request.study, splits, request.results)
    del splits
    ready, unavailable = make_environments(request, console)
    plan = plan_of(request, written)
    if plan.finished:
        console.print(f"{len(plan.finished)} of {len(plan.trials)} trials are finished in {request.results}: left out")
    results = run_trials(plan, request, ready, unavailable, console)
    report = subprocess.run([sys.executable, "-m", "reports", str(request.results.resolve())], cwd=environments.ROOT)
    return summarise(results, console) or (EXIT_FAILED if report.returncode else 0)


def make_environments(request: cli.Request, console: Console) -> tuple[dict[str, Environment], dict[str, str]]:
    """({framework: environment}, {framework: why it has none}); `here` takes this Python as it is."""
    ready: dict[str, Environment] = {}
    unavailable: dict[str, str] = {}
    for framework in request.frameworks:
        try:
            environment = environments.read(framework, request.device_kind)
            if request.isolation == "venv":
                environments.make(environment, console.print)
            ready[framework] = environment
        except EnvironmentUnavailable as error:
            unavailable[framework] = str(error)
            console.print(f"{framework}: unsupported: {error}", style="yellow")
    return ready, unavailable


def plan_of(request: cli.Request, written: list[dict[str, InputFile]]) -> Plan:
    return make_plan(
        request.study, digests(request), request.device, request.threads, request.isolation, written, request.results
    )


def digests(request: cli.Request) -> dict[str, str]:
    """What stands for each framework's environment, and for the code that runs in it, in its trials."""
    found = {}
    for framework in request.frameworks:
        try:
            environment = environments.read(framework, request.device_kind)
            packages = environments.digest_here() if request.isolation == "here" else environment.digest
        except EnvironmentUnavailable:
            packages = "none"
        found[framework] = f"{packages}-{environments.digest_code(framework)}"
    return found


def run_trials(
    plan: Plan, request: cli.Request, ready: dict[str, Environment], unavailable: dict[str, str], console: Console
) -> list[TrialResult]:
    """One after another, each stored as soon as it is known; a failed one never stops the run.

    After each, the gate looks again at all in the folder that it may be held against. Returns the plan's trials.
    """
    gate = Gate(request.results)
    known = judge(gate, read_stored(request.results), request.results)
    if plan.to_run:
        conditions = machine.describe(request.device, list(request.gpus))
        with Display(console, plan.estimates_s) as display:
            for spec in plan.to_run:
                display.start(spec)
                folder = fresh_folder(request.results, spec)
                if spec.framework in ready:
                    evidence = gate.gather(spec, *started_with(spec, ready[spec.framework]))
                    result = replace(run_trial(folder, spec, ready[spec.framework], conditions), evidence=evidence)
                else:
                    reason = unavailable[spec.framework]
                    result = TrialResult(spec, Status.UNSUPPORTED, reason, now(), 0.0, machine=conditions)
                write_json(folder / RESULT_FILE, result.to_json())
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


def fresh_folder(results: Path, spec: TrialSpec) -> Path:
    """The trial's folder, empty: an earlier attempt that did not finish is replaced."""
    folder = (results / TRIALS / spec.id).resolve()
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    return folder


def run_trial(folder: Path, spec: TrialSpec, environment: Environment, conditions: dict[str, Any]) -> TrialResult:
    """One worker in a process of its own, measured; its result, whatever became of it."""
    write_json(folder / TRIAL_FILE, spec.to_json())
    interpreter, variables = started_with(spec, environment)
    kills_before = machine.out_of_memory_kills()
    before = {"load_average_before": machine.load_average()}
    started_at = now()
    try:
        outcome = run_worker(folder, spec, interpreter, variables)
    except LaunchFailed as error:
        return TrialResult(spec, Status.FAILED, str(error), started_at, 0.0, machine=conditions | before)
    killed_for_memory = machine.out_of_memory_kills() != kills_before
    return assemble(folder, spec, outcome, conditions | before, started_at, killed_for_memory)


def started_with(spec: TrialSpec, environment: Environment) -> tuple[str, dict[str, str]]:
    """(interpreter, variables) of a worker."""
    if spec.isolation == "here":
        return sys.executable, environments.worker_variables(environment, environments.SITE_PACKAGES)
    return str(environment.interpreter), environments.worker_variables(environment)


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def summarise(results: list[TrialResult], console: Console) -> int:
    """Exit code 1 and a list where a trial went wrong. Out of memory is a finding, not a failure."""
    wrong = [result for result in results if result.status not in (Status.OK, Status.OUT_OF_MEMORY)]
    counts = Counter(str(result.status) for result in results)
    told = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    console.print(f"{len(results)} trials: {told}")
    for result in wrong:
        console.print(f"  {result.spec.id}: {result.status}: {result.reason}")
    return EXIT_FAILED if wrong else 0


def show_list(console: Console) -> None:
    def line(name: str, text: str) -> None:
        console.print(f"  {name:<14}{text}")

    console.print("frameworks", style="bold")
    for framework in environments.frameworks():
        states = []
        for device_kind in ("cpu", "cuda"):
            try:
                states.append(f"{device_kind}: {environments.read(framework, device_kind).state}")
            except EnvironmentUnavailable:
                continue
        line(
            framework, ", ".join(states) + ("; referee, not part of all" if environments.is_referee(framework) else "")
        )
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
    plan = plan_of(request, [])
    estimates = plan.estimates_s
    for number, spec in enumerate(plan.trials, start=1):
        told = "finished" if spec.id in plan.finished else f"about {duration(estimates[spec.id])}"
        name = f"{number:>4}  {spec.framework:<12} batch {spec.batch_size:>5}  repeat {spec.repeat}"
        console.print(f"{name}  {spec.device}  {told}")
    total = f"{len(plan.to_run)} trials to run, about {duration(sum(estimates.values()))}"
    console.print(f"{total}; a rough guess where nothing like it has been measured in {request.results}")


if __name__ == "__main__":
    sys.exit(main())
