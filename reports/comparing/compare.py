"""python -m reports compare A B [--fail-on-regression 5%] [--out DIR]: two machines, versions or commits."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections import Counter
from pathlib import Path

from .. import markdown
from ..captions import dates
from ..frameworks import display_name
from ..load import ReportError
from . import compare_tables
from .comparison import Comparison, Side, compare, failures
from .contrast import Verdict

PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%")


def main(arguments: list[str]) -> int:
    """Exit code: 0; 1 where --fail-on-regression finds one; 2 for bad input, or a gate that could not fail, with one
    line on stderr."""
    parser = argparse.ArgumentParser(
        prog="python -m reports compare", description="Compare two results folders, cell by cell."
    )
    parser.add_argument("a", type=Path, metavar="A", help="the baseline: a folder that python -m runner wrote")
    parser.add_argument("b", type=Path, metavar="B", help="the folder that is held against it")
    parser.add_argument(
        "--fail-on-regression",
        metavar="X%",
        help="exit with 1 where a cell of B is worse by more than X %% (of accuracy: percentage points) and a test, "
        "corrected for many cells, says that it is not by chance; or where it did not end as well as in A",
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="write compare.md and compare.csv there")
    told = parser.parse_args(arguments)
    try:
        tolerated = None if told.fail_on_regression is None else percent(told.fail_on_regression)
        comparison = compare(told.a, told.b)
        text = page(comparison)
        if told.out:
            _write(told.out, comparison, text)
        found = [] if tolerated is None else gate(comparison, tolerated)
    except ReportError as error:
        print(f"reports: {error}", file=sys.stderr)
        return 2
    for side in (comparison.a, comparison.b):
        for item in side.stored.unreadable:
            print(f"reports: {item.path}: left out: {item.reason}", file=sys.stderr)
    try:
        print(text, flush=True)
    except BrokenPipeError:  # the reader, e.g. `head`, has seen enough; the exit code is still to be told
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if tolerated is not None:
        _tell(comparison, tolerated, found)
    return int(bool(found))


def percent(text: str) -> float:
    """ "5%" -> 5.0. Raises ReportError for anything else, and for 100 % and more, which no speed can lose."""
    found = PERCENT.fullmatch(text.strip())
    if found is None:
        raise ReportError(f"--fail-on-regression {text}: not a percentage; write it as 5%")
    value = float(found[1])
    if value >= 100:
        raise ReportError(f"--fail-on-regression {text}: nothing can be slower by that much; give less than 100%")
    return value


def gate(comparison: Comparison, tolerated_percent: float) -> list[str]:
    """A line for each cell that is worse. Raises ReportError where nothing was found, but nothing could have been."""
    found = failures(comparison, tolerated_percent)
    if found:
        return found
    lost = [f"{display_name(name)} {size} is not in B" for one in comparison.contrasts for name, size in one.only_a]
    for cell in comparison.lost:
        lost.append(f"{display_name(cell.framework)} {cell.batch_size}: {cell.measure.quantity.name}: no value in B")
    lost += comparison.alone
    if lost:
        raise ReportError(f"--fail-on-regression: {lost[0]} ({len(lost)} such): what is not there cannot be tested")
    if not comparison.tested:
        raise ReportError(
            "--fail-on-regression: no cell can be tested: two repeats on both sides are needed (three for "
            "accuracy); run both with `--repeat 5`"
        )
    if all(one.pair.same_trials == len(one.pair.b.results) for one in comparison.contrasts):
        raise ReportError("--fail-on-regression: A and B hold the very same trials: nothing is tested; measure B anew")
    for side in (comparison.a, comparison.b):
        stored = side.stored
        bad = [*(item.path for item in stored.unreadable), *stored.unfinished, *stored.in_use]
        if bad:
            raise ReportError(
                f"--fail-on-regression: {bad[0]}: unreadable, unfinished or still being written ({len(bad)} such in "
                f"{side.path}): what it hides cannot be told; run it again or take it away"
            )
    return []


def page(comparison: Comparison) -> str:
    """Everything that was found, in Markdown."""
    counts = Counter(cell.verdict for cell in comparison.cells)
    ended = Counter(ending.verdict for ending in comparison.endings)
    worse, better = (counts[one] + ended[one] for one in (Verdict.REGRESSION, Verdict.IMPROVEMENT))
    judged = len(comparison.testable)
    lines = [
        f"{len(comparison.tested)} of {judged} values were tested: {worse} worse, {better} better in B, "
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
        *(markdown.of(table, "##").strip("\n") for table in compare_tables.tables_of(comparison)),
        "## How to read",
        *(markdown.escape(sentence) for sentence in compare_tables.HOW),
    ]
    return "\n\n".join(parts) + "\n"


def _side(name: str, side: Side) -> str:
    stored = side.stored
    told = f"{name}: {side.path}: {len(stored.results)} trials, started {dates(stored.results)} (UTC)"
    for number, what in (
        (len(stored.unreadable), "unreadable"),
        (len(stored.unfinished), "unfinished"),
        (len(side.replaced), "replaced by a newer one of the same cell"),
    ):
        told += f"; {number} {what}" if number else ""
    return markdown.escape(told)


def _write(out: Path, comparison: Comparison, text: str) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / "compare.md").write_text(text, encoding="utf-8", errors="replace", newline="\n")
        csv = compare_tables.tidy(comparison).to_csv(index=False, lineterminator="\n")
        (out / "compare.csv").write_text(csv, encoding="utf-8", errors="replace", newline="\n")
    except OSError as error:
        raise ReportError(f"{out}: cannot be written: {error.strerror}; choose another folder with --out") from error


def _tell(comparison: Comparison, tolerated_percent: float, found: list[str]) -> None:
    """The gate's verdict, on stderr."""
    untested = len(comparison.testable) - len(comparison.tested)
    only_a = sum(len(one.only_a) for one in comparison.contrasts)
    beside = f"; {untested} values could not be tested" if untested else ""
    beside += f"; {only_a} cells of A are not in B" if only_a else ""
    told = f"{len(found)} worse by more" if found else f"none of {len(comparison.tested)} tested values worse by more"
    print(f"reports: --fail-on-regression {tolerated_percent:g}%: {told}{beside}", file=sys.stderr)
    for line in found:
        print(f"reports: {line}", file=sys.stderr)
