"""Say how the ordinary trials at the found batch sizes ended, which judge them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from workloads.records.advice import PASSED
from workloads.records.batch_answers import Answers, Judged
from workloads.records.check_name import OF_OWN_CODE, CheckName
from workloads.records.job import ROOMS, Kind
from workloads.records.result import TrialResult
from workloads.setting_words import OWN_CODE


def judge_sizes(results: Sequence[TrialResult], sizes: Iterable[int]) -> Iterator[Judged]:
    """Return how the ordinary trials at these sizes ended: of several repeats the first that did not pass, else the
    first.
    """
    for size in sorted(sizes):
        trials = [result for result in results if result.spec.cell.batch_size == size]
        for result in sorted(trials, key=lambda each: each.status in PASSED)[:1]:
            yield Judged(size, result.status, _explain(result), f"{ROOMS[Kind.TRIAL]}/{result.spec.id}")


def _explain(result: TrialResult) -> str | None:
    """Return why the trial did not pass, or what it was not compared with; custom code has checks of its own."""
    failed = {check.name: check.detail for check in result.checks if not check.passed}
    if result.reason is not None or result.spec.task.own_code is None:
        return result.reason or failed.get(CheckName.GATE)
    return "; ".join([OWN_CODE, *(failed[name] for name in OF_OWN_CODE if name in failed)])


def list_not_recommended(answers: Answers) -> Iterator[str]:
    """Return a line for each trained size that did not pass, with the check that failed."""
    for each in answers.judged:
        if each.status not in PASSED:
            name, status = f"{answers.framework}: batch size {each.batch_size:,}", each.status.replace("_", " ")
            yield f"{name} is not recommended: its ordinary trial was {status}: {each.reason}"
