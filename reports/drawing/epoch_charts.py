"""Charts of the training: accuracy and loss after each epoch, small multiples of a few batch sizes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from workloads.records.result import Epoch, TrialResult
from workloads.records.status import Status

from ..charts import Chart, Kind, Panel, Series
from ..conditions import Section
from ..frameworks import display_name, ordered
from ..spread import spread
from . import chart_words
from .chart_series import known

NAMES = ("accuracy-by-epoch", "loss-by-epoch")
MOST_SIZES = 4  # as many panels stand in a row
HOW_LOSS = (
    "Training loss: mean over the steps of the epoch, while the weights change; test loss: after it, so that the "
    "first may lie above the second."
)


@dataclass(frozen=True)
class Curves:
    """One panel: a value of the epochs at one batch size."""

    title: str
    batch_size: int
    value: Callable[[Epoch], float | None]


def of_section(section: Section) -> list[Chart]:
    """NAMES; none where no trial tells its epochs."""
    by_repeat = sorted(section.results, key=lambda result: result.spec.draw.repeat)
    trained = [result for result in by_repeat if result.status is Status.OK and result.epochs]
    if not trained:
        return []
    every = sorted({result.spec.cell.batch_size for result in trained})
    sizes = spread_out(every)
    accuracy = [Curves(f"Batch {size}", size, lambda epoch: 100 * epoch.test_accuracy) for size in sizes]
    training = [Curves(f"Training, batch {size}", size, lambda epoch: epoch.train_loss) for size in sizes]
    test = [Curves(f"Test, batch {size}", size, lambda epoch: epoch.test_loss) for size in sizes]
    chosen = f"{len(sizes)} of the {len(every)} batch sizes, spread over their range." if sizes != every else ""
    how = f"{chosen} {chart_words.points(_repeats(trained))}".strip()
    return [
        replace(
            _chart(
                "accuracy-by-epoch", "Test accuracy, %, after each epoch", "Test accuracy, %", accuracy, trained, how
            ),
            full_scale=100,
        ),
        _chart(
            "loss-by-epoch",
            "Loss (mean cross-entropy) of each epoch, training and test",
            "Loss",
            [*training, *test],
            trained,
            f"{HOW_LOSS} {how}",
        ),
    ]


def spread_out(sizes: list[int]) -> list[int]:
    """MOST_SIZES of them: the smallest, the largest, and those between at even places."""
    if len(sizes) <= MOST_SIZES:
        return sizes
    last = len(sizes) - 1
    return [sizes[round(place * last / (MOST_SIZES - 1))] for place in range(MOST_SIZES)]


def _chart(name: str, title: str, label: str, curves: list[Curves], trained: list[TrialResult], how: str) -> Chart:
    panels = tuple(Panel(curve.title, _series(trained, curve)) for curve in curves)
    return Chart(
        name=name,
        title=title,
        x_label="Epoch",
        y_label=label,
        panels=panels,
        alt=chart_words.sentence([f"{title}; at its end", *(f"{panel.title}: {_end(panel)}" for panel in panels)]),
        caption=how,
        x_log=False,
    )


def _series(trained: list[TrialResult], curves: Curves) -> tuple[Series, ...]:
    here = [result for result in trained if result.spec.cell.batch_size == curves.batch_size]
    return tuple(
        _of_framework(framework, [result for result in here if result.spec.cell.framework == framework], curves)
        for framework in ordered(result.spec.cell.framework for result in here)
    )


def _of_framework(framework: str, results: Sequence[TrialResult], curves: Curves) -> Series:
    last = max(len(result.epochs) for result in results)
    values = [
        [
            value
            for result in results
            if place < len(result.epochs) and (value := curves.value(result.epochs[place])) is not None
        ]
        for place in range(last)
    ]
    spreads = [spread(own) for own in values]
    repeated = any(len(own) > 1 for own in values)
    return Series(
        label=display_name(framework),
        key=framework,
        kind=Kind.MEASURED,
        x=tuple(float(place + 1) for place in range(last)),
        y=known(statistics.median(own) if own else math.nan for own in values),
        low=known(one.low for one in spreads) if repeated else (),
        high=known(one.high for one in spreads) if repeated else (),
        trials=(tuple(result.spec.id for result in results),) * last,
    )


def _end(panel: Panel) -> str:
    """The last value of each framework."""
    parts = []
    for series in panel.series:
        last = next((y for y in reversed(series.y) if y is not None), None)
        parts.append(f"{series.label} {'no value' if last is None else chart_words.number(last)}")
    return ", ".join(parts)


def _repeats(trained: list[TrialResult]) -> int:
    counts: dict[tuple[str, int], int] = {}
    for result in trained:
        place = (result.spec.cell.framework, result.spec.cell.batch_size)
        counts[place] = counts.get(place, 0) + 1
    return max(counts.values())
