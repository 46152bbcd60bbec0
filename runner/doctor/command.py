"""Run `python -m runner doctor`: check if this machine is fit to measure, and say what to do if it is not."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from runner.doctor import machine, noise, project
from runner.doctor.machine import Finding, State
from runner.doctor.repetition import check_repetition
from runner.launch import list_cores
from runner.machine import description
from runner.project import RESULTS, Project
from runner.request.cli import Request
from runner.request.data_sets import find_data_dir
from runner.request.parser import BadInput, Parser, need_known
from workloads.records.build import ALL, EVERYTHING

ROOT = Path("/")
WIDTH = 100  # columns at most
STYLES = {State.OK: "green", State.WARNING: "yellow", State.PROBLEM: "bold red", State.UNKNOWN: "dim"}


def build_parser() -> Parser:
    """Return the parser of `python -m runner doctor`."""
    parser = Parser(
        prog="python -m runner doctor",
        description="Check this machine and checkout, change nothing, and say what to do.",
    )
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR",
                        help="where runs write (default: results)")  # fmt: skip
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="folder of the data sets (default: as for a run)")
    parser.add_argument("--same-twice", action="store_true", help="train each framework twice "
                        "with --deterministic and compare the losses to the last digit; check only this")  # fmt: skip
    parser.add_argument("--framework", dest="frameworks", nargs="+", default=[], metavar="NAME",
                        help="with --same-twice: all, everything, or names (default: all)")  # fmt: skip
    return parser


def run(arguments: Sequence[str], code: Project, console: Console) -> int:
    """Return the exit code: 0, or 1 where there is something to do. Raises BadInput."""
    options = build_parser().parse_args(arguments)
    for name, folder in (("--results", options.results), ("--data-dir", options.data_dir)):
        if folder is not None and folder.exists() and not folder.is_dir():
            raise BadInput(f"{name} {folder}: is not a folder")
    if options.frameworks and not options.same_twice:
        raise BadInput("--framework: only --same-twice trains; give both, or neither")
    if options.same_twice:
        if options.data_dir is not None or options.results != RESULTS:
            raise BadInput("--same-twice: trains built-in images in its own folder: leave --data-dir and --results out")
        for name in options.frameworks:
            need_known("framework", name, [*code.frameworks, ALL, EVERYTHING])
        found = list(check_repetition(code, options.frameworks or [ALL]))
        show(found, console)
        return int(not found or any(each.state is State.PROBLEM for each in found))
    data_folder = find_data_dir(options.data_dir) or code.data
    found = list(collect_findings(code, options.results.absolute(), data_folder))
    show(found, console)
    return int(any(each.state in (State.WARNING, State.PROBLEM) for each in found))


def collect_findings(code: Project, results: Path, data_folder: Path) -> Iterator[Finding]:
    """Yield the findings of all checks."""
    real_s, monotonic_s = time.time(), time.monotonic()
    there, cores = description.list_gpus(), sorted(os.sched_getaffinity(0))
    described = description.describe(code, "cpu", [])
    yield machine.check_processor(described)
    yield machine.check_gpu(there, ROOT, description.list_refused_gpus())
    listed, gpus = machine.check_listed_gpus(there)
    if listed is not None:
        yield listed
    yield machine.check_memory(description.read_available_bytes(), described)
    yield machine.check_swap(ROOT)
    yield from project.check_environments(code, "cuda" if gpus else "cpu")
    yield report_check("data", lambda: project.check_data(data_folder))
    yield report_check("disk", lambda: project.check_disk(results))
    yield report_check("permissions", lambda: project.check_permissions(results, data_folder, code.environments))
    yield machine.check_null_device(ROOT)
    yield machine.check_shared_memory(ROOT)
    yield machine.check_limits()
    yield report_check("governor", lambda: noise.check_governor(ROOT, cores))
    yield noise.check_turbo(description.read_turbo(ROOT))
    yield noise.check_load(description.read_load_average(), os.cpu_count() or 1)  # both are the whole machine's
    yield (runs := noise.check_other_runs(cores, [gpu.uuid for gpu in gpus]))
    calibration = noise.calibrate(cores) if runs.state is State.OK else None
    yield noise.check_throttling(calibration)
    yield noise.check_neighbours(calibration)
    yield noise.check_steadiness(calibration)
    yield machine.check_clock(ROOT, time.monotonic() - monotonic_s, time.time() - real_s)


def report_check(name: str, check: Callable[[], Finding]) -> Finding:
    """Return the check's finding; where the user may not read something, a finding of that."""
    try:
        return check()
    except OSError as error:
        return Finding(name, State.UNKNOWN, f"{error.filename or 'system'}: {error.strerror}")


def show(found: list[Finding], console: Console) -> None:
    """Print a row per finding with its advice below, then the count of each state."""
    table = Table(box=None, padding=(0, 1), width=min(WIDTH, console.width) if console.is_terminal else WIDTH)
    for column in ("check", "state", "finding"):
        table.add_column(column, overflow="fold", no_wrap=column == "state")
    for each in found:
        table.add_row(each.name, f"[{STYLES[each.state]}]{each.state}[/]", _escaped(each.text))
        if each.advice:
            table.add_row("", "", f"[bold]-> {_escaped(each.advice)}[/]")
    Console(file=console.file, width=table.width, highlight=False, force_terminal=console.is_terminal).print(table)
    counts = {state: sum(each.state is state for each in found) for state in State}
    console.print(", ".join(f"{count} {state}" for state, count in counts.items() if count))


def _escaped(text: str) -> str:
    """Escape brackets, which a path may contain."""
    return text.replace("[", "\\[")


def check_quiet(request: Request, console: Console) -> dict[str, Any]:
    """Return conditions of the trials, null where unknown; print them in one line, and each warning in another.

    A loop of noise.LOOP_S, no longer than a steady window, runs on the first core. The load average is not used. It
    covers the minute before, which making environments may have filled.
    """
    used = list_cores(request.placement)
    calibration = noise.calibrate(used, min(noise.LOOP_S, request.study.window_s))
    governor = report_check("governor", lambda: noise.check_governor(ROOT, used))
    turbo = description.read_turbo(ROOT)
    ran = [check(calibration) for check in (noise.check_throttling, noise.check_neighbours, noise.check_steadiness)]
    found = [governor, noise.check_turbo(turbo), *ran]
    if quiet := [each.text for each in found if each.state is State.OK]:
        console.print(f"machine: {'; '.join(quiet)}")
    for each in found:
        if each.state is State.WARNING:
            console.print(f"machine: {each.name}: {each.text}: {each.advice}", style="yellow")
    return build_noise_conditions(calibration, turbo)


def measure_noise(used: list[int], window_s: float) -> dict[str, Any]:
    """Return the same conditions of these cores, without printing."""
    return build_noise_conditions(noise.calibrate(used, min(noise.LOOP_S, window_s)), description.read_turbo(ROOT))


def build_noise_conditions(calibration: noise.LoopTimes, turbo: bool | None) -> dict[str, Any]:
    """Return the conditions as they are stored with a trial's figures."""
    return {
        "noise_spread_percent": calibration.spread_percent,
        "noise_foreign_percent": calibration.foreign_percent,
        "turbo": turbo,
    }
