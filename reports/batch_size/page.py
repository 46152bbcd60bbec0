"""Write the answers: batch-size.html, .md, .csv and the picture."""

from __future__ import annotations

import base64
from collections.abc import Collection
from pathlib import Path

from workloads.records.batch_answers import BatchAnswers
from workloads.records.setting_words import optimizer_label
from workloads.spec import OptimizerSpec

from .. import markdown, terminal
from ..export import OF_CHARTS, by_itself, write_text
from ..frameworks import display_name
from ..load import ReportError
from ..table import format_csv
from ..web.page import NO_CONNECTION, STYLES, asset, environment
from . import picture, recommendation, tables

MAIN = ("html", "md")


def write(answers: BatchAnswers, out: Path, formats: Collection[str]) -> list[Path]:
    """Write the answers into `out`; returns the main files. Raises ReportError if it cannot be written."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        kinds = {*formats, "svg"} if "html" in formats else {*formats}  # the page contains it
        files = {"html": _html, "md": _markdown, "csv": _csv}
        paths = []
        with by_itself(out):
            pictures = picture.write(answers, out, kinds & {*OF_CHARTS})
            for name, text in files.items():
                if name in formats:
                    paths.append(out / f"{picture.STEM}.{name}")
                    write_text(paths[-1], text(answers, pictures))
        return [path for path in paths if path.suffix[1:] in MAIN]
    except OSError as error:
        raise ReportError(f"{out}: cannot be written: {error.strerror}; choose another folder with --out") from error


def title(answers: BatchAnswers) -> str:
    """Return the question as a title."""
    return f"Which batch size for {answers.conditions.get('workload')} on {answers.conditions.get('dataset')}?"


def _html(answers: BatchAnswers, pictures: list[Path]) -> str:
    drawn = next((path for path in pictures if path.suffix == ".svg"), None)
    return (
        environment()
        .get_template("batch-size.html.j2")
        .render(
            title=title(answers),
            policy=NO_CONNECTION,
            style="".join(map(asset, STYLES)),
            conditions=conditions(answers),
            marks=(),
            recommendation=recommendation.sentences(answers),
            picture=base64.b64encode(drawn.read_bytes()).decode() if drawn else "",
            alt=picture.ALT,
            table=tables.of(answers),
            details=tables.details(answers),
        )
    )


def conditions(answers: BatchAnswers) -> str:
    """Describe the conditions in a line; what an answers file does not hold is left out."""
    known = answers.conditions
    rule, limit = known.get("optimizer"), known.get("limit_bytes")
    words = {
        "device": known.get("device"),
        "processor": known.get("cpu_model"),
        "threads": known.get("threads"),
        "memory limit": f"{limit / 2**20:,.0f} MiB" if isinstance(limit, int) else None,
        "optimizer": optimizer_label(OptimizerSpec(**rule)) if isinstance(rule, dict) else None,
        "epochs": known.get("epochs"),
        "commit": known.get("commit"),
        "started": known.get("started_at"),
    }
    words |= {f"{display_name(each.framework)} version": each.version for each in answers.frameworks}
    return "; ".join(f"{name} {value}" for name, value in words.items() if value is not None)


def _markdown(answers: BatchAnswers, pictures: list[Path]) -> str:
    parts = [f"# {markdown.escape(title(answers))}", markdown.escape(conditions(answers))]
    parts += [markdown.escape(line) for line in recommendation.sentences(answers)]
    parts += [f"![{picture.ALT}]({path.name})" for path in pictures[:1]]
    parts += [markdown.of(table, "##") for table in (tables.of(answers), *tables.details(answers))]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _csv(answers: BatchAnswers, _: list[Path]) -> str:
    return format_csv(tables.of(answers).tidy)


def printed(answers: BatchAnswers) -> str:
    """Format the answers for a terminal."""
    advice = recommendation.sentences(answers)
    return "\n".join([*(["", *advice] if advice else []), "", terminal.table(tables.of(answers)), ""])
