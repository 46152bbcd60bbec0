"""Compare Raschka's figures around powers of two (2022) with ours, in the only way possible."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from workloads.records.blocks import Phase

from ..reproduction.publication import FIGURES, PUBLICATIONS, Publication, read
from .contrasts import neighbours, percent

COLUMNS = {Phase.TRAINING: "train_minutes", Phase.EVALUATION: "inference_minutes"}
DIGIT_MINUTES = 0.01


@dataclass(frozen=True)
class PublishedContrast:
    """Published difference: by how many % the size was faster than the line through its neighbours.

    `rounding`: largest effect of rounding, in points.
    """

    machine: str
    phase: Phase
    size: int
    percent: float
    rounding: float


@cache
def publication() -> Publication:
    """Read the source, its claims and what they rest on."""
    return read(PUBLICATIONS / "powers-of-two-2022")


@cache
def published() -> tuple[PublishedContrast, ...]:
    """Read the published sizes with neighbours less than 10 % apart, by machine."""
    with (PUBLICATIONS / publication().name / FIGURES).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    found = []
    for machine in dict.fromkeys(f"{row['gpus']}, {row['strategy']}" for row in rows):
        mine = [row for row in rows if f"{row['gpus']}, {row['strategy']}" == machine]
        for phase, column in COLUMNS.items():
            minutes = {int(row["batch_size"]): float(row[column]) for row in mine if row[column]}
            found += _contrasts(machine, phase, minutes)
    return tuple(found)


def _contrasts(machine: str, phase: Phase, minutes: dict[int, float]) -> list[PublishedContrast]:
    found = []
    for size, (low, high) in neighbours(sorted(minutes)).items():
        if high - low > size / 10 or size % 8:
            continue
        share = (size - low) / (high - low)
        line = (1 - share) * math.log(minutes[low]) + share * math.log(minutes[high])
        value = percent(line - math.log(minutes[size]))
        rounding = percent(2 * DIGIT_MINUTES / 2 / min(minutes[each] for each in (low, size, high)))
        found.append(PublishedContrast(machine, phase, size, value, rounding))
    return found


def cannot_say(shown: Sequence[PublishedContrast]) -> str:
    """Say what the article's column does not show."""
    most = {phase: max((each.rounding for each in shown if each.phase is phase), default=0.0) for phase in Phase}
    return publication().caveat.format(training=most[Phase.TRAINING], evaluation=most[Phase.EVALUATION])
