"""All of a results folder on one page: report.md with its tables, charts and what went wrong."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from workloads.trial import Status, TrialResult

from . import captions, figures, load, markdown, parity, tables
from .conditions import Replaced, Section, sections
from .load import ReportError, Stored
from .quantities import QUANTITIES

PARITY = "parity"
OWN_NAMES = (*(quantity.name for quantity in QUANTITIES), PARITY)
OWN_FILE = re.compile(rf"({'|'.join(OWN_NAMES)})(-\d+)?\.(md|csv|png|svg)")
RULES = Path(__file__).parent.parent / "RULES.md"

HOW_TO_READ = """\
Every framework trained the same model from the same initial weights on the same batches; each trial ran in a \
process of its own and was measured from outside. Usage, host memory, speed and step time come from the steady \
window after training, when nothing is compiled or loaded any more; GPU memory is the highest of the whole trial; \
accuracy is that of the test split after the last epoch. Only trials that ended *ok* give numbers; any other cell \
names what happened, and *unknown* means that the figure could not be measured, with the reason below the table. A \
footnote is marked [1]. 1 MiB = 2^20 bytes. Sections differ in their conditions: numbers of different sections are \
not a comparison of frameworks.

What is equalised, what is left at each framework's defaults, and how to correct us: [RULES.md](RULES.md)."""


@dataclass(frozen=True)
class Page:
    """`markdown` is report.md, `printed` its tables and problems for a terminal, `warnings` a line each."""

    markdown: str
    printed: str
    warnings: tuple[str, ...]


def build(results: Path, out: Path) -> Page:
    """Read `results`, write tables, charts, report.md and the rules it links to into `out`.

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
        page = _page(stored, out)
        (out / RULES.name).write_bytes(rules)
        _write(out / "report.md", page.markdown)
    except OSError as error:
        raise ReportError(f"{out}: cannot be written: {error.strerror}; choose another folder with --out") from error
    return page


def _page(stored: Stored, out: Path) -> Page:
    found, replaced = sections(stored.results)
    problems = _problems(stored, replaced)
    long = ["# Batchwise: frameworks against batch size", _count(stored), "## How to read", HOW_TO_READ]
    short = [_count(stored)]
    titles = captions.headings([section.condition for section in found])
    for number, (section, title) in enumerate(zip(found, titles, strict=True), start=1):
        suffix = f"-{number}" if len(found) > 1 else ""
        heading = f"## {number}. {markdown.escape(title)}"
        blocks = _section_files(section, title, suffix, out)
        facts = captions.facts(section)
        long += [heading, markdown.bullets(captions.conditions_list(section))]
        long += [text + picture for text, picture in blocks]
        long += ["### What the workers reported", markdown.table(facts, "left")] if facts is not None else []
        short += [heading, *(text for text, _ in blocks)]
    warnings = tuple(f"{item.path}: left out: {item.reason}" for item in stored.unreadable)
    return Page(_joined(long + problems), _joined(short + problems), warnings)


def _section_files(section: Section, title: str, suffix: str, out: Path) -> list[tuple[str, str]]:
    """Write a section's tables and charts; returns (table, the chart's embedding or "") of each quantity."""
    trials = load.frame(section.results)
    caption = captions.chart_caption(section)
    blocks = []
    for quantity in QUANTITIES:
        stem = f"{quantity.name}{suffix}"
        cells = tables.cells(trials, quantity, section.condition)
        block = tables.block(cells, quantity, section.condition)
        _write(out / f"{stem}.md", f"{block}\n{markdown.escape(caption)}\n")
        _write(out / f"{stem}.csv", cells[tables.CSV_COLUMNS].to_csv(index=False, lineterminator="\n"))
        label = quantity.source(section.condition).label
        heading, axis = quantity.title(section.condition), f"{label}, {quantity.unit}"
        drawn = quantity.drawn and figures.draw(cells, heading, axis, caption, out / stem, quantity.full_scale)
        blocks.append((block, f"\n![{label} against batch size]({stem}.png)\n" if drawn else ""))
        if quantity.name == "accuracy":
            blocks.append((_parity_files(section, suffix, out), ""))
    return blocks


def _parity_files(section: Section, suffix: str, out: Path) -> str:
    """Write the table of a section whose repeats suffice; returns it, or the line that says what is missing."""
    found = parity.compare(section)
    if not parity.stated(found):
        return parity.NOT_STATED
    block = parity.block(found)
    _write(out / f"{PARITY}{suffix}.md", f"{block}\n{markdown.escape(captions.provenance(section))}\n")
    _write(out / f"{PARITY}{suffix}.csv", found[parity.CSV_COLUMNS].to_csv(index=False, lineterminator="\n"))
    return block


def _problems(stored: Stored, replaced: list[Replaced]) -> list[str]:
    """Markdown parts: every trial that is not ok or not shown, and every check that failed."""
    bad = [result for result in stored.results if result.status is not Status.OK]
    checks = [(result, check) for result in stored.results for check in result.checks if not check.passed]
    shares = [(r, figure.value) for r in stored.results if (figure := r.figures.get(tables.FOREIGN)) and figure.value]
    lists = {
        "Trials that are not ok": [f"{_name(r)}: {_status(r)}: {r.reason or 'no reason was stored'}" for r in bad],
        "Trials disturbed by other processes": [
            f"{_name(result)}: they took {share:.0f} % of the cores in the steady window"
            for result, share in shares
            if share > tables.TOLERATED_PERCENT
        ],
        "Checks that failed": [f"{_name(result)}: {check.name}: {check.detail}" for result, check in checks],
        "Replaced by a newer trial of the same cell": [
            f"{_name(pair.old)} of {pair.old.started_at} by {_name(pair.new)} of {pair.new.started_at}"
            for pair in replaced
        ],
        "Unreadable results, left out": [f"{item.path}: {item.reason}" for item in stored.unreadable],
        "Unfinished trials (no result: still running, or killed)": [str(path) for path in stored.unfinished],
    }
    return [
        f"## {title}\n\n{markdown.bullets([markdown.escape(line) for line in lines])}"
        for title, lines in lists.items()
        if lines
    ]


def _count(stored: Stored) -> str:
    """ "27 trials: 26 ok, 1 timeout; 1 unreadable; 2 unfinished." """
    by_status = Counter(_status(result) for result in stored.results)
    text = f"{len(stored.results)} trials: " + ", ".join(
        f"{count} {status}" for status, count in by_status.most_common()
    )
    for count, what in ((len(stored.unreadable), "unreadable"), (len(stored.unfinished), "unfinished")):
        text += f"; {count} {what}" if count else ""
    return text + f". Started {captions.dates(stored.results)} (UTC)."


def _name(result: TrialResult) -> str:
    return result.spec.id


def _status(result: TrialResult) -> str:
    return str(result.status).replace("_", " ")


def _joined(parts: list[str]) -> str:
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", errors="replace", newline="\n")
