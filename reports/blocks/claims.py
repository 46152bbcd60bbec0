"""Test claims about round batch sizes, each on its own kind of sizes.

A size belongs to the first kind that fits. A power of two therefore says nothing about multiples of 8.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from workloads.records.blocks import Phase
from workloads.shifts import estimate_together
from workloads.spec import Workload
from workloads.statistics import Estimate, Verdict, holm

from ..frameworks import display_name
from ..reproduction.claim_tests import ClaimVerdict, Outcome
from ..reproduction.claims import Tested
from ..reproduction.publication import TABLE, Claim
from ..reproduction.selection import SizeKind
from . import article
from .contrasts import WORDS, Contrast, judge, of_processes, percent
from .stored import Measurement

MULTIPROCESSORS = "multiprocessors"  # a fact of PyTorch's worker on a GPU
NO_GPU = "the rule counts a GPU's multiprocessors, and this was measured on a CPU"
NOT_TOLD = "the rule counts a GPU's multiprocessors, and no worker told them (PyTorch's does)"
ONE_PROCESS = "one process has no interval"
RAN_ONCE = "each size was run once"
Kinds = Mapping[SizeKind, tuple[set[int], str]]
NAN = math.nan, math.nan, math.nan
OUTCOMES = {Verdict.BETTER: Outcome.HOLDS, Verdict.UNDECIDED: Outcome.UNTOLD}  # any other: it fails


@dataclass(frozen=True)
class TestedSizes(Tested):
    """A claim tested on sizes of its kind. `percents` are (value, low, high), NaN without an estimate."""

    phase: Phase
    sizes: tuple[int, ...]
    percents: tuple[float, float, float] = NAN
    p: float = math.nan


def coulom_sizes(multiprocessors: int, shape: tuple[int, ...], most: int) -> set[int]:
    """Return sizes B = int(n 2^14 SM / (H W C)), n = 1, 2, ..., up to `most`.

    The rule is R. Coulom's, as quoted by S. Raschka, 2022.
    """
    unit = 2**14 * multiprocessors / math.prod(shape)
    return {int(n * unit) for n in range(1, int((most + 1) / unit) + 1)} - {0}


def widest(workload: Workload) -> tuple[int, ...]:
    """Return the shape of the feature map with most values."""
    shapes = [layer.output_shape(shape) for layer, shape in workload.walk()]
    return max(shapes, key=math.prod)


def sizes_of_kind(kind: SizeKind, measurement: Measurement, sizes: Sequence[int]) -> tuple[set[int], str]:
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
    shape = workload.input_shape if kind.coulom == "input" else widest(workload)
    return coulom_sizes(multiprocessors, shape, max(sizes, default=1)).intersection(sizes), ""


def sizes_by_kind(measurement: Measurement) -> Kinds:
    """Return, for each kind that the article's claims name, what `sizes_of_kind` says of the measured sizes."""
    sizes = sorted({size for process in measurement.processes for size in process.group})
    return {claim.kind: sizes_of_kind(claim.kind, measurement, sizes) for claim in article.publication().claims}


def of_contrasts(contrasts: Sequence[Contrast], kinds: Kinds, frameworks: Sequence[str]) -> list[TestedSizes]:
    """Test each claim of the article for each framework; p is corrected within a framework."""
    claims = article.publication().claims
    tested = (_of_framework([c for c in contrasts if c.framework == framework], kinds, claims, framework)
              for framework in frameworks)  # fmt: skip
    return [each for of_framework in tested for each in of_framework]


def _of_framework(
    contrasts: Sequence[Contrast],
    kinds: Kinds,
    claims: Sequence[Claim],
    framework: str,
) -> Iterator[TestedSizes]:
    estimated = [_estimated(claim, framework, contrasts, *kinds[claim.kind]) for claim in claims]
    p_values = iter(holm([estimate.p_apart for _, estimate in estimated if estimate]))
    for each, estimate in estimated:
        if estimate is None:
            yield each
            continue
        value, low, high = map(percent, (estimate.value, *estimate.interval))
        p = next(p_values)
        found = judge(p, (value, low, high))
        measured = ClaimVerdict(OUTCOMES.get(found, Outcome.FAILS), WORDS[found])
        yield replace(each, measured=measured, percents=(value, low, high), p=p)


def _estimated(
    claim: Claim, framework: str, contrasts: Sequence[Contrast], those: set[int], reason: str
) -> tuple[TestedSizes, Estimate | None]:
    """Return (the claim without a verdict, the estimate for one, None if `reason` or the sizes allow none)."""
    phase = Phase(claim.metric.name)
    mine = [each for each in contrasts if each.phase is phase and each.size in those]
    sizes = tuple(each.size for each in mine)
    known = any(each.phase is phase and each.size in sizes for each in article.published())
    if not reason and not mine:
        reason = f"no such size was measured between two others by {display_name(framework)}"
    elif not all(each.shift.sides for each in mine):
        reason = ONE_PROCESS
    published = {TABLE: ClaimVerdict(Outcome.UNTOLD, RAN_ONCE) if known else None}
    tested = TestedSizes(claim, framework, published, ClaimVerdict(Outcome.UNTOLD, reason), phase, sizes)
    if reason:
        return tested, None
    # Sizes of one group were measured by the same processes, and only processes are independent.
    groups = {each.group: [other for other in mine if other.group == each.group] for each in mine}
    shifts = [
        of_processes([statistics.fmean(values) for values in zip(*(each.values for each in same), strict=True)])
        for same in groups.values()
    ]
    return tested, estimate_together(shifts)
