"""Charts of one quantity against batch size, the thesis's three first; published figures behind ours."""

from __future__ import annotations

from collections.abc import Sequence

from ..charts import Chart, Panel, Series
from ..conditions import Section
from ..quantities import ACCURACY, ENERGY, MEMORY, SPEED, STEP_TIME, USAGE, Quantity
from ..reproduction.publication import Publication
from ..reproduction.published_series import behind
from . import chart_words
from .chart_series import Measured, against_batch_size

DRAWN = (USAGE, MEMORY, ACCURACY, SPEED, STEP_TIME, ENERGY)
NAMES = tuple(quantity.name for quantity in DRAWN)
LOGARITHMIC = (STEP_TIME,)  # grows with the batch size itself: on a linear axis half of its points lie at 0
AXIS_NAMES = {ENERGY: "GPU energy, J an image"}
BATCH_AXIS = "Batch size, images (logarithmic)"


def of_section(section: Section, published: Sequence[Publication], provenance: str) -> list[Chart]:
    """NAMES, as far as the section has values."""
    made = (_chart(section, quantity, published, provenance) for quantity in DRAWN)
    return [chart for chart in made if chart is not None]


def _chart(section: Section, quantity: Quantity, published: Sequence[Publication], provenance: str) -> Chart | None:
    spec = quantity.figure(section.condition)
    if spec is None:
        return None
    ours = against_batch_size(section, quantity)
    if not ours.most:
        return None
    theirs, about = behind(quantity, section.condition, [one.key for one in ours.series], published)
    logarithmic = quantity in LOGARITHMIC and all(y is None or y > 0 for one in ours.series for y in one.y)
    title = quantity.title(section.condition)
    caption = [chart_words.points(ours.most), *about, provenance]
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


def _alt(title: str, ours: Measured, theirs: Sequence[Series]) -> str:
    every = [chart_words.course(one, "batch size") for one in (*ours.series, *theirs)]
    return chart_words.sentence([f"{title}, against batch size", *every])
