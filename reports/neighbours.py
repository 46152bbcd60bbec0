"""Read the processes of RESULTS/blocks, and compare one batch size, per image, with the line through its neighbours.

Each round uses the logarithm of the seconds per image. The line goes through the next smaller and the next larger size
of the group. Its height at the size, minus the measured logarithm, is how much faster the size is. Each process gives
one value: the trimmed mean over its rounds, so that a few disturbed blocks have no effect. Rounds of one process are
not independent, but processes are: the interval is Student's t over them.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from workloads.networks import find_trained
from workloads.records.blocks import BLOCKS_FILE, Block, Phase, read_blocks, whole_rounds
from workloads.records.result import TrialResult
from workloads.records.status import Status
from workloads.shifts import estimate_together, shift_values
from workloads.spec import Workload
from workloads.statistics import Estimate, Verdict, holm, is_overruled, judge, trimmed_mean

from .conditions import Replaced, Section, group_into_sections
from .frameworks import order_frameworks
from .load import BLOCKS, Stored

# Share of the rounds trimmed at either end. A disturbed block is always slow, and a size has two neighbours. With 10 %,
# disturbance alone (one block in thirty 1.5 times as slow) produced an effect of 0.2 %.
TRIMMED = 0.25
SMALLEST_ERROR = 1e-9  # of processes that agree in every digit
MARGIN_PERCENT = 1.0  # smaller differences are no reason to choose a batch size
FASTER = {Verdict.BETTER: "faster", Verdict.WORSE: "slower"}
WORDS = FASTER | {Verdict.WITHIN: f"within {MARGIN_PERCENT:g} %", Verdict.UNDECIDED: "uncertain"}

Round = dict[int, Block]
Rounds = list[Round]


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
        return order_frameworks(process.framework for process in self.processes)


def measurements(stored: Stored) -> tuple[list[Measurement], list[Replaced]]:
    """Group the stored processes into sections, as trials are; returns (measurements, replaced processes)."""
    # An id is the same on every machine, and two may start in the same second: neither tells folders apart.
    folders = {id(result): folder for result, folder in stored.pairs if folder.parent.name == BLOCKS}
    grouped, replaced = group_into_sections(result for result, folder in stored.pairs if folder.parent.name == BLOCKS)
    return [_measurement(replace(section, named=stored.named), folders) for section in grouped], replaced


def _measurement(section: Section, folders: Mapping[int, Path]) -> Measurement:
    processes, left_out = [], []
    for result in section.results:
        folder = folders[id(result)]
        try:
            processes += [Process(result, rounds_of(folder))] if result.status is Status.OK else []
        except ValueError as error:
            left_out.append(f"{folder}: {error}.")
    example = section.results[0]
    results_folder = folders[id(example)].parent.parent
    return Measurement(section, tuple(processes), tuple(left_out), find_trained(example.spec, results_folder))


def rounds_of(folder: Path) -> dict[Phase, Rounds]:
    """Read the rounds of a process. Raises ValueError if a phase has no round, or if rounds are incomplete."""
    blocks = read_blocks(folder / BLOCKS_FILE)
    rounds = {phase: whole_rounds(blocks, phase) for phase in Phase}
    if not all(rounds.values()):
        raise ValueError(f"{BLOCKS_FILE}: not a round of each phase")
    return rounds


@dataclass(frozen=True)
class Contrast:
    """Contrast of one batch size. `p` is corrected; it is NaN without an estimate: one process has no interval."""

    framework: str
    phase: Phase
    size: int
    neighbours: tuple[int, int]
    rounds: int  # of all processes
    group: tuple[int, ...]
    values: tuple[float, ...]  # per process: logarithm of the speed relative to the line
    estimate: Estimate | None
    detectable: float = math.nan  # logarithm: the smallest effect that 80 % of such runs would find
    p: float = math.nan
    tests: int = 1  # that p is corrected for

    @property
    def processes(self) -> int:
        """Number of processes."""
        return len(self.values)

    @property
    def percents(self) -> tuple[float, float, float]:
        """Percentages (value, low, high) by which it is faster per image than the line; NaN without an interval."""
        return percents_of(self.estimate) if self.estimate else (convert_to_percent(self.value), math.nan, math.nan)

    @property
    def value(self) -> float:
        """Mean of `values`."""
        return statistics.fmean(self.values)

    @property
    def verdict(self) -> Verdict:
        """Verdict; BETTER is faster."""
        return judge(self.percents, self.p, MARGIN_PERCENT)

    @property
    def overruled(self) -> bool:
        """True if its interval excludes 0, and only the correction keeps it from being faster or slower."""
        _, low, high = self.percents
        return is_overruled(low, high, self.p)


def convert_to_percent(logarithm: float) -> float:
    """Convert a logarithm into % faster."""
    return 100 * math.expm1(logarithm)


def percents_of(estimate: Estimate) -> tuple[float, float, float]:
    """Convert an estimate of a logarithm into % faster: (value, low, high)."""
    value, low, high = map(convert_to_percent, (estimate.value, *estimate.interval))
    return value, low, high


def map_neighbours(group: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Map {batch size: (next smaller, next larger)} for the sizes that have both."""
    sizes = sorted(group)
    return {size: (low, high) for low, size, high in zip(sizes, sizes[1:], sizes[2:], strict=False)}


def compute_distance(times: Mapping[int, float], size: int, beside: tuple[int, int]) -> float:
    """Logarithm of the line's time per image divided by the measured one; `times` are by size."""
    low, high = beside
    share = (size - low) / (high - low)
    return (1 - share) * math.log(times[low]) + share * math.log(times[high]) - math.log(times[size])


def times_of(of_round: Round) -> dict[int, float]:
    """Map {batch size: seconds per image} of a round."""
    return {size: block.image_s for size, block in of_round.items()}


def average_process(process: Process, phase: Phase, value: Callable[[Mapping[int, float]], float]) -> float:
    """Return the trimmed mean, over the rounds of a process, of a `value` of the times per image."""
    return trimmed_mean([value(times_of(of_round)) for of_round in process.rounds[phase]], TRIMMED)


def estimate_sizes(groups: Iterable[Sequence[Sequence[float]]]) -> Estimate | None:
    """Estimate the mean over batch sizes from the values per process of each size, by group.

    Sizes of one group were measured by the same processes, and only processes are independent. Returns None if a group
    was measured by one process.
    """
    means = ([statistics.fmean(values) for values in zip(*sizes, strict=True)] for sizes in groups)
    shifts = [shift_values(values, SMALLEST_ERROR) for values in means]
    return estimate_together(shifts) if all(shift.sides for shift in shifts) else None


def compute_contrasts(measurement: Measurement, tested: Collection[int]) -> list[Contrast]:
    """Compute the contrasts of every batch size that has neighbours and is in `tested`.

    p is corrected within a framework.
    """
    every = []
    for framework in measurement.frameworks:
        found: list[Contrast] = []
        mine = [process for process in measurement.processes if process.framework == framework]
        for group in sorted({process.group for process in mine}):
            same = [process for process in mine if process.group == group]
            for size, beside in map_neighbours(group).items():
                if size in tested:
                    found += [_contrast(same, framework, phase, size, beside) for phase in Phase]
        every += correct_contrasts(found)
    return every


def _contrast(
    processes: Sequence[Process], framework: str, phase: Phase, size: int, beside: tuple[int, int]
) -> Contrast:
    values = [average_process(each, phase, lambda times: compute_distance(times, size, beside)) for each in processes]
    rounds = sum(len(process.rounds[phase]) for process in processes)
    group = processes[0].group
    return Contrast(framework, phase, size, beside, rounds, group, tuple(values), estimate_sizes([[values]]))


def correct_contrasts(contrasts: Sequence[Contrast]) -> list[Contrast]:
    """Add p values by Holm over all contrasts, and the smallest effect that the strictest test would find."""
    p_values = correct([each.estimate for each in contrasts])
    tests = sum(each.estimate is not None for each in contrasts)
    return [
        replace(each, p=p, tests=tests, detectable=each.estimate.detectable(2 * tests)) if each.estimate else each
        for each, p in zip(contrasts, p_values, strict=True)
    ]


def correct(estimates: Sequence[Estimate | None]) -> list[float]:
    """Return p values by Holm over all estimates; NaN where there is none."""
    return holm([each.p_apart if each else math.nan for each in estimates])
