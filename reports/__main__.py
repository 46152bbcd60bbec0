"""python -m reports RESULTS...: tables, charts and the page from stored results; prints the findings.
python -m reports check PATH...: find faults in stored results or logs.
"""

from __future__ import annotations

from workloads import program

if __name__ == "__main__":
    program.require_system("linux", "darwin")
    program.interrupt_at_once()
    program.start_again()
    program.report_missing_packages()

import gc
import importlib
import os
import shlex
import sys
from pathlib import Path

from workloads.command_line import CommandLine, suggest
from workloads.records.result import refuse_target

from . import build, contrast, export, markdown, terminal
from .drawing import sizes
from .load import ReportError
from .reproduction.publication import read_articles

OTHERS = """\
other commands, each with its own --help:
  python -m reports check PATH...   what is wrong with stored results, or with logs of other programs
  python -m reports compare A B     what changed between two results folders, with an exit code
  python -m reports export RESULTS  trials in MLflow, or as MLPerf's log lines
  python -m reports history DIR...  cells over commits, with the steps that a second run confirms
  python -m reports publish RESULTS a citable folder in published/
  python -m reports site DIR...     one static page over many results
  python -m reports submit RESULTS  one file for others to verify
"""
COMMANDS = {
    "check": ".check",
    "compare": ".comparing.command",
    "export": ".exporting.command",
    "history": ".comparing.history_command",
    "publish": ".publishing.publish",
    "site": ".site.command",
    "submit": ".submitting.command",
}  # modules


def main(arguments: list[str] | None = None) -> int:
    """Run the command. Returns exit code 0, or 2 if no report is possible, with one line on stderr.

    Returns 130 after Ctrl-C. Other commands have their own exit codes.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    program.outlast_readers(plain=True)
    program.interrupt_in_order()
    try:
        return run(arguments)
    except OSError as error:
        where, why = error.filename or "system", error.strerror or error
        print(f"reports: {where}: {why}; no result was changed", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nreports: interrupted; no result was changed. Run the same command again.", file=sys.stderr)
        return program.EXIT_INTERRUPTED


def run(arguments: list[str]) -> int:
    """Run without handling Ctrl-C; returns the exit code, as `main`."""
    if arguments and (module := COMMANDS.get(arguments[0])):
        return int(importlib.import_module(module, __package__).main(arguments[1:]))
    options = build_parser().parse_args(arguments)
    out = options.out or options.results[0] / "report"
    try:
        _refuse_command_like(options.results[0])
        if len(options.results) > 1 and not options.out:
            raise ReportError("--out is missing: a report over several folders needs a folder of its own; name one")
        if out.resolve() in {folder.resolve() for folder in options.results}:
            raise ReportError(f"--out {out}: it holds results; name another folder, or omit --out")
        if reason := refuse_target(options.target_accuracy):
            raise ReportError(reason)
        layout = sizes.Layout(sizes.SIZES[options.figure_size], options.bare)
        if layout != sizes.USUAL and not {*options.format} & {*export.OF_CHARTS}:
            kinds = " ".join(export.OF_CHARTS)
            raise ReportError(
                f"--figure-size, --bare: no figure is drawn; add one of {kinds} to --format, or omit them"
            )
        report = build.build_report(
            options.results, options.columns, options.target_accuracy, options.beside, options.baseline_batch
        )
        main_files = export.write(report, out, options.format, layout=layout)
    except ReportError as error:
        print(f"reports: {error}", file=sys.stderr)
        return 2
    for item in report.stored.unreadable:
        print(f"reports: {item.path}: left out: {item.reason}", file=sys.stderr)
    print(markdown.format_for_terminal(report) if options.tables else terminal.format_report(report))
    if not options.tables:  # with all options: another report would replace this one
        print(f"All tables here: python -m reports {shlex.join([*arguments, '--tables'])}")
    print(terminal.format_address(main_files, out))
    return 0


def _refuse_command_like(folder: Path) -> None:
    """Reject a missing folder whose name is close to a command's. Raises ReportError."""
    if not folder.exists() and (meant := suggest(str(folder), COMMANDS)):
        raise ReportError(f"unknown word {folder}{meant}")


def build_parser() -> CommandLine:
    """Return the parser of `python -m reports`."""
    parser = CommandLine(
        COMMANDS,
        prog="python -m reports",
        description="Tables, charts and a page from stored results.",
        epilog=OTHERS,
    )
    names = [publication.name for publication in read_articles()]
    parser.add_argument("results", type=Path, nargs="+", metavar="RESULTS",
                        help="folders that python -m runner wrote; several make one report")  # fmt: skip
    parser.add_argument("--out", type=Path, metavar="DIR", help="where the report goes (default: RESULTS/report)")
    parser.add_argument("--format", nargs="+", choices=export.FORMATS, default=export.USUAL, metavar="FORMAT",
                        help=f"some of {', '.join(export.FORMATS)} (default: {' '.join(export.USUAL)})")  # fmt: skip
    parser.add_argument("--tables", action="store_true", help="print the tables, too, as Markdown")
    tables = parser.add_argument_group("tables")
    tables.add_argument("--beside", action="append", choices=names, default=[], metavar="PUBLICATION",
                        help=f"published figures to show even if the task does not fit them: {', '.join(names)} "
                        "(default: those of the same network and data set)")  # fmt: skip
    tables.add_argument("--columns", action="store_true",
                        help="differing conditions side by side, as columns of one table")  # fmt: skip
    tables.add_argument("--target-accuracy", type=float, metavar="SHARE",
                        help="a table of the training time up to this test accuracy, such as 0.9")  # fmt: skip
    tables.add_argument("--baseline-batch", type=int, metavar="N",
                        help="a table of each framework's speed at each batch size relative to its speed at this one; "
                             "without this option, of neighbouring batch sizes less than "
                             f"{contrast.NEIGHBOURS_PERCENT} %% apart")  # fmt: skip
    pictures = parser.add_argument_group("figures (png, svg, pdf)")
    pictures.add_argument("--figure-size", choices=sizes.SIZES, default="page",
                          help="one column of a paper, its full width (default), or a slide of 16:9")  # fmt: skip
    pictures.add_argument("--bare", action="store_true", help="without title and caption, so you can add your own")
    return parser


if __name__ == "__main__":
    gc.disable()  # little of what is read is freed before the end, and collecting garbage is slow
    os.environ["MPLBACKEND"] = "agg"  # a notebook's cell passes its own on, which is not installed here
    sys.exit(main())
