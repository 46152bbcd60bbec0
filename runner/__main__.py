"""python -m runner: plan the trials of a study, run each in a fresh process, store and show the results."""

from __future__ import annotations

from workloads import program

if __name__ == "__main__":
    program.require_system("linux")
    program.interrupt_at_once()
    program.start_again()
    program.report_missing_packages()
    program.outlast_readers()
    import sys

    from runner.request import parser

    parser.show_help(sys.argv[1:])  # before the imports below, which take longer than the help itself

import os
import shlex
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.console import Console

from runner import blocks, compare, owned, show, stable
from runner.batch_size import command as batch_size
from runner.cluster import away
from runner.cluster.sweep import Sweep
from runner.doctor import command as doctor
from runner.environments import definition
from runner.launch import list_cores
from runner.machine import locks
from runner.project import Project
from runner.request import cli, inputs, own_data, parser
from runner.request.plan import Plan, build_series_plan
from runner.session import Session
from runner.setup import collect_installations, make_environments
from runner.spare import Spare
from runner.storage import CannotGoOn, Storage, read_trials
from workloads.datasets import DataError
from workloads.records.batch_answers import ANSWERS_FILE
from workloads.records.files import write_json
from workloads.records.result import TrialResult
from workloads.records.status import HARMLESS
from workloads.temporary import clear_parts

if TYPE_CHECKING:
    from runner.cluster.ray_engine import RayEngine

EXIT_FAILED, EXIT_BAD_INPUT = 1, 2


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code: 0; 1 if a trial failed; 2 for bad input, with one line on stderr; 130 after Ctrl-C."""
    program.outlast_readers()
    program.interrupt_in_order()
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        return run_command(arguments, Project.of_this_code(), Console(highlight=False, markup=False, soft_wrap=True))
    except (parser.BadInput, definition.BadDefinition, DataError, locks.InUse, locks.LockRefused) as error:
        print(f"runner: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except CannotGoOn as error:
        print(f"runner: {error}", file=sys.stderr)
        return EXIT_FAILED
    except OSError as error:
        print(f"runner: {error.filename or 'system'}: {error.strerror}; finished trials are kept", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        kept = "every finished trial is kept. The same command continues from here."
        print(f"\nrunner: interrupted; {kept}", file=sys.stderr)
        return program.EXIT_INTERRUPTED


def run_command(arguments: list[str], project: Project, console: Console) -> int:
    """Return the exit code. Raises BadInput, BadDefinition, DataError, InUse, OSError, KeyboardInterrupt."""
    if arguments[:1] and arguments[0] in parser.COMMANDS:
        return run_named_command(arguments[0], arguments[1:], project, console)
    options = parser.run_parser().parse_args(arguments)
    if options.list:
        show.print_inventory(cli.add_adapters(project, options.adapters), options.pythons, console)
        show.print_stored(options.results, console)
        return 0
    request = cli.build_request(options, project)
    if request.study.blocks:
        request = blocks.check_request(request, options)
    away.check(request)
    if request.plan_only:
        print_plan = blocks.plan if request.study.blocks else show.print_plan
        print_plan(own_data.prepare_images(request, console), console)
        show.print_held(request, console)
        return 0
    if request.per_node_type and not request.node:
        return away.run_per_type(request, arguments, away.find_types(request), console)
    files = [] if request.until_stable is None else [stable.STABLE_FILE]
    with lock_request(request, *files, elsewhere=request.elsewhere) as held, away.connect_engine(request) as engine:
        return run(own_data.prepare_images(held, console), console, engine)


def run_named_command(name: str, arguments: list[str], project: Project, console: Console) -> int:
    """Return the exit code of one of `parser.COMMANDS`; raises what `command` does."""
    if name == "doctor":
        return doctor.run(arguments, project, console)
    if name == "compare":
        return compare.run(compare.parse_runs_in_turn(arguments, project), console)
    request, question = batch_size.build_request(arguments, project)
    if request.plan_only:
        batch_size.print_plan(request, question, console)
        show.print_held(request, console)
        return 0
    with lock_request(request, ANSWERS_FILE) as request:
        answered = batch_size.run(request, question, train_cells, console)
        return make_report(request, console) or answered


@contextmanager
def lock_request(request: cli.Request, *files: str, elsewhere: bool = False) -> Iterator[cli.Request]:
    """Hold the device, unless trials run elsewhere, and the results folder for it and for these files; yield the
    request with a spare sampler. Raises InUse, and CannotGoOn in place of an OSError if that folder has gone.
    """
    placement, shard = request.placement, request.shard
    with (
        nullcontext() if elsewhere else locks.device(placement.device, list_cores(placement), request.other_gpus),
        locks.folder(request.results, placement.device, *files, shard=(shard.number, shard.count) if shard else None),
        Spare() as spare,
    ):
        storage = Storage(request.results)
        try:
            clear_parts(request.results, files)  # a run on another device may be writing others
            yield replace(request, spare=spare)
        except OSError as error:
            storage.present()
            storage.filled(error)
            raise


def run(request: cli.Request, console: Console, engine: RayEngine | None) -> int:
    """Run everything between a checked request and the exit code; trials run on the engine's machines, if any."""
    results = blocks.measure(request, console) if request.study.blocks else train(request, console, engine)
    reported = make_report(request, console)  # whatever the outcome of the trials
    show.print_failures(results, console)
    if request.until_stable is not None:
        show.print_stability(stable.collect_cells(results), console)
    return EXIT_FAILED if any(result.status not in HARMLESS for result in results) else reported


def train(
    request: cli.Request,
    console: Console,
    engine: RayEngine | None = None,
    cells: Collection[stable.Key] | None = None,
) -> list[TrialResult]:
    """Return every trial of the request, including those of earlier runs; only those of `cells`, if given."""
    data = inputs.write_all_data(request, console)
    launchers = make_environments(request, console)
    installed = collect_installations(request)

    noise: dict[str, Any] = {}  # of this machine, measured once

    def planned(repeats: range) -> Plan:
        plan = build_series_plan(request, installed, repeats, inputs.write_all_repeats(request, data, repeats))
        return plan if cells is None else plan.of_cells(cells)

    def run_plan(plan: Plan) -> list[TrialResult]:
        session.complete(plan.trials)
        plan = plan.with_stored(session.known.values())
        show.print_left_out(plan, request.results, console)
        if engine is not None:
            return Sweep(session, plan, engine).run()
        if plan.to_run and not noise:
            noise.update(doctor.check_quiet(request, console))
        return session.run(plan, noise)

    def run_further(repeats: range, wanted: Collection[stable.Key]) -> list[TrialResult]:
        return run_plan(planned(repeats).of_cells(wanted))

    first = planned(range(request.study.repeats))
    session = Session(request, launchers, installed, first.trials, console)
    found = read_trials(request.results)
    with session.referee:
        session.open(found)
        results = run_plan(first)
        if request.until_stable is None:
            return results
        stored = [session.known.get(name, result) for name, result in found.results.items()]
        results += stable.find_further_repeats(results, stored)
        results = stable.follow(results, request.study.repeats, request.until_stable, run_further)
    stable_cells = stable.to_json(stable.collect_cells(results), request.until_stable)
    write_json(request.results / stable.STABLE_FILE, stable_cells)
    return results


def train_cells(request: cli.Request, console: Console, cells: Collection[stable.Key]) -> list[TrialResult]:
    """Return every trial of these cells, as `train` does."""
    return train(request, console, cells=cells)


def make_report(request: cli.Request, console: Console) -> int:
    """Make the report and return its exit code. An image has no reports, and a shard makes none, since others may be
    running: they are made from the stored files.
    """
    # As it was given, since pages name it; with ./ it is no command of reports.
    results = str(request.results) if request.results.is_absolute() else f"./{request.results}"
    typed = f"python -m reports {shlex.quote(results)}"
    if request.shard:
        console.print(f"shard {request.shard} is done; the report on all shards: {typed}")
        return 0
    if not (request.project.root / "reports").is_dir():
        console.print(f"measured; make the report outside the image: {typed}")
        return 0
    command = [sys.executable, "-P", "-m", "reports", results]
    code = program.build_environment(os.environ, request.project.root)
    return EXIT_FAILED if owned.run(command, env=code).returncode else 0


if __name__ == "__main__":
    sys.exit(main())
