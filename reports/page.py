"""All of a results folder on one page: report.md with its tables, charts and what went wrong."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from . import captions, load, markdown, overhead, problems, section_files, stable
from .conditions import sections
from .load import ReportError, Stored

OWN_FILE = re.compile(rf"({'|'.join(section_files.NAMES)})(-\d+)?\.(md|csv|png|svg)")
RULES = Path(__file__).parent.parent / "RULES.md"

HOW_TO_READ = """\
Every framework trained the same model from the same initial weights on the same batches; each trial ran in a \
process of its own and was measured from outside. Usage, speed, step time, host memory, power and energy come \
from the steady window after training, when nothing is compiled or loaded any more; GPU memory is the highest of the \
whole trial; what import, first step and warm-up took is under *Start-up*. Means are \
over all samples of the window, idle ones included; those over the busy samples alone have a table of their own. \
Accuracy is that of the test split after the last epoch. Only trials that ended *ok* give numbers; any other cell \
names what happened, and *unknown* means that the figure could not be measured, with the reason below the table. With \
repeats a cell is their median [95 % interval of their mean]. A footnote is marked [1]: *noisy* is a cell whose \
repeats' standard deviation is more than 3 % of their mean, *short window* one with too few samples. 1 MiB = 2^20 \
bytes. Sections differ in their conditions: numbers of different sections are not a comparison of frameworks.

What is equalised, what is left at each framework's defaults, and how to correct us: [RULES.md](RULES.md)."""

SIDE_BY_SIDE = """\
Each column is a batch size under one of these conditions. Differences between columns of one row are of conditions; \
nothing is averaged over them."""


@dataclass(frozen=True)
class Page:
    """`markdown` is report.md, `printed` its tables and problems for a terminal, `warnings` a line each."""

    markdown: str
    printed: str
    warnings: tuple[str, ...]


def build(results: Path, out: Path, columns: bool = False) -> Page:
    """Read `results`, write tables, charts, report.md and the rules it links to into `out`.

    `columns`: sections of differing conditions stand side by side in one table, in columns of their own.
    Raises ReportError: no results, none readable, no rules, or `out` not writable.
    """
    stored = load.read(results)
    if not stored.results:
        first = stored.unreadable[0]
        all_of_them = f"none of the {len(stored.unreadable)} results can be read"
        raise ReportError(f"{first.path}: {first.reason}; {all_of_them}, run the trials anew")
    try:
        rules = RULES.read_bytes()
    except OSError as error:
        told = "a report goes with its rules, take the file from the repository"
        raise ReportError(f"{RULES}: cannot be read: {error.strerror}; {told}") from error
    try:
        out.mkdir(parents=True, exist_ok=True)
        for path in out.iterdir():
            if OWN_FILE.fullmatch(path.name):
                path.unlink()  # of an earlier report: may show sections that are no more
        page = _page(stored, results, out, columns)
        (out / RULES.name).write_bytes(rules)
        _write(out / "report.md", page.markdown)
    except OSError as error:
        raise ReportError(f"{out}: cannot be written: {error.strerror}; choose another folder with --out") from error
    return page


def _page(stored: Stored, results: Path, out: Path, columns: bool) -> Page:
    found, replaced = sections(stored.results)
    aside = columns and len(found) > 1
    names, titles = section_files.letters(len(found)) if aside else [], captions.headings(found)
    long = ["# Batchwise: frameworks against batch size", problems.count(stored), "## How to read", HOW_TO_READ]
    short = [problems.count(stored)]
    if aside:
        merged = section_files.side_by_side(dict(zip(names, found, strict=True)), out)
        legend = [f"{name}: {markdown.escape(title)}" for name, title in zip(names, titles, strict=True)]
        for text in (long, short):
            text += ["## Side by side", SIDE_BY_SIDE, markdown.bullets(legend), *merged]
    for number, (section, title) in enumerate(zip(found, titles, strict=True), start=1):
        suffix = f"-{number}" if len(found) > 1 else ""
        letter = f" ({names[number - 1]})" if aside else ""
        heading = f"## {number}. {markdown.escape(title)}{letter}"
        blocks = section_files.write(section, suffix, out, with_tables=not aside)
        facts = captions.facts(section)
        long += [heading, markdown.bullets(captions.conditions_list(section))]
        long += [text + picture for text, picture in blocks]
        long += ["### What the workers reported", markdown.table(facts, "left")] if facts is not None else []
        short += [heading, *(text for text, _ in blocks if text)]
    below = [*stable.block(results), overhead.block(results, out), *problems.lists(stored, replaced)]
    warnings = tuple(f"{item.path}: left out: {item.reason}" for item in stored.unreadable)
    return Page(_joined([*long, *below]), _joined([*short, *below]), warnings)


def _joined(parts: list[str]) -> str:
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", errors="replace", newline="\n")
