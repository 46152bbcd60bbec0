"""The answers as they are stored, and what is read out of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from workloads.records import validation
from workloads.records.batch_answers import ANSWERS_FILE, Answers, BatchAnswers, Best, Point

from ..frameworks import ordered
from ..load import ReportError


def read(results: Path) -> BatchAnswers | None:
    """Frameworks in the order of every table; None where nobody asked. Raises ReportError for a file that is none."""
    path = results / ANSWERS_FILE
    if not path.is_file():
        return None
    try:
        stored = validation.read(path, BatchAnswers)
    except ValueError as error:
        raise ReportError(f"{path}: {error}; move it away, and ask again with python -m runner batch-size") from error
    assert stored is not None
    by_name = {answers.framework: answers for answers in stored.frameworks}
    return replace(stored, frameworks=tuple(by_name[name] for name in ordered(by_name)))


def point(best: Best | None, batch_size: int | None) -> Point | None:
    """The figure at a batch size."""
    return next((each for each in (best.points if best else ()) if each.batch_size == batch_size), None)


def advised(answers: Answers) -> int | None:
    """The batch size to train with: the fastest, but no larger than the noise scale leaves it worth its images, and
    none that does not fit. None where the fastest is not known.

    Beyond the noise scale an update learns little more from more images (McCandlish et al. 2018, equation 2.11: at
    B = B_simple half of the most that an update can gain is reached). Its interval's upper end counts: only what is
    surely beyond is refused. Of the sizes measured, the largest that is not beyond is taken.
    """
    fastest, noise, largest = answers.fastest, answers.noise, answers.largest
    if fastest is None or fastest.batch_size is None:
        return None
    bounds: list[float] = [fastest.batch_size]
    if noise is not None and noise.high is not None:
        bounds.append(max(noise.high, min(each.batch_size for each in fastest.points)))
    if largest is not None and largest.batch_size is not None:
        bounds.append(largest.batch_size)
    return max((each.batch_size for each in fastest.points if each.batch_size <= min(bounds)), default=None)
