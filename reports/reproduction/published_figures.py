"""Show published figures beside ours: a table for each metric, by batch size, and the series behind ours in a chart.

In a table, a framework has a line for each series, one for ours and one for each difference (measured minus published).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from workloads.statistics import CONFIDENCE_PERCENT

from .. import tables
from ..charts import ChartSeries, SeriesKind
from ..condition_text import ABSENT
from ..conditions import Section
from ..frameworks import FrameworkNames, order_frameworks
from ..quantities import Quantity
from ..sentences import listed, say
from ..table import Table, TableCell, Theme
from ..tables import CellSummary
from . import agreement, claims
from .publication import CHART, SERIES, TABLE, Article, Metric, find_articles
from .reproduced import Reproduced, list_frameworks

CONTRADICTED = "table and chart of the publication contradict each other here"
NOT_PUBLISHED = "not published"
KINDS = {TABLE: SeriesKind.PUBLISHED_TABLE, CHART: SeriesKind.PUBLISHED_CHART}


def of_section(section: Section) -> tuple[list[Table], list[str]]:
    """Build the tables; returns (tables, lines that say why there are none)."""
    comparable = find_articles(section)
    if not comparable:
        return [], []
    if not section.results:
        return [], [say("published.nothing_on_demand")]
    shown = []
    for publication in comparable:
        suffix = f"-{publication.name}" if len(comparable) > 1 else ""
        shown += [replace(table, name=table.name + suffix) for table in of_publication(section, publication)]
    return shown, []


def of_publication(section: Section, publication: Article) -> list[Table]:
    """Build a table for each published metric of the section's conditions, and one of their claims."""
    claimed, ours = claims.evaluate_section(section, publication)
    here = {metric: each for metric, each in ours.items() if not metric.other_conditions(section.condition)}
    named = [metric.quantity for metric in here if metric.series]
    shown = [
        table(each, metric.quantity.name if named.count(metric.quantity) == 1 else metric.name)
        for metric, each in here.items()
        if metric.series
    ]
    apart = agreement.table((each for metric, each in here.items() if metric.series), section.named)
    shown += [apart] if apart else []
    return [*shown, claims.build_table(claimed, publication, section)] if claimed else shown


def table(ours: Reproduced, name: str) -> Table:
    """Build the table of one metric, named "published-NAME"."""
    metric, differences = ours.metric, _differences(ours)
    sizes = sorted({row["batch_size"] for row in differences})
    names = order_frameworks(row["framework"] for row in differences)
    measured = f", {ours.label} measured" if ours.label != metric.label else " and measured"
    return Table(
        name=f"published-{name.replace('_', '-')}",
        title=f"{metric.title or metric.label}, {metric.quantity.unit}: published{measured}",
        head=(f"{metric.label}, {metric.quantity.unit} / batch size", *map(str, sizes)),
        rows=tuple(
            (TableCell(head), *cells) for name in names for head, cells in _rows(name, ours, differences, sizes)
        ),
        tidy=pd.DataFrame(differences),
        above=tuple(_above(ours)),
        below=agreement.below(ours),
        theme=Theme.PUBLISHED,
        by_size=True,
    )


def _rows(
    framework: str, ours: Reproduced, differences: list[dict[str, Any]], sizes: list[int]
) -> Iterator[tuple[str, list[TableCell]]]:
    """Yield published, measured and differences; both series if they contradict each other anywhere for
    this framework.
    """
    metric, named = ours.metric, ours.section.named
    name, source = named(framework), metric.source(framework)
    apart = source in list_frameworks(metric.contradicted)
    series = metric.series[: 2 if apart else 1] if source in list_frameworks(metric.published) else []
    for kind in series if framework == source else ():
        version = ours.publication.versions.get(framework)
        head = f"{name}{f' {version}' if version else ''}, published ({kind})"
        yield head, [_published(metric, kind, framework, size) for size in sizes]
    if framework not in list_frameworks(ours.cells):
        return
    software = ours.section.software.get(framework)
    version = f" {software.version}" if software and software.version else ""
    head = f"{name}{version}, measured" + ("" if ours.same else f" ({ours.label})")
    yield head, [tables.format_cell(ours.cell((framework, size)), metric.decimals, ours.most) for size in sizes]
    whose = f"{named(source)}'s " if source != framework else ""
    for kind in series:
        rows = [row for row in differences if (row["framework"], row["compared_with"]) == (framework, kind)]
        head = f"{name}, measured minus {whose}published ({kind})"
        yield head, [_difference(row, metric.decimals) for row in rows]


def _published(metric: Metric, series: str, framework: str, size: int) -> TableCell:
    value = metric.values[series].get((framework, size))
    if value is None:
        return TableCell(ABSENT, notes=(NOT_PUBLISHED,))
    exact = series == TABLE and metric.table_decimals is not None
    notes = (CONTRADICTED,) if (framework, size) in metric.contradicted else ()
    return TableCell(f"{value:.{metric.table_decimals if exact else metric.decimals}f}", value, notes)


def _difference(row: Mapping[Any, Any], decimals: int) -> TableCell:
    if math.isnan(row["difference"]):
        return TableCell(ABSENT, notes=(row["reason"],))
    text = f"{row['difference']:+z.{decimals}f}"
    if row["n"] > 1:
        text += f" [{row['difference_low']:+z.{decimals}f}, {row['difference_high']:+z.{decimals}f}]"
    return TableCell(text, row["difference"], (CONTRADICTED,) if row["contradicted"] else ())


def _differences(ours: Reproduced) -> list[dict[str, Any]]:
    """List rows per framework, batch size and series, with the published series side by side in every row."""
    metric, rows = ours.metric, []
    places = {*metric.published, *ours.cells}
    for framework, size in itertools.product(list_frameworks(places), sorted({size for _, size in places})):
        place = metric.source(framework), size
        cell = ours.cell((framework, size))
        published = {series: metric.values.get(series, {}).get(place, math.nan) for series in SERIES}
        for series in metric.series:
            reason = _reason(published[series], cell, ours)
            subtracted = math.nan if reason else published[series]
            rows.append(
                {
                    "framework": framework,
                    "quantity": metric.name,
                    "unit": metric.quantity.unit,
                    "batch_size": size,
                    "published_table": published[TABLE],
                    "published_chart": published[CHART],
                    "contradicted": place in metric.contradicted,
                    "compared_with": series,
                    "measured": cell.mean,
                    "low": cell.low,
                    "high": cell.high,
                    "n": cell.n,
                    "difference": cell.mean - subtracted,
                    "difference_low": cell.low - subtracted,
                    "difference_high": cell.high - subtracted,
                    "status": cell.status,
                    "reason": reason,
                }
            )
    return rows


def _reason(published: float, cell: CellSummary, ours: Reproduced) -> str:
    """Say why there is no difference; "" if there is one."""
    if math.isnan(published):
        return NOT_PUBLISHED
    if not cell.n:
        ended = [tables.describe_status(cell.status)] if cell.status != tables.UNKNOWN else []
        return f"not measured: {'; '.join([*ended, *cell.notes])}"
    return "" if ours.same else f"another quantity: {ours.label} here, {ours.metric.label} published"


def _above(ours: Reproduced) -> list[str]:
    metric, publication, dataset = ours.metric, ours.publication, ours.section.condition.task.dataset
    sentences = [say("published.source", of=publication.source, hardware=publication.hardware)]
    if len(metric.series) > 1:
        names, sizes = list_frameworks(metric.contradicted), sorted({size for _, size in metric.contradicted})
        facts = {"names": names, "sizes": sizes, "tolerance": metric.tolerance, "unit": metric.unit}
        sentences.append(say("published.two_series", ours.section.named, **facts))
    sentences += [metric.note] if metric.note and ours.same else []
    if publication.dataset not in ("", dataset) and ours.same:
        sentences.append(say("published.other_data", dataset=dataset))
    if ours.most:
        sentences.append(say("published.measured", repeats=ours.most, confidence_percent=CONFIDENCE_PERCENT))
    return sentences


def build_published_series(
    quantity: Quantity, section: Section, measured: Sequence[str], published: Sequence[Article]
) -> tuple[list[ChartSeries], list[str]]:
    """Return (series, sentences of the caption) for the same quantity and network; `measured` are frameworks."""
    condition, named = section.condition, section.named
    series: list[ChartSeries] = []
    sentences: list[str] = []
    for publication in published:
        for metric in publication.metrics if publication.workload == condition.task.workload else ():
            same = metric.quantity.figures[0] is quantity.figure(condition)
            if same and not metric.other_conditions(condition):
                shown = _series(metric, measured, named)
                series += shown
                sentences += _caption(shown, metric, publication, section) if shown else []
    return series, sentences


def _series(metric: Metric, measured: Sequence[str], named: FrameworkNames) -> list[ChartSeries]:
    """Build the series of the table, and of the chart if it contradicts the table.

    They are of the measured frameworks, or of the one that the metric was published for.
    """
    wanted = [metric.framework] if metric.framework else measured
    series = []
    for kind in metric.series:
        for framework in wanted:
            row = {size: value for (name, size), value in sorted(metric.values[kind].items()) if name == framework}
            if row and (kind == metric.series[0] or framework in list_frameworks(metric.contradicted)):
                label = f"{named(framework)}, published {kind}"
                series.append(ChartSeries(label, framework, KINDS[kind], tuple(map(float, row)), tuple(row.values())))
    return series


def _caption(series: list[ChartSeries], metric: Metric, publication: Article, section: Section) -> list[str]:
    names, dataset = dict.fromkeys(each.key for each in series), section.condition.task.dataset
    software = listed(f"{section.named(name)} {publication.versions[name]}" for name in names)
    guess = "" if dataset == publication.dataset else publication.guess.format(dataset=dataset)
    sentences = [publication.caption.format(software=software, guess=guess)]
    if len({each.kind for each in series}) > 1:
        sentences.append("Where its table and its chart contradict each other, both are drawn.")
    return [*sentences, *([metric.caption] if metric.caption else [])]
