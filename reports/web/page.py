"""Write the report as one page, report.html: self-contained, and limited in size for any number of trials."""

from __future__ import annotations

import base64
import hashlib
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..charts import Kind
from ..drawing import figures
from ..drawing.sizes import COLUMN, Layout
from ..drawing.styles import series_style
from ..frameworks import styles
from ..load import ReportError
from ..report import HOW_TO_READ, RULES, SIDE_BY_SIDE, Report
from . import trials as web_trials
from .chart_data import style_data
from .columns import pack
from .parts import FRONT, Room, chart_id
from .trial_files import TRACKS
from .trials import Trial

if TYPE_CHECKING:
    from jinja2 import Environment

LIMIT_BYTES = 3_000_000
PARTS_BYTES = (1_500_000, 500_000, 100_000, 0)  # for tables and charts: the first that keeps the page small enough
SENTENCES_BYTES = 5_000  # reserved for the sentences on what was left out
MOST_LINES = 200  # of one kind of problem
SMALL = Layout(COLUMN, bare=True)  # title and caption are next to it in the page
TEMPLATES = Path(__file__).parent / "templates"
STYLES = ("page.css", "parts.css", "print.css")
SCRIPTS = (
    "data.js",
    "tables.js",
    "options.js",
    "charts.js",
    "samples.js",
    "trials.js",
    "details.js",
    "page.js",
)
NO_CONNECTION = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def write(report: Report, path: Path, marks: tuple[str, ...] = ()) -> None:
    """Write the page. `marks` are plain sentences placed above everything: what a reader must know first.

    Raises ReportError if the file cannot be written, or if no page below LIMIT_BYTES is possible.
    """
    text = page(report, marks)
    try:
        path.write_bytes(text.encode("utf-8", "replace"))
    except OSError as error:
        raise ReportError(f"{path}: cannot be written: {error.strerror}; choose another folder with --out") from error


def page(report: Report, marks: tuple[str, ...] = ()) -> str:
    """Build the HTML. If it is too large, tables and charts get less space, and what is left out is listed."""
    pictures = _pictures(report)
    for room in PARTS_BYTES:
        text = _page(report, marks, room, pictures if room else {})
        if len(text.encode("utf-8", "replace")) < LIMIT_BYTES:
            return text
    raise ReportError(f"a page of this report is larger than {LIMIT_BYTES:,} bytes: split the results folder")


def _pictures(report: Report) -> dict[str, str]:
    """Return {id of a chart: its picture for readers without JavaScript}, for the first charts of the main chapter."""
    main = report.summary.main
    charts = () if main is None else report.chapters[main].charts
    encoded = {
        chart.name: base64.b64encode(figures.svg(chart, SMALL).encode()).decode()
        for chart in charts
        if chart.name in FRONT
    }
    return {chart_id((main or 0) + 1, name): f"data:image/svg+xml;base64,{data}" for name, data in encoded.items()}


def _page(report: Report, marks: tuple[str, ...], parts_bytes: int, pictures: Mapping[str, str]) -> str:
    templates = environment()
    trials = web_trials.trials_of(report)
    frameworks = styles(trial.result.spec.cell.framework for trial in trials)
    charted = (chart.frameworks for chapter in report.chapters for chart in chapter.charts)
    room = Room(templates.get_template("table.html.j2").module, styles({*frameworks}.union(*charted)), parts_bytes)
    context = _context(report, room, trials) | {
        "marks": marks,
        "pictures": pictures,
        "frameworks": [(key, style.name) for key, style in frameworks.items()],
    }
    shown = {
        "frameworks": [
            (key, style.name, style_data(series_style(Kind.MEASURED, room.styles[key]), Kind.MEASURED))
            for key, style in frameworks.items()
        ],
        "sections": [chapter.heading for chapter in report.chapters],
        "tables": room.tables,
        "charts": room.charts,
        "trials": web_trials.table_data(trials, report.sections),
        "tracks": [[track.label, track.unit] for track in TRACKS],
    }
    packed = {"shown": pack(shown), "echarts": _packed_library()}
    template = templates.get_template("report.html.j2")
    bare = template.render(context, packed=packed | dict.fromkeys(web_trials.DETAILS, ""), left_out=[])
    spare = LIMIT_BYTES - SENTENCES_BYTES - len(bare.encode("utf-8", "replace"))
    details, left_out = web_trials.details(trials, max(0, spare))
    return template.render(context, packed=packed | details, left_out=left_out)


def _context(report: Report, room: Room, trials: list[Trial]) -> dict[str, Any]:
    """Build what the template shows; `room` then holds the tables and charts that it refers to."""
    chapters = [
        (chapter, room.chapter(chapter, number, web_trials.finder(trials, number)))
        for number, chapter in enumerate(report.chapters, 1)
    ]
    every = web_trials.finder(trials)
    script = f'(() => {{\n"use strict";\n{"".join(asset(name) for name in SCRIPTS)}}})();\n'
    return {
        "title": _title(report),
        "main": report.summary.main,
        "report": report,
        "how_to_read": HOW_TO_READ,
        "rules": RULES,
        "side_by_side": SIDE_BY_SIDE,
        "chapters": chapters,
        "beside": room.several(report.beside, "beside", every),
        "across": room.several(report.across, "across", every),
        "appendix": room.several(report.appendix, "appendix", every),
        "most_lines": MOST_LINES,
        "style": "".join(asset(name) for name in STYLES),
        "script": script,
        "policy": f"{NO_CONNECTION}; script-src {_hash(script)} {_hash(_library())}",
        "library": vendored("echarts"),
    }


def _title(report: Report) -> str:
    """Name what the trials are about; of several subjects, the first two are named."""
    subjects = list(dict.fromkeys(chapter.subject for chapter in report.chapters))
    more = f" and {len(subjects) - 2} more" if len(subjects) > 2 else ""
    return f"{', '.join(subjects[:2])}{more}"


@cache
def environment() -> Environment:
    """Load the environment of the templates."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def vendored(name: str) -> dict[str, Any]:
    """Read the entry of a library in VENDORED.toml: name, version, licence, file, sha256."""
    entry: dict[str, Any] = tomllib.loads(asset("vendor/VENDORED.toml"))[name]
    return entry


def asset(name: str) -> str:
    """Read the text of a file in the templates' folder."""
    return (TEMPLATES / name).read_text(encoding="utf-8")


@cache
def _library() -> str:
    return asset(f"vendor/{vendored('echarts')['file']}")


@cache
def _packed_library() -> str:
    return pack(_library())


def _hash(script: str) -> str:
    """Build the source expression with which a content security policy allows exactly this script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
