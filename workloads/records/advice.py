"""The batch size to train with: the one the runner tests by an ordinary trial, and the reports recommend."""

from __future__ import annotations

from .batch_answers import Answers, Best, Judged, Noise, SizePoint
from .status import Status

PASSED = (Status.OK, Status.CONTENDED)  # a trial that other processes disturbed still computed the right result


def find_point(best: Best | None, batch_size: int | None) -> SizePoint | None:
    """Return the figure at a batch size."""
    return next((each for each in (best.points if best else ()) if each.batch_size == batch_size), None)


def find_noise_bound(noise: Noise | None) -> float | None:
    """Return the batch size beyond which extra images no longer improve an update: the interval's end at its highest.

    McCandlish et al. 2018, equation 2.11: at B = B_simple half of the largest possible gain of an update is reached.
    The noise scale grows along a training, so the pooled one, which the start dominates, would refuse too much. None if
    it is unknown at any point, or if the training diverged: then the points are of its beginning.
    """
    points = noise.points if noise and noise.reason is None else ()
    ends = [each.high for each in points]
    return None if not ends or None in ends else max(end for end in ends if end is not None)


def choose_batch_size(answers: Answers) -> int | None:
    """Return the fastest batch size; beyond the noise scale, the largest measured below it, or the smallest of all.

    It is of one device; the noise scale is of an update of all devices. It fits into memory. None if the fastest is
    unknown. `judged` says if its ordinary trial passed.
    """
    fastest, largest, beyond = answers.fastest, answers.largest, find_noise_bound(answers.noise)
    if fastest is None or fastest.batch_size is None:
        return None
    sizes = [each.batch_size for each in fastest.points]
    bounds: list[float] = [fastest.batch_size]
    if beyond is not None:
        bounds.append(max(beyond / answers.devices, min(sizes, default=1)))
    if largest is not None and largest.batch_size is not None:
        bounds.append(largest.batch_size)
    return max((size for size in sizes if size <= min(bounds)), default=None)


def find_judged(answers: Answers, batch_size: int | None) -> Judged | None:
    """Return the ordinary trial at this batch size; None if none was trained."""
    return next((each for each in answers.judged if each.batch_size == batch_size), None)


def passes(answers: Answers, batch_size: int | None) -> bool:
    """True if an ordinary trial at this batch size passed the gate and its other checks."""
    trial = find_judged(answers, batch_size)
    return trial is not None and trial.status in PASSED
