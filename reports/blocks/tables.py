"""Build the tables on blocks of steps.

They show if a size is faster than its neighbours, and the times.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from workloads.datasets import DATASETS
from workloads.records.blocks import Phase
from workloads.schedules import count_steps
from workloads.statistics import CONFIDENCE_PERCENT, ERROR, mean_interval

from ..neighbours import (
    MARGIN_PERCENT,
    TRIMMED,
    WORDS,
    Contrast,
    Measurement,
    Process,
    average_process,
    convert_to_percent,
)
from ..table import (
    Columns,
    Record,
    Table,
    TableCell,
    Theme,
    build_rows,
    count_of,
    framework_of,
    make_text_column,
    number_cell,
)

NAME, TIMES = "powers-of-two", "block-times"
HOW = (
    f"Per round: the logarithm of the seconds per image, compared with the line through both neighbours. Per process: "
    f"the mean over its rounds without {100 * TRIMMED:g} % at either end. The interval is {CONFIDENCE_PERCENT} % of "
    "Student's t over the processes. p is two-sided, corrected after Holm within a framework; "
    f"faster or slower is said where it is at most {ERROR:g}, within {MARGIN_PERCENT:g} % where the interval is. "
    '"Could have found": the smallest difference that four in five such runs would find at the strictest step of that.'
)
HOW_TIMES = (
    f"Over the processes, with the {CONFIDENCE_PERCENT} % interval of their mean; within a process the trimmed mean "
    "over its rounds. An epoch is the steps of the training split as the study ends it, at this time a step. "
    'Evaluation: images go in, logits come out. "Foreign CPU": what other processes took of the cores, our '
    "sampler among them."
)


def build_contrast_table(found: Sequence[Contrast]) -> Table:
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
        "Framework": framework_of,
        "Phase": make_text_column("phase"),
        "Batch size": count_of("batch_size"),
        "Neighbours": lambda row: TableCell(f"{row['lower_neighbour']} and {row['upper_neighbour']}"),
        "Faster an image by, %": _faster,
        "Verdict": make_text_column("verdict"),
        "Corrected p": lambda row: number_cell(row["p_corrected"], "{:.2g}"),
        "Could have found, %": lambda row: number_cell(row["detectable_percent"], "{:.2f}"),
        "Processes, rounds": lambda row: TableCell(f"{row['processes']}, {row['rounds']}", row["processes"]),
    }
    title = "Batch sizes against the line through their neighbours"
    return Table(NAME, title, *build_rows(records, shown), below=(HOW,), theme=Theme.SPEED, keys=3)


def build_time_table(measurement: Measurement) -> Table:
    """Build a table with a row for each framework, phase and size: what was measured, without any comparison."""
    records = [
        _time(measurement, framework, phase, size, mine)
        for framework in measurement.frameworks
        for phase in Phase
        for size, mine in _by_size(measurement, framework).items()
    ]
    shown: Columns = {
        "Framework": framework_of,
        "Phase": make_text_column("phase"),
        "Batch size": count_of("batch_size"),
        "Images/s": lambda row: number_cell(row["images_per_s"], "{:,.1f}", (row["low"], row["high"])),
        "A step, ms": lambda row: number_cell(row["step_ms"], "{:,.2f}"),
        "Steps an epoch": lambda row: number_cell(row["steps_an_epoch"], "{:,.0f}"),
        "An epoch, s": lambda row: number_cell(row["epoch_s"], "{:,.2f}"),
        "Foreign CPU, %": lambda row: number_cell(row["foreign_cpu_percent"], "{:.1f}"),
        "Processes": count_of("processes"),
    }
    title = "Time of the blocks, and steps an epoch beside it"
    return Table(TIMES, title, *build_rows(records, shown), below=(HOW_TIMES,), theme=Theme.SPEED, keys=3)


def _by_size(measurement: Measurement, framework: str) -> dict[int, list[Process]]:
    mine = [process for process in measurement.processes if process.framework == framework]
    sizes = sorted({size for process in mine for size in process.group})
    return {size: [process for process in mine if size in process.group] for size in sizes}


def _time(measurement: Measurement, framework: str, phase: Phase, size: int, mine: Sequence[Process]) -> dict[str, Any]:
    logs = [average_process(each, phase, lambda times: -math.log(times[size])) for each in mine]
    mean, low, high = mean_interval(logs)
    blocks = [of_round[size] for process in mine for of_round in process.rounds[phase]]
    step_s, steps = size / math.exp(mean), math.nan
    images = _train_images(measurement)
    if images is not None and phase is Phase.TRAINING:
        steps = count_steps(images, size, mine[0].result.spec.passes.last_batch)
    return {
        "framework": framework,
        "phase": phase.value,
        "batch_size": size,
        "images_per_s": math.exp(mean),
        "low": math.exp(low),
        "high": math.exp(high),
        "step_ms": 1000 * step_s,
        "steps_an_epoch": steps,
        "epoch_s": steps * step_s,
        "foreign_cpu_percent": statistics.fmean(block.foreign_cpu_percent for block in blocks),
        "processes": len(mine),
        "rounds": sum(len(process.rounds[phase]) for process in mine),
    }


def _train_images(measurement: Measurement) -> int | None:
    """Number of training images; None if the data set is no longer in the catalogue."""
    task = measurement.section.condition.task
    if task.source is not None:
        return task.source.train
    known = DATASETS.get(task.dataset)
    return known.train_count if known else None


def _percents(percents: tuple[float, float, float]) -> dict[str, float]:
    return dict(zip(("faster_percent", "low", "high"), percents, strict=True))


def _faster(row: Record) -> TableCell:
    """Format "+0.31 [+0.10, +0.52]"; without an interval only the value."""
    return number_cell(row["faster_percent"], "{:+.2f}", (row["low"], row["high"]))
