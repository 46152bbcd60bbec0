"""python -m reports history DIR... [--out DIR]: cells over commits, with the steps that a second run confirms."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from workloads.command_line import CommandLine
from workloads.records.result import TrialResult
from workloads.statistics import CONFIDENCE_PERCENT, ERROR

from .. import export, markdown
from ..charts import Chart, ChartSeries, Panel, Scale, SeriesKind
from ..condition_text import format_dates
from ..frameworks import order_frameworks
from ..load import ReportError
from ..report import Chapter, Summary
from ..sentences import say
from ..table import EMPTY, Record, Table, TableCell, Theme, build_rows, format_csv
from ..tables import JOINED
from . import effect_words, pages
from .cell_tests import MOVED_BY_THE_HOUR, CellTest
from .comparison import PairComparison
from .comparison_tables import describe_test
from .history import STATUS, CellChange, Change, Confirmation, Entries, find_steps, read_entries

ENTRIES, STEPS = "history-entries", "history-steps"
RATIOS = f"A point is an entry relative to {{}}, the bar its {CONFIDENCE_PERCENT} % interval."
MEDIANS = "A point is the median of an entry."
HOW = (
    "Each entry is compared with the last confirmed level of a cell, as `python -m reports compare` does: speed and "
    "energy need several runs in each entry. A change is confirmed if the next entry that has the cell differs from "
    "that level in the same direction, too. A cell begins at the first entry that has a value of it. If no entry "
    "agreed with that one before two differed, it may itself be the disturbed run: the first entry differs, and no "
    "step is confirmed. How trials end is followed as status. At most "
    f"{100 * ERROR:g} % of comparisons call something of a quantity worse that is not. A change must be found twice.",
)


def build_parser() -> CommandLine:
    """Return the parser of `python -m reports history`."""
    parser = CommandLine(
        prog="python -m reports history",
        description="Show cells over commits, with the steps that a second run confirms.",
    )
    parser.add_argument("results", type=Path, nargs="+", metavar="DIR",
                        help="two or more results folders or publications, or folders that hold several runs each; "
                             "they are taken in the order in which they were measured")  # fmt: skip
    parser.add_argument("--out", type=Path, metavar="DIR",
                        help="write history.html, history.md and the tables as CSV there")  # fmt: skip
    return parser


def main(arguments: list[str]) -> int:
    """Run the command. Returns exit code 0; 2 for bad input, with one line on stderr."""
    options = build_parser().parse_args(arguments)
    try:
        entries = read_entries(options.results)
        chapter, summary = build_history(entries)
        text = write_markdown(chapter, summary)
        if options.out:
            _write(options.out, chapter, summary, text)
    except ReportError as error:
        print(f"reports: {error}", file=sys.stderr)
        return 2
    for item in dict.fromkeys(item for side, _ in entries.sides for item in side.stored.unreadable):
        print(f"reports: {item.path}: left out: {item.reason}", file=sys.stderr)
    print(text, end="")
    return 0


def build_history(entries: Entries) -> tuple[Chapter, Summary]:
    """Build the chapter and its summary. Raises ReportError if no two entries have a cell in common."""
    steps = find_steps(entries)
    confirmed, apart, awaited = (
        [step for step in steps if step.confirmation is outcome]
        for outcome in (Confirmation.CONFIRMED, Confirmation.FIRST_DIFFERS, Confirmation.AWAITED)
    )
    sentences = [
        say("history.step", cell=step.name, effect=_write_effect(step.test), place=step.place) for step in confirmed
    ]
    headline = say("history.headline", first=next(iter(sentences), ""), confirmed=len(confirmed),
                   entries=len(entries.sides), awaited=len(awaited), apart=len(apart),
                   unjudged=[name for name in entries.unjudged if name not in entries.judged])  # fmt: skip
    sentences += [
        say("history.first_differs", cell=step.name, effect=_write_effect(step.test), base=step.base, place=step.place)
        for step in apart
    ]
    titles = entries.titles
    chapter = Chapter(
        heading="Cells over commits",
        section=None,
        setting=titles[0] + (f" and {len(titles) - 1} more" if len(titles) > 1 else ""),
        conditions=(),
        tables=(_list_steps(steps, entries), _list_entries(entries)),
        charts=tuple(_build_charts(entries)),
        remarks=(),
        kind="history",
        unfolded=True,
    )
    every = [result for side, _ in entries.sides for result in side.stored.results]
    ran = f"{len(entries.sides)} entries, started {format_dates(every)} (UTC)."
    return chapter, Summary(headline, "", (ran,), tuple(f"{sentence}." for sentence in sentences), (), 0)


def write_markdown(chapter: Chapter, summary: Summary) -> str:
    """Write headline, tables and how to read them."""
    tables = (markdown.format_with_heading(table, "##", pages.WIDTH).strip("\n") for table in chapter.tables)
    return "\n\n".join([f"# {pages.escape_sentence(summary.headline)}", *tables, *map(markdown.escape, HOW)]) + "\n"


def _write(out: Path, chapter: Chapter, summary: Summary, text: str) -> None:
    """Write page, Markdown and tables. Raises ReportError."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        export.write_text(out / "history.md", text)
        export.write_text(out / "history.html", pages.build_chapter_page(chapter, summary, HOW))
        for table in chapter.tables:
            export.write_text(out / f"{table.name}.csv", format_csv(table.tidy))
    except OSError as error:
        raise ReportError(f"--out {out}: cannot be written: {error.strerror}; name another folder") from error


def _list_steps(steps: list[CellChange], entries: Entries) -> Table:
    """Build the table of all changes, confirmed or not; readers see the section if there are several."""
    titles = entries.titles
    records: list[Record] = [
        {"section": step.section or titles[0], "framework": step.test.framework, "label": step.test.label,
         "batch_size": step.test.batch_size, "quantity": step.quantity, "entry": step.place,
         "against_entry": step.base,
         **dict(zip(("effect", "effect_low", "effect_high"), _read_effect(step.test), strict=True)),
         "effect_of_second_run": _read_effect(step.again)[0], "notes": _write_notes(step),
         "verdict": str(step.confirmation), "step": step}
        for step in steps
    ]  # fmt: skip
    shown = {
        "Section": lambda each: TableCell(each["section"]),
        "Framework": lambda each: TableCell(each["label"]),
        "Batch size": lambda each: TableCell(str(each["batch_size"])),
        "Quantity": lambda each: TableCell(", ".join(_name_quantity(each["quantity"]))),
        "Entry": lambda each: TableCell(str(each["entry"])),
        "Against entry": lambda each: TableCell(str(each["against_entry"])),
        "Change": lambda each: _describe(each["step"].test),
        "Second run": lambda each: _describe(each["step"].again),
        "Verdict": lambda each: TableCell(each["verdict"]),
    }
    if len(titles) == 1:
        del shown["Section"]
    head, rows, tidy = build_rows(records, shown)
    below = _say_judged(entries, changed=bool(rows))
    tidy = tidy.drop(columns="step", errors="ignore")
    return Table(STEPS, "Changes", head, rows, tidy, below=below, words=True, theme=Theme.CHANGES)


def _say_judged(entries: Entries, changed: bool) -> tuple[str, ...]:
    """Say that no cell changed, if so, in the quantities that were judged, and in which entries others were not."""
    groups: dict[tuple[bool, bool, tuple[int, ...]], list[str]] = {}
    for name, places in entries.unjudged.items():
        of_runs = any(name == quantity.name for quantity in MOVED_BY_THE_HOUR)
        groups.setdefault((name in entries.judged, of_runs, tuple(places)), []).append(name)
    unjudged = [
        say("history.unjudged", quantities=names, partly=partly, of_runs=of_runs, places=places)
        for (partly, of_runs, places), names in groups.items()
    ]
    return (*([] if changed else [say("history.unchanged", judged=entries.judged if groups else [])]), *unjudged)


def _name_quantity(name: str) -> tuple[str, ...]:
    return (name,) if name == STATUS else (name, effect_words.TIMES[name])


def _read_effect(change: Change | None) -> tuple[float, float, float]:
    """Return the effect, low and high; NaN for how trials ended."""
    return change.effect if isinstance(change, CellTest) else (math.nan, math.nan, math.nan)


def _write_effect(change: Change) -> str:
    """Format "0.921 [0.905, 0.937] times as fast", "out of memory (before: ok)"."""
    return describe_test(change) if isinstance(change, CellTest) else f"{change.ended_b} (before: {change.ended_a})"


def _write_notes(step: CellChange) -> str:
    """Write how the trials of both entries ended, and why; "" for a quantity."""
    if isinstance(step.test, CellTest):
        return ""
    ended = f"entry {step.base}: {step.test.ended_a}", f"entry {step.place}: {step.test.ended_b}"
    return JOINED.join(each for each in (*ended, step.test.reason) if each)


def _describe(change: Change | None) -> TableCell:
    if change is None:
        return EMPTY
    if isinstance(change, CellTest):
        return TableCell(effect_words.effect(change), change.effect[0], trials=change.trials)
    return TableCell(change.ended_b, notes=(change.reason,) if change.reason else ())


def _list_entries(entries: Entries) -> Table:
    """Build the table that says what each number stands for."""
    root = os.path.commonpath([side.path.resolve().parent for side, _ in entries.sides])
    records: list[Record] = [
        {"entry": place, "results": os.path.relpath(side.path.resolve(), root), "runs": side.runs,
         "trials": len(side.stored.results), "commits": _list_commits(side.stored.results),
         "started": format_dates(side.stored.results)}
        for place, (side, _) in enumerate(entries.sides, start=1)
    ]  # fmt: skip
    names = {"Entry": "entry", "Results": "results", "Commit": "commits", "Runs": "runs", "Trials": "trials",
             "Started (UTC)": "started"}  # fmt: skip
    shown = {head: (lambda each, key=key: TableCell(str(each[key]))) for head, key in names.items()}
    head, rows, tidy = build_rows(records, shown)
    return Table(ENTRIES, "Entries", head, rows, tidy, below=tuple(entries.list_missing()), words=True)


def _list_commits(results: Sequence[TrialResult]) -> str:
    return ", ".join(dict.fromkeys(str(each.machine.get("commit") or "unknown") for each in results))


@dataclass(frozen=True)
class CellLine:
    """Line of a cell: its first entry, counted from 1, and its comparisons with that one, by the later entry."""

    first: int
    cells: dict[int, tuple[PairComparison, CellTest]]

    @property
    def tests(self) -> list[CellTest]:
        """Tests of the later entries."""
        return [cell for _, cell in self.cells.values()]


def _build_charts(entries: Entries) -> list[Chart]:
    """Build a chart for each section and quantity: every entry against a cell's first, a panel for each batch size."""
    found: dict[tuple[int, str], dict[tuple[int, str], CellLine]] = {}
    for cell, first in entries.cells.items():
        number, framework, size, quantity = cell
        line = CellLine(first + 1, {})
        for place in range(first + 1, len(entries.sides)):
            pair, test = entries.list_cells(first, place).get(cell, (None, None))
            if pair and isinstance(test, CellTest) and test.quantity.better and not math.isnan(test.shift):
                line.cells[place + 1] = pair, test
        if line.cells:
            found.setdefault((number, quantity), {})[size, framework] = line
    several = len(entries.titles) > 1
    return [
        _build_chart(f"history-{quantity}{f'-{number + 1}' if several else ''}", entries.titles[number], lines)
        for (number, quantity), lines in found.items()
    ]


def _build_chart(name: str, title: str, lines: dict[tuple[int, str], CellLine]) -> Chart:
    compared, first = next(iter(next(iter(lines.values())).cells.values()))
    label, points = effect_words.name_quantity(compared, first.quantity), first.in_points
    firsts = {line.first for line in lines.values()}
    base = f"entry {firsts.pop()}" if len(firsts) == 1 else "the first entry of its line"
    sizes = sorted({size for size, _ in lines})
    panels = tuple(
        Panel(
            f"Batch {size}",
            tuple(
                _build_series(lines[size, framework])
                for framework in order_frameworks(name for each, name in lines if each == size)
            ),
        )
        for size in sizes
    )
    return Chart(
        name=name,
        title=f"{label} over the entries",
        x_name="Entry",
        y_label=f"{label}, median, %" if points else f"{label}, times that of {base}",
        panels=panels,
        alt=f"{label} of each framework and batch size in each entry.",
        caption=MEDIANS if points else RATIOS.format(base),
        provenance=title,
        x_scale=Scale.ORDINAL,
        from_zero=False,
        line_at=None if points else 1.0,
        theme=first.quantity.theme,
    )


def _build_series(line: CellLine) -> ChartSeries:
    """Build a framework's line: ratios to its first entry with their intervals, of accuracy each entry's median."""
    tests = line.tests
    effects = [tuple(None if math.isnan(number) else number for number in test.effect) for test in tests]
    y, low, high = ((1.0, *(effect[end] for effect in effects)) for end in range(3))
    if tests[0].in_points:
        y, low, high = (tests[0].median_a, *(test.median_b for test in tests)), (), ()
    places = (float(line.first), *map(float, line.cells))
    return ChartSeries(tests[0].label, tests[0].framework, SeriesKind.MEASURED, places, y, low, high)
