"""Prepare the tables and charts of a page, each with its own id, in the order of the page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .. import best, contrast, parity, target_time
from ..charts import Chart
from ..drawing import trade_offs
from ..quantities import ACCURACY, MAIN, MEMORY, SPEED
from ..report import Chapter, Report
from ..table import Table, TableCell, Theme, drop_repeats
from .trials import Find

# Charts shown first, each the first that there is of several names. The chart of the headline comes before them.
FRONT = ((SPEED.name,), *zip(trade_offs.NAMES, (MEMORY.name, ACCURACY.name), strict=True))
ASKED_FOR = (parity.NAME, contrast.MODES.name, contrast.BATCH_SIZES.name, target_time.NAME)
SHOWN = (*(quantity.name for quantity in MAIN), *ASKED_FOR)  # of the remaining parts, not folded


def make_chart_id(number: int, name: str) -> str:
    """Return the id, in the page, of the chart of this name in this chapter."""
    return f"s{number}-{name}-chart"


def number_charts(report: Report) -> Iterator[tuple[int, str, Chart]]:
    """Yield (number of its chapter, its id in the page, chart) for every chart; number 0 for those across chapters."""
    for chart in report.charts_across:
        yield 0, make_chart_id(0, chart.name), chart
    for number, chapter in enumerate(report.chapters, 1):
        for chart in chapter.charts:
            yield number, make_chart_id(number, chart.name), chart


@dataclass(frozen=True)
class PagePart:
    """A table (`html`) or a chart with its `picture` (SVG), with a `name` unique in its chapter.

    `titled`: the chart before it already has its title.
    """

    id: str
    name: str
    title: str
    html: str = ""
    chart: Chart | None = None
    picture: str = ""
    titled: bool = False


@dataclass(frozen=True)
class PartGroup:
    """Parts of one theme: `shown` are visible, `folded` can be expanded."""

    id: str
    theme: Theme
    shown: tuple[PagePart, ...]
    folded: tuple[PagePart, ...]

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
class ChapterLayout:
    """Layout of a chapter: small charts side by side, the table of the best batch sizes, the rest by theme."""

    front: tuple[PagePart, ...]
    best: PagePart | None
    groups: tuple[PartGroup, ...]


def choose_front(charts: Mapping[str, PagePart], about: str) -> tuple[PagePart, ...]:
    """Choose the charts shown first: that of the headline, or of speed, and the trade-offs, or their quantities."""
    (speed,), *others = FRONT
    wanted = ((about, speed), *others)
    found = (next((charts[name] for name in names if name in charts), None) for names in wanted)
    return tuple({part.name: part for part in found if part}.values())


@dataclass(frozen=True)
class PartBuilder:
    """Builder of tables and charts, with what all of a page need.

    `names` are the frameworks' display names, in the order of the switches.
    """

    macros: Any  # of table.html.j2
    pictures: Mapping[str, str]  # SVG of each chart, by its id
    names: tuple[str, ...]

    def build_table(self, table: Table, name: str, find: Find, titled: bool = False) -> PagePart:
        """Build a table; `name` is its id in the page."""
        html = str(self.macros.table(table, name, find, self.switches_of))
        return PagePart(name, table.name, table.title, html=html, titled=titled)

    def build_chart(self, chart: Chart, number: int) -> PagePart:
        """Build a chart of the chapter with this number."""
        name = make_chart_id(number, chart.name)
        return PagePart(name, chart.name, chart.title, chart=chart, picture=self.pictures[name])

    def switches_of(self, row: tuple[TableCell, ...]) -> str:
        """List the switches of the frameworks that the row's name contains: "TensorFlow minus PyTorch" has two."""
        text, found = row[0].text, []
        for name in sorted(self.names, key=len, reverse=True):  # a build's name contains its framework's
            text, count = re.subn(rf"(?<!\w){re.escape(name)}(?!\w)", "", text)
            found += [str(self.names.index(name))] * bool(count)
        return " ".join(sorted(found))

    def build_chapter(self, chapter: Chapter, number: int, find: Find, about: str = "") -> ChapterLayout:
        """Lay out a chapter, with each chart before the table of its name.

        `about` names the chart that shows what the page's headline says, "" if that is not of this chapter.
        """
        charts = {chart.name: self.build_chart(chart, number) for chart in chapter.charts}
        front = choose_front(charts, about)
        charts = {name: part for name, part in charts.items() if part not in front}
        aside = [
            charts.pop(name) for names in FRONT for name in names if name in charts
        ]  # the first screen does without
        leading: PagePart | None = None
        themes: dict[Theme, list[PagePart]] = {theme: [] for theme in Theme}
        for table in drop_repeats(chapter.tables):
            chart = charts.pop(table.name, None)
            themes[table.theme] += [chart] if chart else []
            titled = chart is not None and chart.title == table.title
            part = self.build_table(table, f"s{number}-{table.name}", find, titled)
            if table.name == best.NAME:
                leading = part
            else:
                themes[table.theme].append(part)
        for part in (*aside, *charts.values()):
            themes[part.chart.theme if part.chart else Theme.RUN].append(part)

        def is_shown(part: PagePart) -> bool:
            return chapter.unfolded or (part.name in (*SHOWN, chapter.kind) and part not in aside)

        groups = [
            PartGroup(
                f"s{number}-theme-{theme.name.lower().replace('_', '-')}",
                theme,
                tuple(part for part in parts if is_shown(part)),
                tuple(part for part in parts if not is_shown(part)),
            )
            for theme, parts in themes.items()
            if parts
        ]
        return ChapterLayout(front, leading, tuple(groups))

    def build_several(self, tables: Iterable[Table], prefix: str, find: Find) -> list[PagePart]:
        """Build several tables; those of the same name, from several results folders, are numbered from the second
        on.
        """
        seen: dict[str, int] = {}
        parts = []
        for table in tables:
            seen[table.name] = seen.get(table.name, 0) + 1
            name = f"{prefix}-{table.name}" + (f"-{seen[table.name]}" if seen[table.name] > 1 else "")
            parts.append(self.build_table(table, name, find))
        return parts
