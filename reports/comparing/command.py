"""python -m reports compare A B [--fail-on-regression 5%] [--out DIR]: two machines, versions or commits."""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from pathlib import Path

from .. import export, markdown
from ..condition_text import dates
from ..frameworks import display_name
from ..load import ReportError
from ..order import ERROR
from . import comparison_tables
from .cell_tests import Verdict
from .comparison import Comparison, Side, compare
from .gate import Outcome, Ruling, rule

PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%")


def main(arguments: list[str]) -> int:
    """Exit code: 0; 2 for bad input, with one line on stderr; with --fail-on-regression that of `gate.Outcome`."""
    options = _parser().parse_args(arguments)
    try:
        tolerated = None if options.fail_on_regression is None else percent(options.fail_on_regression)
        if options.every_cell and tolerated is None:
            raise ReportError("--every-cell: it sharpens --fail-on-regression X%, which is not given")
        comparison = compare(options.a, options.b)
        text = page(comparison)
        if options.out:
            _write(options.out, comparison, text)
        ruling = None if tolerated is None else gate(comparison, tolerated, options.every_cell)
    except ReportError as error:
        print(f"reports: {error}", file=sys.stderr)
        return 2
    for side in (comparison.a, comparison.b):
        for item in side.stored.unreadable:
            print(f"reports: {item.path}: left out: {item.reason}", file=sys.stderr)
    print(text)
    if ruling is None:
        return 0
    only_a = sum(len(compared.only_a) for compared in comparison.pairs)
    missing = f"; {only_a} cells of A are not in B" if only_a else ""
    print(f"reports: --fail-on-regression {tolerated:g}%: {ruling.head}{missing}", file=sys.stderr)
    for line in ruling.lines:
        print(f"reports: {line}", file=sys.stderr)
    return int(ruling.outcome)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m reports compare", description="Compare two results folders, cell by cell."
    )
    parser.add_argument("a", type=Path, metavar="A", help="the baseline: a folder that python -m runner wrote")
    parser.add_argument("b", type=Path, metavar="B", help="the folder that is held against it")
    parser.add_argument(
        "--fail-on-regression",
        metavar="X%",
        help="exit with 1 where B loses X %% or more (of accuracy: percentage points) in a cell, or in a framework's "
        "mean over its batch sizes, and a test, corrected for their number, says that it is no chance, or where a cell "
        "did not end as well as in A; with 0 where each framework's mean excludes such a loss at "
        f"{100 - 100 * ERROR:g} %%; else with 2: it cannot be told, and the smallest loss that could have been found "
        "is named",
    )
    parser.add_argument(
        "--every-cell",
        action="store_true",
        help="with --fail-on-regression: exit with 0 only where such a loss is excluded of every cell, too",
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="write compare.md, compare.csv and compare-frameworks.csv there"
    )
    return parser


def percent(text: str) -> float:
    """ "5%" -> 5.0. Raises ReportError for anything else, for 0, which no measurement excludes, and for 100 % and more,
    which no speed can lose.
    """
    match = PERCENT.fullmatch(text.strip())
    if match is None:
        raise ReportError(f"--fail-on-regression {text}: not a percentage; write it as 5%")
    value = float(match[1])
    if value == 0:
        raise ReportError(f"--fail-on-regression {text}: no measurement excludes a loss of nothing; give more than 0%")
    if value >= 100:
        raise ReportError(f"--fail-on-regression {text}: nothing can be slower by that much; give less than 100%")
    return value


def gate(comparison: Comparison, tolerated_percent: float, every_cell: bool = False) -> Ruling:
    """Raises ReportError where no loss was found, but something of A or B was not there to be looked at."""
    ended_worse = [ending.line for ending in comparison.endings if ending.verdict is Verdict.REGRESSION]
    ruling = rule(comparison.tests, tolerated_percent, every_cell, ended_worse)
    if ruling.outcome is Outcome.REGRESSION:
        return ruling
    if lost := _lost(comparison):
        raise ReportError(f"--fail-on-regression: {lost[0]} ({len(lost)} such): what is not there cannot be tested")
    if not any(cell.estimate for cell in comparison.cells if cell.quantity.better):
        raise ReportError(
            "--fail-on-regression: no cell can be tested: two repeats on both sides are needed; run both with "
            "`--repeat 5`"
        )
    if all(compared.pair.same_trials == len(compared.pair.b.results) for compared in comparison.pairs):
        raise ReportError("--fail-on-regression: A and B hold the very same trials: nothing is tested; measure B anew")
    for side in (comparison.a, comparison.b):
        stored = side.stored
        bad = [*(item.path for item in stored.unreadable), *stored.unfinished, *stored.in_use]
        if bad:
            raise ReportError(
                f"--fail-on-regression: {bad[0]}: unreadable, unfinished or still being written ({len(bad)} such in "
                f"{side.path}): what it hides cannot be told; run it again or take it away"
            )
    return ruling


def _lost(comparison: Comparison) -> list[str]:
    """A line for each cell, value and section of A that B lacks, and for each section of B alone."""
    lines = [f"{display_name(name)} {size} is not in B" for pair in comparison.pairs for name, size in pair.only_a]
    for cell in comparison.cells:
        if cell.quantity.better and cell.n_a and not cell.n_b:
            lines.append(f"{display_name(cell.framework)} {cell.batch_size}: {cell.quantity.name}: no value in B")
    return [*lines, *comparison.alone]


def page(comparison: Comparison) -> str:
    """Everything that was found, in Markdown."""
    counts = Counter(cell.verdict for cell in comparison.cells)
    ended = Counter(ending.verdict for ending in comparison.endings)
    worse, better = (counts[verdict] + ended[verdict] for verdict in (Verdict.REGRESSION, Verdict.IMPROVEMENT))
    values = counts.total() - counts[Verdict.NOT_JUDGED] - counts[Verdict.NO_VALUE]
    lines = [
        f"{values - counts[Verdict.NOT_TESTED]} of {values} values were tested: {worse} worse, {better} better in B, "
        f"{counts[Verdict.NO_DIFFERENCE]} without a difference that could be found"
        + (f" (of these, {ended.total()} by how the trials ended)" if ended else "")
        + "."
    ]
    if counts[Verdict.NOT_TESTED]:
        lines.append(f"{counts[Verdict.NOT_TESTED]} could not be tested; the footnotes of their cells say why.")
    lines += [f"{line[0].upper()}{line[1:]}." for line in comparison.alone]
    parts = [
        "# Batchwise: B against A",
        markdown.bullets([_side("A", comparison.a), _side("B", comparison.b)]),
        markdown.bullets([markdown.escape(line) for line in lines]),
        *(markdown.of(table, "##").strip("\n") for table in comparison_tables.tables_of(comparison)),
        "## How to read",
        *(markdown.escape(sentence) for sentence in comparison_tables.HOW),
    ]
    return "\n\n".join(parts) + "\n"


def _side(name: str, side: Side) -> str:
    stored = side.stored
    line = f"{name}: {side.path}: {len(stored.results)} trials, started {dates(stored.results)} (UTC)"
    for number, what in (
        (len(stored.unreadable), "unreadable"),
        (len(stored.unfinished), "unfinished"),
        (len(side.replaced), "replaced by a newer one of the same cell"),
    ):
        line += f"; {number} {what}" if number else ""
    return markdown.escape(line)


def _write(out: Path, comparison: Comparison, text: str) -> None:
    texts = {
        "compare.md": text,
        "compare.csv": comparison_tables.cells_csv(comparison),
        "compare-frameworks.csv": comparison_tables.means_csv(comparison),
    }
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, content in texts.items():
            export.write_text(out / name, content)
    except OSError as error:
        raise ReportError(f"{out}: cannot be written: {error.strerror}; choose another folder with --out") from error
