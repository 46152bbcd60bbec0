"""Run `python -m runner compare A B`: run two commits or two builds of a framework in turn, then compare the runs.

Runs of the same code differ by the hour. Each round measures both sides, and starts with the side that the round before
ended with. So every hour is in the runs of both.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from runner import owned
from runner.data.cache import CACHE_VARIABLE
from runner.environments.definition import EnvironmentUnavailable, read
from runner.git import ask_git
from runner.owned import ENDING_S, KILLED
from runner.project import RESULTS, Project
from runner.request import cli
from runner.request.cli import Request
from runner.request.data_sets import DATA_VARIABLE
from runner.request.parser import BadInput, Parser, run_parser, whole
from runner.setup import make_environments
from runner.storage import CannotGoOn
from workloads.program import build_environment
from workloads.records.build import column_of

RUNS, FEWEST_RUNS = 5, 2
INTO = RESULTS / "compare"
CHECKOUTS = "checkouts"
# Files that decide which packages a commit runs with. Both commits must agree with this checkout, whose packages they
# get.
PACKAGES = ("requirements.txt", "runner/requirements.txt", "adapters/*/environment.toml")
ENDED = (0, 1)  # exit codes of a run that measured what it could
FOLDERS = ("--data-dir", "--adapters")  # options that always name a path
VARIABLES = (DATA_VARIABLE, CACHE_VARIABLE)  # variables of the user that name a folder
NAMES_OR_PATHS = ("--study", "--workload", "--dataset")
OF_FRAMEWORKS = ("--model", "--python")  # FRAMEWORK=PATH
PATH = "PATH"  # in place of an option whose whole value is a path


@dataclass(frozen=True)
class ComparedSide:
    """A commit, or the options that choose an interpreter of this checkout."""

    name: str  # name of the folder of its runs, which `reports compare` shows
    commit: str | None = None
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunsInTurn:
    """Two sides to measure in turn; `words` are the options of every run."""

    request: Request  # of a run of the first side
    sides: tuple[ComparedSide, ComparedSide]
    words: tuple[str, ...]
    runs: int
    into: Path


def parse_runs_in_turn(arguments: Sequence[str], project: Project) -> RunsInTurn:
    """Return the two sides and the options of their runs. Raises BadInput, BadDefinition, DataError."""
    named = [word for word in arguments[:2] if not word.startswith("-")]
    if len(named) < 2 and not {"-h", "--help"} & set(arguments):
        raise BadInput("two commits, or two builds as FRAMEWORK=PATH, come first (see python -m runner compare --help)")
    parser, run_words = build_parser(), run_parser()
    run_words.others += tuple(parser.options())
    options, words = parser.parse_known_args(arguments)
    if options.runs < FEWEST_RUNS:
        raise BadInput(f"--runs {options.runs}: give {FEWEST_RUNS} or more; one run does not show how runs differ")
    if given := {"--results", "--plan", "--list"} & {word.partition("=")[0] for word in words}:
        raise BadInput(f"{min(given)}: not for compare, which stores its runs in folders below --into")
    sides = _sides(options.a, options.b, words, project)
    into = (options.into or INTO / f"{sides[0].name}-{sides[1].name}").resolve()
    words = list(_make_absolute(words))
    request = cli.build_request(run_words.parse_args([*words, *sides[0].words, "--results", str(into)]), project)
    if request.study.blocks or request.elsewhere or request.per_node_type or request.shard:
        raise BadInput("--blocks, --ray, --shard: not for compare, which runs trials on this machine; leave it out")
    if sides[0].commit and request.isolation != "venv":
        raise BadInput(f"--isolation {request.isolation}: commits are compared in virtual environments; leave it out")
    cli.build_request(run_parser().parse_args([*words, *sides[1].words, "--results", str(into)]), project)
    return RunsInTurn(request, sides, tuple(words), options.runs, into)


def build_parser() -> Parser:
    """Return the parser of `python -m runner compare`; the options of its runs are those of `run_parser`."""
    parser = Parser(
        prog="python -m runner compare",
        usage="%(prog)s A B [--runs N] [--into DIR] [options of python -m runner]",
        description="Measure two commits of this checkout, or two builds of a framework, in turn, and compare them "
        "between runs. Exit code 1 if a trial failed.",
    )
    parser.add_argument("a", metavar="A", help="the baseline: a commit, or FRAMEWORK=PATH of an interpreter")
    parser.add_argument("b", metavar="B", help="compared with A")
    parser.add_argument("--runs", type=whole, default=RUNS, metavar="N", help=f"runs of each side (default: {RUNS})")
    parser.add_argument("--into", type=Path, metavar="DIR", help=f"folder of all runs (default: {INTO}/A-B)")
    return parser


def _sides(a: str, b: str, words: Sequence[str], project: Project) -> tuple[ComparedSide, ComparedSide]:
    builds = ["=" in word for word in (a, b)]
    if any(builds) and not all(builds):
        raise BadInput(f"{a} and {b}: give two commits, or two builds as FRAMEWORK=PATH")
    if all(builds):
        return _builds(a, b, words)
    commits = [_commit(word, project) for word in (a, b)]
    if commits[0] == commits[1]:
        raise BadInput(f"{a} and {b} are the same commit, {commits[0][:12]}; name two different ones")
    for word, commit in zip((a, b), commits, strict=True):
        if changed := ask_git(project.root, "diff", "--name-only", commit, "--", *PACKAGES).split():
            raise BadInput(
                f"{word}: it needs other packages than this checkout ({', '.join(changed)}); measure both checkouts by "
                "themselves and give their folders to python -m reports compare"
            )
    first, second = (ComparedSide(commit[:12], commit) for commit in commits)
    return first, second


def _builds(a: str, b: str, words: Sequence[str]) -> tuple[ComparedSide, ComparedSide]:
    (framework, _, path), (other, _, second) = a.partition("="), b.partition("=")
    if framework != other:
        raise BadInput(f"{a} and {b}: two builds of one framework are compared; name {framework} in both")
    if os.path.abspath(path) == os.path.abspath(second):
        raise BadInput(f"{a} and {b} are the same interpreter; name two different ones")
    names = [f"{side}-{Path(os.path.abspath(each)).parent.parent.name}" for side, each in (("a", path), ("b", second))]
    named = any(word.partition("=")[0] == "--framework" for word in words)
    alone = () if named else ("--framework", column_of(framework).framework)
    return (
        ComparedSide(names[0], words=("--python", f"{framework}={os.path.abspath(path)}", *alone)),
        ComparedSide(names[1], words=("--python", f"{framework}={os.path.abspath(second)}", *alone)),
    )


def _commit(word: str, project: Project) -> str:
    words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{word}^{{commit}}")
    try:
        return ask_git(project.root, *words).strip()
    except OSError as error:
        raise BadInput(f"git: {error.strerror}; install it, or compare builds as FRAMEWORK=PATH") from error
    except subprocess.CalledProcessError as error:
        reason = f" ({error.stderr.strip()})" if error.stderr.strip() else ""
        raise BadInput(
            f"{word}: not a commit of {project.root}{reason}, and not a build: give a commit, or FRAMEWORK=PATH"
        ) from error


def _make_absolute(words: Sequence[str]) -> Iterator[str]:
    """Yield the words with the user's paths made absolute, because a commit's runs start in its own folder."""
    option = ""
    for word in words:
        if word.startswith("-"):
            option, equals, value = word.partition("=")
            yield f"{option}={_absolute(option, value)}" if equals else word
        else:
            yield _absolute(option, word)


def _absolute(option: str, value: str) -> str:
    """Return the option's value with its path made absolute, if it names one that exists."""
    if option in FOLDERS:
        return os.path.abspath(value)
    if option in OF_FRAMEWORKS:
        framework, equals, value = value.partition("=")
        return f"{framework}{equals}{_absolute(PATH, value)}"
    path, colon, function = (value, "", "") if os.path.exists(value) else value.rpartition(":")
    # No network, data set or study that comes with the project has a dot or a slash in its name.
    named = option == PATH or (option in NAMES_OR_PATHS and ("/" in path or Path(path).suffix))
    return f"{os.path.abspath(path)}{colon}{function}" if named and path and os.path.exists(path) else value


def run(asked: RunsInTurn, console: Console) -> int:
    """Measure, print the comparison, and return the exit code.

    Raises BadInput, CannotGoOn, OSError, KeyboardInterrupt.
    """
    project, codes = asked.request.project, []
    if asked.sides[0].commit:
        make_environments(asked.request, console)
    try:
        roots = {side.name: _checkout(side, asked) if side.commit else None for side in asked.sides}
    except subprocess.CalledProcessError as error:
        raise CannotGoOn(f"{' '.join(error.cmd)}: {error.stderr.strip()}") from error
    for number in range(1, asked.runs + 1):
        for side in asked.sides if number % 2 else reversed(asked.sides):
            console.print(f"run {number} of {asked.runs}: {side.name}")
            results = asked.into / side.name / str(number)
            words = [*asked.words, *side.words, "--results", str(results)]
            code = _measure(words, project.root, roots[side.name])
            if code not in ENDED:
                return code if code > 0 else KILLED
            codes.append(code)
    folders = [str(asked.into / side.name) for side in asked.sides]
    names = [f"./{side.name}" for side in asked.sides]  # pages show them: the folders above are the user's
    command = [sys.executable, "-P", "-m", "reports", "compare", *names, "--out", "compare"]
    compared = owned.run(command, cwd=asked.into, env=build_environment(os.environ, project.root)).returncode
    console.print(f"to fail on a regression: python -m reports compare {shlex.join(folders)} --fail-on-regression 5%")
    return max(*codes, compared)


def _measure(words: Sequence[str], own: Path, checkout: Path | None) -> int:
    """Return the exit code of `python -m runner` of this project, run here, or of a checkout, run there.

    Raises OSError, KeyboardInterrupt.
    """
    named = {name: folder for name in VARIABLES if (folder := os.environ.get(name))}
    folders = {name: os.path.abspath(os.path.expanduser(folder)) for name, folder in named.items()}
    environment = build_environment(os.environ, checkout or own) | folders
    command = [sys.executable, "-P", "-m", "runner", *words]  # -P: nothing of the caller's folder
    with owned.hold(command, cwd=checkout, env=environment) as process:
        try:
            return process.wait()
        except KeyboardInterrupt:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(ENDING_S)
            raise


def _checkout(side: ComparedSide, asked: RunsInTurn) -> Path:
    """Return a separate clone of the commit with copies of its environments and this checkout's data.

    This repository stays unchanged.
    """
    project, folder = asked.request.project, asked.into / CHECKOUTS / side.name
    if not (folder / ".envs").is_dir():
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        ask_git(project.root, "clone", "--quiet", "--shared", "--no-checkout", str(project.root), str(folder))
        ask_git(folder, "checkout", "--quiet", "--detach", side.commit or "")
        part = folder / ".envs.part"
        part.mkdir()
        for name in asked.request.installed:
            with suppress(EnvironmentUnavailable):  # the clone's own run reports it, as one that could not be made
                environment = read(project, name, asked.request.placement.device_kind)
                if environment.is_made:
                    _copy(environment.folder, part / environment.folder.name)
        part.rename(folder / ".envs")
    if project.data.is_dir() and not (folder / project.data.name).exists():
        (folder / project.data.name).symlink_to(project.data.resolve())
    return folder


def _copy(made: Path, copy: Path) -> None:
    """Copy an environment with hard links where possible. This is safe because no file is changed in place."""
    try:
        shutil.copytree(made, copy, symlinks=True, copy_function=os.link)
    except (OSError, shutil.Error):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(made, copy, symlinks=True)
