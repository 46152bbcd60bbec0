"""Build the chapters of a report on blocks of steps: tables, findings, claims, and the chart."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence

from workloads.records.blocks import Phase
from workloads.statistics import Described, ratio_interval

from .. import condition_text, neighbours
from ..charts import Chart, ChartSeries, Panel, Scale
from ..conditions import Replaced
from ..drawing import chart_words
from ..drawing.chart_series import BATCH_AXIS, build_framework_series
from ..load import Stored
from ..neighbours import Measurement, Process, average_process, measurements
from ..report import Chapter
from ..reproduction import size_claims
from ..reproduction.publication import read_size_article
from ..sentences import say
from ..table import Theme
from . import tables

TITLE = "Time an image at neighbouring batch sizes"
CAPTION = (
    "Seconds an image over the geometric mean of the sizes that took turns with it (less is faster); groups have "
    "nothing to do with one another."
)


def build_chapters(stored: Stored) -> tuple[list[Chapter], list[Replaced]]:
    """Build a chapter for each set of conditions of the processes; returns (chapters, replaced processes)."""
    measured, replaced = measurements(stored)
    headings = condition_text.build_headings([each.section for each in measured])
    return [
        build_chapter(each, f"{heading}: blocks of steps") for each, heading in zip(measured, headings, strict=True)
    ], replaced


def build_chapter(measurement: Measurement, heading: str) -> Chapter:
    """Build the chapter of one set of conditions."""
    section = measurement.section
    kinds = size_claims.sizes_by_kind(measurement)
    claimed = set().union(*(sizes for sizes, _ in kinds.values()))
    found = neighbours.compute_contrasts(measurement, claimed)
    tested = size_claims.evaluate_claims(found, kinds, measurement.frameworks)
    made = [
        tables.build_contrast_table(found),
        *([size_claims.build_table(tested)] if tested else []),
        tables.build_time_table(measurement),
        *size_claims.build_published_tables(found, section),
    ]
    return Chapter(
        heading,
        section,
        condition_text.describe_setting(section),
        tuple(condition_text.describe_conditions(section)),
        tuple(table for table in made if table.rows),
        (build_chart(measurement),) if measurement.processes else (),
        measurement.left_out,
        kind=tables.NAME,
        answer=write_headline(found),
        findings=tuple(map(describe_contrast, found)),
        tested=tuple((read_size_article(), each) for each in tested),
    )


def write_headline(found: Sequence[neighbours.Contrast]) -> str:
    """Count the verdicts of the comparisons, in a sentence without a full stop."""
    verdicts = Counter(neighbours.WORDS[each.verdict] for each in found if each.estimate is not None)
    return say("blocks.headline", verdicts=verdicts.most_common(), once=bool(found))


def describe_contrast(contrast: neighbours.Contrast) -> str:
    """Describe a contrast in a sentence."""
    value, low, high = contrast.percents
    facts = {"size": contrast.size, "name": contrast.framework, "phase": contrast.phase, "percent": value}
    if contrast.estimate is None:
        return say("blocks.once", **facts)
    detectable = neighbours.convert_to_percent(contrast.detectable)
    judged = {"verdict": contrast.verdict, "words": neighbours.WORDS[contrast.verdict]}
    return say("blocks.found", **facts, low=low, high=high, **judged, detectable=detectable)


def build_chart(measurement: Measurement) -> Chart:
    """Build the chart, with a panel for training and one for evaluation."""
    panels = tuple(
        Panel(phase.value.capitalize(), tuple(_series(measurement, name, phase) for name in measurement.frameworks))
        for phase in Phase
    )
    most = max(Counter((each.framework, each.group) for each in measurement.processes).values())
    courses = [
        f"{panel.title}: " + "; ".join(chart_words.describe_line(series, "batch size") for series in panel.series)
        for panel in panels
    ]
    return Chart(
        name=tables.NAME,
        title=TITLE,
        x_name=BATCH_AXIS,
        y_label="Time an image (group: 1)",
        panels=panels,
        alt=chart_words.join_sentences([f"{TITLE}, beside the mean of their group", *courses]),
        caption=f"{chart_words.explain_points(most)} {CAPTION}",
        provenance=condition_text.describe_provenance(measurement.section),
        x_scale=Scale.ORDINAL,
        from_zero=False,
        theme=Theme.SPEED,
    )


def _series(measurement: Measurement, framework: str, phase: Phase) -> ChartSeries:
    mine = [process for process in measurement.processes if process.framework == framework]
    points = {
        size: _point([process for process in mine if process.group == group], phase, size)
        for group in sorted({process.group for process in mine})
        for size in group
    }
    return build_framework_series(framework, points, ())


def _point(processes: Sequence[Process], phase: Phase, size: int) -> Described:
    """Describe the ratio of a size to its group."""

    def beside_group(times: Mapping[int, float]) -> float:
        logs = {each: math.log(time_s) for each, time_s in times.items()}
        return logs[size] - statistics.fmean(logs.values())

    values = [average_process(process, phase, beside_group) for process in processes]
    return Described(len(values), *ratio_interval(values), math.nan)
