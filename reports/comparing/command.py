"""python -m reports compare A B [--fail-on-regression 5%] [--format junit] [--out DIR]: machines, versions, commits."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from workloads.command_line import CommandLine
from workloads.statistics import ERROR, Verdict

from .. import export
from ..load import ReportError
from .comparison import Comparison, compare, compare_columns
from .data_formats import cells_csv, means_csv, write_json, write_junit
from .gate import ExitCode, Ruling, rule
from .pages import write_html, write_markdown
from .pairing import name_before


@dataclass(frozen=True)
class GatedComparison:
    """A comparison, and the gate's question and answer if it was asked."""

    comparison: Comparison
    tolerated_percent: float | None
    every_cell: bool
    ruling: Ruling | None


FORMATS: dict[str, Callable[[GatedComparison], str]] = {
    "md": lambda asked: write_markdown(asked.comparison),
    "json": lambda asked: write_json(asked.comparison, asked.tolerated_percent, asked.ruling),
    "junit": lambda asked: write_junit(asked.comparison, asked.tolerated_percent, asked.every_cell),
    "html": lambda asked: write_html(asked.comparison, asked.ruling),
}
ENDINGS = {"md": "compare.md", "json": "compare.json", "junit": "compare.xml", "html": "compare.html"}
PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%")


def main(arguments: list[str]) -> int:
    """Run the command. Returns exit code 0; 2 for bad input, with one line on stderr.

    With --fail-on-regression it returns that of `gate.ExitCode`.
    """
    options = build_parser().parse_args(arguments)
    try:
        tolerated = None if options.fail_on_regression is None else parse_percent(options.fail_on_regression)
        if options.every_cell and tolerated is None:
            raise ReportError("--every-cell: it needs --fail-on-regression X%; give both")
        comparison = _compare(options)
        ruling = refusal = None
        try:
            ruling = None if tolerated is None else apply_gate(comparison, tolerated, options.every_cell)
        except ReportError as error:
            refusal = error
        asked = GatedComparison(comparison, tolerated, options.every_cell, ruling)
        if options.out:
            _write(options.out, comparison, {name: make(asked) for name, make in FORMATS.items()})
        if refusal:
            raise refusal
        text = FORMATS[options.format](asked)
    except ReportError as error:
        print(f"reports: {error}", file=sys.stderr)
        return 2
    for item in dict.fromkeys((*comparison.a.stored.unreadable, *comparison.b.stored.unreadable)):
        print(f"reports: {item.path}: left out: {item.reason}", file=sys.stderr)
    print(text)
    if ruling is None:
        return 0
    only_a = sum(len(compared.only_a) for compared in comparison.pairs)
    missing = f"; {only_a} cells of {comparison.names[0]} are not in {comparison.names[1]}" if only_a else ""
    print(f"reports: --fail-on-regression {tolerated:g}%: {ruling.head}{missing}", file=sys.stderr)
    for line in ruling.lines:
        print(f"reports: {line}", file=sys.stderr)
    return int(ruling.outcome)


def _compare(options: argparse.Namespace) -> Comparison:
    """Compare as the options say. Raises ReportError."""
    if options.frameworks and options.b:
        raise ReportError(
            "--frameworks: it compares two columns of one results folder, but two folders are given; omit B"
        )
    if options.frameworks:
        return compare_columns(options.a, tuple(options.frameworks))
    if not options.b:
        raise ReportError("B is missing: give two results folders, or one with --frameworks NAME_A NAME_B")
    return compare(options.a, options.b)


def build_parser() -> CommandLine:
    """Return the parser of `python -m reports compare`."""
    parser = CommandLine(prog="python -m reports compare", description="Compare two results folders, cell by cell.")
    parser.add_argument(
        "a",
        type=Path,
        metavar="A",
        help="the baseline: a folder that python -m runner wrote, a published one, its results.tar.xz, or a folder "
        "that holds several of these: runs of one study",
    )
    parser.add_argument("b", type=Path, metavar="B", nargs="?", help="the results folder to compare with A")
    parser.add_argument(
        "--frameworks",
        nargs=2,
        metavar=("NAME_A", "NAME_B"),
        help="in place of B: two columns of A, such as pytorch pytorch@nightly or pytorch pytorch@tuned, paired by "
        "repeat",
    )
    _add_regression_options(parser)
    parser.add_argument(
        "--format",
        choices=tuple(FORMATS),
        default="md",
        help="what is printed: Markdown, JSON, JUnit XML for continuous integration, or a page (default: md)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help=f"write all of these there, too: {', '.join(ENDINGS.values())}, compare.csv, compare-frameworks.csv",
    )
    return parser


def _add_regression_options(parser: CommandLine) -> None:
    parser.add_argument(
        "--fail-on-regression",
        metavar="X%",
        help="exit with 1 if B loses X %% or more (of accuracy: percentage points) in a cell, or in a framework's "
        "mean over its batch sizes, and a test, corrected for their number, finds it significant. Also exit with 1 if "
        "a cell did not end as well as in A. Exit with 0 if each framework's mean excludes such a loss at "
        f"{100 - 100 * ERROR:g} %%. Otherwise exit with 2: the result is uncertain, and the smallest loss that could "
        "have been found is named. Speed and energy need several runs per side, or --frameworks",
    )
    parser.add_argument(
        "--every-cell",
        action="store_true",
        help="with --fail-on-regression: exit with 0 only if such a loss is excluded for every cell, too",
    )


def parse_percent(text: str) -> float:
    """Parse "5%" as 5.0.

    Raises ReportError for anything else, for 0, which no measurement excludes, and for 100 % and more, which no speed
    can lose.
    """
    match = PERCENT.fullmatch(text.strip())
    if match is None:
        raise ReportError(f"--fail-on-regression {text}: not a percentage; write it as 5%")
    value = float(match[1])
    if value == 0:
        raise ReportError(f"--fail-on-regression {text}: no measurement can exclude a loss of 0 %; give more than 0%")
    if value >= 100:
        raise ReportError(f"--fail-on-regression {text}: nothing can be slower by that much; give less than 100%")
    return value


def apply_gate(comparison: Comparison, tolerated_percent: float, every_cell: bool = False) -> Ruling:
    """Apply the gate. Raises ReportError if no loss was found but part of A or B is missing."""
    ended_worse = [ending.line for ending in comparison.endings if ending.verdict is Verdict.WORSE]
    ruling = rule(comparison.tests, tolerated_percent, every_cell, ended_worse)
    if ruling.outcome is ExitCode.REGRESSION:
        return ruling
    if lost := _lost(comparison):
        raise ReportError(f"--fail-on-regression: {lost[0]} ({len(lost)} such): what is missing cannot be tested")
    if not any(cell.estimate for cell in comparison.cells if cell.quantity.better):
        raise ReportError(
            "--fail-on-regression: no cell can be tested: two repeats on both sides are needed, and several runs for "
            "speed; run both with `--repeat 5`, three times each"
        )
    if all(compared.pair.same_trials == len(compared.pair.b.results) for compared in comparison.pairs):
        raise ReportError("--fail-on-regression: A and B hold the very same trials: nothing is tested; measure B again")
    for side in (comparison.a, comparison.b):
        stored = side.stored
        bad = [*(item.path for item in stored.unreadable), *stored.unfinished, *stored.in_use]
        if bad:
            raise ReportError(
                f"--fail-on-regression: {bad[0]}: unreadable, unfinished or still being written ({len(bad)} such in "
                f"{side.path}): its results are unknown; run it again or remove it"
            )
    return ruling


def _lost(comparison: Comparison) -> list[str]:
    """List each cell, quantity, value and section of A that B lacks, and each section that only B has."""
    b, several, lines = comparison.names[1], len(comparison.pairs) > 1, list[str]()
    for compared in comparison.pairs:
        before = name_before(compared.pair.title if several else "")
        lines += [f"{before}{compared.pair.named(name)} {size} is not in {b}" for name, size in compared.only_a]
        lines += [f"{before}{line}" for line in compared.lost]
    for cell in comparison.cells:
        if cell.quantity.better and cell.n_a and not cell.n_b:
            lines.append(
                f"{name_before(cell.section)}{cell.label} {cell.batch_size}: {cell.quantity.name}: no value in {b}"
            )
    return [*lines, *comparison.alone]


def _write(out: Path, comparison: Comparison, texts: dict[str, str]) -> None:
    """Write the comparison in every format, and the tables as CSV."""
    files = {ENDINGS[name]: text for name, text in texts.items()} | {
        "compare.csv": cells_csv(comparison),
        "compare-frameworks.csv": means_csv(comparison),
    }
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            export.write_text(out / name, content)
    except OSError as error:
        raise ReportError(f"{out}: cannot be written: {error.strerror}; choose another folder with --out") from error
