"""Build charts of the training: accuracy and loss after each epoch, small multiples of a few batch sizes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest

from workloads.records.figures import ACCURACY, SHARE
from workloads.records.result import Epoch, TrialResult
from workloads.statistics import describe

from .. import tables
from ..charts import Chart, ChartSeries, Panel, Scale
from ..conditions import Section
from ..frameworks import FrameworkNames, order_frameworks
from ..table import Theme
from . import chart_words
from .chart_series import build_framework_series

NAMES = ("accuracy-by-epoch", "loss-by-epoch")
MOST_SIZES = 4  # this many panels fit in a row
HOW_LOSS = (
    "Training loss: mean over the steps of the epoch, while the weights change. Test loss: after the epoch, so "
    "training loss may lie above test loss."
)
Value = Callable[[Epoch], float | None]
Trained = dict[tables.Place, list[TrialResult]]  # repeats that ended ok


def build_charts(section: Section) -> list[Chart]:
    """Build the charts in NAMES; none if no trial reports its epochs."""
    trained: Trained = {}
    for place, results in tables.group_by_place(section).items():
        if complete := [result for result in results if tables.is_shown(result, ACCURACY) and result.epochs]:
            trained[place] = complete
    if not trained:
        return []
    every = sorted({size for _, size in trained})
    sizes = choose_sizes(every)
    chosen = f"{len(sizes)} of the {len(every)} batch sizes, spread over their range. " if sizes != every else ""
    how = chosen + chart_words.explain_points(max(map(len, trained.values())))
    accuracy = _panels(trained, section.named, sizes, "Batch", lambda epoch: 100 * epoch.test_accuracy, SHARE)
    loss = _panels(trained, section.named, sizes, "Training, batch", lambda epoch: epoch.train_loss)
    loss += _panels(trained, section.named, sizes, "Test, batch", lambda epoch: epoch.test_loss)
    return [
        _chart(NAMES[0], "Test accuracy, %, after each epoch", "Test accuracy, %", accuracy, how, 100),
        _chart(
            NAMES[1], "Loss (mean cross-entropy) of each epoch, training and test", "Loss", loss, f"{HOW_LOSS} {how}"
        ),
    ]


def choose_sizes(sizes: list[int]) -> list[int]:
    """Choose MOST_SIZES of the sizes: the smallest, the largest, and those between at even distances."""
    if len(sizes) <= MOST_SIZES:
        return sizes
    last = len(sizes) - 1
    return [sizes[round(place * last / (MOST_SIZES - 1))] for place in range(MOST_SIZES)]


def _chart(
    name: str, title: str, label: str, panels: tuple[Panel, ...], how: str, full_scale: float | None = None
) -> Chart:
    return Chart(
        name=name,
        title=title,
        x_name="Epoch",
        y_label=label,
        panels=panels,
        alt=chart_words.join_sentences(
            [f"{title}; at its end", *(f"{panel.title}: {_end(panel)}" for panel in panels)]
        ),
        caption=how,
        x_scale=Scale.LINEAR,
        full_scale=full_scale,
        theme=Theme.ACCURACY,
        from_zero=full_scale is None,
    )


def _panels(
    trained: Trained,
    named: FrameworkNames,
    sizes: list[int],
    title: str,
    value: Value,
    bounds: tuple[float, float] | None = None,
) -> tuple[Panel, ...]:
    panels = []
    for size in sizes:
        frameworks = order_frameworks(framework for framework, other in trained if other == size)
        series = tuple(_series(each, named(each), trained[each, size], value, bounds) for each in frameworks)
        panels.append(Panel(f"{title} {size}", series))
    return tuple(panels)


def _series(
    framework: str, name: str, results: list[TrialResult], value: Value, bounds: tuple[float, float] | None
) -> ChartSeries:
    trials = tuple(result.spec.id for result in results)
    described = {}
    for number, repeats in enumerate(zip_longest(*(result.epochs for result in results)), 1):
        values = [y for epoch in repeats if epoch and (y := value(epoch)) is not None]
        described[number] = describe(values, bounds)
    return build_framework_series(framework, name, described, (trials,) * len(described))


def _end(panel: Panel) -> str:
    """List the last value of each framework."""
    parts = []
    for series in panel.series:
        last = next((y for y in reversed(series.y) if y is not None), None)
        parts.append(f"{series.label} {'no value' if last is None else tables.format_number(last)}")
    return ", ".join(parts)
