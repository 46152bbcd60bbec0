"""Build charts across sections: what changes with the number of devices, or of the parts of an update."""

from __future__ import annotations

from collections.abc import Sequence

from workloads.records.figures import FigureSpec
from workloads.records.result import TrialResult

from . import tables
from .charts import Chart, ChartSeries, Panel
from .condition_text import describe_provenance
from .conditions import Condition, Section
from .drawing import chart_words
from .drawing.chart_series import build_framework_series
from .drawing.section_charts import build_quantity_chart
from .quantities import Quantity
from .section_axes import SCALING, SPLITTING, SectionAxis, Varied, vary
from .sentences import listed

HOW = "Sections {numbers}, alike in all else. {points}"


def build_charts(sections: Sequence[Section]) -> list[Chart]:
    """Build the charts of each axis's quantities, a panel for each number of images that its levels have in common."""
    return [chart for axis in (SPLITTING, SCALING) for chart in _of_axis(sections, axis)]


def _of_axis(sections: Sequence[Section], axis: SectionAxis) -> list[Chart]:
    """Build the charts of each condition; those of several conditions are numbered."""
    groups: dict[Condition, list[Varied]] = {}
    for varied in sorted(vary(sections, axis), key=lambda varied: varied.images):
        if not any(level.apart for level in varied.levels):  # lines of one framework would look alike
            groups.setdefault(varied.condition, []).append(varied)
    endings = [""] if len(groups) == 1 else [f"-{place}" for place in range(1, len(groups) + 1)]
    return [
        chart
        for ending, group in zip(endings, groups.values(), strict=True)
        for quantity in axis.charted
        if (chart := _chart(axis, quantity, group, ending, sections))
    ]


def _chart(
    axis: SectionAxis, quantity: Quantity, group: Sequence[Varied], ending: str, sections: Sequence[Section]
) -> Chart | None:
    """Build the chart of the levels of one condition; None if no trial has a value. `ending` is its name's."""
    spec = quantity.figure(group[0].condition)
    lines = [_lines(varied, spec) for varied in group] if spec else []
    most = max((n for _, n in lines), default=0)
    if spec is None or not most:
        return None
    levels = [level for varied in group for level in varied.levels]
    numbers = sorted({level.section for level in levels})
    names = [axis.panel.format(alike=f"{varied.images:,}") for varied in group]
    about = f": {names[0].lower()}" if len(group) == 1 else ""
    title = f"{quantity.title(group[0].condition)}, by {axis.head.lower()}{about}"
    title += f"; sections {listed(numbers)}" if ending else ""
    panels = [Panel("" if about else name, series) for name, (series, _) in zip(names, lines, strict=True)]
    return build_quantity_chart(
        quantity,
        spec,
        name=f"{axis.name}-{quantity.name}{ending}",
        title=title,
        x_name=axis.head,
        panels=tuple(panels),
        alt=chart_words.describe_panels(title, panels, axis.count),
        caption=HOW.format(numbers=listed(numbers), points=chart_words.explain_points(most)),
        provenance=describe_provenance(*(sections[number - 1] for number in numbers)),
        cells=frozenset((level.section, level.framework, level.batch_size) for level in levels),
    )


def _lines(varied: Varied, spec: FigureSpec) -> tuple[tuple[ChartSeries, ...], int]:
    """Return a series for each framework, and the largest number of repeats of a point.

    The trials of a level in several sections are one point.
    """
    results: dict[tuple[str, str], dict[int, list[TrialResult]]] = {}
    for level in varied.levels:
        results.setdefault((level.framework, level.name), {}).setdefault(level.level, []).extend(level.results)
    cells = {
        line: {level: tables.summarise_cell(of_level, spec) for level, of_level in levels.items()}
        for line, levels in results.items()
    }
    series = (
        build_framework_series(*line, of_line, tuple(cell.known for cell in of_line.values()))
        for line, of_line in cells.items()
    )
    return tuple(series), max(cell.n for of_line in cells.values() for cell in of_line.values())
