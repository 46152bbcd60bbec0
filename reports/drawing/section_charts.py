"""Build all charts of a section, in the order of a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .. import condition_text
from ..charts import Chart
from ..conditions import Section
from ..reproduction.publication import Publication, beside
from . import batch_charts, epoch_charts, memory_charts

NAMES = (*batch_charts.NAMES, *memory_charts.NAMES, *epoch_charts.NAMES)


def charts_of(section: Section, published: Sequence[Publication] | None = None) -> tuple[Chart, ...]:
    """Build the charts of NAMES that have a value to show.

    `published` are the publications whose figures are drawn behind ours; None = those that fit the section.
    """
    if not section.results:
        return ()
    published = beside(section) if published is None else published
    charts = [*batch_charts.of_section(section, published), *memory_charts.of_section(section)]
    charts += epoch_charts.of_section(section)
    provenance = condition_text.provenance(section)
    return tuple(replace(chart, provenance=provenance) for chart in charts)
