"""Run a study of blocks: groups of batch sizes, each measured by fresh processes in which its sizes take turns.

A repeat is a process. All processes share the first repeat's weights, images and framework probe. They differ only in
the process and in the order of the turns, which is drawn from the study's seed and passed as data.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from runner.estimate import estimate_s
from runner.gate.judge import Gate
from runner.gate.rounding import Installed, find_askable
from runner.input_files import write_array
from runner.launch import Launcher
from runner.progress import Display, format_duration
from runner.request import inputs
from runner.request.cli import Request
from runner.request.parser import BadInput
from runner.request.plan import build_plan, is_counted, read_result
from runner.results.memory import MemoryAccount
from runner.session import Launchers, Session
from runner.setup import collect_installations, make_environments
from runner.trial import TooLarge
from workloads.records.blocks import BLOCKS_FILE, TURNS, Block, main_size, read_blocks
from workloads.records.checks import CONTENDED_PERCENT
from workloads.records.files import RESULT_FILE, write_json
from workloads.records.job import ON_DEMAND, ROOMS, Draw, InputFile, Installation, Kind, Passes, TrialSpec
from workloads.records.result import TrialResult
from workloads.records.status import Status

MOST_ROUNDS = 2000  # rounds that are drawn; a worker takes as many of them as its time allows
UNTIMED_STEPS = 20  # of each size, about: until everything is compiled, and the fewest rounds
NOT_ASKED: MemoryAccount = {"reason": "blocks of steps: the memory worker was not run"}
# Settings of `Study` and options that are only for whole trainings.
REFUSED = ("batch_sizes", "until_stable", "try_all", "models", "epochs")

Group = tuple[int, ...]


def check_request(request: Request, options: argparse.Namespace) -> Request:
    """Return the request with each group's main batch size. Raises BadInput for settings that blocks cannot have."""
    study = request.study
    for name in REFUSED:
        if getattr(options, name):
            given = {"batch_sizes": "--batch-size", "models": "--model"}.get(name, f"--{name.replace('_', '-')}")
            raise BadInput(f"{given}: not for a study of blocks, which times groups of sizes and trains no epochs")
    for group in study.blocks:
        if len(set(group)) < len(group):
            raise BadInput(f"blocks {','.join(map(str, group))}: a batch size is named twice")
    for one, other in combinations(study.blocks, 2):
        if shared := sorted(set(one) & set(other)):
            raise BadInput(f"blocks: {shared[0]} is in two groups; name it in one of them")
    single = {"schedule": "constant", "warm_up": 0, "augment": "none", "accumulate": 1, "devices": 1,
              "scale_learning_rate": "none"}  # fmt: skip
    for name, usual in single.items():
        if getattr(study, name) != usual:
            raise BadInput(f"{name} {getattr(study, name)}: not for blocks of steps, which only run with {usual}")
    if 2 * study.window_s >= study.limit_s:
        raise BadInput(
            f"--window {study.window_s:g}: training and evaluation each take that long, and do not fit into the "
            f"{study.limit_s:g} s of --timeout"
        )
    changed = study.changed(batch_sizes=tuple(map(main_size, study.blocks)), epochs=1)
    return replace(request, study=changed, try_all=True)  # a group's memory is not that of its main size


def draw_turns(group: Group, seed: int, process: int) -> NDArray[np.int32]:
    """Return an array (MOST_ROUNDS, sizes) with every size once in each row."""
    generator = np.random.default_rng([seed, process, *group])
    return generator.permuted(np.tile(np.array(sorted(group), np.int32), (MOST_ROUNDS, 1)), axis=1)


WriteTurns = Callable[[str, NDArray[np.int32]], InputFile]


def describe_input(_: str, array: NDArray[np.int32]) -> InputFile:
    """Return what `write_array` would give, without a path."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return InputFile("", hashlib.sha256(buffer.getbuffer()).hexdigest())


def plan_processes(
    request: Request, installed: dict[str, Installation], shared: dict[str, InputFile], write: WriteTurns
) -> list[TrialSpec]:
    """Return the processes in shuffled order, frameworks directly after each other. `shared` are the first repeat's
    inputs.
    """
    study, repeats = request.study, range(request.study.repeats)
    groups = {main_size(group): group for group in study.blocks}
    plan = build_plan(request, installed, repeats, dict.fromkeys(repeats, shared))
    specs = []
    for spec in plan.trials:
        if spec.cell.allocator == ON_DEMAND:
            group, process = groups[spec.cell.batch_size], spec.draw.repeat
            name = f"turns-{main_size(group)}-process{process}"  # a name may not be as long as a group
            file = write(name, draw_turns(group, study.seed, process))
            specs.append(replace(spec, passes=Passes(0, study.last_batch), inputs={**spec.inputs, TURNS: file}))
    return specs


def read_processes(results: Path) -> list[TrialResult]:
    """Return the newest attempt of every process."""
    found = [(path, read_result(path)) for path in sorted((results / ROOMS[Kind.BLOCKS]).glob(f"*/{RESULT_FILE}"))]
    return [result for path, result in found if result and path.parent.name == result.spec.id]


def find_plan_id(spec: TrialSpec) -> str:
    """Return an id that does not depend on the inputs, so that a process planned without them matches."""
    return replace(spec, inputs={TURNS: spec.inputs[TURNS]}).id


def estimate_processes_s(request: Request, specs: Iterable[TrialSpec], measured: list[TrialResult]) -> dict[str, float]:
    """Return {id: seconds}: from a process with the same setting, or else a guess within a factor of 2 or 3."""
    workload, groups = request.workload, {main_size(group): group for group in request.study.blocks}
    known = {each.spec.setting for each in measured}
    seconds = {}
    for spec in specs:
        seconds[spec.id] = estimate_s(spec, workload, request.dataset.train_count, measured, request.paces)
        if spec.setting not in known:
            images = UNTIMED_STEPS * sum(groups[spec.cell.batch_size])
            trained = replace(spec, passes=Passes(1, "keep"), window_s=0.0, cool_down_s=0.0)
            seconds[spec.id] += spec.window_s + estimate_s(trained, workload, images, [], request.paces)
    return seconds


def plan(request: Request, console: Console) -> None:
    """Print the processes in their order, with estimates."""
    before = read_processes(request.results)
    finished = {find_plan_id(each.spec) for each in before if is_counted(each)}
    specs = plan_processes(request, collect_installations(request), {}, describe_input)
    to_run = [spec for spec in specs if find_plan_id(spec) not in finished]
    estimates = estimate_processes_s(request, to_run, before)
    for number, spec in enumerate(specs, start=1):
        group = next(each for each in request.study.blocks if main_size(each) == spec.cell.batch_size)
        state = f"about {format_duration(estimates[spec.id])}" if spec.id in estimates else "finished"
        sizes = ", ".join(map(str, sorted(group)))
        console.print(f"{number:>4}  {spec.cell.framework}  blocks of {sizes}  repeat {spec.draw.repeat}  {state}")
    total = format_duration(sum(estimates.values()))
    processes = "1 process" if len(to_run) == 1 else f"{len(to_run)} processes"
    console.print(f"{processes} to run, about {total}; a rough guess for trials unlike any measured on this machine")


class BlockGate(Gate):
    """Gate that knows a process by the first repeat without turns, as these change nothing that is probed."""

    def gather(self, spec: TrialSpec, launcher: Launcher | None) -> dict[str, Any]:
        """Return the evidence of the process's framework."""
        return super().gather(find_probed_trial(spec), launcher)

    def judge(self, trials: Iterable[TrialResult]) -> list[TrialResult]:
        """Return the same processes, each with its verdict."""
        trials = list(trials)
        judged = super().judge(replace(each, spec=find_probed_trial(each.spec)) for each in trials)
        return [replace(each, spec=trial.spec) for trial, each in zip(trials, judged, strict=True)]


class BlockSession(Session):
    """Run of processes, which are judged by their frameworks' probes."""

    kind = Kind.BLOCKS

    def __init__(
        self, request: Request, launchers: Launchers, installed: Installed, specs: Sequence[TrialSpec], console: Console
    ) -> None:
        super().__init__(request, launchers, installed, specs, console)
        self.gate = BlockGate(request.results, request.project, find_askable(installed, launchers))

    def account(self, spec: TrialSpec) -> MemoryAccount:
        """Return why nothing is known."""
        return NOT_ASKED

    def conclude(self, spec: TrialSpec, folder: Path, result: TrialResult, evidence: dict[str, Any]) -> TrialResult:
        """Store what was measured in the folder, and judge it with all others."""
        result = replace(judge_blocks(result, folder / BLOCKS_FILE), evidence=evidence)
        write_json(folder / RESULT_FILE, result.to_json())  # before the gate is asked: nothing rebuilds it
        self.known[spec.id] = result
        self.judge(self.known.values())
        return self.known[spec.id]


def find_probed_trial(spec: TrialSpec) -> TrialSpec:
    """Return the trial by which the gate knows the process: the first repeat, without turns."""
    files = {name: file for name, file in spec.inputs.items() if name != TURNS}
    return replace(spec, inputs=files, draw=Draw(0, spec.draw.first_seed))


def judge_blocks(result: TrialResult, path: Path) -> TrialResult:
    """Return the result with the outcome that its blocks show."""
    if result.status is not Status.OK:
        return result
    try:
        blocks = read_blocks(path)
    except ValueError as error:
        return replace(result, status=Status.FAILED, reason=str(error))
    others = compute_foreign_percent(blocks)
    if others is not None and others > CONTENDED_PERCENT and result.spec.placement.device == "cpu":
        reason = f"other processes took {others:.0f} % of the cores in the middle block (more than "
        return replace(result, status=Status.CONTENDED, reason=f"{reason}{CONTENDED_PERCENT:g} %)")
    return result


def compute_foreign_percent(blocks: list[Block]) -> float | None:
    """Return the median of the blocks' known foreign CPU percent; None if the kernel did not say it of any.

    The report's trimmed means handle few disturbed blocks.
    """
    known = [block.foreign_cpu_percent for block in blocks if block.foreign_cpu_percent is not None]
    return statistics.median(known) if known else None


def measure(request: Request, console: Console) -> list[TrialResult]:
    """Run every process of the study; the results include those of earlier runs."""
    data = inputs.write_data(request, console)
    launchers = make_environments(request, console)
    shared = inputs.write_repeats(request, data, range(1))[0]
    installed = collect_installations(request)
    specs = plan_processes(request, installed, shared, lambda name, array: write_array(request.results, name, array))
    names = {spec.id for spec in specs}
    before = read_processes(request.results)
    stored = [each for each in before if each.spec.id in names]
    finished = {each.spec.id for each in stored if is_counted(each)}
    session = BlockSession(request, launchers, installed, specs, console)
    session.known = {each.spec.id: each for each in stored}
    session.judge(stored)  # judged by this version of the gate
    session.gather_lacking(specs)
    to_run = [spec for spec in specs if spec.id not in finished]
    if finished:
        console.print(f"{len(finished)} of {len(specs)} processes are finished in {request.results}: not run again")
    session.run_each(to_run, Display(console, estimate_processes_s(request, to_run, before), {}), TooLarge(()))
    return [session.known[spec.id] for spec in specs]
