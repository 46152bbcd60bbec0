"""All charts of a section, in the order of a report."""

from __future__ import annotations

import pandas as pd

from . import batch_charts, captions, epoch_charts, memory_charts
from .charts import Chart
from .conditions import Section

NAMES = (*batch_charts.NAMES, *memory_charts.NAMES, *epoch_charts.NAMES)


def charts_of(section: Section, published: pd.DataFrame) -> tuple[Chart, ...]:
    """Those of NAMES that have a value to show; `published` as in `batch_charts.published_series`."""
    if not section.results:
        return ()
    provenance = captions.provenance(section)
    return (
        *batch_charts.of_section(section, published, provenance),
        *memory_charts.of_section(section, provenance),
        *epoch_charts.of_section(section, provenance),
    )
