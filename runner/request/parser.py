"""Define the options of the command line, and build the study that they ask for."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import NoneType
from typing import Any, NoReturn, get_args, get_origin, get_type_hints

from runner import stable
from runner.request.block import parse_shard
from workloads import study_file
from workloads.command_line import HELP_ALL, CommandLine
from workloads.datasets import DATASETS
from workloads.networks import WORKLOADS
from workloads.records.status import Status
from workloads.study import KEYS, Study, StudyError, list_studies
from workloads.study_keys import MEASURING, NETWORK, TRAINING, WHERE, list_choices

RETRIES = 3
USUAL_STUDY = "quick"
HELPS = ("-h", "--help", HELP_ALL)
COMMANDS = ("batch-size", "compare", "doctor")  # the first words of other commands
USUAL = ("--framework", "--workload", "--dataset", "--batch-size", "--epochs", "--repeat", "--results", "--plan")
# Statuses that may change when tried again at once. The next run tries all of them again anyway.
RETRIED = tuple(status.value for status in (Status.FAILED, Status.TIMEOUT, Status.CONTENDED, Status.UNVERIFIED))

EXAMPLES = """\
examples:
  python -m runner --framework all                             the main job, into results/quick
  python -m runner --framework pytorch mxnet --batch-size 32,128 --epochs 3 --repeat 5
  python -m runner --framework all --workload examples/my_cnn.py --dataset ./photos
  python -m runner --study osu-2020 --plan

other commands, each with its own --help:
  python -m runner --list       frameworks, networks, data sets and studies
  python -m runner batch-size   which batch size: largest, fastest, least energy, noise scale
  python -m runner compare A B  two commits, or two builds of a framework, measured in turn
  python -m runner doctor       check if this machine is fit to measure
  python -m reports RESULTS     tables, charts and a page from stored results
"""


class BadInput(ValueError):
    """Bad input; the message is one line: what is wrong, where, and what to do."""


class Parser(CommandLine):
    """Command line that raises BadInput instead of ending the process."""

    def __init__(self, usual: Iterable[str] = (), **words: Any) -> None:
        super().__init__(COMMANDS, usual, **words)

    def say_of(self, helps: Mapping[str, str]) -> None:
        """Replace the help of these options, given by what they are parsed into; argparse.SUPPRESS hides one."""
        for action in self._actions:
            action.help = helps.get(action.dest, action.help)

    def error(self, message: str) -> NoReturn:
        """Raises BadInput."""
        raise BadInput(f"{message} (see {self.prog} --help)")


def show_help(arguments: list[str]) -> None:
    """Print the help of `python -m runner` and exit if the arguments request it; other commands have their own help."""
    if (asked := [word for word in arguments if word in HELPS]) and arguments[0] not in COMMANDS:
        run_parser().parse_args(asked[:1])


def run_parser() -> Parser:
    """Return the parser of `python -m runner`.

    Axes are named as in `Study`. An axis that is not given is None, because the study sets it.
    """
    parser = Parser(
        USUAL,
        prog="python -m runner",
        description="Train one CNN in several deep-learning frameworks, per batch size, and measure it from outside.",
        epilog=EXAMPLES,
    )
    parser.add_argument(
        "--list", action="store_true", help="list frameworks, workloads, data sets and studies; runs nothing"
    )
    parser.add_argument("--plan", action="store_true", help="print the trials and an estimate; runs nothing")
    parser.add_argument("--study", default=USUAL_STUDY, metavar="NAME|FILE",
                        help=f"{', '.join(sorted(list_studies()))}, or a TOML file; options override its "
                        "settings (default: quick)")  # fmt: skip
    parser.add_argument("--series", dest="chosen_series", nargs="+", default=[], metavar="NAME",
                        help="run only these series of the study")  # fmt: skip
    parser.add_argument("--ray", metavar="auto|HOST:PORT", help="run the trials on the machines of this Ray cluster "
                        "(needs requirements-ray.txt)")  # fmt: skip
    parser.add_argument("--per-node-type", action="store_true", help="with --ray: run the whole study on a machine of "
                        "each type in the cluster, and report over all")  # fmt: skip
    parser.add_argument("--node", metavar="ID", help="with --ray: run only on this machine (ray list nodes)")
    parser.add_argument("--shard", type=parse_shard, metavar="I/N", help="run every N-th block of the plan, "
                        "from the I-th on; other shards may share the results folder")  # fmt: skip
    add_shared(parser)
    add_axes(parser)
    again = parser.add_argument_group("repeats and retries")
    again.add_argument(
        "--retry",
        nargs="+",
        default=[],
        metavar="STATUS",
        help=f"rerun a trial with this status ({', '.join(RETRIED)}) at once, at most {RETRIES} times, and keep each "
        "attempt",
    )
    again.add_argument(
        "--try-all", action="store_true", help="also run batch sizes larger than one that ran out of memory"
    )
    again.add_argument("--until-stable", nargs="?", type=whole, const=stable.LIMIT, metavar="LIMIT",
                       help=f"add repeats until each mean speed's 95 %% interval is within {100 * stable.TOLERATED:g} "
                       f"%% of it, with {stable.FEWEST} repeats and again with one more, or until LIMIT (default: "
                       f"{stable.LIMIT}); stopping once an interval is narrow lowers its real "
                       "coverage below 95 %%")  # fmt: skip
    return parser


def add_axes(parser: Parser) -> None:
    """Add options that change the study (`build_study`), and options for its data."""
    what = parser.add_argument_group("network and images")
    for name in _keys_of(NETWORK):
        _add_key(what, name)
        if name == "workload":
            what.add_argument("--model", dest="models", action="append", default=[],
                              metavar="FRAMEWORK=FILE.py:FUNCTION", help="a function (classes) that returns a "
                              "model of the framework; it replaces the network and is compared with nothing. "
                              "--workload gives the shape of its images")  # fmt: skip
    what.add_argument("--data-dir", type=Path, help="folder with the published files (default: $BATCHWISE_DATA, else "
                       "the project's data/, filled by downloads); for cats-dogs: the folder of your zip")  # fmt: skip
    for group in (TRAINING, MEASURING):
        options = parser.add_argument_group(group)
        for name in _keys_of(group):
            _add_key(options, name)


def add_shared(parser: Parser) -> None:
    """Add options that `python -m runner batch-size` has, too."""
    where = parser.add_argument_group("what runs, and where")
    for name in _keys_of(WHERE):
        _add_key(where, name)
        if name == "frameworks":
            where.add_argument("--adapters", type=Path, metavar="DIR", help="a folder of your own frameworks, "
                               "DIR/NAME as `python -m adapters new NAME --into DIR` writes it, in "
                               "addition to the project's")  # fmt: skip
            where.add_argument("--python", dest="pythons", action="append", default=[],
                               metavar="FRAMEWORK[@LABEL]=PATH", help="run a framework's workers with an interpreter "
                               "that already has it; builds with different labels have a column each")  # fmt: skip
    where.add_argument(
        "--results",
        type=Path,
        metavar="DIR",
        help="where results go (default: results/STUDY; results/NETWORK-DATASET if you name another network or data "
        "set than the study quick)",
    )
    where.add_argument("--isolation", metavar="venv|docker|here", help="run each trial in its framework's virtual "
                       "environment, in a container of its image (Docker or Podman), or in this Python "
                       "(default: venv; in an image: here)")  # fmt: skip
    where.add_argument("--memory-limit", type=whole, metavar="MIB", help="memory that a trial may use; its container "
                       "is limited, else its control group, else its private memory (RLIMIT_DATA)")  # fmt: skip


def _keys_of(group: str) -> list[str]:
    """List the keys of a study whose options are in this group."""
    return [name for name, key in KEYS.items() if key.group == group]


def _add_key(group: argparse._ArgumentGroup, name: str) -> None:
    """Add the option of a study's key; how it is parsed follows from the key's type."""
    key, known_words = KEYS[name], list_choices(TYPES[name])
    kind = next((each for each in get_args(TYPES[name]) if NoneType in get_args(TYPES[name])), TYPES[name])
    text = key.help.format(workloads=", ".join(WORKLOADS), datasets=", ".join(DATASETS), choices=", ".join(known_words))
    parsed = PARSED.get(kind, NAMES if get_origin(kind) is tuple else {})
    shown: dict[str, Any] = {} if kind is bool else {"metavar": key.metavar or "|".join(known_words)}
    group.add_argument(f"--{_option(name)}", dest=name, default=None, help=text or None, **parsed, **shown)


def _option(name: str) -> str:
    """Return the option of a study's key, without its hyphens."""
    return KEYS[name].name or name.replace("_", "-")


class Several(argparse.Action):
    """Collect the parts of all words: `100,127 256` is three. A name that is given twice counts once."""

    def __call__(self, parser: Any, options: argparse.Namespace, words: Any, option: str | None = None) -> None:
        """Store the parts of one option; a later one replaces it."""
        parts = [part for word in words for part in word]
        named = all(isinstance(part, str) for part in parts)
        setattr(options, self.dest, list(dict.fromkeys(parts)) if named else parts)


def names(text: str) -> list[str]:
    """Parse an argument of names between commas."""
    return [part for part in text.split(",") if part]


def wholes(text: str) -> list[int]:
    """Parse an argument of whole numbers between commas. Raises ArgumentTypeError."""
    return [whole(part) for part in text.split(",")]


def whole(text: str) -> int:
    """Parse an argument as int. Raises ArgumentTypeError."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def number(text: str) -> float:
    """Parse an argument as float. Raises ArgumentTypeError."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


TYPES = get_type_hints(Study)
# The arguments of argparse by a key's type; other lists are NAMES, and all else is one word.
NAMES: dict[str, Any] = {"nargs": "+", "type": names, "action": Several}
PARSED: dict[Any, dict[str, Any]] = {
    bool: {"action": "store_true"},
    int: {"type": whole},
    float: {"type": number},
    tuple[int, ...]: {"nargs": "+", "type": wholes, "action": Several},
    tuple[float, float]: {"nargs": 2, "type": number},
    tuple[int, int, int]: {"nargs": 3, "type": whole},
    tuple[tuple[int, ...], ...]: {"nargs": "+", "type": wholes},
}


def need_known(kind: str, name: str, names: Iterable[str]) -> str:
    """Return the name. Raises BadInput for an unknown one, with similar names."""
    names = sorted(names)
    if name in names:
        return name
    close = difflib.get_close_matches(name.lower(), names, n=2, cutoff=0.5)
    offer = f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(names)}"
    raise BadInput(f"unknown {kind} {name!r}: {offer}")


def build_study(options: argparse.Namespace) -> Study:
    """Return the requested study, changed by the options. Raises BadInput."""
    shipped = list_studies()
    is_file = options.study.endswith(".toml") or "/" in options.study
    path = Path(options.study) if is_file else shipped[need_known("study", options.study, shipped)]
    changes: dict[str, Any] = {name: value for name in KEYS if (value := getattr(options, name)) is not None}
    for name, value in changes.items():
        if isinstance(value, list):
            changes[name] = tuple(value)
        elif words := list_choices(TYPES[name]):
            need_known(name.replace("_", " "), value, words)
    try:
        study = _chosen(study_file.read(path), getattr(options, "chosen_series", []))
        if any("batch_sizes" in each.keys for each in study.series):
            study = _of_sizes(study, changes.pop("batch_sizes", ()))
        for key in changes:
            if own := [each.name for each in study.series if key in each.keys]:
                names = ", ".join(own)
                raise BadInput(
                    f"--{_option(key)}: study {study.name} sets it per series ({names}): leave it out, or choose "
                    "others with --series"
                )
        return study.changed(**changes)
    except StudyError as error:
        raise BadInput(str(error)) from error


def _chosen(study: Study, names: list[str]) -> Study:
    """Return the study with only these of its series, or all if none are given. Raises BadInput."""
    if names and not study.series:
        raise BadInput(f"--series {names[0]}: study {study.name} has no series")
    wanted = {need_known("series", name, study.parts) for name in names} or set(study.parts)
    return study.changed(series=tuple(each for each in study.series if each.name in wanted))


def _of_sizes(study: Study, sizes: Collection[int]) -> Study:
    """Return the study with only these batch sizes, and the series that have one of them; all if none is named.

    Raises BadInput for a size that no series has.
    """
    if not sizes:
        return study
    kept = {name: tuple(size for size in part.batch_sizes if size in sizes) for name, part in study.parts.items()}
    known_sizes = sorted({size for part in study.parts.values() for size in part.batch_sizes})
    if unknown := [size for size in sizes if size not in known_sizes]:
        offer = ", ".join(map(str, known_sizes))
        raise BadInput(f"--batch-size {unknown[0]}: the series of study {study.name} have {offer}: choose from those")
    series = (
        replace(each, changes=tuple((dict(each.changes) | {"batch_sizes": kept[each.name]}).items()))
        for each in study.series
    )
    return study.changed(series=tuple(each for each in series if kept[each.name]))
