"""Read RESULTS/blocks: the processes that count, by conditions, and why the others do not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from workloads.networks import of_trial
from workloads.records.blocks import BLOCKS_FILE, Block, Phase, read_blocks, whole_rounds
from workloads.records.build import DEFAULT, FLOAT32
from workloads.records.job import Placement, Task
from workloads.records.result import TrialResult
from workloads.records.status import Status
from workloads.spec import Workload

from .. import load
from ..frameworks import ordered

Rounds = list[dict[int, Block]]
OTHER_CODE = "measured by another code or environment than the newest of its framework: not mixed with it"


@dataclass(frozen=True)
class Process:
    """A process that ended ok; `rounds` by phase, each {batch size: its block}."""

    result: TrialResult
    rounds: dict[Phase, Rounds]

    @property
    def framework(self) -> str:
        """Name of its column."""
        return self.result.spec.cell.framework

    @property
    def group(self) -> tuple[int, ...]:
        """Batch sizes measured in turns."""
        return tuple(sorted(self.rounds[Phase.TRAINING][0]))


@dataclass(frozen=True)
class Measurement:
    """Processes of the same task, placement and machine; `left_out` are sentences: which process, and why.

    `workload` is None if the results folder no longer has it.
    """

    task: Task
    placement: Placement
    processes: tuple[Process, ...]
    left_out: tuple[str, ...]
    workload: Workload | None

    @property
    def frameworks(self) -> list[str]:
        """Frameworks in the order of every table."""
        return ordered(process.framework for process in self.processes)


def read(results: Path) -> list[Measurement]:
    """Read one measurement per set of conditions; empty if no process has a result."""
    stored = load.processes(results)
    processes: list[Process] = []
    unplaced: list[TrialResult] = []
    left_out = [f"{each.path.parent}: {each.reason}." for each in stored.unreadable]
    for result, folder in zip(stored.results, stored.folders, strict=True):
        if result.status is not Status.OK:
            unplaced.append(result)
            continue
        try:
            processes.append(Process(result, rounds_of(folder)))
        except ValueError as error:
            left_out.append(f"{folder}: {error}.")
    conditions = {_condition(each): each for each in (*(p.result for p in processes), *unplaced)}
    return [
        _measurement(
            results,
            [each for each in processes if _condition(each.result) == key],
            [each for each in unplaced if _condition(each) == key],
            result,
            left_out,
        )
        for key, result in conditions.items()
    ]


def rounds_of(folder: Path) -> dict[Phase, Rounds]:
    """Read the rounds of a process. Raises ValueError if a phase has no round, or if rounds are incomplete."""
    blocks = read_blocks(folder / BLOCKS_FILE)
    rounds = {phase: whole_rounds(blocks, phase) for phase in Phase}
    if not all(rounds.values()):
        raise ValueError(f"{BLOCKS_FILE}: not a round of each phase")
    return rounds


def _condition(result: TrialResult) -> tuple[object, ...]:
    """Return what all columns of a table share."""
    task, placement = replace(result.spec.task, profile=DEFAULT, precision=FLOAT32), result.spec.placement
    return task, placement, tuple(sorted(placement.variables.items())), result.machine.get("cpu_model")


def _measurement(
    results: Path, processes: list[Process], others: list[TrialResult], example: TrialResult, left_out: Iterable[str]
) -> Measurement:
    newest: dict[str, Process] = {}
    for process in sorted(processes, key=lambda each: each.result.started_at):
        newest[process.framework] = process
    same = [
        each for each in processes if each.result.spec.installation == newest[each.framework].result.spec.installation
    ]
    sentences = [f"{each.spec.id}: {each.status}: {each.reason}." for each in others]
    sentences += [f"{each.result.spec.id}: {OTHER_CODE}." for each in processes if each not in same]
    spec = example.spec
    task = replace(spec.task, profile=DEFAULT, precision=FLOAT32)
    return Measurement(task, spec.placement, tuple(same), (*sentences, *left_out), of_trial(spec, results))
