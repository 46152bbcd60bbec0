"""All charts of a section, in the order of a report."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from .. import captions
from ..charts import Chart
from ..conditions import Section
from ..reproduction import literature
from . import batch_charts, epoch_charts, memory_charts

NAMES = (*batch_charts.NAMES, *memory_charts.NAMES, *epoch_charts.NAMES)


def charts_of(section: Section, published: pd.DataFrame | None = None) -> tuple[Chart, ...]:
    """Those of NAMES that have a value to show.

    `published`: figures to stand behind ours, with the columns of `literature.published()`; None = those.
    """
    if not section.results:
        return ()
    published = literature.published() if published is None else published
    charts = [*batch_charts.of_section(section, published), *memory_charts.of_section(section)]
    charts += epoch_charts.of_section(section)
    provenance = captions.provenance(section)
    return tuple(replace(chart, provenance=provenance) for chart in charts)
