"""Define the options of the command line, and build the study that they ask for."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, NoReturn

from runner import stable
from runner.request.block import shard_of
from workloads import study as studies
from workloads.command_line import CommandLine
from workloads.datasets import DATASETS
from workloads.networks import WORKLOADS
from workloads.records.build import PRECISIONS
from workloads.records.job import AUGMENTATIONS, FITS
from workloads.records.status import Status
from workloads.spec import BASE_BATCH_SIZE, DECAYING, OPTIMIZER_NAMES, SCALE_NAMES, SCHEDULE_NAMES
from workloads.study import Study, StudyError
from workloads.study_sizes import of_sizes

RETRIES = 3
USUAL_STUDY = "quick"
COMMANDS = ("batch-size", "compare", "doctor")  # the first words of other commands
CHOICES = {
    "optimizer": OPTIMIZER_NAMES,
    "schedule": SCHEDULE_NAMES,
    "scale_learning_rate": SCALE_NAMES,
    "augment": AUGMENTATIONS,
    "fit": FITS,
    "feed": ("host", "device"),
    "last_batch": ("keep", "drop"),
}
OPTIONS = {"batch_sizes": "batch-size"}  # options whose name differs from the study's key
# Statuses that may change when tried again at once. The next run tries all of them again anyway.
RETRIED = tuple(status.value for status in (Status.FAILED, Status.TIMEOUT, Status.CONTENDED, Status.UNVERIFIED))

EXAMPLES = """\
examples:
  python -m runner --framework all                             the main job, into results/quick
  python -m runner --framework pytorch mxnet --batch-size 32,128 --epochs 3 --repeat 5
  python -m runner --framework all --workload examples/my_cnn.py --dataset ./photos
  python -m runner --study osu-2020 --plan

other commands, each with a --help of its own:
  python -m runner batch-size   which batch size: largest, fastest, least energy, noise scale
  python -m runner compare A B  two commits, or two builds of a framework, measured in turn
  python -m runner doctor       is this machine fit to measure
  python -m reports RESULTS     tables, charts and a page from stored results
"""


class BadInput(ValueError):
    """Bad input; the message is one line: what is wrong, where, and what to do."""


class Parser(CommandLine):
    """Command line that raises BadInput instead of ending the process."""

    def __init__(self, **words: Any) -> None:
        super().__init__(COMMANDS, **words)

    def say_of(self, helps: Mapping[str, str]) -> None:
        """Replace the help of these options, given by what they are parsed into; argparse.SUPPRESS hides one."""
        for action in self._actions:
            action.help = helps.get(action.dest, action.help)

    def error(self, message: str) -> NoReturn:
        """Raises BadInput."""
        raise BadInput(f"{message} (see {self.prog} --help)")


def show_help(arguments: list[str]) -> None:
    """Print the help of `python -m runner` and exit if the arguments request it; other commands have their own help."""
    if {"-h", "--help"} & set(arguments) and arguments[0] not in COMMANDS:
        run_parser().parse_args(["--help"])


def run_parser() -> Parser:
    """Return the parser of `python -m runner`.

    Axes are named as in `Study`. An axis that is not given is None, because the study sets it.
    """
    parser = Parser(
        prog="python -m runner",
        description="Train one CNN in several deep-learning frameworks, per batch size, and measure it from outside.",
        epilog=EXAMPLES,
    )
    parser.add_argument(
        "--list", action="store_true", help="frameworks, workloads, data sets and studies; runs nothing"
    )
    parser.add_argument("--plan", action="store_true", help="print the trials and an estimate; runs nothing")
    parser.add_argument("--study", default=USUAL_STUDY, metavar="NAME|FILE",
                        help=f"{', '.join(sorted(studies.studies()))}, or a TOML file: what it says holds where no "
                        "option says otherwise (default: quick)")  # fmt: skip
    parser.add_argument("--series", dest="chosen_series", nargs="+", default=[], metavar="NAME",
                        help="of a study that has several: these alone")  # fmt: skip
    parser.add_argument("--ray", metavar="auto|HOST:PORT", help="run the trials on the machines of this Ray cluster, "
                        "(needs requirements-ray.txt)")  # fmt: skip
    parser.add_argument("--per-node-type", action="store_true", help="with --ray: the whole study on one machine of "
                        "each type that the cluster has, and a report over all")  # fmt: skip
    parser.add_argument("--node", metavar="ID", help="with --ray: on this machine alone (ray list nodes)")
    parser.add_argument("--shard", type=shard_of, metavar="I/N", help="every N-th block of the plan, from the I-th on, "
                        "into a results folder that the other shards may share")  # fmt: skip
    add_shared(parser)
    add_axes(parser)
    again = parser.add_argument_group("trials that are run again")
    again.add_argument(
        "--retry",
        nargs="+",
        default=[],
        metavar="STATUS",
        help=f"run a trial that ended so ({', '.join(RETRIED)}) again at once, at most {RETRIES} times, and keep each "
        "attempt",
    )
    again.add_argument("--try-all", action="store_true", help="also batch sizes larger than one that ran out of memory")
    again.add_argument("--until-stable", nargs="?", type=whole, const=stable.LIMIT, metavar="LIMIT",
                       help=f"more repeats until each mean speed's 95 %% interval is within {100 * stable.TOLERATED:g} "
                       f"%% of it, with {stable.FEWEST} repeats and again with one more, or there are LIMIT (default: "
                       f"{stable.LIMIT}); an interval that was waited for is worth less than 95 %%")  # fmt: skip
    return parser


def add_axes(parser: Parser) -> None:
    """Add options that change the study (`study_of`), and options for its data."""
    what = parser.add_argument_group("network and images")
    what.add_argument("--workload", metavar="NAME|FILE", help=f"{', '.join(WORKLOADS)}; or a file of yours that "
                       "defines one")  # fmt: skip
    what.add_argument("--model", dest="models", action="append", default=[], metavar="FRAMEWORK=FILE.py:FUNCTION",
                       help="a function (classes) -> model of the framework, trained in place of the network and "
                       "compared with nothing; --workload says the shape of its images")  # fmt: skip
    what.add_argument("--dataset", metavar="NAME|DIR|FILE.npz", help=f"{', '.join(DATASETS)}; or your own: a path "
                       "with a / in it to a folder with train/CLASS/, test/CLASS/; or a .npz file with x_train, "
                       "y_train, x_test, y_test")  # fmt: skip
    what.add_argument("--fit", metavar="stretch|crop|pad", help="how images are brought to the network's input, by "
                       "interpolation (default: stretch; published ones by whole factors)")  # fmt: skip
    what.add_argument("--skip-unreadable", action="store_true", default=None, help="leave out, and count, images of "
                       "your own that cannot be decoded")  # fmt: skip
    what.add_argument("--test-folder", metavar="NAME", help="which folder of your own images is the test split "
                       "(default: test/, else the only one of val/, valid/, validation/, dev/, eval/)")  # fmt: skip
    what.add_argument("--pixel-range", nargs=2, type=number, metavar=("LOW", "HIGH"), help="values of your own images "
                       "that become 0 and 255, as 0 4095 of 12 bits (default: all of the file's type)")  # fmt: skip
    what.add_argument("--test-all", action="store_true", default=None, help="of a data set that leaves images over "
                       "(cats-dogs, cifar10-cats-dogs): test with these, too")  # fmt: skip
    what.add_argument("--data-dir", type=Path, help="folder with the published files (default: $BATCHWISE_DATA, else "
                       "the project's data/, where they are downloaded); of cats-dogs, that of your zip")  # fmt: skip
    training = parser.add_argument_group("training")
    training.add_argument("--epochs", type=whole, metavar="N")
    training.add_argument("--optimizer", metavar="NAME", help=", ".join(OPTIMIZER_NAMES))
    training.add_argument("--learning-rate", type=number, metavar="RATE", help="the highest, where a schedule has more")
    training.add_argument("--weight-decay", type=number, metavar="DECAY", help=f"of {', '.join(DECAYING)}")
    training.add_argument("--schedule", metavar="NAME", help=f"of the learning rate: {', '.join(SCHEDULE_NAMES)}")
    training.add_argument("--warm-up", type=number, metavar="STEPS", help="steps, or below 1 a part of all, in which "
                       "the learning rate rises")  # fmt: skip
    training.add_argument("--scale-learning-rate", metavar="HOW", help=f"with the batch size: {', '.join(SCALE_NAMES)} "
                       "(default: none)")  # fmt: skip
    training.add_argument("--base-batch-size", type=whole, metavar="N", help="at which the learning rate is the one "
                          f"that is given (default: {BASE_BATCH_SIZE})")  # fmt: skip
    training.add_argument("--augment", metavar="NAME", help=f"of the training images: {', '.join(AUGMENTATIONS)}")
    training.add_argument("--accumulate", type=whole, metavar="K", help="batches that make one update: gradients of K "
                       "times the batch size, in the memory of one batch (default: 1)")  # fmt: skip
    training.add_argument("--devices", type=whole, metavar="N", help="that train one model in data parallel, each on "
                          "the batch size: GPUs, on a CPU parts of the threads (default: 1)")  # fmt: skip
    measuring = parser.add_argument_group("measuring")
    measuring.add_argument(
        "--repeat", dest="repeats", type=whole, metavar="N", help="fresh-process repeats of every cell"
    )
    measuring.add_argument(
        "--seed", type=whole, metavar="N", help="repeat r draws weights and batch order with seed + r"
    )
    measuring.add_argument("--profile", dest="profiles", nargs="+", metavar="NAME", help="default, the loop of the "
                       "framework's guide; tuned, the fastest known with the same numbers; on a GPU autotune or "
                       "no-autotune, cuDNN's choice of convolutions; or several")  # fmt: skip
    measuring.add_argument("--precision", dest="precisions", nargs="+", metavar="NAME", help=f"of the layers: "
                       f"{', '.join(PRECISIONS)}, or several; weights and updates stay in float32")  # fmt: skip
    measuring.add_argument("--feed", metavar="host|device", help="where the training split lives (default: host)")
    measuring.add_argument("--last-batch", metavar="keep|drop", help="what becomes of the last, smaller batch")
    measuring.add_argument(
        "--window", dest="window_s", type=number, metavar="SECONDS", help="length of the steady window"
    )
    measuring.add_argument("--timeout", dest="timeout_s", type=number, metavar="SECONDS", help="time limit of a trial")
    measuring.add_argument("--cool-down", dest="cool_down_s", type=number, metavar="SECONDS", help="wait before each "
                       "trial, for the device to cool (default: 0)")  # fmt: skip
    measuring.add_argument("--blocks", nargs="+", type=wholes, metavar="A,B,C", help="instead of trials: groups of "
                       "batch sizes, each in blocks of steps in turn within one process a repeat, as 127,128,129 "
                       "255,256,257; is one faster an image than its neighbours?")  # fmt: skip


def add_shared(parser: Parser) -> None:
    """Add options that `python -m runner batch-size` has, too."""
    where = parser.add_argument_group("what runs, and where")
    where.add_argument(
        "--framework", dest="frameworks", nargs="+", metavar="NAME", help="all, or names (default: the study's)"
    )
    where.add_argument("--adapters", type=Path, metavar="DIR", help="a folder of frameworks of one's own, DIR/NAME as "
                       "`python -m adapters new NAME --into DIR` writes it, beside the project's")  # fmt: skip
    where.add_argument("--python", dest="pythons", action="append", default=[], metavar="FRAMEWORK[@LABEL]=PATH",
                       help="run its workers by an interpreter that has it already; with labels several builds of "
                       "one framework stand beside each other")  # fmt: skip
    where.add_argument("--batch-size", dest="batch_sizes", nargs="+", type=wholes, action=Several, metavar="N",
                       help="100 127, or 100,127 (default: the study's)")  # fmt: skip
    where.add_argument("--device", metavar="auto|cpu|cuda:N|UUID")
    where.add_argument("--threads", type=whole, metavar="N", help="cores and threads of a worker (default: all)")
    where.add_argument(
        "--results",
        type=Path,
        metavar="DIR",
        help="default: results/STUDY, of another network or data set than the study quick's results/NETWORK-DATASET",
    )
    where.add_argument("--isolation", metavar="venv|docker|here", help="each trial in its framework's virtual "
                       "environment, in a container of its image (Docker or Podman), or in this Python as it is "
                       "(default: venv; in an image: here)")  # fmt: skip
    where.add_argument("--memory-limit", type=whole, metavar="MIB", help="of a trial's container; without one, of a "
                       "control group if one can be made, else of its private memory (RLIMIT_DATA)")  # fmt: skip


class Several(argparse.Action):
    """Collect the parts of all words: `100,127 256` is three."""

    def __call__(self, parser: Any, options: argparse.Namespace, words: Any, option: str | None = None) -> None:
        """Store the parts of one option; a later one replaces it."""
        setattr(options, self.dest, [part for word in words for part in word])


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


def known(kind: str, name: str, names: Iterable[str]) -> str:
    """Return the name. Raises BadInput for an unknown one, with similar names."""
    names = sorted(names)
    if name in names:
        return name
    close = difflib.get_close_matches(name, names, n=2, cutoff=0.5)
    offer = f"did you mean {' or '.join(close)}?" if close else f"known are {', '.join(names)}"
    raise BadInput(f"unknown {kind} {name!r}: {offer}")


def study_of(options: argparse.Namespace) -> Study:
    """Return the requested study, changed by the options. Raises BadInput."""
    shipped = studies.studies()
    is_file = options.study.endswith(".toml") or "/" in options.study
    path = Path(options.study) if is_file else shipped[known("study", options.study, shipped)]
    axes: dict[str, Any] = {axis.name: getattr(options, axis.name, None) for axis in fields(Study)}
    for name, choices in CHOICES.items():
        if axes[name] is not None:
            known(name.replace("_", " "), axes[name], choices)
    lists = {name: tuple(value) for name, value in axes.items() if isinstance(value, list)}
    changes = {name: value for name, value in (axes | lists).items() if value is not None}
    try:
        study = _chosen(studies.read(path), getattr(options, "chosen_series", []))
        if any("batch_sizes" in each.keys for each in study.series):
            study = of_sizes(study, changes.pop("batch_sizes", ()))
        for key in changes:
            if own := [each.name for each in study.series if key in each.keys]:
                option, names = OPTIONS.get(key, key.replace("_", "-")), ", ".join(own)
                raise BadInput(
                    f"--{option}: study {study.name} says it by series ({names}): leave it out, or choose others with "
                    "--series"
                )
        return study.changed(**changes)
    except StudyError as error:
        raise BadInput(str(error)) from error


def _chosen(study: Study, names: list[str]) -> Study:
    """Return the study with only these of its series, or all if none are given. Raises BadInput."""
    if names and not study.series:
        raise BadInput(f"--series {names[0]}: study {study.name} has no series")
    wanted = {known("series", name, study.parts) for name in names} or set(study.parts)
    return study.changed(series=tuple(each for each in study.series if each.name in wanted))
