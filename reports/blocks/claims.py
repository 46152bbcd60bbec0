"""Test the claims of Raschka's article (2022) about round batch sizes, each on its own kind of sizes.

A size belongs to the first kind that fits. A power of two therefore says nothing about multiples of 8. The
article's own figures can be compared with ours in one way only: by size, with the line through the neighbours.
"""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from workloads.records.blocks import Phase
from workloads.shifts import estimate_together
from workloads.spec import Workload
from workloads.statistics import Estimate, Verdict

from ..frameworks import display_name
from ..reproduction.claim_tests import ClaimVerdict, Outcome
from ..reproduction.claims import TestedClaim
from ..reproduction.publication import FIGURES, PUBLICATIONS, TABLE, Article, Claim, SizeKind, read
from .contrasts import (
    WORDS,
    Contrast,
    Measurement,
    average_processes,
    compute_distance,
    convert_to_percent,
    correct,
    judge,
    map_neighbours,
    percents_of,
)

MULTIPROCESSORS = "multiprocessors"  # a fact of PyTorch's worker on a GPU
NO_GPU = "the rule counts a GPU's multiprocessors, and this was measured on a CPU"
NOT_TOLD = "the rule counts a GPU's multiprocessors, and no worker told them (PyTorch's does)"
ONE_PROCESS = "one process has no interval"
RAN_ONCE = "each size was run once"
Kinds = Mapping[SizeKind, tuple[set[int], str]]
NAN = math.nan, math.nan, math.nan
OUTCOMES = {Verdict.BETTER: Outcome.HOLDS, Verdict.UNDECIDED: Outcome.UNTOLD}  # any other: it fails
COLUMNS = {Phase.TRAINING: "train_minutes", Phase.EVALUATION: "inference_minutes"}
DIGIT_MINUTES = 0.01


@dataclass(frozen=True)
class PublishedContrast:
    """Published difference: by how many % the size was faster than the line through its neighbours.

    `rounding`: largest effect of rounding, in points.
    """

    machine: str
    phase: Phase
    size: int
    percent: float
    rounding: float


@cache
def publication() -> Article:
    """Read the source, its claims and what they rest on."""
    return read(PUBLICATIONS / "powers-of-two-2022")


@cache
def published() -> tuple[PublishedContrast, ...]:
    """Read the published sizes with neighbours less than 10 % apart, by machine."""
    with (PUBLICATIONS / publication().name / FIGURES).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    found = []
    for machine in dict.fromkeys(f"{row['gpus']}, {row['strategy']}" for row in rows):
        mine = [row for row in rows if f"{row['gpus']}, {row['strategy']}" == machine]
        for phase, column in COLUMNS.items():
            minutes = {int(row["batch_size"]): float(row[column]) for row in mine if row[column]}
            found += _contrasts(machine, phase, minutes)
    return tuple(found)


def _contrasts(machine: str, phase: Phase, minutes: dict[int, float]) -> list[PublishedContrast]:
    found = []
    for size, (low, high) in map_neighbours(sorted(minutes)).items():
        if high - low > size / 10 or size % 8:
            continue
        value = convert_to_percent(compute_distance(minutes, size, (low, high)))
        rounding = convert_to_percent(2 * DIGIT_MINUTES / 2 / min(minutes[each] for each in (low, size, high)))
        found.append(PublishedContrast(machine, phase, size, value, rounding))
    return found


def cannot_say(shown: Sequence[PublishedContrast]) -> str:
    """Say what the article's column does not show."""
    most = {phase: max((each.rounding for each in shown if each.phase is phase), default=0.0) for phase in Phase}
    return publication().caveat.format(training=most[Phase.TRAINING], evaluation=most[Phase.EVALUATION])


@dataclass(frozen=True, kw_only=True)
class TestedSizes(TestedClaim):
    """A claim tested on sizes of its kind. `percents` are (value, low, high), NaN without an estimate."""

    phase: Phase
    sizes: tuple[int, ...]
    percents: tuple[float, float, float] = NAN
    p: float = math.nan


def compute_coulom_sizes(multiprocessors: int, shape: tuple[int, ...], most: int) -> set[int]:
    """Return sizes B = int(n 2^14 SM / (H W C)), n = 1, 2, ..., up to `most`.

    The rule is R. Coulom's, as quoted by S. Raschka, 2022.
    """
    unit = 2**14 * multiprocessors / math.prod(shape)
    return {int(n * unit) for n in range(1, int((most + 1) / unit) + 1)} - {0}


def find_widest_shape(workload: Workload) -> tuple[int, ...]:
    """Return the shape of the feature map with most values."""
    shapes = [layer.output_shape(shape) for layer, shape in workload.walk()]
    return max(shapes, key=math.prod)


def select_sizes(kind: SizeKind, measurement: Measurement, sizes: Sequence[int]) -> tuple[set[int], str]:
    """Return (those of the sizes that are of the kind, why they are unknown, "" if they are known)."""
    if not kind.coulom:
        return {size for size in sizes if kind.holds(size)}, ""
    if measurement.section.condition.placement.device_kind == "cpu":
        return set(), NO_GPU
    reported = (process.result.facts.get(MULTIPROCESSORS) for process in measurement.processes)
    multiprocessors = next((count for count in reported if type(count) is int and count > 0), None)
    workload = measurement.workload
    if multiprocessors is None or workload is None:
        return set(), NOT_TOLD
    shape = workload.input_shape if kind.coulom == "input" else find_widest_shape(workload)
    return compute_coulom_sizes(multiprocessors, shape, max(sizes, default=1)).intersection(sizes), ""


def sizes_by_kind(measurement: Measurement) -> Kinds:
    """Return, for each kind that the article's claims name, what `sizes_of_kind` says of the measured sizes."""
    sizes = sorted({size for process in measurement.processes for size in process.group})
    return {claim.kind: select_sizes(claim.kind, measurement, sizes) for claim in publication().claims}


def evaluate_claims(contrasts: Sequence[Contrast], kinds: Kinds, frameworks: Sequence[str]) -> list[TestedSizes]:
    """Test each claim of the article for each framework; p is corrected within a framework."""
    tested = []
    for framework in frameworks:
        mine = [each for each in contrasts if each.framework == framework]
        estimated = [_estimated(claim, framework, mine, *kinds[claim.kind]) for claim in publication().claims]
        for (each, estimate), p in zip(estimated, correct([told for _, told in estimated]), strict=True):
            tested.append(_judged(each, estimate, p) if estimate else each)
    return tested


def _judged(tested: TestedSizes, estimate: Estimate, p: float) -> TestedSizes:
    percents = percents_of(estimate)
    found = judge(p, percents)
    measured = ClaimVerdict(OUTCOMES.get(found, Outcome.FAILS), WORDS[found])
    return replace(tested, measured=measured, percents=percents, p=p)


def _estimated(
    claim: Claim, framework: str, contrasts: Sequence[Contrast], those: set[int], reason: str
) -> tuple[TestedSizes, Estimate | None]:
    """Return (the claim without a verdict, the estimate for one, None if `reason` or the sizes allow none)."""
    phase = Phase(claim.metric.name)
    mine = [each for each in contrasts if each.phase is phase and each.size in those]
    sizes = tuple(each.size for each in mine)
    known = any(each.phase is phase and each.size in sizes for each in published())
    if not reason and not mine:
        reason = f"no such size was measured between two others by {display_name(framework)}"
    elif not all(each.shift.sides for each in mine):
        reason = ONE_PROCESS
    in_table = {TABLE: ClaimVerdict(Outcome.UNTOLD, RAN_ONCE) if known else None}
    untold = ClaimVerdict(Outcome.UNTOLD, reason)
    tested = TestedSizes(claim, framework, in_table, untold, phase=phase, sizes=sizes)
    if reason:
        return tested, None
    # Sizes of one group were measured by the same processes, and only processes are independent.
    groups = {each.group: [other for other in mine if other.group == each.group] for each in mine}
    shifts = [
        average_processes([statistics.fmean(values) for values in zip(*(each.values for each in same), strict=True)])
        for same in groups.values()
    ]
    return tested, estimate_together(shifts)
