"""The batch size to train with: what the runner judges by an ordinary trial, and what the reports recommend."""

from __future__ import annotations

from .batch_answers import Answers, Best, Judged, Noise, Point
from .status import Status

PASSED = (Status.OK, Status.CONTENDED)  # what other processes disturbed computed what it should


def point(best: Best | None, batch_size: int | None) -> Point | None:
    """Return the figure at a batch size."""
    return next((each for each in (best.points if best else ()) if each.batch_size == batch_size), None)


def noise_bound(noise: Noise | None) -> float | None:
    """Return the batch size beyond which an update surely learns little more: the interval's end where it is highest.

    McCandlish et al. 2018, equation 2.11: at B = B_simple half of the most that an update can gain is reached. It grows
    along a training, so the pooled one, which the start decides, would refuse too much. None where it is not known at
    every point.
    """
    points = noise.points if noise else ()
    ends = [each.high for each in points]
    return None if not ends or None in ends else max(end for end in ends if end is not None)


def advised(answers: Answers) -> int | None:
    """Return the fastest batch size; beyond the noise scale, the largest measured below it, or the smallest of all.

    It fits. None where the fastest is not known. `judged` says whether its ordinary trial passed.
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


def judged(answers: Answers, batch_size: int | None) -> Judged | None:
    """Return how the ordinary trial at this batch size ended; None where none was trained."""
    return next((each for each in answers.judged if each.batch_size == batch_size), None)


def passes(answers: Answers, batch_size: int | None) -> bool:
    """True if an ordinary trial at this batch size passed the gate and its other checks."""
    trial = judged(answers, batch_size)
    return trial is not None and trial.status in PASSED
