"""Write the report on blocks of steps: a page, its Markdown, one file per table and the picture, as in a report."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from workloads.records.setting_words import optimizer_label

from .. import markdown, terminal
from ..charts import Chart
from ..drawing import figures, sizes
from ..export import OF_CHARTS, OF_TABLES, by_itself, write_table, write_text
from ..frameworks import display_name
from ..latex import files as latex_files
from ..load import ReportError
from ..sentences import say
from ..table import Placed, Table
from ..web.page import NO_CONNECTION, STYLES, asset, environment
from . import claims, contrasts, picture, tables
from .stored import Measurement

STEM, WORDING = "powers-of-two", "blocks"
PAGE = f"{STEM}.html"
KICKER, LEAD = "Batchwise: is a round batch size faster?", "What is found"


@dataclass(frozen=True)
class Chapter:
    """Results of the processes of one set of conditions.

    Sentences are plain text; the headline covers all comparisons. `chart` is None without a process.
    """

    title: str
    conditions: str
    headline: str
    findings: tuple[str, ...]
    claims: tuple[claims.Claim, ...]
    tables: tuple[Table, ...]
    chart: Chart | None
    left_out: tuple[str, ...]


def chapter(measurement: Measurement) -> Chapter:
    """Build the chapter of one set of conditions."""
    kinds = claims.kinds_of(measurement)

    def named(size: int) -> list[str]:
        return [kind.name for kind in kinds if kind.holds(size)]

    found = contrasts.of_measurement(measurement, named)
    held = claims.of_contrasts(found, kinds, measurement.frameworks)
    title = f"{measurement.task.workload} on {measurement.task.dataset}"
    made = [tables.contrasts(found), tables.claims(held), tables.times(measurement), tables.published(found)]
    return Chapter(
        title,
        conditions(measurement),
        headline(found),
        tuple(map(finding, found)),
        tuple(held),
        tuple(table for table in made if table is not None and table.rows),
        picture.chart(measurement) if measurement.processes else None,
        measurement.left_out,
    )


def headline(found: Sequence[contrasts.Contrast]) -> str:
    """Count the verdicts of the comparisons, in a sentence."""
    verdicts = Counter(each.verdict for each in found if each.estimate is not None)
    return say(WORDING, "headline", verdicts=verdicts.most_common(), once=bool(found))


def finding(contrast: contrasts.Contrast) -> str:
    """Describe a contrast in a sentence."""
    value, low, high = contrast.percents
    facts = {"size": contrast.size, "name": contrast.framework, "phase": contrast.phase, "percent": value}
    if contrast.estimate is None:
        return say(WORDING, "once", **facts)
    detectable = contrasts.percent(contrast.detectable)
    return say(WORDING, "found", **facts, low=low, high=high, verdict=contrast.verdict, detectable=detectable)


def conditions(measurement: Measurement) -> str:
    """Describe the conditions in a line; unknown ones are left out."""
    placement, task = measurement.placement, measurement.task
    results = [process.result for process in measurement.processes]
    machine = results[0].machine if results else {}
    names = [str(gpu.get("name")) for gpu in machine.get("gpus", []) if isinstance(gpu, dict)]
    words = {
        "device": ", ".join(names) or placement.device,
        "processor": machine.get("cpu_model"),
        "threads": placement.threads,
        "optimizer": optimizer_label(task.optimizer),
        "feed": task.feed,
        "commit": machine.get("commit"),
        "started": min((result.started_at for result in results), default=None),
    }
    words |= {
        f"{display_name(result.spec.cell.framework)} version": result.facts.get("framework_version")
        for result in results
    }
    return "; ".join(f"{name} {value}" for name, value in words.items() if value is not None)


def write(chapters: list[Chapter], out: Path, formats: Collection[str], marks: Sequence[str] = ()) -> list[Path]:
    """Write the chapters into `out`; returns the main files.

    `marks` are sentences placed first. Raises ReportError if `out` cannot be written.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        with by_itself(out):
            return _write(chapters, out, formats, marks)
    except OSError as error:
        raise ReportError(f"{out}: cannot be written: {error.strerror}; choose another folder with --out") from error


def _write(chapters: list[Chapter], out: Path, formats: Collection[str], marks: Sequence[str]) -> list[Path]:
    kinds = [kind for kind in OF_CHARTS if kind in formats]
    placed: list[Placed] = []
    pictures: list[str | None] = []
    for number, each in enumerate(chapters, start=1):
        ending = f"-{number}" if len(chapters) > 1 else ""
        placed += [Placed(table, f"{table.name}{ending}", (each.conditions,)) for table in each.tables]
        pictures.append(f"{STEM}{ending}.{kinds[0]}" if each.chart and kinds else None)
        if each.chart:
            figures.draw(each.chart, out / f"{STEM}{ending}", kinds, sizes.USUAL)
    for one in placed:
        for kind in OF_TABLES:
            # The Markdown of all tables is one file, named like the main table.
            if kind in formats and kind not in ("latex", "md"):
                write_table(one, out / f"{one.stem}.{kind}", kind)
    if "latex" in formats:
        for name, text in latex_files(placed, {each.title: (each.conditions,) for each in chapters}).items():
            write_text(out / f"{STEM}-{name}" if name == "conditions.tex" else out / name, text)
    texts: dict[str, Callable[[], str]] = {
        "html": lambda: _html(chapters, marks),
        "md": lambda: _markdown(chapters, pictures, marks),
    }
    main_files = {out / f"{STEM}.{kind}": made for kind, made in texts.items() if kind in formats}
    for path, made in main_files.items():
        write_text(path, made())
    return list(main_files)


def _html(chapters: list[Chapter], marks: Sequence[str]) -> str:
    first, *others = [table for each in chapters for table in each.tables] or [tables.contrasts([])]
    charts = [each.chart for each in chapters if each.chart]
    return (
        environment()
        .get_template("batch-size.html.j2")
        .render(
            kicker=KICKER,
            lead=LEAD,
            title="; ".join(each.title for each in chapters),
            policy=NO_CONNECTION,
            style="".join(map(asset, STYLES)),
            conditions=". ".join(each.conditions for each in chapters),
            marks=marks,
            recommendation=[line for each in chapters for line in (each.headline, *each.findings, *each.left_out)],
            picture=base64.b64encode(figures.svg(charts[0]).encode()).decode() if charts else "",
            alt=charts[0].alt if charts else "",
            table=first,
            details=others,
        )
    )


def _markdown(chapters: list[Chapter], pictures: list[str | None], marks: Sequence[str]) -> str:
    parts = [f"**{markdown.escape(mark)}**" for mark in marks]
    for each, drawn in zip(chapters, pictures, strict=True):
        parts += [f"# {markdown.escape(each.title)}", markdown.escape(each.conditions)]
        parts += [markdown.bullets(map(markdown.escape, (each.headline, *each.findings)))]
        if each.chart and drawn:
            parts += [f"![{markdown.escape(each.chart.alt)}]({drawn})", markdown.escape(each.chart.caption)]
        parts += [markdown.of(table, "##") for table in each.tables]
        if each.left_out:
            parts += ["## Left out", markdown.bullets(map(markdown.escape, each.left_out))]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def printed(chapters: list[Chapter]) -> str:
    """Format the chapters for a terminal."""
    lines: list[str] = []
    for each in chapters:
        lines += ["", f"{each.title}: blocks of steps", each.headline, *each.findings]
        lines += [terminal.table(table) for table in each.tables if table.name == tables.NAME]
        lines += [f"Left out: {line}" for line in each.left_out]
    return "\n".join([*lines, ""])
