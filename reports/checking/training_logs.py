"""Read the output of other training programs, line by line: losses and accuracies with the words before them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

FIGURE = re.compile(
    r"(?:(?P<split>train(?:ing)?|test|val(?:idation)?)[ _]*)?(?<![a-z])(?P<what>loss|accuracy|accu?|perplexity)\b"
    r"(?: of)?\s*[=:]?\s*(?:variable\()?(?P<value>[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|nan|inf)\b)",
    re.IGNORECASE,
)
EPOCHS = {  # each form of counter is separate, because a program may count from 0 in one and from 1 in the other
    "epoch N": re.compile(r"\bepoch\s*[:(]?\s*(\d+)", re.IGNORECASE),
    "[N, ...]": re.compile(r"\[(\d+)(?=[,\]])"),
}
NAMES = {"training": "train", "val": "validation", "acc": "accuracy", "accu": "accuracy"}


@dataclass
class Training:
    """Figures of a training log. `figures` are {name: [(line, value)]}.

    `fallen` are the lines whose epoch is lower than the one before; `silent` are (line, text) of those without a
    figure. Lines count from 1; `lines` counts those that are not blank.
    """

    figures: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    fallen: list[int] = field(default_factory=list)
    silent: list[tuple[int, str]] = field(default_factory=list)
    lines: int = 0


def read(text: str) -> Training | None:
    """Read a log; None if no line has a figure of training."""
    training = Training()
    last: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        training.lines += 1
        figures = list(FIGURE.finditer(line))
        for figure in figures:
            parts = [part.lower() for part in (figure["split"], figure["what"]) if part]
            name = " ".join(NAMES.get(part, part) for part in parts)
            training.figures.setdefault(name, []).append((number, float(figure["value"])))
        if not figures:
            training.silent.append((number, line.strip()))
        for form, pattern in EPOCHS.items():
            if counter := pattern.search(line):
                if int(counter[1]) < last.get(form, 0):
                    training.fallen.append(number)
                last[form] = int(counter[1])
    return training if training.figures else None


def faults(training: Training) -> Iterator[str]:
    """Yield a line for each fault of the log."""
    for name, readings in training.figures.items():
        broken = [line for line, value in readings if not math.isfinite(value)]
        if broken:
            yield (
                f"{name}: {len(broken)} of {len(readings)} values are not finite, the first in line {broken[0]}: "
                "training diverged"
            )
        elif not any(value for _, value in readings):
            yield f"{name}: all {len(readings)} values are 0"
    if training.fallen:
        times = "once" if len(training.fallen) == 1 else f"{len(training.fallen)} times"
        yield f"epochs fall back {times}, the first in line {training.fallen[0]}: more than one run in this file"


def assumed(training: Training) -> str:
    """Say what was read without a header, and how many lines were not read."""
    counts = ", ".join(f"{name} ({len(readings)})" for name, readings in training.figures.items())
    assumption = f"printed by a training program, figures taken by the words before them: {counts}"
    if not training.silent:
        return assumption
    number, line = training.silent[0]
    silent = f"{len(training.silent)} of {training.lines} lines tell none"
    return f"{assumption}; {silent}, the first line {number}: {line[:60]!r}"
