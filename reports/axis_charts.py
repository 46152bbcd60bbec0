"""Build charts across sections: what changes with the number of devices, or of the parts of an update."""

from __future__ import annotations

from collections.abc import Sequence

from workloads.records.figures import FigureSpec
from workloads.records.result import TrialResult

from . import tables
from .charts import Chart, Panel
from .conditions import Condition, Section
from .drawing import chart_words
from .drawing.chart_series import build_framework_series
from .drawing.section_charts import build_quantity_chart
from .quantities import Quantity
from .section_axes import SCALING, SPLITTING, SectionAxis, Varied, vary
from .sentences import listed
from .tables import CellSummary

HOW = "Sections {numbers}, alike in all else. {points}"


def build_charts(sections: Sequence[Section]) -> list[Chart]:
    """Build the charts of each axis's quantities, a panel for each number of images that its levels have in common."""
    return [chart for axis in (SPLITTING, SCALING) for chart in _of_axis(sections, axis)]


def _of_axis(sections: Sequence[Section], axis: SectionAxis) -> list[Chart]:
    groups: dict[Condition, list[Varied]] = {}
    for varied in sorted(vary(sections, axis), key=lambda varied: varied.images):
        groups.setdefault(varied.condition, []).append(varied)
    charts = []
    for place, of_condition in enumerate(groups.values(), start=1):
        for quantity in axis.charted:
            chart = _chart(axis, quantity, of_condition, place if len(groups) > 1 else None)
            charts += [chart] if chart else []
    return charts


def _chart(axis: SectionAxis, quantity: Quantity, group: Sequence[Varied], place: int | None) -> Chart | None:
    """Build the chart of the levels of one condition, the `place`-th of several; None if there is nothing to show."""
    condition, several = group[0].condition, len(group) > 1
    spec = quantity.figure(condition)
    if spec is None:
        return None
    lines = [_lines(varied, spec) for varied in group]
    most = max(cell.n for of_panel in lines for cells in of_panel.values() for cell in cells.values())
    if not most:
        return None
    alike = [axis.panel.format(alike=f"{varied.images:,}") for varied in group]
    numbers = listed(sorted({level.section for varied in group for level in varied.levels}))
    about = "" if several else f": {alike[0].lower()}"
    title = f"{quantity.title(condition)}, by {axis.head.lower()}{about}"
    panels = [
        Panel(
            name if several else "",
            tuple(
                build_framework_series(framework, label, cells, tuple(cell.known for cell in cells.values()))
                for (framework, label), cells in of_panel.items()
            ),
        )
        for name, of_panel in zip(alike, lines, strict=True)
    ]
    return build_quantity_chart(
        quantity,
        spec,
        name="-".join([axis.name, quantity.name, *([] if place is None else [str(place)])]),
        title=title if place is None else f"{title}; sections {numbers}",
        x_name=axis.head,
        panels=tuple(panels),
        alt=chart_words.describe_panels(title, panels, axis.head.lower()),
        caption=HOW.format(numbers=numbers, points=chart_words.explain_points(most)),
    )


def _lines(varied: Varied, spec: FigureSpec) -> dict[tuple[str, str], dict[int, CellSummary]]:
    """Map {(framework, its label): {level: cell}}; the trials of a level in several sections are one cell."""
    results: dict[tuple[str, str], dict[int, list[TrialResult]]] = {}
    for level in varied.levels:
        label = f"{level.name}, {level.apart}" if level.apart else level.name
        results.setdefault((level.framework, label), {}).setdefault(level.level, []).extend(level.results)
    return {
        build: {level: tables.summarise_cell(of_level, spec) for level, of_level in levels.items()}
        for build, levels in results.items()
    }
