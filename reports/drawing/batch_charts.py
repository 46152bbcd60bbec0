"""Charts of one quantity against batch size, the thesis's three first; its published figures behind ours.

Published: J. Yin, M.S. thesis, The Ohio State University, 2020, as A. Lheureux's article tells it (Paperspace, 2022).
"""

from __future__ import annotations

import pandas as pd

from ..charts import Chart, Kind, Panel, Series
from ..conditions import Condition, Section
from ..frameworks import KNOWN, display_name
from ..quantities import ACCURACY, ENERGY, MEMORY, SPEED, STEP_TIME, USAGE, Quantity
from ..reproduction import literature
from ..reproduction.comparable import METRICS
from . import chart_words
from .chart_series import against_batch_size

DRAWN = (USAGE, MEMORY, ACCURACY, SPEED, STEP_TIME, ENERGY)
NAMES = tuple(quantity.name for quantity in DRAWN)
LOGARITHMIC = (STEP_TIME,)  # grows with the batch size itself: on a linear axis half of its points lie at 0
AXIS_NAMES = {ENERGY: "GPU energy, J an image"}
BATCH_AXIS = "Batch size, images (logarithmic)"
KINDS = {literature.TABLE: Kind.PUBLISHED_TABLE, literature.CHART: Kind.PUBLISHED_CHART}


def of_section(section: Section, published: pd.DataFrame) -> list[Chart]:
    """NAMES, as far as the section has values; `published` as `published_series` takes it."""
    charts = (_chart(section, quantity, published) for quantity in DRAWN)
    return [chart for chart in charts if chart is not None]


def _chart(section: Section, quantity: Quantity, published: pd.DataFrame) -> Chart | None:
    spec = quantity.figure(section.condition)
    measured = against_batch_size(section, quantity) if spec else None
    if spec is None or measured is None or not measured.most:
        return None
    behind = published_series(quantity, section.condition, published, [series.key for series in measured.series])
    series = (*measured.series, *behind)
    title = quantity.title(section.condition)
    courses = [chart_words.course(line, "batch size") for line in series]
    return Chart(
        name=quantity.name,
        title=title,
        x_label=BATCH_AXIS,
        y_label=AXIS_NAMES.get(quantity, f"{spec.label}, {spec.unit}"),
        panels=(Panel("", series),),
        alt=chart_words.sentence([f"{title}, against batch size", *courses]),
        caption=" ".join([chart_words.points(measured.most), *_about(behind, quantity, section.condition, published)]),
        full_scale=spec.full_scale,
        y_log=quantity in LOGARITHMIC and all(y is None or y > 0 for line in measured.series for y in line.y),
    )


def published_series(
    quantity: Quantity, condition: Condition, published: pd.DataFrame, frameworks: list[str]
) -> tuple[Series, ...]:
    """The published figures of the very same quantity, of the frameworks measured: those of the table, and those of
    the chart where it contradicts the table. Accuracy was published of TensorFlow alone: it stands behind all.

    `published`: columns series ("table" | "chart"), framework (display name), framework_version, metric, batch_size,
    value (%, MiB).
    """
    figure = quantity.figure(condition)
    metric = next((metric for metric in METRICS if metric.quantity.figures[0] is figure), None)
    if metric is None or condition.task.workload != literature.WORKLOAD:
        return ()
    rows = published[published["metric"] == metric.name].sort_values("batch_size")
    series = []
    for kind in KINDS:
        for key in list(KNOWN) if metric.alone else frameworks:
            both = rows[rows["framework"] == display_name(key)].pivot(
                index="batch_size", columns="series", values="value"
            )
            if kind not in both or (kind == literature.CHART and not _contradicts(both, metric.name)):
                continue
            known = both[kind].dropna()
            label = f"{display_name(key)}, published {kind}"
            series.append(Series(label, key, KINDS[kind], tuple(map(float, known.index)), tuple(map(float, known))))
    return tuple(series)


def _contradicts(both: pd.DataFrame, metric: str) -> bool:
    """Whether table and chart, the columns, differ by more than reading a chart costs."""
    if literature.TABLE not in both:
        return False
    return bool(((both[literature.TABLE] - both[literature.CHART]).abs() > literature.TOLERANCE.get(metric, 0.0)).any())


def _about(behind: tuple[Series, ...], quantity: Quantity, condition: Condition, published: pd.DataFrame) -> list[str]:
    """What the published series are and how far they can be compared."""
    if not behind:
        return []
    names = dict.fromkeys(display_name(series.key) for series in behind)
    versions = published.drop_duplicates("framework").set_index("framework")["framework_version"]
    other = (
        ""
        if condition.task.dataset == literature.DATASET
        else f", the best guess is CIFAR-10; these trials are on {condition.task.dataset}"
    )
    software = chart_words.listed([f"{name} {versions[name]}" for name in names])
    sentences = [
        f"Published: {software} on a {literature.GPU} (J. Yin, M.S. thesis, Ohio State University, 2020), which does "
        f"not name its network, data set and optimizer{other}."
    ]
    if any(series.kind is Kind.PUBLISHED_CHART for series in behind):
        sentences.append("Where its table and its chart contradict each other, both are drawn.")
    if quantity is MEMORY:
        sentences.append("Its memory looks like means of polls over the whole run, ours is the highest of the trial.")
    return sentences
