"""Build all charts of a section: of quantities against batch size, of trade-offs, of its memory, of its training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from workloads.records.figures import FigureSpec

from .. import condition_text
from ..charts import Chart, Panel
from ..conditions import Section
from ..quantities import ACCURACY, ENERGY, MAIN, STEP_TIME, Quantity
from ..reproduction.publication import Article, find_articles
from ..reproduction.published_figures import build_published_series
from . import chart_words, epoch_charts, memory_charts, trade_offs
from .chart_series import BATCH_AXIS, build_series, choose_scale

DRAWN = (*MAIN, STEP_TIME, ENERGY)
NAMES = (*(quantity.name for quantity in DRAWN), *trade_offs.NAMES, *memory_charts.NAMES, *epoch_charts.NAMES)
LOGARITHMIC = (STEP_TIME,)  # proportional to the batch size: on a linear axis half of its points are near 0
AXIS_NAMES = {ENERGY: "{}, J per image"}


def build_charts(section: Section, published: Sequence[Article] | None = None) -> tuple[Chart, ...]:
    """Build the charts of NAMES that have a value to show, in the order of a report.

    `published` are the publications whose figures are drawn behind ours; None = those that fit the section.
    """
    if not section.results:
        return ()
    published = find_articles(section) if published is None else published
    quantities = (_chart(section, quantity, published) for quantity in DRAWN)
    charts = [chart for chart in quantities if chart is not None]
    for build in (trade_offs.build_charts, memory_charts.build_charts, epoch_charts.build_charts):
        charts += build(section)
    provenance = condition_text.describe_provenance(section)
    return tuple(replace(chart, provenance=provenance) for chart in charts)


def _chart(section: Section, quantity: Quantity, published: Sequence[Article]) -> Chart | None:
    spec = quantity.figure(section.condition)
    measured = build_series(section, quantity) if spec else None
    if spec is None or measured is None or not measured.most:
        return None
    behind, about = build_published_series(quantity, section, [series.key for series in measured.series], published)
    series = (*measured.series, *behind)
    title = quantity.title(section.condition)
    panels = (Panel("", series),)
    return build_quantity_chart(
        quantity,
        spec,
        name=quantity.name,
        title=title,
        x_name=BATCH_AXIS,
        panels=panels,
        alt=chart_words.describe_panels(f"{title}, against batch size", panels, "batch size"),
        caption=" ".join([chart_words.explain_points(measured.most), *about]),
        x_scale=choose_scale(series),
        y_log=quantity in LOGARITHMIC and all(y is None or y > 0 for line in measured.series for y in line.y),
    )


def build_quantity_chart(quantity: Quantity, spec: FigureSpec, **fields: Any) -> Chart:
    """Build the chart of a quantity from the other fields of Chart; `spec` is its figure on the device."""
    return Chart(
        y_label=AXIS_NAMES.get(quantity, f"{{}}, {spec.unit}").format(spec.label),
        full_scale=spec.full_scale,
        theme=quantity.theme,
        from_zero=quantity is not ACCURACY,
        **fields,
    )
