"""Write the report as one page, report.html. It loads nothing; without scripts it only lacks sorting and filters."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ..drawing import inline
from ..drawing.sizes import COLUMN, PAGE, Layout
from ..drawing.styles import lighten_for_dark
from ..frameworks import Style, choose_styles
from ..report import SIDE_BY_SIDE, Report
from ..sentences import load_templates
from . import trials as web_trials
from .parts import PartBuilder, number_charts
from .trials import Trial

MOST_LINES = 200  # of one kind of problem
# Title and caption are next to the picture in the page. A chart with one panel is as wide as a phone.
SMALL, WIDE = Layout(COLUMN, bare=True), Layout(PAGE, bare=True)
TEMPLATES = Path(__file__).parent / "templates"
STYLES = ("page.css", "parts.css", "print.css")
DASHES = {"-": "", "--": "6 3", "-.": "9 3 2 3", ":": "2 3"}  # of a framework's line, next to its switch
STYLE = re.compile(r' style="([^"]*)"')
COLOUR = re.compile(r"var\(--c([0-9a-f]{6})\)")
NO_CONNECTION = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def build_page(
    report: Report,
    marks: tuple[str, ...] = (),
    pictures: Mapping[str, str] | None = None,
    folder: Path | None = None,
    archive: str = "",
) -> str:
    """Build the HTML.

    `pictures` are those of `drawings`, drawn here if None. `folder` is where the page will be read: it links to raw
    files of trials that are near. `archive` is the file next to the page that has them instead.
    """
    drawn = {drawing.id: inline.draw(drawing) for drawing in list_drawings(report)} if pictures is None else pictures
    shared, classes = _share_styles(drawn)
    frameworks = _frameworks(report)
    script = read_asset("page.js")
    context = {
        "title": _title(report),
        "marks": marks,
        "main": report.summary.main,
        "report": report,
        "side_by_side": SIDE_BY_SIDE,
        "most_lines": MOST_LINES,
        "frameworks": [(report.stored.named(key), each.colour, DASHES[each.line]) for key, each in frameworks.items()],
        "switch_of": {key: number for number, key in enumerate(frameworks)},
        "style": "".join(map(read_asset, STYLES)) + classes + _colours(frameworks, classes) + _hiding(len(frameworks)),
        "script": script,
        "policy": f"{NO_CONNECTION}; script-src {_hash(script)}",
    }
    trials = web_trials.list_trials(report)
    cells = web_trials.group_by_cell(trials)
    context |= _parts(report, shared, cells) | _rows(report, trials, folder, archive) | {"cells": cells}
    return load_templates(TEMPLATES).get_template("report.html.j2").render(context)


def _parts(report: Report, pictures: Mapping[str, str], cells: list[web_trials.CellRows]) -> dict[str, Any]:
    """Build the tables and charts."""
    names = tuple(map(report.stored.named, _frameworks(report)))
    builder = PartBuilder(load_templates(TEMPLATES).get_template("table.html.j2").module, pictures, names)
    every = web_trials.make_finder(cells)
    return {
        "chapters": [
            (chapter, builder.build_chapter(chapter, number, web_trials.make_finder(cells, {number}), about))
            for number, chapter in enumerate(report.chapters, 1)
            for about in [report.summary.about if report.summary.main == number - 1 else ""]
        ],
        "beside": builder.build_several(report.beside, "beside", every),
        "leading": [builder.build_chart(chart, 0) for chart in report.leading],
        "across": [
            *(builder.build_chart(chart, 0) for chart in report.charts_across if not report.leading),
            *builder.build_several(report.across, "across", every),
        ],
        "appendix": builder.build_several(report.appendix, "appendix", every),
    }


def _rows(report: Report, trials: list[Trial], folder: Path | None, archive: str) -> dict[str, Any]:
    """Build the table of all trials, and the problems, which link to it."""
    keys = {trial.key for trial in trials}
    return {
        "figures": web_trials.list_figures(report.sections),
        "cell_of": web_trials.build_cell,
        "by_section": len(report.chapters) > 1 or bool(report.replaced),
        "section_of": partial(web_trials.name_section, report),
        "files": {trial.key: web_trials.find_files(trial, None if archive else folder) for trial in trials},
        "archive": archive,
        "problems": {kind: [_linked(line, keys) for line in lines] for kind, lines in report.problems.items()},
    }


def list_drawings(report: Report) -> list[inline.Drawing]:
    """List what has to be drawn for the page, by id."""
    frameworks = _frameworks(report)
    switches = {key: number for number, key in enumerate(frameworks)}
    looks = choose_looks(report)
    cells = web_trials.group_by_cell(web_trials.list_trials(report))
    found = []
    for place, (number, name, chart) in enumerate(number_charts(report)):
        find = web_trials.make_finder(cells, {number} if number else report.numbers(chart))
        ids = dict.fromkeys(trials for series in chart.series for trials in series.trials)
        addresses = {trials: address.href for trials in ids if (address := find(trials))}
        layout = SMALL if len(chart.panels) == 1 else WIDE
        found.append(inline.Drawing(chart, layout, name, f"c{place}", looks, switches, addresses))
    return found


def choose_looks(report: Report) -> dict[str, Style]:
    """Map each framework of a trial or of a chart to its style: the same in all charts of the report."""
    return choose_styles({*_frameworks(report)}.union(*(chart.frameworks for _, _, chart in number_charts(report))))


def _frameworks(report: Report) -> dict[str, Style]:
    """Map each framework that has a trial to its style, in the order of the switches."""
    return choose_styles(result.spec.cell.framework for result in report.stored.results)


def _linked(line: str, keys: set[str]) -> tuple[str, str]:
    """Split a problem into (key of the trial that it is about, "" if none; the other words)."""
    key = re.split("[: ]", line, maxsplit=1)[0]
    return (key, line.removeprefix(key)) if key in keys else ("", line)


def _share_styles(pictures: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """Return (the pictures with a class for each style, the definitions): most of a picture's parts look alike."""
    classes: dict[str, str] = {}

    def replace_style(found: re.Match[str]) -> str:
        return f' class="{classes.setdefault(found[1], f"p{len(classes)}")}"'

    shared = {name: STYLE.sub(replace_style, picture) for name, picture in pictures.items()}
    # Named twice to win over parts.css; ".chart .p0" would not reach into what a marker's <use> repeats.
    return shared, "".join(f".{name}.{name} {{ {style} }}\n" for style, name in classes.items())


def _colours(frameworks: Mapping[str, Style], classes: str) -> str:
    """Define the colours of charts and switches, each with one that can be seen on a dark page."""
    used = {*COLOUR.findall(classes), *(style.colour[1:].lower() for style in frameworks.values())}
    light, dark = (
        "".join(f" --c{colour}: {own(f'#{colour}')};" for colour in sorted(used)) for own in (str, lighten_for_dark)
    )
    return f":root {{{light} }}\n@media screen and (prefers-color-scheme: dark) {{ :root {{{dark} }} }}\n"


def _hiding(frameworks: int) -> str:
    """Define what the switches of so many frameworks hide: whatever has its number, or the sentence that it is off."""
    return "".join(
        f':root:has(#show-{number}:not(:checked)) [data-f~="{number}"], '
        f":root:has(#show-{number}:checked) #left-{number} {{ display: none; }}\n"
        for number in range(frameworks)
    )


def _title(report: Report) -> str:
    """Name what the trials are about; of several subjects, the first two are named."""
    subjects = list(dict.fromkeys(chapter.subject for chapter in report.chapters))
    more = f" and {len(subjects) - 2} more" if len(subjects) > 2 else ""
    return f"{', '.join(subjects[:2])}{more}"


def read_asset(name: str) -> str:
    """Read the text of a file in the templates' folder."""
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    """Build the source expression with which a content security policy allows exactly this script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
