"""Compute the time to a target accuracy from the epochs of stored results: a figure computed for a report."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from workloads.records.figures import TARGET_TIME, Figure
from workloads.records.result import TrialResult, select_epochs

from .quantities import Quantity
from .table import Theme
from .tables import MEASURED

NAME = "target-time"


def build_quantity(accuracy: float) -> Quantity:
    """Return the quantity; its title names the accuracy."""
    title = f"Training time up to a test accuracy of {100 * accuracy:g} %, s, without evaluations"
    return Quantity(NAME, (replace(TARGET_TIME, title=title),), True, Theme.SPEED)


def add_times(results: Sequence[TrialResult], accuracy: float) -> tuple[TrialResult, ...]:
    """Add TARGET_TIME to each result of a section.

    It is null in all repeats if one did not reach the accuracy: otherwise the mean would only cover successful ones.
    """
    short = defaultdict[object, list[str]](list)
    for result in results:
        if result.status in MEASURED and not select_epochs(result.epochs, accuracy):
            best = max((epoch.test_accuracy for epoch in result.epochs), default=0.0)
            short[result.spec.setting].append(f"repeat {result.spec.draw.repeat} reached {100 * best:.2f} %")
    return tuple(_with_time(result, accuracy, short[result.spec.setting]) for result in results)


def _with_time(result: TrialResult, accuracy: float, shortfalls: list[str]) -> TrialResult:
    source = f"worker: epochs up to the first with a test accuracy of {100 * accuracy:g} %"
    epochs = select_epochs(result.epochs, accuracy)
    if epochs and not shortfalls:
        figure = Figure(sum(epoch.train_s for epoch in epochs), source, len(epochs))
    else:
        figure = Figure(None, source, reason=f"not reached: {', '.join(sorted(shortfalls)) or 'it did not end well'}")
    return replace(result, figures=result.figures | {TARGET_TIME.name: figure})
