"""Whom a trial is held against, and whose disagreement counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from workloads.records.build import adapter_of
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


def batches(spec: TrialSpec) -> tuple[int, int, int, str]:
    """What decides, within a group, which images a step sees."""
    return spec.cell.batch_size, spec.task.accumulate, spec.placement.devices, spec.passes.last_batch


def rivals_of(trial: TrialResult, judged: list[TrialResult]) -> list[TrialResult]:
    """One trial of each other framework in the trial's group, of the same batch size, if there is one; where there is
    no other framework, of each other build of its own.
    """
    rivals: dict[str, TrialResult] = {}
    for other in judged:
        if framework_of(other) == framework_of(trial):
            continue
        if framework_of(other) not in rivals or batches(other.spec) == batches(trial.spec):
            rivals[framework_of(other)] = other
    others = {name: rival for name, rival in rivals.items() if adapter_of(name) != adapter_of(framework_of(trial))}
    return [rival for _, rival in sorted((others or rivals).items())]


def outvoted(rivals: list[TrialResult], differs: Callable[[TrialResult], str | None]) -> list[Disagreement]:
    """The rivals that differ, if half of all or more agree with none of it; one against one, both are in doubt.

    Builds of one framework have one voice: they differ where none of them agrees.
    """
    voices: dict[str, list[Disagreement]] = defaultdict(list)
    for rival in rivals:
        voices[adapter_of(framework_of(rival))].append((framework_of(rival), differs(rival) or ""))
    differing = [voice for voice in voices.values() if all(detail for _, detail in voice)]
    return [each for voice in differing for each in voice] if 2 * len(differing) > len(voices) else []
