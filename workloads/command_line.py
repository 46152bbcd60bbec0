"""The only parser of the product's command lines: for an unknown word it suggests the closest known one."""

from __future__ import annotations

import argparse
import difflib
import shlex
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Any, NoReturn

ALIKE = 0.6  # of difflib's ratio
EXIT_BAD_INPUT = 2
HELP_ALL = "--help-all"


def suggest(word: str, names: Iterable[str]) -> str:
    """Return the end of a sentence that offers the closest name; empty if none is close."""
    close = difflib.get_close_matches(word, list(names), n=1, cutoff=ALIKE)
    return f": did you mean {close[0]}?" if close else ""


def _list_values(words: Sequence[str], place: int) -> list[str]:
    """Return the values of the list option at this place."""
    _, equals, value = words[place].partition("=")
    return [value] if equals else list(takewhile(lambda word: not word.startswith("-"), words[place + 1 :]))


class _Help(argparse.HelpFormatter):
    """Help in which names with a hyphen stay whole, to be found and copied. Texts of several lines stay unchanged."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if "\n" not in text:
            return super()._fill_text(text, width, indent)
        return "".join(indent + line for line in text.splitlines(keepends=True))


class _HelpAll(argparse.Action):
    """Print the help with every option, and end the process."""

    def __call__(self, parser: Any, *_: Any) -> None:
        print(parser.format_whole_help(), end="")
        parser.exit()


class CommandLine(argparse.ArgumentParser):
    """Ends the process with one line and exit code 2 if it cannot parse the arguments; no option is abbreviated.

    A list option is given once. For any other option the last value counts.

    `others` are words that other parsers know: they are suggested, too. `usual` are the options that `--help` shows, in
    this order; the others are in `--help-all`. Without them `--help` shows all.
    """

    def __init__(self, others: Iterable[str] = (), usual: Iterable[str] = (), **words: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=_Help, **words)
        self.others, self.usual = tuple(others), tuple(usual)
        if self.usual:
            self.add_argument(HELP_ALL, action=_HelpAll, nargs=0, help="show every option, in groups, and exit")

    def format_help(self) -> str:
        """Return the help: the usual options, if there are such; else every option."""
        if not self.usual:
            return self.format_whole_help()
        formatter = self._get_formatter()
        formatter.add_usage("%(prog)s [OPTION ...]", [], [])
        formatter.add_text(self.description)
        formatter.start_section("options that most people need")
        formatter.add_arguments([self._option_string_actions[name] for name in (*self.usual, HELP_ALL)])
        formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def format_whole_help(self) -> str:
        """Return the help with every option, in groups."""
        return super().format_help()

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse an unknown word; the line offers the option or command that it is close to."""
        options, unknown = self.parse_known_args(args, namespace)
        if unknown:
            word = unknown[0].partition("=")[0]
            kind = "option" if word.startswith("-") else "word"
            self.error(f"unknown {kind} {unknown[0]}{suggest(word, [*self.options(), *self.others])}")
        return options

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse a list option that is given twice: only its last values would count."""
        words = list(sys.argv[1:] if args is None else args)
        self._refuse_twice(list(takewhile(lambda word: word != "--", words)))
        return super().parse_known_args(words, namespace)

    def _refuse_twice(self, words: Sequence[str]) -> None:
        for action in self._actions:
            if action.nargs not in (argparse.ONE_OR_MORE, argparse.ZERO_OR_MORE):
                continue
            given = [place for place, word in enumerate(words) if word.partition("=")[0] in action.option_strings]
            if len(given) > 1:
                option = words[given[0]].partition("=")[0]
                values = dict.fromkeys(value for place in given for value in _list_values(words, place))
                self.error(f"{option} is given twice: name all after one: {shlex.join((option, *values))}")

    def options(self) -> Iterator[str]:
        """Yield the names of its options, and of its commands' options."""
        yield from self._option_string_actions
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                for parser in action.choices.values():
                    yield from parser._option_string_actions

    def error(self, message: str) -> NoReturn:
        """Print the message and where the help is, as one line, and end the process."""
        self.exit(EXIT_BAD_INPUT, f"{self.prog}: {message} (see {self.prog} --help)\n")
