"""Answers as `python -m runner batch-size` stores them, made up."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from workloads.records.batch_answers import (
    ANSWERS_FILE,
    SCHEMA_VERSION,
    Answers,
    BatchAnswers,
    Best,
    Compared,
    Fit,
    Judged,
    Largest,
    Limit,
    Noise,
    NoisePoint,
    Point,
    Ratio,
    Tried,
)
from workloads.records.files import write_json
from workloads.records.status import Status
from workloads.spec import OptimizerSpec

SIZES = tuple(2**power for power in range(0, 12))
CONDITIONS: dict[str, Any] = {
    "cpu_model": "AMD EPYC",
    "optimizer": asdict(OptimizerSpec.named("momentum")),
    "limit_bytes": 2**31,
} | {"workload": "osu-cnn", "dataset": "digits", "device": "cpu", "threads": 2, "train_images": 1437}
LIMIT_BYTES = 2**31


def speed(batch_size: int, most: float) -> float:
    """Images/s: rises, and falls a little beyond 256."""
    return most * batch_size / (batch_size + 8) * (1 - 0.02 * max(0.0, math.log2(batch_size / 256)))


def fastest(batch_size: int, most: float) -> Best:
    """A fastest batch size, whose points have intervals of 2 %."""
    points = tuple(
        Point(size, speed(size, most), 0.98 * speed(size, most), 1.02 * speed(size, most), 5) for size in SIZES
    )
    ratios = (
        Ratio(batch_size, Compared.WITHIN, 0.995, 0.985, 1.005, 5),
        Ratio(2 * batch_size, Compared.BEST, 1.0, None, None, 5),
    )
    return Best(batch_size, None, points, ratios, 34)


def largest(batch_size: int) -> Largest:
    """A largest batch size with both proofs."""
    tried = tuple(
        Tried(size, fit, f"steps/a-b{size:05d}-{attempt}", 2**30)
        for attempt in (1, 2)
        for size, fit in ((batch_size, Fit.FITS), (batch_size + 1, Fit.TOO_LARGE))
    )
    folders = [trial.folder for trial in tried]
    return Largest(batch_size, None, Limit.ASKED, LIMIT_BYTES, tuple(folders[::2]), tuple(folders[1::2]), tried=tried)


def noise(scale: float) -> Noise:
    """A noise scale measured at one point, with an interval of 20 % on either side."""
    point = NoisePoint(0.0, 1.0, scale, scale, 0.8 * scale, 1.2 * scale, None, 20, 32, 640)
    return Noise((point,), scale, 0.8 * scale, 1.2 * scale)


def judged(framework: str, size: int, status: Status = Status.OK, reason: str | None = None) -> tuple[Judged, ...]:
    """An ordinary trial at that size, which ended so."""
    return (Judged(size, status, reason, f"trials/{framework}-b{size:05d}"),)


def answers(framework: str, size: int, most: float, scale: float = 900) -> Answers:
    """Answers of a framework with this fastest size and speed; its ordinary trial passed."""
    memory = tuple(Point(each, 2e8 + 8e5 * each, None, None, 1) for each in SIZES)
    energy = Best(None, "no energy counter: /sys/class/powercap is not there")
    trials = judged(framework, size)
    return Answers(framework, memory, largest(2311), fastest(size, most), energy, noise(scale), judged=trials)


def stored(results: Path, *frameworks: Answers) -> Path:
    """Store these answers; return the results folder."""
    results.mkdir(parents=True, exist_ok=True)
    write_json(results / ANSWERS_FILE, asdict(BatchAnswers(SCHEMA_VERSION, CONDITIONS, 64, frameworks)))
    return results
