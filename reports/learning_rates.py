"""Build heat maps and charts of accuracy by learning rate and batch size, from sections that differ in that alone."""

from __future__ import annotations

from collections.abc import Sequence

from workloads.records import figures

from . import tables
from .charts import Chart, Panel
from .condition_text import ABSENT, describe_provenance
from .conditions import Section, alike
from .drawing import chart_words
from .drawing.chart_series import build_framework_series
from .drawing.section_charts import build_quantity_chart
from .frameworks import order_frameworks
from .quantities import ACCURACY
from .table import Table, TableCell, Theme

NAME, KEY = "learning-rates", "learning_rate"
FEWEST = 3  # rates: two are not a map
HOW = "Darker is higher, from the lowest to the highest value of the table. Sections {numbers}. {cell}"


def build_tables(sections: Sequence[Section]) -> list[Table]:
    """Build a table for each group of FEWEST or more sections that differ only in their learning rate."""
    return [_table(group, name) for name, group in _maps(sections).items()]


def build_charts(sections: Sequence[Section]) -> list[Chart]:
    """Build the chart of each table: accuracy against learning rate, a panel for each batch size."""
    return [_chart(group, name) for name, group in _maps(sections).items()]


def _maps(sections: Sequence[Section]) -> dict[str, dict[int, Section]]:
    """Map {name, that of the rule, numbered if several have one: {number: section}}, for FEWEST or more rates."""
    groups: list[dict[int, Section]] = []
    for number, section in enumerate(sections, start=1):
        if not section.results:
            continue
        for group in groups:
            of_group = group.values()
            if all(alike(e.condition, section.condition, {KEY}) and _same_software(e, section) for e in of_group):
                group[number] = section
                break
        else:
            groups.append({number: section})
    maps = [group for group in groups if len({_rate(section) for section in group.values()}) >= FEWEST]
    names = [_rule(group) for group in maps]
    return {
        name if names.count(name) == 1 else f"{name}-{place}": group
        for place, (group, name) in enumerate(zip(maps, names, strict=True), start=1)
    }


def _same_software(a: Section, b: Section) -> bool:
    """True if the frameworks that are in both sections have the same software, so that only the rate differs."""
    return all(a.software[name] == b.software[name] for name in a.software.keys() & b.software.keys())


def _rate(section: Section) -> float:
    return section.condition.task.optimizer.learning_rate


def _rule(group: dict[int, Section]) -> str:
    return next(iter(group.values())).condition.task.optimizer.name


def _chart(group: dict[int, Section], rule: str) -> Chart:
    by_rate = sorted(group.values(), key=_rate)
    cells = {
        (framework, size, _rate(section)): cell
        for section in by_rate
        for (framework, size), cell in tables.compute_cells(section, ACCURACY).items()
    }
    most = max((cell.n for cell in cells.values()), default=0)
    panels = []
    for wanted in sorted({size for _, size, _ in cells}):
        series = []
        for name in order_frameworks(framework for framework, size, _ in cells if size == wanted):
            values = {
                rate: cell for (framework, size, rate), cell in cells.items() if (framework, size) == (name, wanted)
            }
            trials = tuple(cell.known for cell in values.values())
            series.append(build_framework_series(name, by_rate[0].named(name), values, trials))
        panels.append(Panel(f"Batch {wanted}", tuple(series)))
    title = f"{ACCURACY.title(by_rate[0].condition)}, by learning rate: {rule}"
    return build_quantity_chart(
        ACCURACY,
        figures.ACCURACY,
        name=f"{NAME}-{rule}",
        title=title,
        x_name="Learning rate",
        panels=tuple(panels),
        alt=chart_words.describe_panels(title, panels, "learning rate"),
        caption=chart_words.explain_points(most),
        provenance=describe_provenance(*by_rate),
        cells=frozenset(
            (number, *place) for number, section in group.items() for place in tables.compute_cells(section, ACCURACY)
        ),
    )


def _table(group: dict[int, Section], rule: str) -> Table:
    by_rate = sorted(group.values(), key=_rate)
    cells = {section: tables.compute_cells(section, ACCURACY) for section in by_rate}
    sizes = sorted({size for places in cells.values() for _, size in places})
    names = order_frameworks(name for places in cells.values() for name, _ in places)
    counts = [cell.n for places in cells.values() for cell in places.values()]
    rows = []
    for framework in names:
        for section in by_rate:
            row = (cells[section].get((framework, size)) for size in sizes)
            shown = (
                tables.format_cell(cell, ACCURACY.decimals, max(counts)) if cell else TableCell(ABSENT) for cell in row
            )
            rate = _rate(section)
            rows.append((TableCell(section.named(framework)), TableCell(f"{rate:g}", rate), *shown))
    tidy = tables.tidy(
        ({"framework": framework, "batch_size": size, KEY: _rate(section)}, cell)
        for section, places in cells.items()
        for (framework, size), cell in places.items()
    )
    numbers = ", ".join(map(str, sorted(group)))
    return Table(
        name=f"{NAME}-{rule}",
        title=f"{ACCURACY.title(by_rate[0].condition)}, by learning rate: {rule}",
        head=("Framework", "Learning rate / batch size", *map(str, sizes)),
        rows=tuple(rows),
        tidy=tidy,
        below=(HOW.format(numbers=numbers, cell=tables.explain_cells(counts)),),
        theme=Theme.ACCURACY,
        keys=2,
        by_size=True,
        heat=True,
    )
