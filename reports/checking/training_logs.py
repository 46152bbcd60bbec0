"""What others' programs print while they train: losses and accuracies with the words before them, line by line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FIGURE = re.compile(
    r"(?:(?P<split>train(?:ing)?|test|val(?:idation)?)[ _]*)?(?<![a-z])(?P<what>loss|accuracy|accu?|perplexity)\b"
    r"(?: of)?\s*[=:]?\s*(?:variable\()?(?P<value>[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|nan|inf)\b)",
    re.IGNORECASE,
)
EPOCHS = {  # each form of counter for itself, for a program may count from 0 in the one and from 1 in the other
    "epoch N": re.compile(r"\bepoch\s*[:(]?\s*(\d+)", re.IGNORECASE),
    "[N, ...]": re.compile(r"\[(\d+)(?=[,\]])"),
}
NAMES = {"training": "train", "val": "validation", "acc": "accuracy", "accu": "accuracy"}


@dataclass(frozen=True)
class Training:
    """`figures` are {name: (lines, values)}; `fallen` are the lines, from 1, whose epoch is lower than the one before;
    `silent` are (number, line) of those that tell no figure.
    """

    figures: dict[str, tuple[NDArray[np.int64], NDArray[np.float64]]]
    fallen: tuple[int, ...]
    silent: tuple[tuple[int, str], ...]
    lines: int


def read(text: str) -> Training | None:
    """None where no line tells a figure of training."""
    figures: dict[str, list[tuple[int, float]]] = {}
    fallen: list[int] = []
    silent: list[tuple[int, str]] = []
    last: dict[str, int] = {}
    count = 0
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        count += 1
        found = list(FIGURE.finditer(line))
        for one in found:
            parts = [part.lower() for part in (one["split"], one["what"]) if part]
            figures.setdefault(" ".join(NAMES.get(part, part) for part in parts), []).append(
                (number, float(one["value"]))
            )
        if not found:
            silent.append((number, line.strip()))
        for form, pattern in EPOCHS.items():
            if counter := pattern.search(line):
                if int(counter[1]) < last.get(form, 0):
                    fallen.append(number)
                last[form] = int(counter[1])
    if not figures:
        return None
    return Training(
        {
            name: (np.array([n for n, _ in readings]), np.array([v for _, v in readings]))
            for name, readings in figures.items()
        },
        tuple(fallen),
        tuple(silent),
        count,
    )


def worth(training: Training) -> Iterator[str]:
    """What is wrong with it, a line each."""
    for name, (lines, values) in training.figures.items():
        broken = np.flatnonzero(~np.isfinite(values))
        if len(broken):
            first = int(broken[0])
            yield (
                f"{name}: {len(broken)} of {len(values)} values are not finite, the first in line {lines[first]}: "
                "training diverged"
            )
        elif not values.any():
            yield f"{name}: all {len(values)} values are 0"
    if training.fallen:
        times = "once" if len(training.fallen) == 1 else f"{len(training.fallen)} times"
        yield f"epochs fall back {times}, the first in line {training.fallen[0]}: more than one run in this file"


def assumed(training: Training) -> str:
    """What was read without a header, and how much of it was not."""
    counts = ", ".join(f"{name} ({len(values)})" for name, (_, values) in training.figures.items())
    assumption = f"printed by a training program, figures taken by the words before them: {counts}"
    if not training.silent:
        return assumption
    number, line = training.silent[0]
    silent = f"{len(training.silent)} of {training.lines} lines tell none"
    return f"{assumption}; {silent}, the first line {number}: {line[:60]!r}"
