"""Build charts of one quantity against batch size, the main ones first, with published figures behind ours."""

from __future__ import annotations

from collections.abc import Sequence

from ..charts import Chart, Panel
from ..conditions import Section
from ..quantities import ACCURACY, ENERGY, MAIN, STEP_TIME, Quantity
from ..reproduction.publication import Publication
from ..reproduction.published_series import behind as published_behind
from . import chart_words
from .chart_series import against_batch_size, batch_scale

DRAWN = (*MAIN, STEP_TIME, ENERGY)
NAMES = tuple(quantity.name for quantity in DRAWN)
LOGARITHMIC = (STEP_TIME,)  # proportional to the batch size: on a linear axis half of its points are near 0
AXIS_NAMES = {ENERGY: "{}, J an image"}
BATCH_AXIS = "Batch size, images"


def of_section(section: Section, published: Sequence[Publication]) -> list[Chart]:
    """Build the charts in NAMES, as far as the section has values."""
    charts = (_chart(section, quantity, published) for quantity in DRAWN)
    return [chart for chart in charts if chart is not None]


def _chart(section: Section, quantity: Quantity, published: Sequence[Publication]) -> Chart | None:
    spec = quantity.figure(section.condition)
    measured = against_batch_size(section, quantity) if spec else None
    if spec is None or measured is None or not measured.most:
        return None
    behind, about = published_behind(quantity, section.condition, [series.key for series in measured.series], published)
    series = (*measured.series, *behind)
    title = quantity.title(section.condition)
    courses = [chart_words.course(line, "batch size") for line in series]
    return Chart(
        name=quantity.name,
        title=title,
        x_name=BATCH_AXIS,
        y_label=AXIS_NAMES.get(quantity, f"{{}}, {spec.unit}").format(spec.label),
        panels=(Panel("", series),),
        alt=chart_words.sentence([f"{title}, against batch size", *courses]),
        caption=" ".join([chart_words.points(measured.most), *about]),
        x_scale=batch_scale(series),
        full_scale=spec.full_scale,
        theme=quantity.theme,
        from_zero=quantity is not ACCURACY,
        y_log=quantity in LOGARITHMIC and all(y is None or y > 0 for line in measured.series for y in line.y),
    )
