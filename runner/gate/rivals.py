"""Choose the trials to compare with, and decide by majority."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

from runner.gate.tolerances import Truth
from workloads.records.check_name import JUDGE
from workloads.records.evidence import Evidence
from workloads.records.job import AUGMENTATION, TrialSpec
from workloads.records.result import TrialResult

Disagreement = tuple[str, str]  # (the framework it differs from, the difference)
Group = tuple[Any, ...]


def find_group(spec: TrialSpec) -> Group:
    """Key of trials that probed the same workload, weights, images and optimizer in one precision."""
    probed = ("train_images", "train_labels", "order", "network", "weights", AUGMENTATION)
    hashes = tuple(spec.inputs[name].sha256 for name in probed if name in spec.inputs)
    task = spec.task
    return task.workload, tuple(asdict(task.optimizer).items()), task.accumulate > 1, task.precision, hashes


def name_compared(names: Iterable[str]) -> str:
    """Return a clause that names them."""
    return f"compared with {', '.join('the referee' if name == JUDGE else name for name in names)}"


def find_framework(trial: TrialResult) -> str:
    """Return its framework's name."""
    return trial.spec.cell.framework


def describe_batches(spec: TrialSpec) -> tuple[int, int, int, str]:
    """Return what decides, within a group, which images a step sees."""
    return spec.cell.batch_size, spec.task.accumulate, spec.placement.devices, spec.passes.last_batch


def choose_rivals(trial: TrialResult, judged: list[TrialResult]) -> list[TrialResult]:
    """Return one trial of each other framework in the trial's group, of the same batch size if there is one. Without
    another framework, return one of each other build of the same framework.
    """
    rivals: dict[str, TrialResult] = {}
    for other in judged:
        if find_framework(other) == find_framework(trial):
            continue
        if find_framework(other) not in rivals or describe_batches(other.spec) == describe_batches(trial.spec):
            rivals[find_framework(other)] = other
    own = trial.spec.cell.column.framework
    others = {name: rival for name, rival in rivals.items() if rival.spec.cell.column.framework != own}
    return [rival for _, rival in sorted((others or rivals).items())]


def find_disagreements(rivals: list[TrialResult], differs: Callable[[TrialResult], str | None]) -> list[Disagreement]:
    """Return the rivals that differ, if they are more than half of all; one against one, both are in doubt.

    Builds of one framework have one vote: they differ if none of them agrees.
    """
    voices: dict[str, list[Disagreement]] = defaultdict(list)
    for rival in rivals:
        voices[rival.spec.cell.column.framework].append((find_framework(rival), differs(rival) or ""))
    differing = [voice for voice in voices.values() if all(detail for _, detail in voice)]
    return [each for voice in differing for each in voice] if 2 * len(differing) > len(voices) else []


def build_unrounded_truth(trial: TrialResult) -> Truth:
    """Return the trial itself as the truth, if the effect of rounding is unknown."""
    evidence = Evidence.from_json(trial.evidence)
    return Truth(evidence, evidence)
