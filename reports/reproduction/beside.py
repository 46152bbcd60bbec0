"""Published beside measured: for each published quantity a table with batch sizes as columns, and verdicts below it.

A framework has a line for each series, one for ours and one for each difference (measured minus published).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from workloads.records.intervals import CONFIDENCE_PERCENT

from ..conditions import Section
from ..frameworks import display_name, ordered
from ..table import Cell, Table
from ..tables import NOT_RUN, UNKNOWN, shown, words
from . import calibration, claims, literature, verdicts
from .comparable import ACCURACY, MEMORY, METRICS, Metric, another_quantity, cells, frameworks, label, listed, points
from .literature import CHART, TABLE

DASH = "\N{EN DASH}"
CONTRADICTED = "table and chart of the publication contradict each other here"
NOT_PUBLISHED = "not published"
TIDY = [
    "framework", "quantity", "unit", "batch_size", "published_table", "published_chart", "contradicted",
    "compared_with", "measured", "low", "high", "n", "difference", "difference_low", "difference_high", "status",
    "reason",
]  # fmt: skip
ACCURACY_ABOVE = (
    "The publication has accuracy for TensorFlow alone: every framework is held against that row. Its data set, "
    "network and optimizer are unknown; the best evidence is this network on CIFAR-10."
)
MEMORY_ABOVE = (
    "The published memory looks like a mean of a few readings over the whole run on top of some 500 MiB that were "
    "there before; ours is the highest of the process: the two do not mean quite the same."
)


def of_section(section: Section) -> tuple[tuple[Table, ...], tuple[str, ...]]:
    """(tables, the lines that say why there are none)."""
    if section.condition.task.workload != literature.WORKLOAD:
        reason = f"the model here is {section.condition.task.workload}, that of the publication most likely"
        return (), (f"Published beside measured: left out: {reason} {literature.WORKLOAD}.",)
    if not section.results:
        return (), ("Published beside measured: left out: no trial took its memory on demand.",)
    found = {metric: cells(section, metric) for metric in METRICS}
    ours = {metric: points(found[metric], metric, section) for metric in METRICS}
    tables = [table(section, metric, found[metric]) for metric in METRICS]
    tables.append(claims.table(section, ours))
    if calibration.fits(section):
        tables.append(calibration.table(ours[ACCURACY]))
    return tuple(tables), ()


def table(section: Section, metric: Metric, found: pd.DataFrame) -> Table:
    """`found` are the `comparable.cells` of this metric."""
    tidy = _tidy(section, metric, found)
    sizes = sorted(set(tidy["batch_size"]))
    published = {series: literature.values(series, metric.name) for series in (TABLE, CHART)}
    rows = []
    for framework in frameworks(zip(tidy["framework"], tidy["batch_size"], strict=True)):
        own = tidy[tidy["framework"] == framework]
        series_shown = _shown(framework, metric)
        if not metric.alone or framework == metric.alone:
            rows += [_published_row(framework, metric, series, published[series], sizes) for series in series_shown]
        here = found[found["framework"] == framework]
        if not len(here):
            continue
        rows.append(_measured_row(framework, metric, section, here, sizes, int(found["n"].max())))
        for series in series_shown:
            name = f"{display_name(framework)}, measured minus {_series(framework, metric, series)}"
            rows.append(_difference_row(name, metric, own[own["compared_with"] == series], sizes))
    ours = label(section, metric)
    beside = f", {ours} measured" if ours != metric.label else " and measured"
    return Table(
        name=f"published-{metric.quantity.name}",
        title=f"{metric.label}, {metric.quantity.unit}: published{beside}",
        head=(f"{metric.label}, {metric.quantity.unit} / batch size", *map(str, sizes)),
        rows=tuple(rows),
        tidy=tidy,
        above=_above(section, metric, found),
        below=verdicts.of(section, metric, points(found, metric, section)),
    )


def _shown(framework: str, metric: Metric) -> list[str]:
    """The series that get a line: both where they contradict each other anywhere for this framework."""
    name = metric.framework(framework)
    held = {framework for framework, _ in literature.values(TABLE, metric.name)}
    split = {framework for framework, _ in literature.contradicted(metric.name)} if not metric.alone else set()
    return [TABLE, *([CHART] if name in split else [])] if name in held else []


def _series(framework: str, metric: Metric, series: str) -> str:
    """ "published (table)"; with the framework where it is another's."""
    other = metric.framework(framework)
    whose = f"{display_name(other)}'s " if other != framework else ""
    return f"{whose}published ({series})"


def _published_row(
    framework: str, metric: Metric, series: str, published: Mapping[literature.Place, float], sizes: list[int]
) -> tuple[Cell, ...]:
    decimals = 2 if series == TABLE and metric.unit == "points" else metric.decimals
    marked = literature.contradicted(metric.name) if not metric.alone else set()
    row = [Cell(f"{display_name(framework)} {literature.versions()[framework]}, published ({series})")]
    for size in sizes:
        value = published.get((framework, size))
        if value is None:
            row.append(Cell(DASH, notes=(NOT_PUBLISHED,)))
        else:
            row.append(Cell(f"{value:.{decimals}f}", value, (CONTRADICTED,) if (framework, size) in marked else ()))
    return tuple(row)


def _measured_row(
    framework: str, metric: Metric, section: Section, found: pd.DataFrame, sizes: list[int], most: int
) -> tuple[Cell, ...]:
    of_size = {row["batch_size"]: row for row in found.to_dict("records")}
    version = section.software[framework].version if framework in section.software else None
    name = " ".join([display_name(framework), *([version] if version else [])])
    what = f" ({label(section, metric)})" if not metric.same(section) else ""
    row = [Cell(f"{name}, measured{what}")]
    for size in sizes:
        cell = of_size.get(size)
        row.append(Cell(words(NOT_RUN)) if cell is None else shown(cell, metric.decimals, most))
    return tuple(row)


def _difference_row(name: str, metric: Metric, tidy: pd.DataFrame, sizes: list[int]) -> tuple[Cell, ...]:
    of_size = {row["batch_size"]: row for row in tidy.to_dict("records")}
    return (Cell(name), *(_difference(of_size[size], metric.decimals) for size in sizes))


def _difference(row: dict[Any, Any], decimals: int) -> Cell:
    if math.isnan(row["difference"]):
        return Cell(DASH, notes=(row["reason"],))
    text = f"{row['difference']:+z.{decimals}f}"
    if row["n"] > 1:
        text += f" [{row['difference_low']:+z.{decimals}f}, {row['difference_high']:+z.{decimals}f}]"
    return Cell(text, row["difference"], (CONTRADICTED,) if row["contradicted"] else ())


def _tidy(section: Section, metric: Metric, found: pd.DataFrame) -> pd.DataFrame:
    """TIDY: a row a framework, batch size and series, with the published series beside each other in every row."""
    table, chart = (literature.values(series, metric.name) for series in (TABLE, CHART))
    marked = literature.contradicted(metric.name) if not metric.alone else set()
    measured = {(row["framework"], row["batch_size"]): row for row in found.to_dict("records")}
    sizes = sorted({size for _, size in (*table, *measured)})
    rows = []
    for framework in frameworks((*table, *measured)):
        for size in sizes:
            place = metric.framework(framework), size
            for series in (TABLE, CHART) if chart else (TABLE,):
                rows.append(
                    {
                        "framework": framework,
                        "quantity": metric.name,
                        "unit": metric.quantity.unit,
                        "batch_size": size,
                        "published_table": table.get(place, math.nan),
                        "published_chart": chart.get(place, math.nan),
                        "contradicted": place in marked,
                        "compared_with": series,
                        **_compared(
                            (table if series == TABLE else chart).get(place),
                            measured.get((framework, size)),
                            another_quantity(section, metric),
                        ),
                    }
                )
    return pd.DataFrame(rows, columns=TIDY)


def _compared(published: float | None, cell: dict[Any, Any] | None, another: str) -> dict[str, Any]:
    """From `measured` on. `reason` says why there is no difference; "" where there is one."""
    status = NOT_RUN if cell is None else str(cell["status"])
    reason = ""
    if published is None:
        reason = NOT_PUBLISHED
    elif cell is None or cell["n"] == 0:
        ended = [words(status)] if status != UNKNOWN else []
        reason = f"not measured: {'; '.join([*ended, *(cell['notes'] if cell else ())])}"
    elif another:
        reason = another
    unknown = {"median": math.nan, "low": math.nan, "high": math.nan, "n": 0}
    value = cell or unknown
    less = math.nan if reason or published is None else published
    return {
        "measured": value["median"],
        "low": value["low"],
        "high": value["high"],
        "n": value["n"],
        "difference": value["median"] - less,
        "difference_low": value["low"] - less,
        "difference_high": value["high"] - less,
        "status": status,
        "reason": reason,
    }


def _above(section: Section, metric: Metric, found: pd.DataFrame) -> tuple[str, ...]:
    sentences = [f"{literature.SOURCE}; {literature.HARDWARE}."]
    if metric is ACCURACY:
        sentences.append(ACCURACY_ABOVE)
    else:
        split = {framework for framework, _ in literature.contradicted(metric.name)}
        sentences.append(
            "The publication has these figures as a table and as a chart. They are held against the table; the chart "
            f"stands beside it for {_names(split)}, where the two contradict each other at batch sizes "
            f"{listed(sorted({size for _, size in literature.contradicted(metric.name)}))}. Elsewhere they agree to "
            f"{literature.TOLERANCE[metric.name]:g} {metric.unit}, twice what the chart could be read to."
        )
    sentences += [MEMORY_ABOVE] if metric is MEMORY and metric.same(section) else []
    if section.condition.task.dataset != literature.DATASET and metric.same(section):
        sentences.append(
            f"The data set here is {section.condition.task.dataset}: the differences are also those of the data."
        )
    most = int(found["n"].max())
    if most == 1:
        sentences.append("Measured: one trial a cell, so no statement about the spread between runs.")
    elif most:
        sentences.append(f"Measured: median of up to {most} repeats [{CONFIDENCE_PERCENT} % interval of their mean].")
    return tuple(sentences)


def _names(keys: Iterable[str]) -> str:
    return listed(display_name(key) for key in ordered(keys))
