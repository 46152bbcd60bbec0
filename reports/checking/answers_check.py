"""Compute the answers of a search of batch sizes again, as far as they follow from stored trainings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

from workloads.records.batch_answers import ANSWERS_FILE, Answers, Target
from workloads.records.job import ON_DEMAND, ROOMS, Kind
from workloads.records.result import TrialResult
from workloads.trainings import group_alike, target, trained

from ..batch_size import answers as batch_size
from ..load import Stored


def find_differences(stored: Stored, folder: Path) -> Iterator[str]:
    """Yield a line for each answer on trainings that the trials of this results folder do not give.

    Sizes that were searched are not judged: their trials are of steps alone. Raises ReportError as `batch_size.read`.
    """
    answers = batch_size.read(folder)
    for each in answers.frameworks if answers else ():
        results = [r for r in stored.results if r.spec.cell.framework == each.framework]
        results = [r for r in results if r.spec.cell.allocator == ON_DEMAND]
        for what in (*_find_other_trainings(each, results), *_find_other_target(each, results)):
            again = "run the same batch-size command again"
            yield f"{folder / ANSWERS_FILE}: {each.framework}: {what} is not what its trials give; {again}"


def _find_other_trainings(answers: Answers, results: Sequence[TrialResult]) -> Iterator[str]:
    for each in answers.trained:
        again = (trained(alike, each.in_use, each.batch_size) for alike in group_alike(results))
        if not any(_agree(astuple(other), astuple(each)) for other in again):
            yield f"batch size {each.batch_size} compared with {each.in_use}"


def _find_other_target(answers: Answers, results: Sequence[TrialResult]) -> Iterator[str]:
    if answers.target is None:
        return
    named = {each.folder for each in answers.target.reached}
    chosen = [each for each in results if f"{ROOMS[Kind.TRIAL]}/{each.spec.id}" in named]
    if not _agree(_list_numbers(target(chosen, answers.target.accuracy)), _list_numbers(answers.target)):
        yield f"the target accuracy {answers.target.accuracy:g}"


def _list_numbers(answer: Target) -> tuple[Any, ...]:
    """Return the numbers of an answer. Its words are those of the version that stored it, and early ones have no status
    of a training.
    """
    reached = (replace(each, status=None) for each in answer.reached)
    return answer.accuracy, answer.batch_size, answer.least_energy, *map(astuple, reached)


def _agree(one: Any, other: Any) -> bool:
    """True if both values are equal; numbers, to the rounding of another machine's logarithm."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_agree, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
    return bool(one == other)
