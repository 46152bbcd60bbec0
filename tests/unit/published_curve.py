"""Answers that a published table gives: one row per batch size, single figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from runner.batch_size.best import TOLERATED
from workloads.records.batch_answers import Best, Ratio, Reached, SizePoint, SizeVerdict, Target
from workloads.trainings import answer


@dataclass(frozen=True)
class Row:
    """Figures of one batch size; None = the table does not say."""

    batch_size: int
    epoch_s: float
    energy_per_image_j: float | None
    epochs_to_target: float | None  # means of runs have parts of an epoch


@dataclass(frozen=True)
class CurveAnswers:
    """Answers without the support of an interval; `largest` is the largest of the table, nothing is known beyond it."""

    largest: int
    fastest: Best
    least_energy: Best
    target: Target


def of_curve(figures: Mapping[int, float], better: Literal[1, -1] = 1) -> Best:
    """Find the best size by the same rule from one figure per batch size, as publications have: no interval supports
    it."""
    if not figures:
        return Best(None, "there are no figures")
    logarithms = {size: better * math.log(figure) for size, figure in figures.items()}
    leader = max(sorted(logarithms), key=lambda size: logarithms[size])
    ratios = []
    for size in sorted(figures):
        ratio = math.exp(logarithms[size] - logarithms[leader])
        other = SizeVerdict.WITHIN if ratio >= 1 - TOLERATED else SizeVerdict.WORSE
        ratios.append(Ratio(size, SizeVerdict.BEST if size == leader else other, ratio, None, None, 1))
    answer = next(ratio.batch_size for ratio in ratios if ratio.verdict is not SizeVerdict.WORSE)
    points = tuple(SizePoint(size, figure, None, None, 1) for size, figure in sorted(figures.items()))
    return Best(answer, "rests on single figures: no interval supports it", points, tuple(ratios), len(figures))


def answers_of_curve(rows: Sequence[Row], images: int, accuracy: float) -> CurveAnswers:
    """Answer from a table. `images` is the number per epoch; `accuracy` is the target. Raises ValueError without
    rows."""
    if not rows:
        raise ValueError("a table without rows answers nothing")
    joules = {row.batch_size: row.energy_per_image_j for row in rows if row.energy_per_image_j is not None}
    return CurveAnswers(
        largest=max(row.batch_size for row in rows),
        fastest=of_curve({row.batch_size: images / row.epoch_s for row in rows}),
        least_energy=of_curve(joules, better=-1),
        target=answer([_reached(row, images) for row in rows], accuracy),
    )


def _reached(row: Row, images: int) -> Reached:
    epochs, joules = row.epochs_to_target, row.energy_per_image_j
    return Reached(
        batch_size=row.batch_size,
        repeat=0,
        learning_rate=None,
        epochs=epochs,
        train_s=None if epochs is None else epochs * row.epoch_s,
        energy_j=None if epochs is None or joules is None else epochs * images * joules,
        accuracy=None,
        folder="",
    )
