"""Judge the stored differences of a trial's middle and end again, coarser than the runner's gate."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace

from workloads.records import validation
from workloads.records.advice import PASSED
from workloads.records.check_name import CheckName
from workloads.records.end_evidence import Difference, TrialEnd, TrialMiddle
from workloads.records.figures import DIVERGED_STEP, read_value
from workloads.records.result import TrialResult

MARGIN = 10.0  # times what the gate allows: beyond it nothing can have passed
# As in docs/reference/gate-end.md: relative, and multiples of the referee's rounding.
LOSSES, EVALUATION, LAST_LOSS, ROUNDINGS = 5e-4, 1e-4, 2e-3, 5


def find_differences(result: TrialResult) -> Iterator[str]:
    """Yield a line if a verdict on the trial's middle or end is missing, or is not one that its differences allow.

    A trial that the gate has judged and that ended well passed all of these checks: none may be left out of it. An
    attempt that was made again at once was not judged.
    """
    if not result.end:
        return
    end = validation.build_record(result.end, TrialEnd, "end")
    made = {check.name for check in result.checks}
    judged = {check.name for check in result.checks if check.passed}
    diverged = read_value(result.figures, DIVERGED_STEP) is not None  # then the gate compares no end; also if contended
    if result.status in PASSED and CheckName.GATE in made and not diverged:
        missing = [name for name, answers in _list_answers(end).items() if answers and name not in made]
        yield from (f"{name}: the answers are stored, and no verdict on them" for name in missing)
        judged |= {*missing}
    yield from _judge_end(end, judged)


def _list_answers(end: TrialEnd) -> dict[CheckName, bool]:
    """Map each check to whether what it is made from is stored."""
    return {
        CheckName.NOTHING_LEFT: end.outstanding is not None,
        CheckName.END_EVALUATION: end.evaluation is not None,
        CheckName.END_LOSSES: bool(end.steps),
        CheckName.LAST_EVALUATION: end.last_evaluation is not None,
        CheckName.LAST_LOSS: end.last is not None,
        CheckName.MIDDLE: end.middle is not None and (end.middle.evaluation is not None or bool(end.middle.steps)),
        CheckName.MASKS: bool(end.masks),
    }


def _judge_end(end: TrialEnd, judged: set[str]) -> Iterator[str]:
    if end.digests and end.middle and end.middle.digests and CheckName.END_UPDATES in judged:
        for name, digest in asdict(end.digests).items():
            if digest == getattr(end.middle.digests, name):
                yield f"evidence: the {name} of its end equal those of its middle"
    evaluation = end.last_evaluation.difference if end.last_evaluation else None
    for name, found, bound in (
        (CheckName.LAST_EVALUATION, evaluation, EVALUATION),
        (CheckName.LAST_LOSS, end.last, LAST_LOSS),
    ):
        if name in judged and found and (worst := _worst([found], bound)) > MARGIN:
            yield f"{name}: stored: passed; judged again, it differs by {worst:.0f} times what is allowed"
    for moment, names in (
        (end, (CheckName.END_EVALUATION, CheckName.END_LOSSES)),
        (end.middle, (CheckName.MIDDLE, CheckName.MIDDLE)),
    ):
        if moment is not None:
            yield from _moment(moment, names, judged)


def _moment(end: TrialEnd | TrialMiddle, names: tuple[CheckName, CheckName], judged: set[str]) -> Iterator[str]:
    losses = [step.loss for step in end.steps]
    rounding = max((loss.rounding for loss in losses), default=0.0)
    evaluation = [end.evaluation] if end.evaluation else []
    for name, found, base in (
        (names[0], evaluation, EVALUATION),
        (names[1], [replace(loss, rounding=rounding) for loss in losses], LOSSES),
    ):
        if name in judged and (worst := _worst(found, base)) > MARGIN:
            yield f"{name}: stored: passed; judged again, it differs by {worst:.0f} times what is allowed"


def _worst(found: Sequence[Difference], base: float) -> float:
    """Largest difference in multiples of what is allowed; infinite if one is not a number."""
    allowed = (max(base, ROUNDINGS * each.rounding) + each.resolution for each in found)
    return max(
        (math.inf if each.apart is None else each.apart / most for each, most in zip(found, allowed, strict=True)),
        default=0.0,
    )
