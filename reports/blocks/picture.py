"""Draw the picture: time per image at each batch size, relative to the mean of its group."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence

from workloads.records.blocks import Phase
from workloads.statistics import mean_interval

from ..charts import Chart, Kind, Panel, Scale, Series
from ..drawing import chart_words
from ..frameworks import display_name
from ..table import Theme
from .contrasts import Round, of_process
from .stored import Measurement, Process
from .tables import NAME

TITLE = "Time an image at neighbouring batch sizes"
CAPTION = (
    "Seconds an image over the geometric mean of the sizes that took turns with it (less is faster); groups have "
    "nothing to do with one another."
)


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
        name=NAME,
        title=TITLE,
        x_name="Batch size, images",
        y_label="Time an image (group: 1)",
        panels=panels,
        alt=chart_words.sentence([f"{TITLE}, beside the mean of their group", *courses]),
        caption=f"{chart_words.points(most)} {CAPTION}",
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
    values, lows, highs = zip(*points.values(), strict=True)
    return Series(display_name(framework), framework, Kind.MEASURED, tuple(points), values, lows, highs)


def _point(processes: Sequence[Process], phase: Phase, size: int) -> tuple[float, float | None, float | None]:
    """Return (value, low, high) as ratios; no interval for one process."""

    def beside_group(of_round: Round) -> float:
        logs = {each: math.log(block.image_s) for each, block in of_round.items()}
        return logs[size] - statistics.fmean(logs.values())

    values = [of_process(process, phase, beside_group) for process in processes]
    if len(values) < 2:
        return math.exp(values[0]), None, None
    value, low, high = map(math.exp, mean_interval(values))
    return value, low, high
