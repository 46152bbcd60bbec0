"""Build series of published figures, drawn behind ours in a chart, and the caption's sentences on them."""

from __future__ import annotations

from collections.abc import Sequence

from ..charts import Kind, Series
from ..conditions import Condition
from ..frameworks import display_name
from ..quantities import Quantity
from ..sentences import listed
from .publication import CHART, TABLE, Metric, Publication
from .reproduced import frameworks

KINDS = {TABLE: Kind.PUBLISHED_TABLE, CHART: Kind.PUBLISHED_CHART}


def behind(
    quantity: Quantity, condition: Condition, measured: Sequence[str], published: Sequence[Publication]
) -> tuple[list[Series], list[str]]:
    """Return (series, sentences of the caption) for the same quantity and network; `measured` are frameworks."""
    series: list[Series] = []
    sentences: list[str] = []
    for publication in published:
        for metric in publication.metrics if publication.workload == condition.task.workload else ():
            same = metric.quantity.figures[0] is quantity.figure(condition)
            if same and not metric.other_conditions(condition):
                shown = _series(metric, measured)
                series += shown
                sentences += _caption(shown, metric, publication, condition.task.dataset) if shown else []
    return series, sentences


def _series(metric: Metric, measured: Sequence[str]) -> list[Series]:
    """Build the series of the table, and of the chart if it contradicts the table.

    They are of the measured frameworks, or of the one that the metric was published for.
    """
    wanted = [metric.framework] if metric.framework else measured
    series = []
    for kind in metric.series:
        for framework in wanted:
            row = {size: value for (name, size), value in sorted(metric.values[kind].items()) if name == framework}
            if row and (kind == metric.series[0] or framework in frameworks(metric.contradicted)):
                label = f"{display_name(framework)}, published {kind}"
                series.append(Series(label, framework, KINDS[kind], tuple(map(float, row)), tuple(row.values())))
    return series


def _caption(series: list[Series], metric: Metric, publication: Publication, dataset: str) -> list[str]:
    names = dict.fromkeys(each.key for each in series)
    software = listed(f"{display_name(name)} {publication.versions[name]}" for name in names)
    guess = "" if dataset == publication.dataset else publication.guess.format(dataset=dataset)
    sentences = [publication.caption.format(software=software, guess=guess)]
    if len({each.kind for each in series}) > 1:
        sentences.append("Where its table and its chart contradict each other, both are drawn.")
    return [*sentences, *([metric.caption] if metric.caption else [])]
