"""The answers as they are stored, and what is read out of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from workloads.records import validation
from workloads.records.batch_answers import ANSWERS_FILE, Answers, BatchAnswers, Best, Noise, Point

from ..frameworks import learn_label, ordered
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
    labels = stored.conditions.get("labels")
    for name, label in labels.items() if isinstance(labels, dict) else ():
        learn_label(name, {"framework_label": label})
    by_name = {answers.framework: answers for answers in stored.frameworks}
    return replace(stored, frameworks=tuple(by_name[name] for name in ordered(by_name)))


def point(best: Best | None, batch_size: int | None) -> Point | None:
    """The figure at a batch size."""
    return next((each for each in (best.points if best else ()) if each.batch_size == batch_size), None)


def noise_bound(noise: Noise | None) -> float | None:
    """Beyond it an update surely learns little more of more images: the interval's upper end where it is highest.

    McCandlish et al. 2018, equation 2.11: at B = B_simple half of the most that an update can gain is reached. It grows
    along a training, so the pooled one, which the start decides, would refuse too much. None where it is not known at
    every point.
    """
    points = noise.points if noise else ()
    ends = [each.high for each in points]
    return None if not ends or None in ends else max(end for end in ends if end is not None)


def advised(answers: Answers) -> int | None:
    """The batch size to train with: the fastest, unless it is beyond the noise scale; then the largest measured that is
    not, or the smallest of all. It fits. None where the fastest is not known.
    """
    fastest, largest, beyond = answers.fastest, answers.largest, noise_bound(answers.noise)
    if fastest is None or fastest.batch_size is None:
        return None
    sizes = [each.batch_size for each in fastest.points]
    bounds: list[float] = [fastest.batch_size]
    if beyond is not None:
        bounds.append(max(beyond, min(sizes, default=1)))
    if largest is not None and largest.batch_size is not None:
        bounds.append(largest.batch_size)
    return max((size for size in sizes if size <= min(bounds)), default=None)
