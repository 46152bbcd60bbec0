"""Print the shell completion of `batchwise`, or the page of all options; both are made from the parsers.

python -m tools.command_lines complete bash, or zsh, tcsh, fish; python -m tools.command_lines reference
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import shtab

import reports.__main__ as report
from reports import check
from reports.comparing import command as compare_results
from reports.comparing import history_command as history
from reports.exporting import command as export_results
from reports.publishing import publish
from reports.site import command as site
from reports.submitting import command as submit
from runner import compare
from runner.batch_size import command as batch_size
from runner.doctor import command as doctor
from runner.project import Project
from runner.request.cli import ISOLATIONS
from runner.request.parser import TYPES, run_parser
from workloads.command_line import CommandLine
from workloads.datasets import DATASETS
from workloads.networks import WORKLOADS
from workloads.study import list_studies
from workloads.study_keys import list_choices

RUN, REPORTS = "python -m runner", "python -m reports"
COMMANDS: dict[str, Callable[[], CommandLine]] = {
    RUN: run_parser,
    f"{RUN} batch-size": batch_size.build_parser,
    f"{RUN} compare": compare.build_parser,
    f"{RUN} doctor": doctor.build_parser,
    REPORTS: report.build_parser,
    f"{REPORTS} check": check.build_parser,
    f"{REPORTS} compare": compare_results.build_parser,
    f"{REPORTS} export": export_results.build_parser,
    f"{REPORTS} history": history.build_parser,
    f"{REPORTS} publish": publish.build_parser,
    f"{REPORTS} site": site.build_parser,
    f"{REPORTS} submit": submit.build_parser,
}
HELPS = ("help", "help_all")
PAGE = """\
# All options

Every command's options, as `--help-all` prints them. [By topic](options.md); [which command does
what](commands.md). Made by `python -m tools.command_lines reference`.
"""


def list_subcommands(command: str) -> dict[str, Callable[[], CommandLine]]:
    """Return {word: builder of its parser} of the commands whose first words are this command's."""
    longer = {name.removeprefix(f"{command} "): build for name, build in COMMANDS.items() if name != command}
    return {word: build for word, build in longer.items() if " " not in word}


def build_whole_parser() -> CommandLine:
    """Build one parser of `batchwise` with all its commands."""
    whole = CommandLine(prog="batchwise", parents=[run_parser()], add_help=False)
    commands = add_commands(whole, RUN)
    add_commands(commands.add_parser("reports", parents=[report.build_parser()], add_help=False, help=REPORTS), REPORTS)
    return whole


def add_commands(parser: CommandLine, command: str) -> argparse._SubParsersAction[CommandLine]:
    """Add the commands that follow this one, and return what further ones can be added to."""
    complete_words(parser)
    words = parser.add_subparsers()
    for word, build in list_subcommands(command).items():
        parents = [build(), run_parser()] if build is compare.build_parser else [build()]
        added = words.add_parser(
            word, parents=parents, add_help=False, conflict_handler="resolve", help=f"{command} {word}"
        )
        complete_words(added)
    parser._actions.sort(key=lambda action: action is not words)  # a command is the first word
    return words


def complete_words(parser: CommandLine) -> None:
    """Set what follows each option: the known names, or a file or folder."""
    names: dict[str, Iterable[str]] = {
        "frameworks": ("all", "everything", *Project.of_this_code().frameworks),
        "study": list_studies(),
        "workload": WORKLOADS,
        "dataset": DATASETS,
        "isolation": ISOLATIONS,
        "device": ("auto", "cpu", "cuda:0"),
    }
    for action in parser._actions:
        if known := tuple(names.get(action.dest, ())) or list_choices(TYPES.get(action.dest)):
            action.choices = known
        elif action.type is Path:
            action.complete = shtab.FILE  # type: ignore[attr-defined]


def write_reference() -> str:
    """Write the text of docs/reference/all-options.md."""
    return "\n".join([PAGE, *(line for command, build in COMMANDS.items() for line in _list_options(command, build()))])


def _list_options(command: str, parser: CommandLine) -> Iterator[str]:
    formatter = parser._get_formatter()
    yield f"## {command}\n"
    yield f"{' '.join((parser.description or '').split())}\n"
    for group in parser._action_groups:
        shown = [each for each in group._group_actions if each.help != argparse.SUPPRESS and each.dest not in HELPS]
        if not shown:
            continue
        yield f"| {group.title} | |"
        yield "|---|---|"
        for action in shown:
            words = formatter._format_action_invocation(action).replace("|", "\\|")
            said = " ".join(formatter._expand_help(action).split()).replace("|", "\\|")
            yield f"| `{words}` | {said} |"
        yield ""


def main(arguments: list[str] | None = None) -> int:
    """Print what is asked for, and return the exit code 0."""
    parser = CommandLine(prog="python -m tools.command_lines", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    complete = commands.add_parser("complete", help="a script that completes `batchwise` in a shell")
    complete.add_argument("shell", choices=shtab.SUPPORTED_SHELLS)
    commands.add_parser("reference", help="docs/reference/all-options.md")
    options = parser.parse_args(arguments)
    if options.command == "complete":
        print(shtab.complete(build_whole_parser(), options.shell))
    else:
        print(write_reference(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
