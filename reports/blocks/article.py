"""Compare Raschka's figures around powers of two (2022) with ours, in the only way possible."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from workloads.records.blocks import Phase

from ..reproduction.publication import FIGURES, PUBLICATIONS
from .contrasts import neighbours, percent

NAME = "powers-of-two-2022"
COLUMNS = {Phase.TRAINING: "train_minutes", Phase.EVALUATION: "inference_minutes"}
SOURCE = "S. Raschka, rasbt/b3-basic-batchsize-benchmark, 2022: MobileNetV3-Large, CIFAR-10 at 224 x 224, fp16"
CANNOT_SAY = (
    "The article ran each batch size once: its column has no interval, and by itself tells no difference. It timed "
    "whole trainings, validation and start-up included, and printed them to 0.01 minute: rounding alone moves its "
    "training column by {training:.1f} points at most, its inference column by {evaluation:.0f}. On four cards an "
    "epoch of 255 is one step more than of 256 or 257 (44, 43, 43), and so is its time."
)
DIGIT_MINUTES = 0.01


@dataclass(frozen=True)
class Published:
    """Published difference: by how many % the size was faster than the line through its neighbours.

    `rounding`: largest effect of rounding, in points.
    """

    machine: str
    phase: Phase
    size: int
    neighbours: tuple[int, int]
    percent: float
    rounding: float


@cache
def published() -> tuple[Published, ...]:
    """Read the published sizes with neighbours less than 10 % apart, by machine."""
    with (PUBLICATIONS / NAME / FIGURES).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    found = []
    for machine in dict.fromkeys(f"{row['gpus']}, {row['strategy']}" for row in rows):
        mine = [row for row in rows if f"{row['gpus']}, {row['strategy']}" == machine]
        for phase, column in COLUMNS.items():
            minutes = {int(row["batch_size"]): float(row[column]) for row in mine if row[column]}
            found += _contrasts(machine, phase, minutes)
    return tuple(found)


def _contrasts(machine: str, phase: Phase, minutes: dict[int, float]) -> list[Published]:
    found = []
    for size, (low, high) in neighbours(sorted(minutes)).items():
        if high - low > size / 10 or size % 8:
            continue
        share = (size - low) / (high - low)
        line = (1 - share) * math.log(minutes[low]) + share * math.log(minutes[high])
        value = percent(line - math.log(minutes[size]))
        rounding = percent(2 * DIGIT_MINUTES / 2 / min(minutes[each] for each in (low, size, high)))
        found.append(Published(machine, phase, size, (low, high), value, rounding))
    return found


def cannot_say(shown: Sequence[Published]) -> str:
    """Say what the article's column does not show."""
    most = {phase: max((each.rounding for each in shown if each.phase is phase), default=0.0) for phase in Phase}
    return CANNOT_SAY.format(training=most[Phase.TRAINING], evaluation=most[Phase.EVALUATION])
