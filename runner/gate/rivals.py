"""Whom a trial is held against, and whose disagreement counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from workloads.records.check_name import JUDGE
from workloads.records.job import TrialSpec
from workloads.records.result import TrialResult

Disagreement = tuple[str, str]  # (whom it differs from, in what)


def held_against(names: Iterable[str]) -> str:
    """A clause that names them."""
    return f"held against {', '.join('the referee' if name == JUDGE else name for name in names)}"


def framework_of(trial: TrialResult) -> str:
    """Its name."""
    return trial.spec.cell.framework


def batches(spec: TrialSpec) -> tuple[int, str]:
    """What decides, within a group, which images a step sees."""
    return spec.cell.batch_size, spec.passes.last_batch


def rivals_of(trial: TrialResult, judged: list[TrialResult]) -> list[TrialResult]:
    """One trial of each other framework in the trial's group: of the same batch size, if there is one."""
    rivals: dict[str, TrialResult] = {}
    for other in judged:
        if framework_of(other) == framework_of(trial):
            continue
        if framework_of(other) not in rivals or batches(other.spec) == batches(trial.spec):
            rivals[framework_of(other)] = other
    return [rival for _, rival in sorted(rivals.items())]


def outvoted(rivals: list[TrialResult], differs: Callable[[TrialResult], str | None]) -> list[Disagreement]:
    """The rivals that differ, if half of all or more agree with none of it; one against one, both are in doubt."""
    differing = [(framework_of(rival), detail) for rival in rivals if (detail := differs(rival))]
    return differing if 2 * len(differing) > len(rivals) else []
