"""Build the tables on blocks of steps.

They show if a size is faster than its neighbours, claims about round sizes, the times, and the article's figures next
to ours.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

import pandas as pd

from workloads.datasets import DATASETS
from workloads.records.blocks import Phase
from workloads.schedules import steps_of
from workloads.statistics import CONFIDENCE_PERCENT, ERROR, mean_interval

from ..condition_text import ABSENT
from ..frameworks import display_name
from ..table import Cell, Table, Theme
from . import article
from .claims import Claim
from .contrasts import MARGIN_PERCENT, TRIMMED, Contrast, of_process
from .stored import Measurement, Process

NAME, CLAIMS, TIMES, ARTICLE = "powers-of-two", "powers-of-two-claims", "block-times", "powers-of-two-published"
HOW = (
    f"Of each round the size's seconds an image against the line through its two neighbours, as a logarithm; of each "
    f"process the mean over its rounds without {100 * TRIMMED:g} % at either end; the interval is "
    f"{CONFIDENCE_PERCENT} % of Student's t over the processes. p is two-sided, corrected after Holm within a "
    "framework; "
    f"faster or slower is said where it is at most {ERROR:g}, within {MARGIN_PERCENT:g} % where the interval is. "
    '"Could have found": the smallest difference that four in five such runs would find at the strictest step of that.'
)
HOW_CLAIMS = (
    "Each claim is that such sizes are faster an image than their neighbours: the mean over the sizes measured, "
    "sizes of one group first within each process. A size belongs to the first of the first three kinds that it is "
    "of. p is corrected after Holm within a framework. Upheld: faster; violated: slower, or the whole interval within "
    f"{MARGIN_PERCENT:g} %."
)
HOW_TIMES = (
    f"Over the processes, with the {CONFIDENCE_PERCENT} % interval of their mean; within a process the trimmed mean "
    "over its rounds. An epoch is the steps of the training split as the study ends it, at this time a step. "
    'Evaluation: images go in, logits come out. "Foreign CPU": what other processes took of the cores, our '
    "sampler among them."
)


def contrasts(found: Sequence[Contrast]) -> Table:
    """Build a table with a row for each framework, phase and size."""
    rows = tuple(
        (
            Cell(display_name(each.framework)),
            Cell(each.phase),
            Cell(str(each.size), each.size),
            Cell(" and ".join(map(str, each.neighbours))),
            _percents(each.percents),
            Cell(each.verdict),
            _p(each.p),
            _number(100 * math.expm1(each.detectable), "{:.2f}"),
            Cell(f"{each.processes}, {each.rounds}", each.processes),
        )
        for each in found
    )
    head = ("Framework", "Phase", "Batch size", "Neighbours", "Faster an image by, %", "Verdict", "Corrected p",
            "Could have found, %", "Processes, rounds")  # fmt: skip
    tidy = pd.DataFrame(
        [
            {
                "framework": each.framework,
                "phase": each.phase.value,
                "batch_size": each.size,
                "lower_neighbour": each.neighbours[0],
                "upper_neighbour": each.neighbours[1],
                **dict(zip(("faster_percent", "low", "high"), each.percents, strict=True)),
                "p_corrected": each.p,
                "detectable_percent": 100 * math.expm1(each.detectable),
                "verdict": each.verdict,
                "processes": each.processes,
                "rounds": each.rounds,
            }
            for each in found
        ]
    )
    title = "Batch sizes against the line through their neighbours"
    return Table(NAME, title, head, rows, tidy, below=(HOW,), theme=Theme.SPEED, keys=3)


def claims(found: Sequence[Claim]) -> Table:
    """Build a table with a row for each claim, framework and phase; a dash has its reason as a footnote."""
    rows = tuple(
        (
            Cell(each.kind),
            Cell(display_name(each.framework)),
            Cell(each.phase),
            Cell(", ".join(map(str, each.sizes)) or ABSENT, notes=(each.reason,) if each.reason else ()),
            _percents(each.percents),
            _p(each.p),
            Cell(each.verdict),
        )
        for each in found
    )
    head = ("Said to be fast", "Framework", "Phase", "Sizes", "Faster an image by, %", "Corrected p", "Verdict")
    tidy = pd.DataFrame(
        [
            {
                "kind": each.kind,
                "framework": each.framework,
                "phase": each.phase.value,
                "batch_sizes": " ".join(map(str, each.sizes)),
                **dict(zip(("faster_percent", "low", "high"), each.percents, strict=True)),
                "p_corrected": each.p,
                "verdict": each.verdict,
                "reason": each.reason or None,
            }
            for each in found
        ]
    )
    return Table(CLAIMS, "Claims about round batch sizes", head, rows, tidy, below=(HOW_CLAIMS,), theme=Theme.SPEED,
                 keys=3)  # fmt: skip


def times(measurement: Measurement) -> Table:
    """Build a table with a row for each framework, phase and size: what was measured, without any comparison."""
    rows = [
        _time(measurement, framework, phase, size, mine)
        for framework in measurement.frameworks
        for phase in Phase
        for size, mine in _by_size(measurement, framework).items()
    ]
    head = ("Framework", "Phase", "Batch size", "Images/s", "A step, ms", "Steps an epoch", "An epoch, s",
            "Foreign CPU, %", "Processes")  # fmt: skip
    shown = tuple(
        (
            Cell(display_name(row["framework"])),
            Cell(row["phase"]),
            Cell(str(row["batch_size"]), row["batch_size"]),
            _interval(row),
            _number(row["step_ms"], "{:,.2f}"),
            _number(row["steps_an_epoch"], "{:,.0f}"),
            _number(row["epoch_s"], "{:,.2f}"),
            _number(row["foreign_cpu_percent"], "{:.1f}"),
            Cell(str(row["processes"]), row["processes"]),
        )
        for row in rows
    )
    title = "Time of the blocks, and steps an epoch beside it"
    return Table(TIMES, title, head, shown, pd.DataFrame(rows), below=(HOW_TIMES,), theme=Theme.SPEED, keys=3)


def _by_size(measurement: Measurement, framework: str) -> dict[int, list[Process]]:
    mine = [process for process in measurement.processes if process.framework == framework]
    sizes = sorted({size for process in mine for size in process.group})
    return {size: [process for process in mine if size in process.group] for size in sizes}


def _time(measurement: Measurement, framework: str, phase: Phase, size: int, mine: Sequence[Process]) -> dict[str, Any]:
    logs = [of_process(each, phase, lambda of_round: -math.log(of_round[size].image_s)) for each in mine]
    mean, low, high = mean_interval(logs)
    blocks = [of_round[size] for process in mine for of_round in process.rounds[phase]]
    step_s, steps = size / math.exp(mean), math.nan
    images = _train_images(measurement)
    if images is not None and phase is Phase.TRAINING:
        steps = steps_of(images, size, mine[0].result.spec.passes.last_batch)
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
    task = measurement.task
    if task.source is not None:
        return task.source.train
    known = DATASETS.get(task.dataset)
    return known.train_count if known else None


def published(found: Sequence[Contrast]) -> Table | None:
    """Build the table of the article's sizes that were also measured here; None if there are none."""
    shown = [each for each in article.published() if any((each.phase, each.size) == (c.phase, c.size) for c in found)]
    if not shown:
        return None
    names = list(dict.fromkeys(each.framework for each in found))
    ours = {(each.framework, each.phase, each.size): each for each in found}
    rows = tuple(
        (
            Cell(each.machine),
            Cell(each.phase),
            Cell(str(each.size), each.size),
            Cell(f"{each.percent:+.2f}", each.percent),
            *(
                _percents(mine.percents) if (mine := ours.get((name, each.phase, each.size))) else Cell(ABSENT)
                for name in names
            ),
        )
        for each in shown
    )
    head = ("Published on", "Phase", "Batch size", "Published, %", *map(display_name, names))
    tidy = pd.DataFrame(
        [
            {
                "machine": each.machine,
                "phase": each.phase.value,
                "batch_size": each.size,
                "framework": name,
                "published_percent": each.percent,
                "published_rounding_points": each.rounding,
                "measured_percent": mine.percents[0],
                "difference_points": mine.percents[0] - each.percent,
            }
            for each in shown
            for name in names
            if (mine := ours.get((name, each.phase, each.size)))
        ]
    )
    below = (f"{article.SOURCE}. Faster an image than the line through the neighbours, by so many %.",
             article.cannot_say(shown))  # fmt: skip
    return Table(ARTICLE, "Published beside measured", head, rows, tidy, below=below, theme=Theme.PUBLISHED, keys=3)


def _percents(percents: tuple[float, float, float]) -> Cell:
    """Format "+0.31 [+0.10, +0.52]"; without an interval only the value."""
    value, low, high = percents
    if math.isnan(value):
        return Cell(ABSENT)
    ends = "" if math.isnan(low) else f" [{low:+.2f}, {high:+.2f}]"
    return Cell(f"{value:+.2f}{ends}", value)


def _interval(row: dict[str, Any]) -> Cell:
    value, low, high = (row[name] for name in ("images_per_s", "low", "high"))
    ends = "" if math.isnan(low) else f" [{low:,.1f}, {high:,.1f}]"
    return Cell(f"{value:,.1f}{ends}", value)


def _p(p: float) -> Cell:
    return Cell(ABSENT) if math.isnan(p) else Cell(f"{p:.2g}", p)


def _number(value: float, form: str) -> Cell:
    return Cell(ABSENT) if math.isnan(value) else Cell(form.format(value), value)
