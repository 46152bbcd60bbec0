"""python -m runner: plan the trials of a study, run each in a fresh process, store and show what came of it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path

from filelock import FileLock, Timeout
from rich.console import Console

from runner.batch_size import command as batch_size
from runner.command import cli, inputs, overhead, own_data, parser, show, stable
from runner.command.parser import RETRIES
from runner.command.plan import TRIALS, Plan, plan_of, read_stored
from runner.command.progress import Display, row
from runner.command.setup import fresh_folder, installations, make_environments, put_aside
from runner.environments import definition
from runner.gate import trial_end
from runner.gate.disturbed import who_can_be_asked
from runner.gate.judge import REFEREE_MULTIPLY_ADDS, Gate, group
from runner.launch import Launcher
from runner.machine import description
from runner.memory_worker import MemoryWorker
from runner.project import Project
from runner.trial import now, run_trial
from workloads.datasets import DataError
from workloads.records.files import RESULT_FILE, write_json
from workloads.records.job import Job, Kind
from workloads.records.result import TrialResult
from workloads.records.status import FINDINGS, Status

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
        if arguments[:1] == ["batch-size"]:
            request, question = batch_size.request(arguments[1:], project)
            with FileLock(request.results / ".lock", timeout=0):
                answered = batch_size.run(request, question, train, console)
                return report(request, console) or answered
        options = parser.run_parser().parse_args(arguments)
        if options.list:
            show.inventory(cli.with_adapters(project, options.adapters), options.pythons, console)
            return 0
        request = cli.request(options, project)
        if request.plan_only:
            show.plan(own_data.prepared(request, console), console)
            return 0
        with FileLock(request.results / ".lock", timeout=0):
            return run(own_data.prepared(request, console), console)
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
    results = train(request, console)
    reported = report(request, console)  # whatever became of the trials
    show.summary(results, console)
    if request.until_stable is not None:
        show.stability(stable.cells(results), console)
    return EXIT_FAILED if any(result.status not in FINDINGS for result in results) else reported


def train(request: cli.Request, console: Console) -> list[TrialResult]:
    """Every trial of the request, those of earlier runs among them."""
    data = inputs.write_data(request, console)
    launchers = make_environments(request, console)
    installed = installations(request)

    def run_repeats(repeats: range, cells: Collection[stable.Key] | None = None) -> list[TrialResult]:
        """Of all cells, or of some."""
        plan = plan_of(request, installed, repeats, inputs.write_repeats(request, data, repeats))
        if cells is not None:
            plan = plan.of_cells(cells)
        if plan.finished:
            note = f"{len(plan.finished)} of {len(plan.trials)} trials are finished in {request.results}: left out"
            console.print(note)
        return run_trials(plan, request, launchers, console)

    results = run_repeats(range(request.study.repeats))
    if request.until_stable is not None:
        results += stable.further(results, read_stored(request.results))
        results = stable.follow(results, request.study.repeats, request.until_stable, run_repeats)
        stored = stable.to_json(stable.cells(results), request.until_stable)
        write_json(request.results / stable.STABLE_FILE, stored)
    return results


def report(request: cli.Request, console: Console) -> int:
    """Its exit code. An image has no reports: they are made from the stored files wherever the project is."""
    if not (request.project.root / "reports").is_dir():
        console.print(f"measured; the report is made outside of the image: python -m reports {request.results}")
        return 0
    command = [sys.executable, "-m", "reports", str(request.results.resolve())]
    return EXIT_FAILED if subprocess.run(command, cwd=request.project.root).returncode else 0


def run_trials(
    plan: Plan, request: cli.Request, launchers: dict[str, Launcher | str], console: Console
) -> list[TrialResult]:
    """One after another, each stored as soon as it is known; a failed one never stops the run.

    After each, the gate looks again at all in the folder that it may be held against. Returns the plan's trials.
    """
    gate = Gate(request.results, request.project, who_can_be_asked(plan.trials, launchers))
    memory = MemoryWorker(request.results, plan.trials)
    known = judge(gate, read_stored(request.results), request.results)
    if plan.to_run:
        machine = description.describe(request.project, request.placement.device, request.gpus)
        with Display(console, plan.estimates_s) as display:
            for spec in plan.to_run:
                display.begin(spec)
                label = definition.label(request.project, spec.cell.framework)
                conditions = machine | {"framework_label": label}
                launcher = launchers[spec.cell.framework]
                for retries_left in reversed(range(RETRIES + 1)):
                    folder = fresh_folder(request.results, Job(Kind.TRIAL, spec))
                    if isinstance(launcher, str):
                        result = TrialResult(spec, Status.UNSUPPORTED, launcher, now(), 0.0, machine=conditions)
                    else:
                        evidence, account = gate.gather(spec, launcher), memory.gather(spec, launcher)
                        result = run_trial(folder, spec, launcher, conditions, account)
                        end = trial_end.gather(request.project, folder, spec, REFEREE_MULTIPLY_ADDS)
                        result = replace(result, evidence=evidence, end=end)
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


if __name__ == "__main__":
    sys.exit(main())
