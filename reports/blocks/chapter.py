"""Build the chapters of a report on blocks of steps: tables, findings, claims, and the chart."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence

from workloads.records.blocks import Phase
from workloads.statistics import Described, ratio_interval

from .. import condition_text
from ..charts import Chart, Panel, Scale, Series
from ..conditions import Replaced
from ..drawing import chart_words
from ..drawing.chart_series import BATCH_AXIS, series_of
from ..load import Stored
from ..report import Chapter
from ..sentences import say
from ..table import Theme
from . import claims, contrasts, tables
from .contrasts import Measurement, Process, measurements, of_process

TITLE = "Time an image at neighbouring batch sizes"
CAPTION = (
    "Seconds an image over the geometric mean of the sizes that took turns with it (less is faster); groups have "
    "nothing to do with one another."
)


def chapters(stored: Stored) -> tuple[list[Chapter], list[Replaced]]:
    """Build a chapter for each set of conditions of the processes; returns (chapters, replaced processes)."""
    measured, replaced = measurements(stored)
    headings = condition_text.headings([each.section for each in measured])
    return [
        chapter(each, f"{heading}: blocks of steps") for each, heading in zip(measured, headings, strict=True)
    ], replaced


def chapter(measurement: Measurement, heading: str) -> Chapter:
    """Build the chapter of one set of conditions."""
    kinds = claims.sizes_by_kind(measurement)
    claimed = set().union(*(sizes for sizes, _ in kinds.values()))
    found = contrasts.of_measurement(measurement, claimed)
    tested = claims.of_contrasts(found, kinds, measurement.frameworks)
    made = [tables.contrasts(found), tables.claims(tested), tables.times(measurement), tables.published(found)]
    section = measurement.section
    return Chapter(
        heading,
        section,
        condition_text.setting(section),
        tuple(condition_text.conditions_list(section)),
        tuple(table for table in made if table is not None and table.rows),
        (chart(measurement),) if measurement.processes else (),
        measurement.left_out,
        kind=tables.NAME,
        answer=headline(found),
        findings=tuple(map(finding, found)),
        tested=tuple((claims.publication(), each) for each in tested),
    )


def headline(found: Sequence[contrasts.Contrast]) -> str:
    """Count the verdicts of the comparisons, in a sentence without a full stop."""
    verdicts = Counter(contrasts.WORDS[each.verdict] for each in found if each.estimate is not None)
    return say("blocks.headline", verdicts=verdicts.most_common(), once=bool(found))


def finding(contrast: contrasts.Contrast) -> str:
    """Describe a contrast in a sentence."""
    value, low, high = contrast.percents
    facts = {"size": contrast.size, "name": contrast.framework, "phase": contrast.phase, "percent": value}
    if contrast.estimate is None:
        return say("blocks.once", **facts)
    detectable = contrasts.percent(contrast.detectable)
    judged = {"verdict": contrast.verdict, "words": contrasts.WORDS[contrast.verdict]}
    return say("blocks.found", **facts, low=low, high=high, **judged, detectable=detectable)


def chart(measurement: Measurement) -> Chart:
    """Build the chart, with a panel for training and one for evaluation."""
    panels = tuple(
        Panel(phase.value.capitalize(), tuple(_series(measurement, name, phase) for name in measurement.frameworks))
        for phase in Phase
    )
    most = max(Counter((each.framework, each.group) for each in measurement.processes).values())
    courses = [
        f"{panel.title}: " + "; ".join(chart_words.course(series, "batch size") for series in panel.series)
        for panel in panels
    ]
    return Chart(
        name=tables.NAME,
        title=TITLE,
        x_name=BATCH_AXIS,
        y_label="Time an image (group: 1)",
        panels=panels,
        alt=chart_words.sentence([f"{TITLE}, beside the mean of their group", *courses]),
        caption=f"{chart_words.points(most)} {CAPTION}",
        provenance=condition_text.provenance(measurement.section),
        x_scale=Scale.ORDINAL,
        from_zero=False,
        theme=Theme.SPEED,
    )


def _series(measurement: Measurement, framework: str, phase: Phase) -> Series:
    mine = [process for process in measurement.processes if process.framework == framework]
    points = {
        size: _point([process for process in mine if process.group == group], phase, size)
        for group in sorted({process.group for process in mine})
        for size in group
    }
    return series_of(framework, points, ())


def _point(processes: Sequence[Process], phase: Phase, size: int) -> Described:
    """Describe the ratio of a size to its group."""

    def beside_group(times: Mapping[int, float]) -> float:
        logs = {each: math.log(time_s) for each, time_s in times.items()}
        return logs[size] - statistics.fmean(logs.values())

    values = [of_process(process, phase, beside_group) for process in processes]
    return Described(len(values), *ratio_interval(values), math.nan)
