"""python -m runner overhead: what the sampler and the events cost, measured by one worker per framework and batch size.

Ratio: images/s with the instruments over images/s without, the geometric mean over pairs of neighbouring segments.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, replace
from operator import itemgetter
from pathlib import Path
from typing import Any

from rich.console import Console
from tabulate import tabulate

from runner.ask import ask
from runner.command import cli, inputs, own_data
from runner.command.cli import Request
from runner.command.overhead_file import OverheadFile
from runner.command.parser import BadInput, Parser, add_shared, run_parser, whole
from runner.command.plan import plan_of
from runner.command.progress import duration
from runner.command.setup import conditions_of, fresh_folder, installations, make_environments
from runner.launch import Launcher, LaunchFailed, Unavailable
from runner.project import Project
from runner.storage import Storage
from workloads.records.events import Event
from workloads.records.files import LOG_FILE
from workloads.records.intervals import mean_interval
from workloads.records.job import ON_DEMAND, Job, Kind, TrialSpec
from workloads.records.segments import SEGMENTS_FILE, Pair, Segment, disturbance, in_pairs, read_segments
from workloads.records.status import Status
from workloads.records.word import Word

OVERHEAD_FILE = "overhead.json"

cell_key = itemgetter("framework", "batch_size")  # by which rows are sorted

BATCH_SIZES = (32, 128)
PAIRS, FEWEST_PAIRS = 200, 3
PAIR_S, PAIR_LIMIT_S, START_S = 0.5, 10.0, 10.0

LARGE_BATCH, BAR, BAR_BELOW = 64, 0.99, 0.98
SAMPLER_BAR_PERCENT = 5.0  # of one core


class Verdict(Word):
    """What we cost, beside what we may."""

    WITHIN = "within the bar"
    OVER = "over the bar"
    CANNOT_BE_TOLD = "cannot be told"


def request(arguments: Sequence[str], project: Project) -> tuple[Request, int]:
    """(what to run, as a study of one repeat, pairs). Raises BadInput."""
    overhead_parser = Parser(
        prog="python -m runner overhead",
        description="Measure what the sampler and the events cost: one process for each framework and batch size does "
        "the same work over and over, in turn with them and without.",
    )
    add_shared(overhead_parser)
    overhead_parser.add_argument("--pairs", type=whole, metavar="N", default=PAIRS,
                                 help=f"of a short stretch with them and one without (default: {PAIRS})")  # fmt: skip
    options = overhead_parser.parse_args(arguments, run_parser().parse_args([]))
    options.batch_sizes = options.batch_sizes or list(BATCH_SIZES)
    if options.pairs < FEWEST_PAIRS:
        raise BadInput(f"--pairs {options.pairs}: must be {FEWEST_PAIRS} or more, or there is no interval to speak of")
    cli.need_scipy("overhead")
    checked = cli.request(options, project)
    if checked.isolation == "docker":
        raise BadInput("--isolation docker: not for overhead, whose worker stops the sampler, out of its reach there")
    return checked, options.pairs


def run(request: Request, pairs: int, console: Console) -> int:
    """Measures, prints and stores; the exit code: 1 where something is over its bar or was not measured."""
    request = own_data.prepared(request, console)
    data = inputs.write_data(request, console)
    launchers = make_environments(request, console)
    plan = plan_of(request, installations(request), range(1), inputs.write_repeats(request, data, range(1)))
    trials = [spec for spec in plan.trials if spec.cell.allocator == ON_DEMAND]
    file, storage = OverheadFile(request.results / OVERHEAD_FILE, conditions_of(request)), Storage(request.results)
    if file.set_aside:
        console.print(f"{file.path}: cannot be read; it is kept as {file.set_aside}")
    console.print(f"{len(trials)} times {pairs} pairs, about {duration(len(trials) * (START_S + pairs * PAIR_S))}")
    rows, failures = [], 0
    for spec in trials:
        framework, batch_size = spec.cell.framework, spec.cell.batch_size
        cell = {"framework": framework, "batch_size": batch_size}
        try:
            launcher = launchers[framework]
            if isinstance(launcher, Unavailable):
                raise LaunchFailed(f"{launcher.status}: {launcher.reason}")
            storage.need(spec, launcher)
            facts, segments = measure(spec, launcher, pairs, request.results)
        except LaunchFailed as error:
            failures += 1
            file.store_failure(cell, str(error))
            console.print(f"{framework} batch {batch_size}: {error}")
            continue
        figures = row(batch_size, segments, pairs)
        rows.append(cell | figures)
        file.store_row(cell, figures, facts)
        console.print(f"{framework} batch {batch_size}: {figures['verdict']}")
    console.print(f"\n{table(sorted(rows, key=cell_key))}\n\nwritten to {file.path}")
    return int(bool(failures) or any(Verdict.OVER in (row["verdict"], row["sampler_verdict"]) for row in rows))


def measure(spec: TrialSpec, launcher: Launcher, pairs: int, results: Path) -> tuple[dict[str, Any], list[Segment]]:
    """(the framework's facts, segments). Raises LaunchFailed with the reason and the log where there are none."""
    spec = replace(spec, timeout_s=spec.timeout_s + pairs * PAIR_LIMIT_S)
    job = Job(Kind.OVERHEAD, spec, pairs=pairs)
    folder = fresh_folder(results, job)
    ended = ask(job, folder, launcher)
    if ended.status is not Status.OK:
        raise LaunchFailed(f"{ended.status}: {ended.reason} (log: {folder / LOG_FILE})")
    try:
        segments = read_segments(folder / SEGMENTS_FILE)
        in_pairs(segments)
    except ValueError as error:
        raise LaunchFailed(f"{folder}: {error}") from error
    return ended.last.get(Event.OPENED, {}).get("facts", {}), segments


def row(batch_size: int, segments: list[Segment], pairs: int) -> dict[str, Any]:
    """What `overhead.json` says of a framework at a batch size: from the `pairs` that others disturbed least.

    What the instruments cause beyond their own processor time counts as foreign, so the choice alone may not clear
    them: the ratio over all pairs, named `..._all`, stands beside it, and where it is over the bar, so is the verdict.
    """
    measured = in_pairs(segments)
    used = sorted(measured, key=disturbance)[:pairs]
    ratio, ratio_all = ratio_of(used), ratio_of(measured)
    bar = BAR if batch_size >= LARGE_BATCH else BAR_BELOW
    verdict = Verdict.WITHIN if ratio["low"] >= bar else Verdict.CANNOT_BE_TOLD
    if min(ratio["high"], ratio_all["high"]) < bar:
        verdict = Verdict.OVER
    running = [segment for pair in used for segment in pair if segment.instruments]
    sampler = 100 * sum(s.sampler_cpu_s for s in running) / sum(s.wall_s for s in running)
    return {
        "pairs": len(used),
        "pairs_measured": len(measured),
        "foreign_cpu_percent": statistics.fmean(segment.foreign_cpu_percent for pair in used for segment in pair),
        **ratio,
        **{f"{name}_all": value for name, value in ratio_all.items()},
        "bar": bar,
        "verdict": verdict,
        "sampler_core_percent": sampler,
        "sampler_bar_percent": SAMPLER_BAR_PERCENT,
        "sampler_verdict": Verdict.WITHIN if sampler <= SAMPLER_BAR_PERCENT else Verdict.OVER,
        "segments": [asdict(segment) for segment in segments],
    }


def ratio_of(pairs: list[Pair]) -> dict[str, float]:
    """Geometric mean over the pairs of images/s with the instruments over without; its 95 % interval, low to high."""
    mean, low, high = mean_interval([log_ratio(pair) for pair in pairs])
    return {"ratio": math.exp(mean), "low": math.exp(low), "high": math.exp(high)}


def log_ratio(pair: Pair) -> float:
    """Of images/s, with the instruments over without."""
    with_them, without = sorted(pair, key=lambda segment: not segment.instruments)
    return math.log((with_them.images / with_them.wall_s) / (without.images / without.wall_s))


def table(rows: list[dict[str, Any]]) -> str:
    """Speed with the instruments as a share of the speed without, in percent, and the sampler's own time."""
    lines = [
        {
            "framework": row["framework"],
            "batch": row["batch_size"],
            "pairs": f"{row['pairs']} of {row['pairs_measured']}",
            "foreign CPU %": f"{row['foreign_cpu_percent']:.1f}",
            "speed % [95 %]": f"{100 * row['ratio']:.2f} [{100 * row['low']:.2f}, {100 * row['high']:.2f}]",
            "bar %": f"{100 * row['bar']:g}",
            "verdict": row["verdict"],
            "sampler, % of a core": f"{row['sampler_core_percent']:.2f} of {row['sampler_bar_percent']:g}",
            "its verdict": row["sampler_verdict"],
        }
        for row in rows
    ]
    return tabulate(lines, headers="keys", disable_numparse=True)
