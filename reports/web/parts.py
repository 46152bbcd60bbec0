"""The tables and charts of a page, each with an id of its own, as long as there is room for them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..charts import Chart
from ..frameworks import Style
from ..report import Chapter
from ..table import Table
from .chart_data import Indices, chart_data
from .columns import rounded

NUMBER_DIGITS = 6  # of a cell's number: it sorts, the text is what is read
SHRINKS = 4  # times that a chart's numbers do when they are compressed, at least


@dataclass(frozen=True)
class Part:
    """A table (`html`) or a chart. `missing` says why there is none, "" where there is. `titled`: the chart before
    it has its title already.
    """

    id: str
    title: str
    html: str = ""
    chart: Chart | None = None
    missing: str = ""
    titled: bool = False


@dataclass
class Room:
    """`tables` and `charts` are what the script needs of each part, by id; they grow as parts are asked for."""

    macros: Any  # of table.html.j2
    styles: Mapping[str, Style]  # of the frameworks
    free: int  # bytes of the page
    tables: dict[str, Any] = field(default_factory=dict)
    charts: dict[str, Any] = field(default_factory=dict)

    def table(self, table: Table, name: str, indices: Indices, titled: bool = False) -> Part:
        """Without its rows where no room is left; `name` is its id in the page."""
        html = str(self.macros.table(table, name))
        if not self._taken(len(html)):
            missing = f"{len(table.rows):,} rows, left out of this page for its size; its files have them."
            return Part(name, table.title, missing=missing)
        self.tables[name] = {
            "numbers": [[rounded(cell.number, NUMBER_DIGITS) for cell in row] for row in table.rows],
            "trials": [[indices(cell.trials) for cell in row] for row in table.rows],
        }
        return Part(name, table.title, html=html, titled=titled)

    def chart(self, chart: Chart, name: str, indices: Indices) -> Part:
        """Without its curves where no room is left; `name` is its id in the page."""
        data = chart_data(chart, indices, self.styles)
        if not self._taken(len(json.dumps(data)) // SHRINKS):
            return Part(name, chart.title, missing="A chart, left out of this page for its size; its files have it.")
        self.charts[name] = data
        return Part(name, chart.title, chart=chart)

    def _taken(self, length: int) -> bool:
        """Whether there were as many bytes; they are used up then."""
        if length > self.free:
            return False
        self.free -= length
        return True

    def chapter(self, chapter: Chapter, number: int, indices: Indices) -> list[Part]:
        """Each chart before the table of its name, with the charts before it that no table is named like."""
        named = {table.name for table in chapter.tables}
        before: dict[str, list[Chart]] = {}
        waiting: list[Chart] = []
        for chart in chapter.charts:
            waiting.append(chart)
            if chart.name in named:
                before[chart.name], waiting = waiting, []
        parts = []
        for table in chapter.tables:
            parts += [
                self.chart(chart, f"s{number}-{chart.name}-chart", indices) for chart in before.get(table.name, ())
            ]
            titled = bool(parts and parts[-1].chart and parts[-1].title == table.title)
            parts.append(self.table(table, f"s{number}-{table.name}", indices, titled))
        return parts + [self.chart(chart, f"s{number}-{chart.name}-chart", indices) for chart in waiting]

    def several(self, tables: Iterable[Table], prefix: str, indices: Indices) -> list[Part]:
        """Those of one name, of several results folders, are numbered from the second on."""
        seen: dict[str, int] = {}
        parts = []
        for table in tables:
            seen[table.name] = seen.get(table.name, 0) + 1
            name = f"{prefix}-{table.name}" + (f"-{seen[table.name]}" if seen[table.name] > 1 else "")
            parts.append(self.table(table, name, indices))
        return parts
