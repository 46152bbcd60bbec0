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
from .chart_series import Measured, against_batch_size

DRAWN = (USAGE, MEMORY, ACCURACY, SPEED, STEP_TIME, ENERGY)
NAMES = tuple(quantity.name for quantity in DRAWN)
LOGARITHMIC = (STEP_TIME,)  # grows with the batch size itself: on a linear axis half of its points lie at 0
AXIS_NAMES = {ENERGY: "GPU energy, J an image"}
BATCH_AXIS = "Batch size, images (logarithmic)"
KINDS = {literature.TABLE: Kind.PUBLISHED_TABLE, literature.CHART: Kind.PUBLISHED_CHART}


def of_section(section: Section, published: pd.DataFrame, provenance: str) -> list[Chart]:
    """NAMES, as far as the section has values; `published` as `published_series` takes it."""
    made = (_chart(section, quantity, published, provenance) for quantity in DRAWN)
    return [chart for chart in made if chart is not None]


def _chart(section: Section, quantity: Quantity, published: pd.DataFrame, provenance: str) -> Chart | None:
    spec = quantity.figure(section.condition)
    if spec is None:
        return None
    ours = against_batch_size(section, quantity)
    if not ours.most:
        return None
    theirs = published_series(quantity, section.condition, published, [one.key for one in ours.series])
    logarithmic = quantity in LOGARITHMIC and all(y is None or y > 0 for one in ours.series for y in one.y)
    title = quantity.title(section.condition)
    caption = [chart_words.points(ours.most), *_about(theirs, quantity, section.condition, published), provenance]
    return Chart(
        name=quantity.name,
        title=title,
        x_label=BATCH_AXIS,
        y_label=AXIS_NAMES.get(quantity, f"{spec.label}, {spec.unit}"),
        panels=(Panel("", (*ours.series, *theirs)),),
        alt=_alt(title, ours, theirs),
        caption=" ".join(caption),
        full_scale=spec.full_scale,
        y_log=logarithmic,
    )


def published_series(
    quantity: Quantity, condition: Condition, published: pd.DataFrame, frameworks: list[str]
) -> tuple[Series, ...]:
    """The published figures of the very same quantity, of the frameworks measured: those of the table, and those of
    the chart where it contradicts the table. Accuracy was published of TensorFlow alone: it stands behind all.

    `published`: columns series ("table" | "chart"), framework (display name), framework_version, metric, batch_size,
    value (%, MiB).
    """
    shown = quantity.figure(condition)
    metric = next((metric for metric in METRICS if metric.quantity.figures[0] is shown), None)
    if metric is None or condition.task.workload != literature.WORKLOAD:
        return ()
    wanted = list(KNOWN) if metric.alone else frameworks
    here, tolerance = published[published["metric"] == metric.name], literature.TOLERANCE.get(metric.name, 0.0)
    found = []
    for kind in KINDS:
        for key in wanted:
            own = here[here["framework"] == display_name(key)]
            rows = own[own["series"] == kind].sort_values("batch_size")
            if len(rows) and (kind == literature.TABLE or _contradicts(own, tolerance)):
                found.append(_published(key, kind, rows))
    return tuple(found)


def _published(key: str, kind: str, rows: pd.DataFrame) -> Series:
    return Series(
        label=f"{display_name(key)}, published {kind}",
        key=key,
        kind=KINDS[kind],
        x=tuple(float(size) for size in rows["batch_size"]),
        y=tuple(float(value) for value in rows["value"]),
    )


def _contradicts(own: pd.DataFrame, tolerance: float) -> bool:
    wide = own.pivot(index="batch_size", columns="series", values="value")
    if not set(KINDS) <= set(wide):
        return False
    return bool(((wide[literature.TABLE] - wide[literature.CHART]).abs() > tolerance).any())


def _about(theirs: tuple[Series, ...], quantity: Quantity, condition: Condition, published: pd.DataFrame) -> list[str]:
    """What the published series are and how far they can be compared."""
    if not theirs:
        return []
    names = dict.fromkeys(display_name(one.key) for one in theirs)
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
    if any(one.kind is Kind.PUBLISHED_CHART for one in theirs):
        sentences.append("Where its table and its chart contradict each other, both are drawn.")
    if quantity is MEMORY:
        sentences.append("Its memory looks like means of polls over the whole run, ours is the highest of the trial.")
    return sentences


def _alt(title: str, ours: Measured, theirs: tuple[Series, ...]) -> str:
    every = [chart_words.course(one, "batch size") for one in (*ours.series, *theirs)]
    return chart_words.sentence([f"{title}, against batch size", *every])
