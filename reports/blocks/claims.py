"""Test claims about round batch sizes, each on its own kind of sizes.

A size belongs to the first claim in the list that fits. A power of two therefore says nothing about multiples of 8.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from workloads.records.blocks import Phase
from workloads.shifts import estimate_together
from workloads.spec import Workload
from workloads.statistics import Estimate, holm

from ..frameworks import display_name
from ..reproduction.claim_tests import Outcome
from .contrasts import Contrast, of_processes, percent, verdict
from .stored import Measurement

MULTIPROCESSORS = "multiprocessors"  # a fact of PyTorch's worker on a GPU
COULOM = "Coulom's rule"
NO_GPU = "the rule counts a GPU's multiprocessors, and this was measured on a CPU"
NOT_TOLD = "the rule counts a GPU's multiprocessors, and no worker told them (PyTorch's does)"
ONE_PROCESS = "one process has no interval"


@dataclass(frozen=True)
class Kind:
    """A kind of batch sizes that are said to be fast. `reason`: why these sizes are unknown."""

    name: str
    holds: Callable[[int], bool]
    reason: str = ""


@dataclass(frozen=True)
class Claim:
    """A claim that sizes of the kind are faster per image than their neighbours, for a framework and phase."""

    kind: str
    framework: str
    phase: Phase
    sizes: tuple[int, ...]
    estimate: Estimate | None
    reason: str = ""
    p: float = math.nan

    @property
    def percents(self) -> tuple[float, float, float]:
        """Percentages (value, low, high), NaN without an estimate."""
        if self.estimate is None:
            return math.nan, math.nan, math.nan
        value, low, high = map(percent, (self.estimate.value, *self.estimate.interval))
        return value, low, high

    @property
    def verdict(self) -> str:
        """Verdict: "upheld"; "violated" if slower, or faster by less than the margin; else "cannot be told"."""
        return {"faster": "upheld", "cannot be told": self._told}.get(self._told, f"violated: {self._told}")

    @property
    def outcome(self) -> Outcome:
        """Outcome, as for a claim of a publication."""
        return {"faster": Outcome.HOLDS, "cannot be told": Outcome.UNTOLD}.get(self._told, Outcome.FAILS)

    @property
    def _told(self) -> str:
        return "cannot be told" if self.estimate is None else verdict(self.p, self.percents)


def is_power_of_two(size: int) -> bool:
    """True for 1, 2, 4, 8, ..."""
    return size.bit_count() == 1


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


def kinds_of(measurement: Measurement) -> list[Kind]:
    """List the kinds in order; a size belongs to the first that fits. Coulom's sizes count for his rule in any case."""
    kinds = [
        Kind("powers of two", is_power_of_two),
        Kind("multiples of 64, no powers of two", lambda size: size % 64 == 0 and not is_power_of_two(size)),
        Kind("multiples of 8, not of 64, no powers of two", lambda size: size % 8 == 0 and size % 64 > 0
             and not is_power_of_two(size)),
    ]  # fmt: skip
    most = max((size for process in measurement.processes for size in process.group), default=1)
    told = (process.result.facts.get(MULTIPROCESSORS) for process in measurement.processes)
    multiprocessors = next((count for count in told if type(count) is int and count > 0), None)
    shapes: dict[str, tuple[int, ...]] = {}
    if measurement.workload is not None:
        shapes = {"of the input": measurement.workload.input_shape, "of the widest map": widest(measurement.workload)}
    for name in ("of the input", "of the widest map"):
        label = f"{COULOM}, H W C {name}"
        if measurement.placement.device == "cpu":
            kinds.append(Kind(label, lambda _: False, NO_GPU))
        elif multiprocessors is None or name not in shapes:
            kinds.append(Kind(label, lambda _: False, NOT_TOLD))
        else:
            kinds.append(Kind(label, coulom_sizes(multiprocessors, shapes[name], most).__contains__))
    return kinds


def of_contrasts(contrasts: Sequence[Contrast], kinds: Sequence[Kind], frameworks: Sequence[str]) -> list[Claim]:
    """Test each kind, framework and phase; p is corrected within a framework."""
    return [claim for framework in frameworks for claim in _of_framework(contrasts, kinds, framework)]


def _of_framework(contrasts: Sequence[Contrast], kinds: Sequence[Kind], framework: str) -> list[Claim]:
    claims = [
        _claim(kind, framework, phase, [c for c in contrasts if (c.framework, c.phase) == (framework, phase)])
        for kind in kinds
        for phase in Phase
    ]
    tested = [claim.estimate for claim in claims if claim.estimate]
    p_values = iter(holm([estimate.p_apart for estimate in tested]))
    return [replace(claim, p=next(p_values)) if claim.estimate else claim for claim in claims]


def _claim(kind: Kind, framework: str, phase: Phase, contrasts: Sequence[Contrast]) -> Claim:
    mine = [each for each in contrasts if kind.holds(each.size)]
    sizes = tuple(each.size for each in mine)
    if kind.reason or not mine:
        reason = kind.reason or f"no such size was measured between two others by {display_name(framework)}"
        return Claim(kind.name, framework, phase, sizes, None, reason)
    if not all(each.shift.sides for each in mine):
        return Claim(kind.name, framework, phase, sizes, None, ONE_PROCESS)
    # Sizes of one group were measured by the same processes, and only processes are independent.
    groups = {each.group: [other for other in mine if other.group == each.group] for each in mine}
    shifts = [
        of_processes([statistics.fmean(values) for values in zip(*(each.values for each in same), strict=True)])
        for same in groups.values()
    ]
    return Claim(kind.name, framework, phase, sizes, estimate_together(shifts))
