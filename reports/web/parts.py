"""Prepare the tables and charts of a page, each with its own id, as long as the page has space."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .. import batch_contrasts, best, modes, parity, target_time
from ..charts import Chart
from ..frameworks import Style
from ..quantities import ACCURACY, MAIN, MEMORY, SPEED
from ..report import Chapter
from ..table import Table, Theme, without_repeats
from .chart_data import Indices, chart_data
from .columns import rounded

NUMBER_DIGITS = 6  # of a cell's number, which is only used for sorting
FRONT = tuple(quantity.name for quantity in (SPEED, MEMORY, ACCURACY))  # charts shown first
ASKED_FOR = (parity.NAME, modes.NAME, batch_contrasts.NAME, target_time.NAME)
SHOWN = (*(quantity.name for quantity in MAIN), *ASKED_FOR)  # of the remaining parts, not folded
SHRINKS = 4  # least factor by which compression shortens a chart's numbers


def chart_id(number: int, name: str) -> str:
    """Return the id, in the page, of the chart of this name in this chapter."""
    return f"s{number}-{name}-chart"


@dataclass(frozen=True)
class Part:
    """A table (`html`) or a chart, with a `name` unique in its chapter.

    `missing` says why it is absent, "" if it is not. `titled`: the chart before it already has its title.
    """

    id: str
    name: str
    title: str
    html: str = ""
    chart: Chart | None = None
    missing: str = ""
    titled: bool = False


@dataclass(frozen=True)
class Group:
    """Parts of one theme: `shown` are visible, `folded` can be expanded."""

    id: str
    theme: Theme
    shown: tuple[Part, ...]
    folded: tuple[Part, ...]

    @property
    def more(self) -> str:
        """List what is folded, by the first words of each title without the theme's name.

        A title that begins like a shown part's title is given in full.
        """
        shown = {part.title.partition(",")[0] for part in self.shown}
        titles = (part.title.removeprefix(f"{self.theme}: ") for part in self.folded)
        heads = ((title.partition(",")[0], title) for title in titles)
        return "; ".join(dict.fromkeys(title if head in shown else head for head, title in heads))


@dataclass(frozen=True)
class Layout:
    """Layout of a chapter: small charts side by side, the table of the best batch sizes, the rest by theme."""

    front: tuple[Part, ...]
    best: Part | None
    groups: tuple[Group, ...]


@dataclass
class Room:
    """Space left on the page, and the parts placed on it.

    `tables` and `charts` are what the script needs of each part, by id; they grow as parts are added.
    """

    macros: Any  # of table.html.j2
    styles: Mapping[str, Style]  # of the frameworks
    free: int  # bytes of the page
    tables: dict[str, Any] = field(default_factory=dict)
    charts: dict[str, Any] = field(default_factory=dict)

    def table(self, table: Table, name: str, indices: Indices, titled: bool = False) -> Part:
        """Add a table, without its rows if no space is left; `name` is its id in the page."""
        html = str(self.macros.table(table, name))
        if not self._taken(len(html)):
            missing = f"{len(table.rows):,} rows, left out of this page for its size; its files have them."
            return Part(name, table.name, table.title, missing=missing)
        self.tables[name] = {
            "numbers": [[rounded(cell.number, NUMBER_DIGITS) for cell in row] for row in table.rows],
            "trials": [[indices(cell.trials) for cell in row] for row in table.rows],
        }
        return Part(name, table.name, table.title, html=html, titled=titled)

    def chart(self, chart: Chart, name: str, indices: Indices) -> Part:
        """Add a chart, without its curves if no space is left; `name` is its id in the page."""
        data = chart_data(chart, indices, self.styles)
        if not self._taken(len(json.dumps(data)) // SHRINKS):
            return Part(
                name, chart.name, chart.title, missing="A chart, left out of this page for its size; its files have it."
            )
        self.charts[name] = data
        return Part(name, chart.name, chart.title, chart=chart)

    def _taken(self, length: int) -> bool:
        """Use up `length` bytes; False if fewer are left."""
        if length > self.free:
            return False
        self.free -= length
        return True

    def chapter(self, chapter: Chapter, number: int, indices: Indices) -> Layout:
        """Lay out a chapter, with each chart before the table of its name."""
        front = {
            name: self.chart(chart, chart_id(number, name), indices)
            for name, chart in ((chart.name, chart) for chart in chapter.charts)
            if name in FRONT
        }
        leading: Part | None = None
        themes: dict[Theme, list[Part]] = {theme: [] for theme in Theme}
        charts = {chart.name: chart for chart in chapter.charts if chart.name not in front}
        for table in without_repeats(chapter.tables):
            if chart := charts.pop(table.name, None):
                themes[table.theme].append(self.chart(chart, chart_id(number, chart.name), indices))
            titled = chart is not None and chart.title == table.title
            part = self.table(table, f"s{number}-{table.name}", indices, titled)
            if table.name == best.NAME:
                leading = part
            else:
                themes[table.theme].append(part)
        for chart in charts.values():
            themes[chart.theme].append(self.chart(chart, chart_id(number, chart.name), indices))
        groups = [
            Group(
                f"s{number}-theme-{theme.name.lower().replace('_', '-')}",
                theme,
                tuple(part for part in parts if part.name in (*SHOWN, chapter.kind)),
                tuple(part for part in parts if part.name not in (*SHOWN, chapter.kind)),
            )
            for theme, parts in themes.items()
            if parts
        ]
        return Layout(tuple(front[name] for name in FRONT if name in front), leading, tuple(groups))

    def several(self, tables: Iterable[Table], prefix: str, indices: Indices) -> list[Part]:
        """Add several tables; those of the same name, from several results folders, are numbered from the second on."""
        seen: dict[str, int] = {}
        parts = []
        for table in tables:
            seen[table.name] = seen.get(table.name, 0) + 1
            name = f"{prefix}-{table.name}" + (f"-{seen[table.name]}" if seen[table.name] > 1 else "")
            parts.append(self.table(table, name, indices))
        return parts
