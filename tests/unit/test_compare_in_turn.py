"""python -m runner compare: what it refuses before anything starts, and which commits it measures."""

from __future__ import annotations

import io
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import ROOT
from copied import git
from rich.console import Console

from runner import compare, owned
from runner.data.cache import CACHE_VARIABLE
from runner.environments.images import read_commit_time
from runner.machine.description import IMAGE_VARIABLE, NO_COMMIT, read_commit
from runner.project import Project
from runner.request import cli
from runner.request.data_sets import DATA_VARIABLE
from runner.request.parser import BadInput, run_parser

NUMPY = ("--framework", "numpy", "--workload", "tiny", "--dataset", "digits-64", "--device", "cpu")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A checkout of three commits: `first`, `second` and, with other packages, `third`."""
    root = tmp_path_factory.mktemp("checkout")
    definition = root / "adapters" / "numpy" / "environment.toml"
    definition.parent.mkdir(parents=True)
    definition.write_bytes((ROOT / "adapters" / "numpy" / "environment.toml").read_bytes())
    git(root, "init", "--quiet")
    for name in ("third", "first", "second"):
        (root / name).touch()
        text = definition.read_text().removeprefix("# other packages\n")
        definition.write_text(f"# other packages\n{text}" if name == "third" else text)
        git(root, "add", ".")
        git(root, "commit", "--quiet", "--message", name)
        git(root, "tag", name)
    return Project.at(root)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run where the default folder of results is made in a temporary folder."""
    monkeypatch.chdir(tmp_path)


def test_two_commits_are_two_sides_named_by_their_digests(project: Project, tmp_path: Path) -> None:
    asked = compare.parse_runs_in_turn(["first", "second", "--runs", "3", "--into", str(tmp_path), *NUMPY], project)
    assert [side.commit for side in asked.sides] == [git(project.root, "rev-parse", tag) for tag in ("first", "second")]
    assert [side.name for side in asked.sides] == [str(side.commit)[:12] for side in asked.sides]
    assert (asked.runs, asked.into, asked.words) == (3, tmp_path, NUMPY)


def test_two_builds_are_two_sides_of_their_framework_alone(project: Project, tmp_path: Path) -> None:
    link = tmp_path / "other" / "bin" / "python"
    link.parent.mkdir(parents=True)
    link.symlink_to(sys.executable)
    first, second = f"numpy={sys.executable}", f"numpy={link}"
    asked = compare.parse_runs_in_turn([first, second, "--workload", "tiny", "--dataset", "digits-64"], project)
    assert asked.sides[1].words == ("--python", second, "--framework", "numpy")
    assert [side.name for side in asked.sides] == [f"a-{Path(sys.executable).parents[1].name}", "b-other"]


def test_an_interpreter_that_is_not_there_is_one_line_wherever_it_is_named(project: Project, tmp_path: Path) -> None:
    for path in ("/python3", "/a/python3"):
        with pytest.raises(BadInput):
            compare.parse_runs_in_turn([f"numpy={path}", f"numpy={tmp_path}/x/bin/python"], project)


NETWORK = """\
from workloads.layers import Dense, Flatten
from workloads.spec import Workload

NET = Workload(name="net", summary="s", input_shape=(8, 8, 1), layers=(Flatten("flat"), Dense("out", 10)))
"""


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--workload", "net.py"),
        ("--workload", "./net.py"),
        ("--dataset", "mine.npz"),
        ("--study", "mine.toml"),
        ("--data-dir", "data"),
        ("--data-dir", "not-there"),
    ],
)
def test_files_of_the_users_folder_are_found_by_runs_that_start_elsewhere(
    project: Project, tmp_path: Path, option: str, value: str, joined: bool
) -> None:
    (tmp_path / "net.py").write_text(NETWORK)
    (tmp_path / "mine.toml").write_text("epochs = 1\n")
    images, labels = np.zeros((20, 8, 8, 1), np.uint8), np.arange(20) % 10
    np.savez(tmp_path / "mine.npz", x_train=images, y_train=labels, x_test=images, y_test=labels)
    for name in ("data", "tiny", "digits-64", "quick"):  # a folder does not replace what comes with the project
        (tmp_path / name).mkdir()
    usual = {"--study": "quick", "--workload": "tiny", "--dataset": "digits-64", option: value}
    words = [word for each in usual.items() for word in (["=".join(each)] if joined else each)]
    asked = compare.parse_runs_in_turn(
        ["first", "second", "--framework", "numpy", "--device", "cpu", "--batch-size", "4", *words], project
    )
    found = {**usual, option: os.path.abspath(value)}
    assert asked.words[6:] == tuple(word for each in found.items() for word in (["=".join(each)] if joined else each))


def test_the_path_of_a_framework_is_made_absolute_behind_its_name(tmp_path: Path) -> None:
    for name in ("net=1.py", "python"):
        (tmp_path / name).touch()
    words = ["--model", "pytorch=net=1.py:make", "--python", "pytorch@new=python", "--python=mxnet=not-there"]
    made = [
        *("--model", f"pytorch={tmp_path}/net=1.py:make", "--python", f"pytorch@new={tmp_path}/python"),
        "--python=mxnet=not-there",
    ]
    assert list(compare._make_absolute([*words, "--workload", "net=1.py"])) == [
        *made, "--workload", f"{tmp_path}/net=1.py",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["first", "first"], "first and first are the same commit"),
        (["first", "nowhere"], "nowhere: not a commit of"),
        (["third", "second"], "third: it needs other packages than this checkout (adapters/numpy/environment.toml)"),
        (["first", f"numpy={sys.executable}"], "give two commits, or two builds"),
        ([f"numpy={sys.executable}"] * 2, "are the same interpreter"),
        ([f"numpy={sys.executable}", f"other={sys.executable}"], "two builds of one framework"),
        (["first", "second", "--runs", "1"], "--runs 1: give 2 or more"),
        (["first", "second", "--results=there"], "--results: not for compare"),
        (["first", "second", "--isolation", "here"], "--isolation here: commits are compared in virtual environments"),
        (["first", "second", "--framwork", "numpy"], "did you mean --framework"),
        (["first", "second", "--rnus", "2"], "did you mean --runs"),
        (["first"], "two commits, or two builds as FRAMEWORK=PATH, come first"),
    ],
)
def test_bad_words_are_one_line_that_says_what_to_do(project: Project, words: list[str], named: str) -> None:
    with pytest.raises(BadInput) as refused:
        compare.parse_runs_in_turn([*words, *(NUMPY if "--framwork" not in words else NUMPY[2:])], project)
    assert named in str(refused.value) and "\n" not in str(refused.value)


def test_runs_of_a_commit_have_the_data_of_this_checkout_and_the_folders_of_the_users_variables(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They start in a clone."""
    (project.data / "mnist").mkdir(parents=True)
    given: dict[str, Any] = {}

    @contextmanager
    def hold(command: list[str], cwd: Path | None, env: dict[str, str]) -> Iterator[Any]:
        given.update(env, cwd=cwd)
        yield SimpleNamespace(wait=lambda: 0)

    monkeypatch.setattr(owned, "hold", hold)
    asked = compare.parse_runs_in_turn(["first", "second", "--into", str(tmp_path / "into"), *NUMPY], project)
    for name, value in (("HOME", str(tmp_path)), (DATA_VARIABLE, "data sets"), (CACHE_VARIABLE, "~/cache")):
        monkeypatch.setenv(name, value)
    for _ in range(2):  # a clone of an earlier comparison is used again
        clone = compare._checkout(asked.sides[0], asked)
    assert compare._measure(asked.words, project.root, clone) == 0
    assert (given["cwd"], (clone / "data" / "mnist").is_dir()) == (clone, True)
    assert (given[DATA_VARIABLE], given[CACHE_VARIABLE]) == (str(tmp_path / "data sets"), str(tmp_path / "cache"))


def test_a_framework_without_an_environment_ends_no_comparison(project: Project, tmp_path: Path) -> None:
    """Paddle has none for a GPU, and MXNet's was not made: the run of each commit reports both."""
    made = tmp_path / "environments" / "pytorch-cuda"
    (made / "bin").mkdir(parents=True)
    for path in (made / "bin" / "python", made / ".complete"):
        path.touch()
    request = SimpleNamespace(
        project=Project(project.root, made.parent, adapters_outside=ROOT / "adapters"),
        installed=("paddle", "mxnet", "pytorch"),
        placement=SimpleNamespace(device_kind="cuda"),
    )
    side = compare.ComparedSide("first", git(project.root, "rev-parse", "first"))
    asked: Any = SimpleNamespace(request=request, into=tmp_path / "into")
    clone = compare._checkout(side, asked)
    assert [path.name for path in (clone / ".envs").iterdir()] == ["pytorch-cuda"]
    assert (clone / ".envs" / "pytorch-cuda" / ".complete").is_file()


def test_the_command_at_the_end_can_be_typed_as_it_is_printed(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare, "_measure", lambda *_: 0)
    monkeypatch.setattr(owned, "run", lambda *_, **__: SimpleNamespace(returncode=0))
    request: Any = SimpleNamespace(project=project)
    sides, text = (compare.ComparedSide("a-one"), compare.ComparedSide("b-two")), io.StringIO()
    asked = compare.RunsInTurn(request, sides, (), 2, tmp_path / "my runs")
    assert compare.run(asked, Console(file=text, highlight=False, markup=False, soft_wrap=True)) == 0
    typed = shlex.split(text.getvalue().splitlines()[-1].partition(": ")[2])
    folders = [f"{tmp_path}/my runs/{side.name}" for side in sides]
    assert typed == ["python", "-m", "reports", "compare", *folders, "--fail-on-regression", "5%"]


def test_git_variables_of_the_callers_shell_name_no_other_repository(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path))
    asked = compare.parse_runs_in_turn(["first", "second", *NUMPY], project)
    assert asked.sides[0].commit


def test_the_commit_of_a_figure_and_its_time_are_those_of_the_checkout_and_of_no_other_repository(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hook of another repository sets these variables; a copy without history may lie in a folder of another one."""
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "commit", "--quiet", "--allow-empty", "--date", "2001-01-01", "--message", "of another repository")
    copy = Project.at(tmp_path / "copy")
    copy.root.mkdir()
    assert read_commit(copy) is None and read_commit_time(copy) == 0
    monkeypatch.setenv(IMAGE_VARIABLE, f"numpy-cpu 1.0 {NO_COMMIT}")  # an image that was built from this copy
    assert read_commit(copy) is None
    monkeypatch.delenv(IMAGE_VARIABLE)
    commit, moment = read_commit(project), int(git(project.root, "log", "-1", "--format=%ct"))
    assert commit == git(project.root, "rev-parse", "--short=12", "HEAD")
    for name, place in (("GIT_DIR", tmp_path / ".git"), ("GIT_WORK_TREE", tmp_path)):
        monkeypatch.setenv(name, str(place))
    assert read_commit(project) == commit
    assert read_commit_time(project) == read_commit_time(project, "second") == moment


DUBIOUS = (
    "fatal: detected dubious ownership in repository at '/x'\nTo add an exception for this directory, call:\n\n"
    "\tgit config --global --add safe.directory /x"
)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (DUBIOUS, "detected dubious ownership in repository at '/x'; git config --global --add safe.directory /x"),
        ("fatal: not a git repository: .git", "not a git repository: .git; use a clone of the project"),
        (None, "No such file or directory; install it"),
    ],
    ids=["of another user", "no checkout", "no git"],
)
def test_a_command_says_at_its_start_why_the_commit_is_unknown_and_what_to_do(
    answer: str | None,
    reason: str,
    project: Project,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = run_parser().parse_args([*NUMPY, "--plan"])
    cli.build_request(options, project)
    assert "commit" not in capsys.readouterr().err
    if answer is not None:
        (tmp_path / "answer").write_text(f"{answer}\n")
        (tmp_path / "git").write_text(f"#!/bin/sh\n/bin/cat '{tmp_path}/answer' >&2\nexit 128\n")
        (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    cli.build_request(options, project)
    note = "the commit of this code is unknown: results can be neither submitted nor published"
    assert f"runner: {note} (git: {reason})\n" in capsys.readouterr().err
    assert read_commit(project) is None


def test_a_commit_is_dirty_where_code_was_changed_and_not_where_a_report_was_published(project: Project) -> None:
    (project.root / "published").mkdir(exist_ok=True)
    index = project.root / "published" / "index.html"
    index.write_text("one report")
    git(project.root, "add", "--force", str(index))
    git(project.root, "commit", "--quiet", "--message", "published")
    commit = read_commit(project)
    index.write_text("two reports")
    assert read_commit(project) == commit
    tracked = git(project.root, "ls-files").splitlines()
    code = project.root / next(name for name in tracked if not name.startswith("published/"))
    code.write_text(code.read_text() + "# changed\n")
    assert read_commit(project) == f"{commit}-dirty"
