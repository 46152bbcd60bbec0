"""Build the chapters of a report on blocks of steps: is a power of two, or another round size, faster per image?

Tables compare each size with its neighbours and show the times; claims and published figures: `size_claims`.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from workloads.records.blocks import Phase
from workloads.schedules import count_steps
from workloads.statistics import CONFIDENCE_PERCENT, ERROR, Described, Verdict, count_images, ratio_interval

from . import condition_text
from .charts import Chart, ChartSeries, Panel, Scale
from .conditions import Replaced
from .drawing import chart_words
from .drawing.chart_series import BATCH_AXIS, build_framework_series
from .frameworks import FrameworkNames
from .load import Stored
from .neighbours import (
    MARGIN_PERCENT,
    TRIMMED,
    WORDS,
    Contrast,
    Measurement,
    Process,
    average_process,
    convert_to_percent,
    measurements,
)
from .report import Chapter
from .reproduction import size_claims
from .reproduction.publication import read_size_article
from .sentences import note_corrected, say
from .table import (
    Columns,
    Record,
    Table,
    TableCell,
    Theme,
    build_rows,
    count_of,
    make_framework_column,
    make_text_column,
    number_cell,
)

NAME, TIMES = "powers-of-two", "block-times"
HOW = (
    f"Per round: the logarithm of the seconds per image, compared with the line through both neighbours. Per process: "
    f"the mean over its rounds without {100 * TRIMMED:g} % at either end. The interval is {CONFIDENCE_PERCENT} % of "
    "Student's t over the processes. p is two-sided, corrected after Holm within a framework; "
    f"the verdict is faster or slower if p is at most {ERROR:g}, within {MARGIN_PERCENT:g} % if the interval is. "
    '"Detectable difference": the smallest one that four in five such runs would find, at the strictest step of this '
    "correction."
)
HOW_TIMES = (
    f"Over the processes, with the {CONFIDENCE_PERCENT} % interval of their mean; within a process the trimmed mean "
    "over its rounds. An epoch has the steps of the training split as the study ends it, at this time per step. "
    'Evaluation: images go in, logits come out. "Foreign CPU": the share of the cores that other processes took, '
    "including our sampler."
)
TITLE = "Time per image at neighbouring batch sizes"
CAPTION = (
    "Seconds per image over the geometric mean of the sizes that took turns with it (less is faster); groups are "
    "independent of each other."
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
    found, tested = size_claims.evaluate_claims(measurement)
    made = [
        build_contrast_table(found, section.named),
        *([size_claims.build_table(tested)] if tested else []),
        build_time_table(measurement),
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
        kind=NAME,
        answer=write_headline(found, section.named),
        findings=tuple(describe_contrast(each, section.named) for each in found),
        tested=tuple((read_size_article(), each) for each in tested),
    )


def write_headline(found: Sequence[Contrast], named: FrameworkNames) -> str:
    """Name the comparisons with a verdict and count the others, without a full stop."""
    judged = [each for each in found if each.estimate is not None]
    certain: dict[str, dict[int, list[Contrast]]] = {}
    for each in sorted(judged, key=lambda each: list(WORDS).index(each.verdict)):
        if each.verdict is not Verdict.UNDECIDED:
            certain.setdefault(WORDS[each.verdict], {}).setdefault(each.size, []).append(each)
    uncertain = sum(each.verdict is Verdict.UNDECIDED for each in judged)
    return say("blocks.headline", named, certain=certain, uncertain=uncertain, once=bool(found))


def describe_contrast(contrast: Contrast, named: FrameworkNames) -> str:
    """Describe a contrast in a sentence."""
    value, low, high = contrast.percents
    facts = {"size": contrast.size, "name": contrast.framework, "phase": contrast.phase, "percent": value}
    if contrast.estimate is None:
        return say("blocks.once", named, **facts)
    detectable = convert_to_percent(contrast.detectable)
    judged = {"verdict": contrast.verdict, "words": WORDS[contrast.verdict]}
    judged |= {"tests": [contrast.tests] if contrast.overruled else []}
    return say("blocks.found", named, **facts, low=low, high=high, **judged, detectable=detectable)


def build_chart(measurement: Measurement) -> Chart:
    """Build the chart, with a panel for training and one for evaluation."""
    panels = tuple(
        Panel(phase.value.capitalize(), tuple(_series(measurement, name, phase) for name in measurement.frameworks))
        for phase in Phase
    )
    most = max(Counter((each.framework, each.group) for each in measurement.processes).values())
    return Chart(
        name=NAME,
        title=TITLE,
        x_name=BATCH_AXIS,
        y_label="Time per image (group: 1)",
        panels=panels,
        alt=chart_words.describe_panels(f"{TITLE}, relative to the mean of their group", panels, "batch size"),
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
    return build_framework_series(framework, measurement.section.named(framework), points, ())


def _point(processes: Sequence[Process], phase: Phase, size: int) -> Described:
    """Describe the ratio of a size to its group."""

    def beside_group(times: Mapping[int, float]) -> float:
        logs = {each: math.log(time_s) for each, time_s in times.items()}
        return logs[size] - statistics.fmean(logs.values())

    values = [average_process(process, phase, beside_group) for process in processes]
    return Described(len(values), *ratio_interval(values), math.nan)


def build_contrast_table(found: Sequence[Contrast], named: FrameworkNames) -> Table:
    """Build a table with a row for each framework, phase and size."""
    records = [
        {
            "framework": each.framework,
            "phase": each.phase.value,
            "batch_size": each.size,
            "lower_neighbour": each.neighbours[0],
            "upper_neighbour": each.neighbours[1],
            **_percents(each.percents),
            "p_corrected": each.p,
            "detectable_percent": convert_to_percent(each.detectable),
            "verdict": WORDS[each.verdict],
            "processes": each.processes,
            "rounds": each.rounds,
        }
        for each in found
    ]
    shown: Columns = {
        "Framework": make_framework_column(named),
        "Phase": make_text_column("phase"),
        "Batch size": count_of("batch_size"),
        "Neighbours": lambda row: TableCell(f"{row['lower_neighbour']} and {row['upper_neighbour']}"),
        "Faster per image by, %": _faster,
        "Verdict": make_text_column("verdict"),
        "Corrected p": lambda row: number_cell(row["p_corrected"], "{:.2g}"),
        "Detectable difference, %": lambda row: number_cell(row["detectable_percent"], "{:.2f}"),
        "Processes, rounds": lambda row: TableCell(f"{row['processes']}, {row['rounds']}", row["processes"]),
    }
    title = "Batch sizes against the line through their neighbours"
    above = note_corrected([each.tests for each in found if each.overruled], "0")
    return Table(NAME, title, *build_rows(records, shown), above, (HOW,), theme=Theme.SPEED, keys=3)


def build_time_table(measurement: Measurement) -> Table:
    """Build a table with a row for each framework, phase and size: what was measured, without any comparison."""
    records = [
        _time(measurement, framework, phase, size, mine)
        for framework in measurement.frameworks
        for phase in Phase
        for size, mine in _by_size(measurement, framework).items()
    ]
    shown: Columns = {
        "Framework": make_framework_column(measurement.section.named),
        "Phase": make_text_column("phase"),
        "Batch size": count_of("batch_size"),
        "Images/s": lambda row: number_cell(row["images_per_s"], "{:,.1f}", (row["low"], row["high"])),
        "Time per step, ms": lambda row: number_cell(row["step_ms"], "{:,.2f}"),
        "Steps per epoch": lambda row: number_cell(row["steps_an_epoch"], "{:,.0f}"),
        "Time per epoch, s": lambda row: number_cell(row["epoch_s"], "{:,.2f}"),
        "Foreign CPU, %": lambda row: number_cell(row["foreign_cpu_percent"], "{:.1f}"),
        "Processes": count_of("processes"),
    }
    title = "Time per step of the blocks, and steps per epoch"
    return Table(TIMES, title, *build_rows(records, shown), below=(HOW_TIMES,), theme=Theme.SPEED, keys=3)


def _by_size(measurement: Measurement, framework: str) -> dict[int, list[Process]]:
    mine = [process for process in measurement.processes if process.framework == framework]
    sizes = sorted({size for process in mine for size in process.group})
    return {size: [process for process in mine if size in process.group] for size in sizes}


def _time(measurement: Measurement, framework: str, phase: Phase, size: int, mine: Sequence[Process]) -> dict[str, Any]:
    logs = [average_process(each, phase, lambda times: -math.log(times[size])) for each in mine]
    speed, low, high = ratio_interval(logs)
    blocks = [of_round[size] for process in mine for of_round in process.rounds[phase]]
    shares = [block.foreign_cpu_percent for block in blocks if block.foreign_cpu_percent is not None]
    step_s, steps = size / speed, math.nan
    task = measurement.section.condition.task
    images = count_images(task.dataset, task.source, "train")
    if images is not None and phase is Phase.TRAINING:
        steps = count_steps(images, size, mine[0].result.spec.passes.last_batch)
    return {
        "framework": framework,
        "phase": phase.value,
        "batch_size": size,
        "images_per_s": speed,
        "low": low,
        "high": high,
        "step_ms": 1000 * step_s,
        "steps_an_epoch": steps,
        "epoch_s": steps * step_s,
        "foreign_cpu_percent": statistics.fmean(shares) if shares else None,
        "processes": len(mine),
        "rounds": sum(len(process.rounds[phase]) for process in mine),
    }


def _percents(percents: tuple[float, float, float]) -> dict[str, float]:
    return dict(zip(("faster_percent", "low", "high"), percents, strict=True))


def _faster(row: Record) -> TableCell:
    """Format "+0.31 [+0.10, +0.52]"; without an interval only the value."""
    return number_cell(row["faster_percent"], "{:+.2f}", (row["low"], row["high"]))
