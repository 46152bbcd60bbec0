"""Read the processes of RESULTS/blocks: those that count, by conditions, and why the others do not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from workloads.networks import of_trial
from workloads.records.blocks import BLOCKS_FILE, Block, Phase, read_blocks, whole_rounds
from workloads.records.result import TrialResult
from workloads.records.status import Status
from workloads.spec import Workload

from ..conditions import Replaced, Section, sections
from ..frameworks import ordered
from ..load import BLOCKS, Stored

Rounds = list[dict[int, Block]]


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
    """Processes of one section; `left_out` are sentences: which process that ended ok is left out, and why.

    `workload` is None if the results folder no longer has it.
    """

    section: Section
    processes: tuple[Process, ...]
    left_out: tuple[str, ...]
    workload: Workload | None

    @property
    def frameworks(self) -> list[str]:
        """Frameworks in the order of every table."""
        return ordered(process.framework for process in self.processes)


def measurements(stored: Stored) -> tuple[list[Measurement], list[Replaced]]:
    """Group the stored processes into sections, as trials are; returns (measurements, replaced processes)."""
    folders = {result.spec.id: folder for result, folder in stored.pairs if folder.parent.name == BLOCKS}
    grouped, replaced = sections(result for result, folder in stored.pairs if folder.parent.name == BLOCKS)
    return [_measurement(section, folders) for section in grouped], replaced


def _measurement(section: Section, folders: dict[str, Path]) -> Measurement:
    processes, left_out = [], []
    for result in section.results:
        folder = folders[result.spec.id]
        try:
            processes += [Process(result, rounds_of(folder))] if result.status is Status.OK else []
        except ValueError as error:
            left_out.append(f"{folder}: {error}.")
    example = section.results[0].spec
    results_folder = folders[example.id].parent.parent
    return Measurement(section, tuple(processes), tuple(left_out), of_trial(example, results_folder))


def rounds_of(folder: Path) -> dict[Phase, Rounds]:
    """Read the rounds of a process. Raises ValueError if a phase has no round, or if rounds are incomplete."""
    blocks = read_blocks(folder / BLOCKS_FILE)
    rounds = {phase: whole_rounds(blocks, phase) for phase in Phase}
    if not all(rounds.values()):
        raise ValueError(f"{BLOCKS_FILE}: not a round of each phase")
    return rounds
